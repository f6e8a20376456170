#include "passes/Common/Structure.h"
#include "passes/Common/TargetInfo.h"
#include "passes/Fuse/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace adapt {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "passes/Fuse/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
bool isMatmulWeight(OpOperand &use) {
  auto matmul = dyn_cast<MatmulOp>(use.getOwner());
  return matmul && &matmul.getWeightMutable() == &use;
}

/// A gather's table may be packed.
bool isTable(OpOperand &use) {
  auto gather = dyn_cast<GatherOp>(use.getOwner());
  return gather && &gather.getTableMutable() == &use;
}

struct PackWeights : adapt::impl::PackWeightsBase<PackWeights> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<TargetInfo> target = TargetInfo::get(getOperation());
    if (failed(target))
      return signalPassFailure();
    llvm::StringSet<> plain; // names of weights that stay as they are
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto param : function.getOps<ParamOp>())
        if (llvm::none_of(param->getUses(), isMatmulWeight))
          plain.insert(param.getName());
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto param : llvm::make_early_inc_range(function.getOps<ParamOp>()))
        if (llvm::any_of(param->getUses(), isMatmulWeight))
          pack(param, *target, plain);
  }

  static void pack(ParamOp param, const TargetInfo &target, const llvm::StringSet<> &plain) {
    auto type = cast<RankedTensorType>(param.getType());
    PackedAttr layout = target.getWeightLayout(type.getElementType());
    if (!layout || type.getEncoding() || type.getRank() != 2)
      return;
    if (!llvm::all_of(param->getUses(),
                      [](OpOperand &use) { return isMatmulWeight(use) || isTable(use); })) {
      // Somebody needs plain rows: a packed weight of its own for the others.
      OpBuilder builder(param->getNextNode());
      auto copy = cast<ParamOp>(builder.clone(*param));
      copy.setName((param.getName() + ".packed").str());
      param.getResult().replaceUsesWithIf(
          copy.getResult(), [](OpOperand &use) { return isMatmulWeight(use) || isTable(use); });
      param = copy;
    }
    // The same weight of another function (an embedding of another stage) is not packed.
    if (plain.contains(param.getName()))
      param.setName((param.getName() + ".packed").str());
    auto packed = RankedTensorType::get(type.getShape(), type.getElementType(), layout);
    Operation *yield = param.getBody().front().getTerminator();
    OpBuilder builder(yield);
    yield->setOperand(0, PackOp::create(builder, param.getLoc(), packed, param.getYielded()));
    param.getResult().setType(packed);
  }
};
} // namespace
