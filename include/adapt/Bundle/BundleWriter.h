// Writes a bundle's folder: everything under a temporary name beside the output, renamed at the
// end, so that a bundle is whole or not there. Format: docs/bundle.md.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <string>

namespace adapt {

class BundleWriter {
public:
  /// Where the bundle will lie: `output` without symbolic links. Error: something is there that is
  /// not a bundle, or a bundle with other things in its folder; nothing of that is ever removed.
  static llvm::Expected<std::string> checkOutput(llvm::StringRef output);
  /// Makes the temporary folder. Errors: those of checkOutput; it cannot be written there.
  static llvm::Expected<BundleWriter> create(llvm::StringRef output);
  BundleWriter(BundleWriter &&other) noexcept;
  BundleWriter &operator=(BundleWriter &&) = delete;
  /// Removes what was written if `finish` was not reached.
  ~BundleWriter();

  /// Where the bundle grows.
  llvm::StringRef getDirectory() const { return temporary; }

  llvm::Error addFolder(llvm::StringRef path);

  enum class Hash { Yes, No };
  /// Writes a file; folders in `path` are made. With Hash::Yes it is listed in the manifest.
  llvm::Error addFile(llvm::StringRef path, llvm::StringRef bytes, Hash hash = Hash::Yes);
  /// Lists a file that was written into the folder by others.
  void addWritten(llvm::StringRef path, uint64_t bytes, llvm::StringRef xxh3);

  /// Adds "files" to the manifest, writes it, and puts the folder in its place; a bundle that is
  /// there already is replaced.
  llvm::Error finish(llvm::json::Object manifest);

private:
  BundleWriter(std::string output, std::string temporary)
      : output(std::move(output)), temporary(std::move(temporary)) {}

  struct File {
    uint64_t bytes;
    std::string xxh3;
  };
  std::string output, temporary;
  std::map<std::string, File> files;
};

/// From now on SIGINT, SIGTERM and SIGHUP remove the temporary folders before they end the process.
/// To be called once, before any thread is made.
void removeUnfinishedBundlesOnSignal();

/// XXH3-128 in hex, as in the manifest.
std::string hashBytes(llvm::StringRef bytes);

} // namespace adapt
