#include "Driver.h"
#include "DriverLibrary.h"
#include "HipApi.h"

#include <cstring>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::gpu;

namespace {

class HipDriver : public Driver {
public:
  ~HipDriver() override {
    if (!stream || !makeCurrent().ok())
      return;
    unloadModule();
    for (void *event : {begin, end})
      if (event)
        api.hipEventDestroy(event);
    api.hipStreamDestroy(stream);
  }

  absl::Status open(const std::string &path, int index);

  absl::string_view target() const override { return "hip"; }
  std::string deviceName() const override { return name; }
  std::string arch() const override { return archName; }
  absl::Status checkArch(absl::string_view wanted, bool) const override {
    if (wanted == archName)
      return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("the bundle was compiled for ", wanted,
                                                      ", but the device ", name, " is ", archName,
                                                      ": compile with --target=hip:", archName));
  }

  absl::StatusOr<uint64_t> allocate(uint64_t bytes) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    uint64_t address = 0;
    ADAPT_RETURN_IF_ERROR(check(api.hipMalloc(&address, bytes), "hipMalloc"));
    absl::Status status = check(api.hipMemsetAsync(address, 0, bytes, stream), "hipMemsetAsync");
    if (status.ok())
      status = wait();
    if (status.ok())
      return address;
    api.hipFree(address);
    return status;
  }
  void free(uint64_t address) override {
    if (makeCurrent().ok())
      api.hipFree(address);
  }
  absl::Status write(uint64_t to, const void *from, uint64_t bytes) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    ADAPT_RETURN_IF_ERROR(
        check(api.hipMemcpyHtoDAsync(to, from, bytes, stream), "hipMemcpyHtoDAsync"));
    return wait();
  }
  absl::Status read(void *to, uint64_t from, uint64_t bytes) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    ADAPT_RETURN_IF_ERROR(
        check(api.hipMemcpyDtoHAsync(to, from, bytes, stream), "hipMemcpyDtoHAsync"));
    return wait();
  }

  absl::Status loadModule(const std::string &image) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    return check(api.hipModuleLoadData(&module, image.c_str()), "hipModuleLoadData");
  }
  void unloadModule() override {
    if (module && makeCurrent().ok())
      api.hipModuleUnload(module);
    module = nullptr;
  }
  absl::StatusOr<void *> findKernel(const std::string &kernel) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    void *function = nullptr;
    HipApi::Result result = api.hipModuleGetFunction(&function, module, kernel.c_str());
    if (result == HipApi::kNotFound)
      return nullptr;
    ADAPT_RETURN_IF_ERROR(check(result, "hipModuleGetFunction"));
    return function;
  }

  absl::Status launch(void *kernel, const std::array<uint32_t, 3> &grid, uint32_t threads,
                      void **arguments) override {
    return check(api.hipModuleLaunchKernel(kernel, grid[0], grid[1], grid[2], threads, 1, 1, 0,
                                           stream, arguments, nullptr),
                 "hipModuleLaunchKernel");
  }
  absl::Status copy(uint64_t to, uint64_t from, uint64_t bytes) override {
    return check(api.hipMemcpyDtoDAsync(to, from, bytes, stream), "hipMemcpyDtoDAsync");
  }
  absl::Status markBegin() override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    return check(api.hipEventRecord(begin, stream), "hipEventRecord");
  }
  absl::Status markEnd() override {
    return check(api.hipEventRecord(end, stream), "hipEventRecord");
  }
  absl::Status synchronize() override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    return wait();
  }
  absl::StatusOr<double> elapsed() override {
    float milliseconds = 0;
    ADAPT_RETURN_IF_ERROR(
        check(api.hipEventElapsedTime(&milliseconds, begin, end), "hipEventElapsedTime"));
    return milliseconds / 1e3;
  }

private:
  absl::Status makeCurrent() { return check(api.hipSetDevice(device), "hipSetDevice"); }
  absl::Status wait() { return check(api.hipStreamSynchronize(stream), "hipStreamSynchronize"); }

  absl::Status check(HipApi::Result result, const char *call) const {
    if (result == HipApi::kSuccess)
      return absl::OkStatus();
    std::string message =
        absl::StrCat(call, ": ", api.hipGetErrorName(result), ": ", api.hipGetErrorString(result));
    switch (result) {
    case HipApi::kOutOfMemory:
      return absl::ResourceExhaustedError(message);
    case HipApi::kInvalidImage:
    case HipApi::kNoBinaryForGpu:
    case HipApi::kInvalidKernelFile:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
    }
  }

  HipApi api = {};
  int device = 0;
  std::string name, archName;
  void *stream = nullptr, *begin = nullptr, *end = nullptr, *module = nullptr;
};

