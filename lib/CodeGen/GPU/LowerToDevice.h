#pragma once

#include "GpuTarget.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace adapt::gpu {

/// From gpu, scf, memref, vector, arith and math to the LLVM dialect with NVVM or ROCDL. On failure
/// an error was emitted.
mlir::LogicalResult lowerToDevice(mlir::gpu::GPUModuleOp module, const GpuTarget &target);

} // namespace adapt::gpu
