// What this compiler is.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <string>

namespace adapt {

llvm::StringRef getVersion();     ///< "0.1.0"
llvm::StringRef getCommit();      ///< of the checkout it was built from, or "unknown"
llvm::StringRef getLLVMVersion(); ///< "22.1.8"

/// For --version: version, commit, LLVM, and the targets that can be compiled for.
std::string getVersionText(llvm::StringRef tool);

} // namespace adapt
