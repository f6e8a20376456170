#include "KernelCache.h"
#include "adapt/CodeGen/KernelGenerator.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

std::string adapt::getDefaultCacheDir() {
  SmallString<128> path;
  if (auto base = sys::Process::GetEnv("XDG_CACHE_HOME"); base && !base->empty())
    path = *base;
  else if (auto home = sys::Process::GetEnv("HOME"); home && !home->empty())
    sys::path::append(path, *home, ".cache");
  else
    return "";
  sys::path::append(path, "adaptc");
  return std::string(path);
}

namespace adapt::codegen {
namespace {
constexpr size_t kHashBytes = 16;

std::string hashBytes(StringRef data) {
  XXH128_hash_t hash = xxh3_128bits(ArrayRef(data.bytes_begin(), data.size()));
  std::string bytes;
  for (uint64_t half : {hash.high64, hash.low64})
    for (int shift = 56; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(half >> shift));
  return bytes;
}
} // namespace

std::string hashText(StringRef text) { return toHex(hashBytes(text), /*LowerCase=*/true); }

std::string KernelCache::getPath(StringRef key) const {
  SmallString<128> path(directory);
  sys::path::append(path, key + ".o");
  return std::string(path);
}

std::optional<std::string> KernelCache::lookup(StringRef key) const {
  if (directory.empty())
    return std::nullopt;
  auto file = MemoryBuffer::getFile(getPath(key), /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false, /*IsVolatile=*/true);
  if (!file)
    return std::nullopt;
  StringRef bytes = (*file)->getBuffer();
  if (bytes.size() <= kHashBytes)
    return std::nullopt;
  StringRef object = bytes.drop_back(kHashBytes);
  if (hashBytes(object) != bytes.take_back(kHashBytes))
    return std::nullopt;
  return object.str();
}

void KernelCache::store(StringRef key, StringRef object) const {
  if (directory.empty() || sys::fs::create_directories(directory))
    return;
  std::string path = getPath(key);
  consumeError(writeToOutput(path, [&](raw_ostream &os) -> Error {
    os << object << hashBytes(object);
    return Error::success();
  }));
}

} // namespace adapt::codegen
