// The dialects that kernels pass through on every target, on their way to LLVM's.
#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace adapt::codegen {

/// These dialects, and what their bufferization, their conversion to LLVM and the translation to
/// LLVM IR need. A target adds its own.
void registerKernelDialects(mlir::DialectRegistry &registry);

} // namespace adapt::codegen