absl::Status HipDriver::open(const std::string &path, int index) {
#define ADAPT_FUNCTION(name) {#name, reinterpret_cast<void **>(&api.name)}
#define ADAPT_OPTIONAL(name)                                                                       \
  {                                                                                                \
    #name, reinterpret_cast<void **>(&api.name), true                                              \
  }
  const DriverFunction functions[] = {ADAPT_FUNCTION(hipInit),
                                      ADAPT_FUNCTION(hipGetErrorName),
                                      ADAPT_FUNCTION(hipGetErrorString),
                                      ADAPT_FUNCTION(hipGetDeviceCount),
                                      ADAPT_FUNCTION(hipSetDevice),
                                      ADAPT_FUNCTION(hipMalloc),
                                      ADAPT_FUNCTION(hipFree),
                                      ADAPT_FUNCTION(hipMemsetAsync),
                                      ADAPT_FUNCTION(hipMemcpyHtoDAsync),
                                      ADAPT_FUNCTION(hipMemcpyDtoHAsync),
                                      ADAPT_FUNCTION(hipMemcpyDtoDAsync),
                                      ADAPT_FUNCTION(hipModuleLoadData),
                                      ADAPT_FUNCTION(hipModuleUnload),
                                      ADAPT_FUNCTION(hipModuleGetFunction),
                                      ADAPT_FUNCTION(hipModuleLaunchKernel),
                                      ADAPT_FUNCTION(hipStreamCreateWithFlags),
                                      ADAPT_FUNCTION(hipStreamSynchronize),
                                      ADAPT_FUNCTION(hipStreamDestroy),
                                      ADAPT_FUNCTION(hipEventCreate),
                                      ADAPT_FUNCTION(hipEventRecord),
                                      ADAPT_FUNCTION(hipEventElapsedTime),
                                      ADAPT_FUNCTION(hipEventDestroy),
                                      ADAPT_OPTIONAL(hipGetDevicePropertiesR0600),
                                      ADAPT_OPTIONAL(hipGetDeviceProperties)};
#undef ADAPT_FUNCTION
#undef ADAPT_OPTIONAL
  ADAPT_RETURN_IF_ERROR(
      openDriverLibrary("HIP runtime", path,
                        {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}, functions));
  int count = 0;
  absl::Status status = check(api.hipInit(0), "hipInit");
  if (status.ok())
    status = check(api.hipGetDeviceCount(&count), "hipGetDeviceCount");
  if (!status.ok())
    return absl::NotFoundError(absl::StrCat("no HIP device: ", status.message()));
  if (index < 0 || index >= count)
    return absl::NotFoundError(
        absl::StrCat("no HIP device ", index, ": there are ", count, " on this machine"));
  device = index;
  bool isNew = api.hipGetDevicePropertiesR0600 != nullptr;
  auto getProperties = isNew ? api.hipGetDevicePropertiesR0600 : api.hipGetDeviceProperties;
  if (!getProperties)
    return absl::NotFoundError("the HIP runtime lacks hipGetDeviceProperties");
  std::string properties(HipApi::kPropertiesBytes, '\0');
  ADAPT_RETURN_IF_ERROR(check(getProperties(properties.data(), device), "hipGetDeviceProperties"));
  auto text = [&](size_t offset) {
    return std::string(&properties[offset], strnlen(&properties[offset], HipApi::kNameBytes));
  };
  name = text(0);
  archName = text(isNew ? HipApi::kArchNameOffsetR0600 : HipApi::kArchNameOffset);
  archName.resize(std::min(archName.find(':'), archName.size())); // "gfx942:sramecc+:xnack-"
  ADAPT_RETURN_IF_ERROR(makeCurrent());
  ADAPT_RETURN_IF_ERROR(check(api.hipStreamCreateWithFlags(&stream, HipApi::kStreamNonBlocking),
                              "hipStreamCreateWithFlags"));
  for (void **event : {&begin, &end})
    ADAPT_RETURN_IF_ERROR(check(api.hipEventCreate(event), "hipEventCreate"));
  return absl::OkStatus();
}

} // namespace

absl::StatusOr<std::unique_ptr<Driver>> gpu::openHip(const std::string &path, int index) {
  auto driver = std::make_unique<HipDriver>();
  ADAPT_RETURN_IF_ERROR(driver->open(path, index));
  return driver;
}
