#include "adapt/Bundle/BundleWriter.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>
#define XXH_INLINE_ALL
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

//===----------------------------------------------------------------------===//
// Signals
//===----------------------------------------------------------------------===//

namespace {
/// The folders under temporary names, for a process that is told to end.
struct Unfinished {
  std::mutex mutex;
  std::set<std::string> folders;
};
// Never destroyed: the waiting thread outlives main.
Unfinished &getUnfinished() {
  static auto *unfinished = new Unfinished;
  return *unfinished;
}

/// Makes a folder that goes when a signal comes, or one inside of such.
std::error_code makeFolder(StringRef folder, bool isNew = false) {
  std::lock_guard<std::mutex> lock(getUnfinished().mutex);
  if (isNew)
    getUnfinished().folders.insert(folder.str());
  return sys::fs::create_directories(folder);
}

void dropFromRemoval(StringRef folder) {
  std::lock_guard<std::mutex> lock(getUnfinished().mutex);
  getUnfinished().folders.erase(folder.str());
}
} // namespace

void adapt::removeUnfinishedBundlesOnSignal() {
  // A handler may not walk folders; a thread that waits for the signals may. All threads that are
  // made later inherit the mask.
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current;
    if (sigaction(signal, nullptr, &current) == 0 && current.sa_handler != SIG_IGN)
      sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0)
      return;
    // Holding the lock: no bundle is finished, and no folder made, while these go. Files may still
    // be written into a folder that is being emptied, until it is gone.
    std::lock_guard<std::mutex> lock(getUnfinished().mutex);
    constexpr int kTries = 1000;
    for (const std::string &folder : getUnfinished().folders)
      for (int i = 0; i < kTries && sys::fs::exists(folder); ++i)
        (void)sys::fs::remove_directories(folder);
    // End as the signal would have ended us, so that a shell sees it.
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    ::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    ::raise(signal);
  }).detach();
}

std::string adapt::hashBytes(StringRef bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return toHex(ArrayRef<uint8_t>(canonical.digest), /*LowerCase=*/true);
}

namespace {
constexpr uint64_t kMaxManifestBytes = 64 << 20;

bool isBundlePart(StringRef name) {
  return is_contained({"manifest.json", "report.md", "report.json", "ir", "tokenizer"}, name) ||
         (name.consume_front("rank") && !name.empty() && all_of(name, isDigit));
}

bool hasBundleManifest(StringRef directory) {
  SmallString<256> path(directory);
  sys::path::append(path, kManifest);
  sys::fs::file_status status;
  if (sys::fs::status(path, status) || !sys::fs::is_regular_file(status) ||
      status.getSize() > kMaxManifestBytes)
    return false;
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return false;
  // A manifest that is cut short or newer is still one of ours; another program's file is not.
  return (*buffer)->getBuffer().contains("\"adaptc-bundle\"");
}

/// What `finish` would remove must be a bundle and nothing else.
Error checkReplaceable(StringRef path) {
  auto refuse = [&](const Twine &why) {
    return createStringError(std::make_error_code(std::errc::file_exists),
                             path + why + ": give another -o or remove it");
  };
  if (!sys::fs::is_directory(path))
    return refuse(" exists and is not a bundle");
  std::error_code code;
  sys::fs::directory_iterator it(path, code), end;
  if (!code && it == end)
    return Error::success();
  if (code || !hasBundleManifest(path))
    return refuse(" exists and is not a bundle");
  for (; it != end && !code; it.increment(code))
    if (StringRef name = sys::path::filename(it->path()); !isBundlePart(name))
      return refuse(" is a bundle that holds '" + name + "' besides");
  return code ? fileError(code, "read the folder " + path) : Error::success();
}
} // namespace

Expected<std::string> BundleWriter::checkOutput(StringRef output) {
  SmallString<256> path(output);
  while (path.size() > 1 && sys::path::is_separator(path.back()))
    path.pop_back();
  // The bundle goes where a symbolic link leads; the link stays.
  if (sys::fs::is_symlink_file(path)) {
    SmallString<256> real;
    if (std::error_code code = sys::fs::real_path(path, real))
      return createStringError(code,
                               path + " is a symbolic link that leads nowhere: " + code.message());
    path = real;
  }
  if (sys::fs::exists(path))
    if (Error error = checkReplaceable(path))
      return Expected<std::string>(std::move(error));
  return path.str().str();
}

Expected<BundleWriter> BundleWriter::create(StringRef output) {
  Expected<std::string> path = checkOutput(output);
  if (!path)
    return path.takeError();
  SmallString<256> temporary;
  sys::fs::createUniquePath(*path + ".%%%%%%.tmp", temporary, /*MakeAbsolute=*/false);
  BundleWriter writer(std::move(*path), temporary.str().str());
  if (std::error_code code = makeFolder(temporary, /*isNew=*/true))
    return fileError(code, "make the folder " + temporary);
  return Expected<BundleWriter>(std::move(writer));
}

BundleWriter::BundleWriter(BundleWriter &&other) noexcept
    : output(std::move(other.output)), temporary(std::move(other.temporary)),
      files(std::move(other.files)) {
  other.temporary.clear();
}

BundleWriter::~BundleWriter() {
  if (temporary.empty())
    return;
  (void)sys::fs::remove_directories(temporary); // What remains, remains under a temporary name.
  dropFromRemoval(temporary);
}

Error BundleWriter::addFolder(StringRef path) {
  SmallString<256> full(temporary);
  sys::path::append(full, path);
  std::error_code code = makeFolder(full);
  return code ? fileError(code, "make the folder " + full) : Error::success();
}

Error BundleWriter::addFile(StringRef path, StringRef bytes, Hash hash) {
  SmallString<256> full(temporary);
  sys::path::append(full, path);
  if (Error error = addFolder(sys::path::parent_path(path)))
    return error;
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
  // A signal waits until both names are right.
  std::lock_guard<std::mutex> lock(getUnfinished().mutex);
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
  getUnfinished().folders.erase(temporary);
  temporary.clear();
  if (!old.empty())
    (void)sys::fs::remove_directories(old); // The new bundle is in place all the same.
  return Error::success();
}
