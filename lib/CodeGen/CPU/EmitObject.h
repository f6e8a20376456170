#pragma once

#include "CpuTarget.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace adapt::cpu {

/// Machine code of a module in the LLVM dialect: an ELF object. `dump` receives LLVM IR ("ll") and
/// assembly ("s") if given. On failure an error was emitted.
mlir::FailureOr<std::string>
emitObject(mlir::ModuleOp module, const CpuTarget &target,
           llvm::function_ref<void(llvm::StringRef, llvm::StringRef)> dump);

} // namespace adapt::cpu
