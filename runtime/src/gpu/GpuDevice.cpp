// The devices cuda and hip: a GPU by way of its driver.
#include "Driver.h"
#include "adapt/Bundle.h"
#include "adapt/Device.h"

#include <cstdlib>
#include <vector>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::gpu;

namespace {

constexpr uint64_t kMaxImage = uint64_t(1) << 32;
constexpr const char *kTellsWhich = " ($ADAPT_LAUNCH_BLOCKING=1 tells which)";

uint64_t address(const void *data) { return reinterpret_cast<uintptr_t>(data); }

class GpuDevice : public Device {
public:
  GpuDevice(std::shared_ptr<Driver> driver, bool blocking)
      : driver(std::move(driver)), blocking(blocking) {}

  absl::string_view name() const override { return driver->target(); }
  std::string description() const override {
    return absl::StrCat(driver->deviceName(), " (", driver->arch(), ")");
  }
  bool hostAccessible() const override { return false; }
  absl::Status checkArch(absl::string_view arch, bool portable) const override {
    return driver->checkArch(arch, portable);
  }

  absl::Status loadKernels(const std::string &path, absl::Span<const std::string> symbols,
                           uint64_t scratchBytes) override;
  absl::StatusOr<Memory> allocate(uint64_t bytes, absl::string_view what) override;
  absl::Status write(void *to, const void *from, uint64_t bytes) override {
    return bytes ? driver->write(address(to), from, bytes) : absl::OkStatus();
  }
  absl::Status read(void *to, const void *from, uint64_t bytes) override {
    return bytes ? driver->read(to, address(from), bytes) : absl::OkStatus();
  }
  absl::Status run(const LaunchList &list) override;
  double runSeconds() const override { return seconds; }

private:
  absl::Status enqueue(const LaunchShape &shape, void *const *buffers);

