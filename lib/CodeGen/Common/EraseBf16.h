#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace adapt::codegen {

/// Makes every bf16 of a module in the LLVM dialect an i16 of the same bits. Conversions must have
/// been expanded before, so that a bf16 is only moved. Where a CPU has no bf16, LLVM would even
/// copy one by converting it to f32 and back, with a library call.
void eraseBf16(mlir::Operation *module);

} // namespace adapt::codegen
