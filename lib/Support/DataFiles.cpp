#include "adapt/Support/DataFiles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace adapt {

std::string findDataDirectory(llvm::StringRef name) {
  static int anchor;
  std::string program = llvm::sys::fs::getMainExecutable(nullptr, &anchor);
  for (llvm::StringRef folder = llvm::sys::path::parent_path(program); !folder.empty();
       folder = llvm::sys::path::parent_path(folder)) {
    llvm::SmallString<256> candidate(folder);
    llvm::sys::path::append(candidate, "share", "adaptc", name);
    if (llvm::sys::fs::is_directory(candidate))
      return std::string(candidate);
  }
  return {};
}

std::vector<std::string> listFiles(llvm::StringRef directory, llvm::StringRef extension) {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (llvm::sys::path::extension(it->path()) == extension)
      files.push_back(it->path());
  llvm::sort(files);
  return files;
}

} // namespace adapt
