// Compiled kernels, a file each, by content.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace adapt::codegen {

/// 32 hex digits of XXH3-128.
std::string hashText(llvm::StringRef text);

/// Files KEY.o: an ELF object and after it the 16 bytes of its XXH3-128. What cannot be read or
/// does not match its hash counts as absent; what cannot be written is let go.
class KernelCache {
public:
  /// An empty directory name means no cache.
  explicit KernelCache(std::string directory) : directory(std::move(directory)) {}

  std::optional<std::string> lookup(llvm::StringRef key) const;
  /// Writes under another name and renames, so that a reader never sees half a file.
  void store(llvm::StringRef key, llvm::StringRef object) const;

private:
  std::string getPath(llvm::StringRef key) const;
  std::string directory;
};

} // namespace adapt::codegen
