#include "adapt/Bundle.h"
#include "adapt/CpuFeatures.h"

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"

#define XXH_INLINE_ALL
#include "xxhash.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace adapt;
using namespace adapt::rt;

namespace {

constexpr uint64_t kMaxManifest = uint64_t(64) << 20;

std::string hex(const XXH128_hash_t &hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char *>(canonical.digest),
                                                  sizeof(canonical.digest)));
}

/// Calls `each` with the pieces of a regular file.
template <typename Each> absl::Status readPieces(const std::string &path, const Each &each) {
  // Without O_NONBLOCK a pipe would be waited for.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  absl::Cleanup close = [&] { ::close(file); };
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  std::vector<char> piece(1 << 20);
  while (true) {
    ssize_t got = read(file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return absl::InternalError(absl::StrCat(path, ": ", std::strerror(errno)));
    if (got == 0)
      return absl::OkStatus();
    ADAPT_RETURN_IF_ERROR(each(absl::string_view(piece.data(), got)));
  }
}

absl::StatusOr<std::string> hashFile(const std::string &path) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                 &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  ADAPT_RETURN_IF_ERROR(readPieces(path, [&](absl::string_view piece) {
    XXH3_128bits_update(state.get(), piece.data(), piece.size());
    return absl::OkStatus();
  }));
  return hex(XXH3_128bits_digest(state.get()));
}

/// The path without symbolic links; empty where it does not exist.
std::string realPath(const std::string &path) {
  std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
  return real ? std::string(real.get()) : std::string();
}

} // namespace

std::string rt::xxh3(absl::string_view bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

absl::StatusOr<std::string> rt::readFile(const std::string &path, uint64_t limit) {
  std::string result;
  ADAPT_RETURN_IF_ERROR(readPieces(path, [&](absl::string_view piece) {
    if (piece.size() > limit - result.size())
      return absl::ResourceExhaustedError(absl::StrCat(path, ": larger than ", limit, " bytes"));
    result.append(piece.data(), piece.size());
    return absl::OkStatus();
  }));
  return result;
}

absl::StatusOr<Bundle> Bundle::open(const std::string &path, const Options &options) {
  Bundle bundle;
  bundle.directory = realPath(path);
  if (bundle.directory.empty())
    return absl::NotFoundError(absl::StrCat("bundle ", path, ": ", std::strerror(errno)));
  absl::StatusOr<std::string> text = readFile(bundle.directory + "/manifest.json", kMaxManifest);
  if (!text.ok())
    return absl::Status(text.status().code(),
                        absl::StrCat(path, " is no bundle: ", text.status().message()));
  absl::StatusOr<Manifest> manifest = Manifest::parse(*text);
  if (!manifest.ok())
    return absl::Status(manifest.status().code(),
                        absl::StrCat(path, "/manifest.json: ", manifest.status().message()));
  bundle.contents = *std::move(manifest);
  bundle.manifestHash = xxh3(*text);
  if (options.checkCpu)
    ADAPT_RETURN_IF_ERROR(checkCpuFeatures(bundle.contents.targetFeatures));
  ADAPT_RETURN_IF_ERROR(bundle.checkFiles(options));
  return bundle;
}

absl::StatusOr<std::string> Bundle::resolve(absl::string_view relative) const {
  // Manifest::parse has refused "..": only a symbolic link can lead out.
  std::string path = absl::StrCat(directory, "/", relative);
  std::string real = realPath(path);
  if (real.empty())
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  if (!absl::StartsWith(real, directory + "/"))
    return absl::PermissionDeniedError(absl::StrCat(path, ": leads out of the bundle, to ", real));
  return real;
}

absl::Status Bundle::checkFiles(const Options &options) const {
  absl::flat_hash_set<std::string> loaded = {contents.tokenizer};
  for (const Manifest::Rank &rank : contents.ranks)
    for (const std::string *name :
         {&rank.program, &rank.weights, &rank.kernels, &rank.ptx, &rank.sim})
      loaded.insert(*name);
  Problems problems;
  for (const Manifest::File &file : contents.files) {
    absl::StatusOr<std::string> path = resolve(file.path);
    struct stat info;
    if (!path.ok()) {
      problems.add(path.status().message());
      continue;
    }
    if (stat(path->c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      problems.add(file.path, ": not a regular file");
      continue;
    }
    if (static_cast<uint64_t>(info.st_size) != file.bytes) {
      problems.add(file.path, ": ", info.st_size, " bytes, the manifest says ", file.bytes);
      continue;
    }
    if (!loaded.contains(file.path) && !options.verifyHashes)
      continue;
    absl::StatusOr<std::string> hash = hashFile(*path);
    if (!hash.ok())
      problems.add(hash.status().message());
    else if (*hash != file.xxh3)
      problems.add(file.path, ": its hash is ", *hash, ", the manifest says ", file.xxh3);
  }
  return problems.status(absl::StrCat("bundle ", directory, " is damaged or was changed"));
}
