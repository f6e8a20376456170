#include "Blocks/Head.h"
#include "Blocks/BlockBinder.h"
#include "Blocks/BlockBuilder.h"

using namespace mlir;

namespace adapt {

Value Head::build(BlockBuilder &b, Value hidden) const {
  // Rows are picked first: norm and projection are per token.
  AffineExpr rows = getDims(cast<RankedTensorType>(b.step.logitRows.getType()))[0];
  AffineExpr width = getDims(cast<RankedTensorType>(hidden.getType()))[1];
  Value picked = GatherOp::create(b.builder, b.getLoc(), getTensorType({rows, width}, b.dtype),
                                  hidden, b.step.logitRows);
  return b.linear(*this, projection, b.norm(*this, inputNorm, picked), b.builder.getF32Type());
}

namespace {

using Type = OptionSpec::Type;
constexpr OptionSpec kOptions[] = {
    {"norm", Type::Norm}, {"weight", Type::Tensor}, {"tied", Type::Expr, false}};

std::unique_ptr<Block> bind(BlockBinder &binder) {
  auto block = std::make_unique<Head>();
  block->inputNorm = binder.norm("norm", binder.hiddenSize);
  block->projection.weight = binder.tensor("weight", {binder.vocabSize, binder.hiddenSize}, "head");
  binder.split(block->projection.weight, {0});
  block->isTied = binder.has("tied") && binder.flag("tied");
  return block;
}

} // namespace

const BlockKind kHead = {"head", BlockKind::Place::Head, kOptions, bind};

} // namespace adapt
