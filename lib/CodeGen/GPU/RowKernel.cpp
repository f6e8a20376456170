// Kernels without state: a block computes a row, or the whole if rows are not independent.
#include "CodeGen/Common/RowRegion.h"
#include "KernelForm.h"
#include "LaneLoops.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace adapt::gpu {
namespace {
class RowForm : public KernelForm {
public:
  RowForm(KernelOp kernel, std::unique_ptr<RowRegion> region, const GpuTarget &target)
      : kernel(kernel), region(std::move(region)) {
    // Four elements for a thread: a vector of f32.
    int64_t wanted = llvm::divideCeil(this->region->getRowElements(), 4);
    threads = std::clamp<int64_t>(llvm::alignTo(wanted, target.warp), target.warp, 256);
    if (!this->region->isSplit())
      threads = 256;
  }

  StringRef getName() const override { return "row"; }
  SmallVector<KernelVariant> getVariants() const override {
    KernelVariant variant;
    variant.symbol = "any";
    variant.grid.push_back(region->getCount());
    variant.threads = threads;
    return {variant};
  }

  LogicalResult emit(unsigned, GpuKernelBuilder &b) const override {
    auto function = region->emitRow(b, /*noAlias=*/false);
    if (failed(function))
      return failure();
    // Into the kernel, whose threads it is to use.
    Block &body = function->getBody().front();
    IRMapping mapping;
    mapping.map(body.getArguments(),
                region->getOperands(b, region->isSplit() ? b.getId(0) : Value()));
    // A block of its own, until it is lowered.
    auto scope = scf::ExecuteRegionOp::create(b.getBuilder(), b.getLoc(), TypeRange());
    Block *block = b.getBuilder().createBlock(&scope.getRegion());
    for (Operation &op : body.without_terminator())
      b.getBuilder().clone(op, mapping);
    auto yield = scf::YieldOp::create(b.getBuilder(), b.getLoc());
    function->erase();
    LogicalResult result = lowerToLanes(b, *block, kernel.getSymName());
    yield.erase();
    scope->getBlock()->getOperations().splice(scope->getIterator(), block->getOperations());
    scope.erase();
    return result;
  }

private:
  mutable KernelOp kernel; ///< its accessors are not const
  std::unique_ptr<RowRegion> region;
  int64_t threads;
};
} // namespace

std::unique_ptr<KernelForm> createRowForm(KernelOp kernel, const GpuTarget &target) {
  auto region = RowRegion::create(kernel);
  return region ? std::make_unique<RowForm>(kernel, std::move(region), target) : nullptr;
}

} // namespace adapt::gpu
