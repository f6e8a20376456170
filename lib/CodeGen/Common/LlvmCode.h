// What code generation does to LLVM IR, whatever the target.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Target/TargetMachine.h"
#include <string>

namespace adapt::codegen {

/// Optimises for the machine, O3 but for the unrolling and vectorising of loops that `vectorize`
/// and the kernels decide.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, bool vectorize);

/// Assembly or an object; false if LLVM cannot write it. The module is used up.
bool emitFile(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType kind,
              llvm::SmallVectorImpl<char> &bytes);

/// The names that an object leaves to others, but for `offered` and what every process has (memcpy,
/// memmove, memset); or an error.
llvm::Expected<std::vector<std::string>> getUndefined(llvm::StringRef object,
                                                      llvm::ArrayRef<llvm::StringRef> offered = {});

} // namespace adapt::codegen
