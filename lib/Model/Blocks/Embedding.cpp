// embedding: rows of a table, by token.
#include "Blocks/BlockBinder.h"
#include "Blocks/BlockBuilder.h"

using namespace mlir;

namespace adapt {
namespace {

struct Embedding : Block {
  WeightRef table = 0;

  Value build(BlockBuilder &b, Value) const override {
    Value weight = b.param(*this, table);
    AffineExpr tokens = getDims(cast<RankedTensorType>(b.step.tokenIds.getType()))[0];
    AffineExpr width = getDims(cast<RankedTensorType>(weight.getType()))[1];
    return GatherOp::create(b.builder, b.getLoc(), getTensorType({tokens, width}, b.dtype), weight,
                            b.step.tokenIds);
  }
};

constexpr OptionSpec kOptions[] = {{"table", OptionSpec::Type::Tensor}};

std::unique_ptr<Block> bind(BlockBinder &binder) {
  auto block = std::make_unique<Embedding>();
  block->table = binder.tensor("table", {binder.vocabSize, binder.hiddenSize}, "embed");
  binder.split(block->table, {0});
  return block;
}

} // namespace

const BlockKind kEmbedding = {"embedding", BlockKind::Place::Embedding, kOptions, bind};

} // namespace adapt
