// The calls that a kernel's LLVM IR may hold.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include <string>

namespace adapt::gpu {

/// "'WHAT' in kernel 'NAME'" for functions and intrinsics that are called in the module but are
/// none that GPUs and the simulation know, and for inline assembly.
llvm::SmallVector<std::string> findUnknownCalls(const llvm::Module &module);

/// Whether the simulation replaces an intrinsic of NVVM or AMDGCN.
bool isSimulated(llvm::StringRef name);

} // namespace adapt::gpu
