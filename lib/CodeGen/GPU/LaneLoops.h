#pragma once

#include "GpuKernelBuilder.h"

namespace adapt::gpu {

/// Turns linalg on memrefs, at the builder's insertion block, into loops of the block's threads.
///
/// Iterations of parallel loops go to threads in turn, in vectors where all accesses allow it. Of a
/// reduction with few results, a warp computes a result, or the whole block does: each lane a part
/// of it, then by shuffles and shared memory. Buffers become shared memory; between operations that
/// depend on each other stands a barrier. On failure an error was emitted.
mlir::LogicalResult lowerToLanes(GpuKernelBuilder &b, mlir::Block &block,
                                 llvm::StringRef kernelName);

} // namespace adapt::gpu
