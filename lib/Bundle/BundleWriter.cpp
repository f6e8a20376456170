#include "adapt/Bundle/BundleWriter.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

using namespace llvm;
using namespace adapt;

namespace {
constexpr StringLiteral kManifest = "manifest.json";

Error fileError(std::error_code code, const Twine &what) {
  return createStringError(code, "cannot " + what + ": " + code.message());
}

// The bytes reach the disk before the folder gets its name.
Error writeFile(StringRef path, StringRef bytes) {
  int descriptor;
  if (std::error_code code = sys::fs::openFileForWrite(path, descriptor))
    return fileError(code, "write " + path);
  raw_fd_ostream stream(descriptor, /*shouldClose=*/false);
  stream << bytes;
  stream.flush();
  std::error_code code = stream.error();
  stream.clear_error();
  if (!code && ::fsync(descriptor) != 0)
    code = std::error_code(errno, std::generic_category());
  if (::close(descriptor) != 0 && !code)
    code = std::error_code(errno, std::generic_category());
  return code ? fileError(code, "write " + path) : Error::success();
}
} // namespace

std::string adapt::hashBytes(StringRef bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return toHex(ArrayRef<uint8_t>(canonical.digest), /*LowerCase=*/true);
}

Expected<BundleWriter> BundleWriter::create(StringRef output) {
  SmallString<256> path(output);
  while (path.size() > 1 && sys::path::is_separator(path.back()))
    path.pop_back();
  if (sys::fs::exists(path)) {
    SmallString<256> manifest(path);
    sys::path::append(manifest, kManifest);
    std::error_code code;
    bool isEmpty = sys::fs::is_directory(path) &&
                   sys::fs::directory_iterator(path, code) == sys::fs::directory_iterator();
    if (!isEmpty && !sys::fs::exists(manifest))
      return createStringError(std::errc::file_exists,
                               "%s exists and is not a bundle: give another -o or remove it",
                               path.c_str());
  }
  SmallString<256> temporary;
  sys::fs::createUniquePath(path + ".%%%%%%.tmp", temporary, /*MakeAbsolute=*/false);
  if (std::error_code code = sys::fs::create_directories(temporary))
    return fileError(code, "make the folder " + temporary);
  return BundleWriter(path.str().str(), temporary.str().str());
}

BundleWriter::BundleWriter(BundleWriter &&other) noexcept
    : output(std::move(other.output)), temporary(std::move(other.temporary)),
      files(std::move(other.files)) {
  other.temporary.clear();
}

BundleWriter::~BundleWriter() {
  if (!temporary.empty())
    (void)sys::fs::remove_directories(temporary); // What remains, remains under a temporary name.
}

Error BundleWriter::addFile(StringRef path, StringRef bytes, Hash hash) {
  SmallString<256> full(temporary);
  sys::path::append(full, path);
  if (std::error_code code = sys::fs::create_directories(sys::path::parent_path(full)))
    return fileError(code, "make the folder of " + full);
  if (Error error = writeFile(full, bytes))
    return error;
  if (hash == Hash::Yes)
    addWritten(path, bytes.size(), hashBytes(bytes));
  return Error::success();
}

void BundleWriter::addWritten(StringRef path, uint64_t bytes, StringRef xxh3) {
  files[path.str()] = {bytes, xxh3.str()};
}

Error BundleWriter::finish(json::Object manifest) {
  json::Array list;
  for (const auto &[path, file] : files)
    list.push_back(json::Object{
        {"path", path}, {"bytes", static_cast<int64_t>(file.bytes)}, {"xxh3", file.xxh3}});
  manifest["files"] = std::move(list);
  std::string text;
  raw_string_ostream(text) << formatv("{0:2}", json::Value(std::move(manifest))) << '\n';
  if (Error error = addFile(kManifest, text, Hash::No))
    return error;
  // A folder cannot replace a non-empty one in a single step: the old bundle steps aside first.
  SmallString<256> old;
  if (sys::fs::exists(output)) {
    sys::fs::createUniquePath(output + ".%%%%%%.old", old, /*MakeAbsolute=*/false);
    if (std::error_code code = sys::fs::rename(output, old))
      return fileError(code, "replace " + output);
  }
  if (std::error_code code = sys::fs::rename(temporary, output)) {
    if (!old.empty())
      (void)sys::fs::rename(old, output); // The error below is the one to report.
    return fileError(code, "rename " + temporary + " to " + output);
  }
  temporary.clear();
  if (!old.empty())
    (void)sys::fs::remove_directories(old); // The new bundle is in place all the same.
  return Error::success();
}
