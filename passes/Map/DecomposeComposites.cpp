#include "passes/Common/Structure.h"
#include "passes/Common/TargetInfo.h"
#include "passes/Map/Passes.h"

namespace adapt {
#define GEN_PASS_DEF_DECOMPOSECOMPOSITES
#include "passes/Map/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
// A composite of composites of … this deep decomposes into itself.
constexpr unsigned kMaxDepth = 32;

struct DecomposeComposites : adapt::impl::DecomposeCompositesBase<DecomposeComposites> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<TargetInfo> target = TargetInfo::get(getOperation());
    if (failed(target))
      return signalPassFailure();
    SmallVector<DecomposeOpInterface> composites;
    for (auto function : getOperation().getOps<func::FuncOp>())
      function.walk([&](DecomposeOpInterface op) { composites.push_back(op); });
    for (DecomposeOpInterface op : composites)
      if (failed(decompose(op, *target, 0)))
        signalPassFailure(); // Go on: each that fails is said.
  }

  LogicalResult decompose(DecomposeOpInterface op, const TargetInfo &target, unsigned depth) {
    if (target.keeps(op))
      return success();
    if (depth == kMaxDepth)
      return op->emitOpError() << "is still not made of base operations after " << depth
                               << " decompositions: it decomposes into itself";
    struct Listener : OpBuilder::Listener {
      SmallVector<DecomposeOpInterface> composites;
      void notifyOperationInserted(Operation *inserted, OpBuilder::InsertPoint) override {
        if (auto composite = dyn_cast<DecomposeOpInterface>(inserted))
          composites.push_back(composite);
      }
    } listener;
    OpBuilder builder(op);
    builder.setListener(&listener);
    FailureOr<SmallVector<Value>> values = op.decompose(builder);
    if (failed(values))
      return op->emitOpError() << "could not be decomposed, and target '" << target.name
                               << "' does not keep it";
    for (auto [result, value] : llvm::zip_equal(op->getResults(), *values))
      if (result.getType() != value.getType())
        return op->emitOpError() << "decomposes into a value of type " << value.getType()
                                 << " for its result of type " << result.getType();
    op->replaceAllUsesWith(*values);
    op->erase();
    ++numDecomposed;
    LogicalResult result = success();
    for (DecomposeOpInterface inner : listener.composites)
      if (failed(decompose(inner, target, depth + 1)))
        result = failure();
    return result;
  }
};
} // namespace
