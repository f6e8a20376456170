// What this compiler is.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <string>

namespace adapt {

llvm::StringRef getVersion();     ///< "0.1.0"
llvm::StringRef getCommit();      ///< of the checkout it was built from, or "unknown"
llvm::StringRef getLLVMVersion(); ///< "22.1.8"

/// For --version: "adaptc 0.1.0 (0123456789ab), LLVM 22.1.8".
std::string getVersionText(llvm::StringRef tool);

} // namespace adapt