  std::shared_ptr<Driver> driver; // memory that is handed out needs it too
  bool blocking;
  std::vector<void *> kernels;
  std::vector<std::string> names;
  bool loaded = false;
  std::vector<void *> arguments;
  double seconds = 0;
};

absl::Status GpuDevice::loadKernels(const std::string &path, absl::Span<const std::string> symbols,
                                    uint64_t scratchBytes) {
  if (path.empty() || path[0] != '/')
    return absl::InvalidArgumentError(
        absl::StrCat("kernel library '", path, "': not an absolute path"));
  if (loaded)
    return absl::FailedPreconditionError("kernels are already loaded");
  if (scratchBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("kernels with ", scratchBytes, " bytes of scratch are not a GPU's"));
  auto prefix = [&](const absl::Status &status) {
    return absl::Status(status.code(),
                        absl::StrCat("kernel library ", path, ": ", status.message()));
  };
  absl::StatusOr<std::string> image = readFile(path, kMaxImage);
  if (!image.ok())
    return absl::Status(image.status().code(),
                        absl::StrCat("kernel library ", image.status().message()));
  if (absl::Status status = driver->loadModule(*image); !status.ok())
    return prefix(status);
  std::vector<std::string> missing;
  std::vector<void *> found;
  for (const std::string &symbol : symbols) {
    absl::StatusOr<void *> kernel = driver->findKernel(symbol);
    if (!kernel.ok())
      return prefix(kernel.status());
    if (!*kernel)
      missing.push_back(symbol);
    found.push_back(*kernel);
  }
  if (!missing.empty()) {
    driver->unloadModule();
    return absl::InvalidArgumentError(
        absl::StrCat("kernel library ", path, ": ", missing.size(), " of ", symbols.size(),
                     " kernels are missing: ", absl::StrJoin(missing, ", ")));
  }
  kernels = std::move(found);
  names.assign(symbols.begin(), symbols.end());
  loaded = true;
  return absl::OkStatus();
}

absl::StatusOr<Memory> GpuDevice::allocate(uint64_t bytes, absl::string_view what) {
  if (bytes == 0)
    return Memory();
  absl::StatusOr<uint64_t> data = driver->allocate(bytes);
  if (!data.ok())
    return absl::Status(data.status().code(),
                        absl::StrCat(what, ": ", bytes, " bytes of memory of ", description(), ": ",
                                     data.status().message()));
  Memory memory;
  memory.data = reinterpret_cast<char *>(static_cast<uintptr_t>(*data));
  memory.bytes = bytes;
  memory.owner = std::shared_ptr<void>(
      memory.data, [driver = driver](void *freed) { driver->free(address(freed)); });
  return memory;
}

absl::Status GpuDevice::enqueue(const LaunchShape &shape, void *const *buffers) {
  if (shape.kind == LaunchShape::Kind::kCopy)
    return driver->copy(address(buffers[1]), address(buffers[0]), shape.copyBytes);
  if (shape.threads == 0)
    return absl::InvalidArgumentError("it has no threads, it is a CPU's");
  arguments.clear();
  for (uint32_t b = 0; b < shape.numBuffers; ++b)
    arguments.push_back(const_cast<void **>(&buffers[b]));
  for (uint32_t s = 0; s < shape.numSizes; ++s)
    arguments.push_back(const_cast<int64_t *>(&shape.sizes[s]));
  std::array<uint32_t, 3> grid = {1, 1, 1};
  for (uint32_t i = 0; i < shape.gridRank; ++i)
    grid[i] = shape.grid[shape.gridRank - 1 - i];
  return driver->launch(kernels[shape.kernel], grid, shape.threads, arguments.data());
}

absl::Status GpuDevice::run(const LaunchList &list) {
  ADAPT_RETURN_IF_ERROR(driver->markBegin());
  bool waiting = false; // for launches whose errors are not known yet
  for (size_t l = 0; l < list.launches.size(); ++l) {
    const Launch &launch = list.launches[l];
    const LaunchShape &shape = list.shapes[launch.shape];
    if (shape.items == 0)
      continue;
    absl::Status status = enqueue(shape, list.buffers + launch.firstBuffer);
    if (status.ok() && blocking)
      status = driver->synchronize();
    if (!status.ok()) {
      (void)driver->synchronize(); // what was launched may use memory that the caller now frees
      return absl::Status(status.code(),
                          absl::StrCat("launch ", l, " of ", list.launches.size(), ": ",
                                       shape.kind == LaunchShape::Kind::kCopy
                                           ? "copy"
                                           : absl::StrCat("kernel '", names[shape.kernel], "'"),
                                       ": ", status.message(),
                                       waiting ? ", of this or an earlier launch" : "",
                                       waiting ? kTellsWhich : ""));
    }
    waiting = !blocking;
  }
  ADAPT_RETURN_IF_ERROR(driver->markEnd());
  if (absl::Status status = driver->synchronize(); !status.ok())
    return absl::Status(status.code(), absl::StrCat("one of ", list.launches.size(),
                                                    " launches: ", status.message(), kTellsWhich));
  ADAPT_ASSIGN_OR_RETURN(seconds, driver->elapsed());
  return absl::OkStatus();
}

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

} // namespace

absl::StatusOr<std::unique_ptr<Device>> rt::createGpuDevice(const GpuDeviceOptions &options) {
  std::string path = options.driver;
  if (path.empty())
    path = environment(options.hip ? "ADAPT_HIP_DRIVER" : "ADAPT_CUDA_DRIVER");
  ADAPT_ASSIGN_OR_RETURN(std::shared_ptr<Driver> driver, options.hip
                                                             ? openHip(path, options.index)
                                                             : openCuda(path, options.index));
  std::string blocking = environment("ADAPT_LAUNCH_BLOCKING");
  return std::unique_ptr<Device>(
      new GpuDevice(std::move(driver), options.blocking || (!blocking.empty() && blocking != "0")));
}
