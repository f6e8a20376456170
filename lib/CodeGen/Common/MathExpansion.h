// Transcendental functions as arithmetic, f32, scalars or vectors.
#pragma once

#include "mlir/IR/Builders.h"

namespace adapt::codegen {

/// e^x to 2 ulp; 0 below -86.6 (no denormals), infinity above 88.72.
mlir::Value emitExp(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
/// 2^x for x ≤ 0 to 2 ulp; exactly 0 below -125, so for -infinity too.
mlir::Value emitExp2(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);

/// Replaces math.exp, tanh, erf, sin and cos of f32 below `root`. Sines and cosines reduce their
/// argument in f64 and are good to 2e-7 absolute for arguments up to 1e6.
void expandMath(mlir::Operation *root);

} // namespace adapt::codegen
