#pragma once

#include "CpuTarget.h"
#include "mlir/IR/BuiltinOps.h"

namespace adapt::cpu {

/// From scf, memref, vector, arith, math and x86vector to the LLVM dialect. On failure an error was
/// emitted.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module, const CpuTarget &target);

} // namespace adapt::cpu
