// Kernels without state: a work item runs some rows one after the other, or the whole if rows are
// not independent.
#include "CodeGen/Common/RowRegion.h"
#include "KernelForm.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace adapt::cpu {
namespace {
/// Of intermediate values, on a thread's stack.
constexpr int64_t kMaxStackBytes = 1 << 20;

class RowForm : public KernelForm {
public:
  RowForm(KernelOp kernel, std::unique_ptr<RowRegion> region)
      : kernel(kernel), region(std::move(region)) {
    // Enough elements for an item to outweigh its launch.
    itemRows = std::clamp<int64_t>(16384 / this->region->getRowElements(), 1, 16);
  }

  StringRef getName() const override { return "row"; }
  SmallVector<KernelVariant> getVariants() const override {
    KernelVariant variant;
    variant.symbol = "any";
    AffineExpr count = region->getCount();
    variant.grid.push_back(region->isSplit() ? count.ceilDiv(itemRows) : count);
    return {variant};
  }
  LogicalResult emit(unsigned variant, CpuKernelBuilder &builder) const override;

private:
  mutable KernelOp kernel; ///< its accessors are not const
  std::unique_ptr<RowRegion> region;
  int64_t itemRows;
};

/// Buffers go to the stack of the function, linalg to loops.
LogicalResult lowerToLoops(func::FuncOp function, StringRef kernelName) {
  IRRewriter rewriter(function.getContext());
  int64_t bytes = 0;
  SmallVector<memref::AllocOp> allocs;
  SmallVector<memref::CopyOp> copies;
  function.walk([&](Operation *op) {
    if (auto alloc = dyn_cast<memref::AllocOp>(op))
      allocs.push_back(alloc);
    if (auto copy = dyn_cast<memref::CopyOp>(op))
      copies.push_back(copy);
    if (auto dealloc = dyn_cast<memref::DeallocOp>(op))
      rewriter.eraseOp(dealloc);
  });
  for (memref::AllocOp alloc : allocs) {
    MemRefType type = alloc.getType();
    if (!type.hasStaticShape())
      return function.emitError() << "kernel '" << kernelName << "' needs an intermediate " << type
                                  << ", but only such of constant size can be kept";
    bytes += llvm::divideCeil(type.getElementTypeBitWidth(), 8u) * type.getNumElements();
    rewriter.setInsertionPointToStart(&function.getBody().front());
    rewriter.replaceOp(alloc, memref::AllocaOp::create(rewriter, alloc.getLoc(), type,
                                                       rewriter.getI64IntegerAttr(64)));
  }
  if (bytes > kMaxStackBytes)
    return function.emitError() << "kernel '" << kernelName << "' needs " << bytes
                                << " bytes for intermediate values; at most " << kMaxStackBytes
                                << " can be kept";
  for (memref::CopyOp copy : copies) {
    rewriter.setInsertionPoint(copy);
    rewriter.replaceOpWithNewOp<linalg::CopyOp>(copy, copy.getSource(), copy.getTarget());
  }
  SmallVector<linalg::LinalgOp> loops;
  function.walk([&](linalg::LinalgOp op) { loops.push_back(op); });
  for (linalg::LinalgOp op : loops) {
    rewriter.setInsertionPoint(op);
    if (failed(linalg::linalgOpToLoops(rewriter, op)))
      return op.emitError("has no form as loops");
    rewriter.eraseOp(op);
  }
  return success();
}

LogicalResult RowForm::emit(unsigned, CpuKernelBuilder &b) const {
  auto function = region->emitRow(b, /*noAlias=*/true);
  if (failed(function) || failed(lowerToLoops(*function, kernel.getSymName())))
    return failure();
  auto callRow = [&](Value row) {
    func::CallOp::create(b.getBuilder(), b.getLoc(), *function, region->getOperands(b, row));
  };
  if (!region->isSplit()) {
    callRow(Value());
    return success();
  }
  Value begin = b.mul(b.getId(0), itemRows);
  Value end = b.min(b.add(begin, itemRows), b.getSize(region->getCount()));
  b.createFor(begin, end, 1, callRow);
  return success();
}
} // namespace

std::unique_ptr<KernelForm> createRowForm(KernelOp kernel, const CpuTarget &) {
  auto region = RowRegion::create(kernel);
  return region ? std::make_unique<RowForm>(kernel, std::move(region)) : nullptr;
}

} // namespace adapt::cpu
