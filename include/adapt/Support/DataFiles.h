// Where the description files of an installation or of a build are.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace adapt {

/// The folder `share/adaptc/<name>` beside the running program or in a folder above it (an
/// installation's `bin/../share`, a build tree's `share`); empty if there is none.
std::string findDataDirectory(llvm::StringRef name);

/// The files of a folder with this extension (".yaml"), sorted by name; none if it cannot be read.
std::vector<std::string> listFiles(llvm::StringRef directory, llvm::StringRef extension);

} // namespace adapt
