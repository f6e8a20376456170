// Kernels of a GPU: their entry, threads, shared memory.
#pragma once

#include "CodeGen/Common/KernelBuilder.h"
#include "GpuTarget.h"
#include "adapt/CodeGen/KernelGenerator.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace adapt::gpu {
using namespace codegen;

/// Between lanes only values of 32 bits move. Every lane of a block must reach a barrier, and every
/// lane of a warp a shuffle.
class GpuKernelBuilder : public KernelBuilder {
public:
  /// Makes the kernel `symbol` with the ABI of docs/bundle.md; the insertion point is left in it.
  GpuKernelBuilder(mlir::gpu::GPUModuleOp module, KernelOp kernel, llvm::StringRef symbol,
                   const KernelVariant &variant, const GpuTarget &target);

  const GpuTarget &getTarget() const { return target; }
  int64_t getThreads() const { return threads; }
  int64_t getWarps() const { return threads / target.warp; }
  /// The thread's number in its block and in its warp, and its warp's number; i64.
  mlir::Value getThread() { return thread; }
  mlir::Value getLane() { return lane; }
  mlir::Value getWarp() { return warp; }

  /// Memory that the threads of a block share, 16-byte aligned.
  Pointer createShared(mlir::Type element, int64_t count);
  int64_t getSharedBytes() const { return sharedBytes; }
  void barrier();

  /// The value that another lane of the warp holds: lane ^ distance, or lane number `lane`.
  mlir::Value shuffleXor(mlir::Value value, int64_t distance);
  mlir::Value shuffleIndex(mlir::Value value, mlir::Value lane);
  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  /// Combines the values of all lanes of a warp; every lane gets the result.
  mlir::Value reduceWarp(mlir::Value value, Combine combine);
  mlir::Value addWarp(mlir::Value value);
  /// The same over all threads of the block; with barriers.
  mlir::Value reduceBlock(mlir::Value value, Combine combine);

  /// i64 to i32.
  mlir::Value toI32(mlir::Value value);

private:
  mlir::Value shuffle(mlir::Value value, mlir::Value offset, mlir::gpu::ShuffleMode mode);

  const GpuTarget &target;
  int64_t threads;
  mlir::gpu::GPUFuncOp function;
  mlir::Value thread, lane, warp;
  int64_t sharedBytes = 0;
  unsigned sharedCount = 0;
};

} // namespace adapt::gpu
