#include "Library.h"
#include "adapt/Bundle.h"

#include <cerrno>
#include <cstring>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::sim;

namespace {
constexpr uint64_t kMaxLibrary = uint64_t(1) << 30;

absl::Status writeAll(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t done = write(file, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return absl::ResourceExhaustedError(absl::StrCat("no memory for it: ", std::strerror(errno)));
    bytes.remove_prefix(done);
  }
  return absl::OkStatus();
}
} // namespace

Library::~Library() {
  if (handle)
    dlclose(handle);
  if (file >= 0)
    close(file);
}

absl::StatusOr<std::unique_ptr<Library>> Library::open(const std::string &path, uint32_t warp) {
  if (path.empty() || path[0] != '/')
    return absl::InvalidArgumentError(
        absl::StrCat("kernel library '", path, "': not an absolute path"));
  absl::StatusOr<std::string> bytes = readFile(path, kMaxLibrary);
  if (!bytes.ok())
    return absl::Status(bytes.status().code(),
                        absl::StrCat("kernel library ", bytes.status().message()));
  return open(*bytes, path, warp);
}

absl::StatusOr<std::unique_ptr<Library>> Library::open(absl::string_view bytes,
                                                       const std::string &name, uint32_t warp) {
  // The linker opens a file once, by its path and its inode: a copy in memory has its own of both,
  // as long as its descriptor stays open.
  std::unique_ptr<Library> library(new Library);
  library->name = name;
  library->file = memfd_create("kernels.sim.so", MFD_CLOEXEC);
  absl::Status written = library->file < 0 ? absl::ResourceExhaustedError(std::strerror(errno))
                                           : writeAll(library->file, bytes);
  if (!written.ok())
    return absl::Status(written.code(),
                        absl::StrCat("kernel library ", name, ": ", written.message()));
  std::string path = absl::StrCat("/proc/self/fd/", library->file);
  library->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library->handle) {
    absl::string_view error = dlerror();
    if (error.substr(0, path.size()) == path)
      error.remove_prefix(path.size());
    return absl::InvalidArgumentError(absl::StrCat("kernel library ", name, error));
  }
  ADAPT_RETURN_IF_ERROR(library->check(warp));
  return library;
}

absl::Status Library::check(uint32_t warp) {
  auto *version = static_cast<const uint32_t *>(dlsym(handle, "adapt_sim_version"));
  auto *lanes = static_cast<const uint32_t *>(dlsym(handle, "adapt_sim_warp"));
  auto *runtime = static_cast<const AdaptSimRuntime **>(dlsym(handle, "adapt_sim_runtime"));
  if (!version || !lanes || !runtime || !dlsym(handle, "adapt_sim_shared"))
    return absl::InvalidArgumentError(
        absl::StrCat("kernel library ", name, ": not made for the simulated GPU"));
  if (*version != ADAPT_SIM_VERSION)
    return absl::FailedPreconditionError(
        absl::StrCat("kernel library ", name, ": for version ", *version,
                     " of the simulated GPU, but this runtime has version ", ADAPT_SIM_VERSION,
                     ": compile the model again with the adaptc of this version"));
  if (*lanes != warp)
    return absl::InvalidArgumentError(absl::StrCat("kernel library ", name, ": for warps of ",
                                                   *lanes, " lanes, the device has ", warp));
  *runtime = Machine::runtime();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Kernel>> Library::find(absl::Span<const std::string> symbols) const {
  std::vector<Kernel> kernels;
  std::vector<std::string> missing;
  for (const std::string &symbol : symbols) {
    Kernel &kernel = kernels.emplace_back();
    kernel.name = symbol;
    kernel.function = reinterpret_cast<KernelFn>(dlsym(handle, symbol.c_str()));
    if (!kernel.function)
      missing.push_back(symbol);
    for (auto *shared = static_cast<const AdaptSimShared *>(dlsym(handle, "adapt_sim_shared"));
         shared->data; ++shared)
      if (shared->kernel == kernel.function)
        kernel.shared.push_back({shared->data, shared->bytes});
  }
  if (!missing.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("kernel library ", name, ": ", missing.size(), " of ", symbols.size(),
                     " kernels are missing: ", absl::StrJoin(missing, ", ")));
  return kernels;
}
