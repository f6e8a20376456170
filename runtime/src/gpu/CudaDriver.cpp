#include "CudaApi.h"
#include "Driver.h"
#include "DriverLibrary.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

#include <optional>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::gpu;

namespace {

/// "sm_90a" as 90 and 'a'; nothing if it is no such name.
struct SmArch {
  int number = 0;
  absl::string_view suffix;
};
std::optional<SmArch> parseArch(absl::string_view name) {
  if (!absl::StartsWith(name, "sm_"))
    return std::nullopt;
  name.remove_prefix(3);
  size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  SmArch arch;
  arch.suffix = name.substr(digits);
  if (digits > 4 || !absl::SimpleAtoi(name.substr(0, digits), &arch.number))
    return std::nullopt;
  return arch;
}

class CudaDriver : public Driver {
public:
  ~CudaDriver() override {
    if (!context)
      return;
    api.cuCtxSetCurrent(context);
    unloadModule();
    for (void *event : {begin, end})
      if (event)
        api.cuEventDestroy_v2(event);
    if (stream)
      api.cuStreamDestroy_v2(stream);
    api.cuDevicePrimaryCtxRelease_v2(device);
  }

  absl::Status open(const std::string &path, int index);

  absl::string_view target() const override { return "cuda"; }
  std::string deviceName() const override { return name; }
  std::string arch() const override { return absl::StrCat("sm_", capability); }
  absl::Status checkArch(absl::string_view wanted, bool portable) const override;

  absl::StatusOr<uint64_t> allocate(uint64_t bytes) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    uint64_t address = 0;
    ADAPT_RETURN_IF_ERROR(check(api.cuMemAlloc_v2(&address, bytes), "cuMemAlloc"));
    absl::Status status = check(api.cuMemsetD8Async(address, 0, bytes, stream), "cuMemsetD8Async");
    if (status.ok())
      status = wait();
    if (status.ok())
      return address;
    api.cuMemFree_v2(address);
    return status;
  }
  void free(uint64_t address) override {
    if (makeCurrent().ok())
      api.cuMemFree_v2(address);
  }
  absl::Status write(uint64_t to, const void *from, uint64_t bytes) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    ADAPT_RETURN_IF_ERROR(
        check(api.cuMemcpyHtoDAsync_v2(to, from, bytes, stream), "cuMemcpyHtoDAsync"));
    return wait();
  }
  absl::Status read(void *to, uint64_t from, uint64_t bytes) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    ADAPT_RETURN_IF_ERROR(
        check(api.cuMemcpyDtoHAsync_v2(to, from, bytes, stream), "cuMemcpyDtoHAsync"));
    return wait();
  }

  absl::Status loadModule(const std::string &image) override;
  void unloadModule() override {
    if (module && makeCurrent().ok())
      api.cuModuleUnload(module);
    module = nullptr;
  }
  absl::StatusOr<void *> findKernel(const std::string &kernel) override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    void *function = nullptr;
    CudaApi::Result result = api.cuModuleGetFunction(&function, module, kernel.c_str());
    if (result == CudaApi::kNotFound)
      return nullptr;
    ADAPT_RETURN_IF_ERROR(check(result, "cuModuleGetFunction"));
    return function;
  }

  absl::Status launch(void *kernel, const std::array<uint32_t, 3> &grid, uint32_t threads,
                      void **arguments) override {
    return check(api.cuLaunchKernel(kernel, grid[0], grid[1], grid[2], threads, 1, 1, 0, stream,
                                    arguments, nullptr),
                 "cuLaunchKernel");
  }
  absl::Status copy(uint64_t to, uint64_t from, uint64_t bytes) override {
    return check(api.cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "cuMemcpyDtoDAsync");
  }
  absl::Status markBegin() override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    return check(api.cuEventRecord(begin, stream), "cuEventRecord");
  }
  absl::Status markEnd() override { return check(api.cuEventRecord(end, stream), "cuEventRecord"); }
  absl::Status synchronize() override {
    ADAPT_RETURN_IF_ERROR(makeCurrent());
    return wait();
  }
  absl::StatusOr<double> elapsed() override {
    float milliseconds = 0;
    ADAPT_RETURN_IF_ERROR(
        check(api.cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime"));
    return milliseconds / 1e3;
  }

private:
  absl::Status makeCurrent() { return check(api.cuCtxSetCurrent(context), "cuCtxSetCurrent"); }
  absl::Status wait() { return check(api.cuStreamSynchronize(stream), "cuStreamSynchronize"); }

  absl::Status check(CudaApi::Result result, const char *call) const {
    if (result == CudaApi::kSuccess)
      return absl::OkStatus();
    const char *error = nullptr, *text = nullptr;
    api.cuGetErrorName(result, &error);
    api.cuGetErrorString(result, &text);
    std::string message = absl::StrCat(call, ": ", error ? error : absl::StrCat("error ", result),
                                       ": ", text ? text : "no text");
    switch (result) {
    case CudaApi::kOutOfMemory:
      return absl::ResourceExhaustedError(message);
    case CudaApi::kInvalidImage:
    case CudaApi::kNoBinaryForGpu:
    case CudaApi::kInvalidPtx:
    case CudaApi::kUnsupportedPtxVersion:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
    }
  }

  CudaApi api = {};
  int device = 0, capability = 0;
  std::string name;
  void *context = nullptr, *stream = nullptr, *begin = nullptr, *end = nullptr, *module = nullptr;
};

absl::Status CudaDriver::open(const std::string &path, int index) {
#define ADAPT_FUNCTION(name)                                                                       \
  {                                                                                                \
    #name, reinterpret_cast<void **>(&api.name)                                                    \
  }
  const DriverFunction functions[] = {ADAPT_FUNCTION(cuInit),
                                      ADAPT_FUNCTION(cuGetErrorName),
                                      ADAPT_FUNCTION(cuGetErrorString),
                                      ADAPT_FUNCTION(cuDeviceGetCount),
                                      ADAPT_FUNCTION(cuDeviceGet),
                                      ADAPT_FUNCTION(cuDeviceGetName),
                                      ADAPT_FUNCTION(cuDeviceGetAttribute),
                                      ADAPT_FUNCTION(cuDevicePrimaryCtxRetain),
                                      ADAPT_FUNCTION(cuDevicePrimaryCtxRelease_v2),
                                      ADAPT_FUNCTION(cuCtxSetCurrent),
                                      ADAPT_FUNCTION(cuMemAlloc_v2),
                                      ADAPT_FUNCTION(cuMemFree_v2),
                                      ADAPT_FUNCTION(cuMemsetD8Async),
                                      ADAPT_FUNCTION(cuMemcpyHtoDAsync_v2),
                                      ADAPT_FUNCTION(cuMemcpyDtoHAsync_v2),
                                      ADAPT_FUNCTION(cuMemcpyDtoDAsync_v2),
                                      ADAPT_FUNCTION(cuModuleLoadDataEx),
                                      ADAPT_FUNCTION(cuModuleUnload),
                                      ADAPT_FUNCTION(cuModuleGetFunction),
                                      ADAPT_FUNCTION(cuLaunchKernel),
                                      ADAPT_FUNCTION(cuStreamCreate),
                                      ADAPT_FUNCTION(cuStreamSynchronize),
                                      ADAPT_FUNCTION(cuStreamDestroy_v2),
                                      ADAPT_FUNCTION(cuEventCreate),
                                      ADAPT_FUNCTION(cuEventRecord),
                                      ADAPT_FUNCTION(cuEventElapsedTime),
                                      ADAPT_FUNCTION(cuEventDestroy_v2)};
#undef ADAPT_FUNCTION
  ADAPT_RETURN_IF_ERROR(openDriverLibrary("CUDA driver", path, {"libcuda.so.1"}, functions));
  int count = 0;
  absl::Status status = check(api.cuInit(0), "cuInit");
  if (status.ok())
    status = check(api.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (!status.ok())
    return absl::NotFoundError(absl::StrCat("no CUDA device: ", status.message()));
  if (index < 0 || index >= count)
    return absl::NotFoundError(
        absl::StrCat("no CUDA device ", index, ": there are ", count, " on this machine"));
  char text[256] = {};
  int major = 0, minor = 0;
  ADAPT_RETURN_IF_ERROR(check(api.cuDeviceGet(&device, index), "cuDeviceGet"));
  ADAPT_RETURN_IF_ERROR(
      check(api.cuDeviceGetName(text, sizeof(text) - 1, device), "cuDeviceGetName"));
  for (auto [attribute, value] : {std::pair(CudaApi::kComputeCapabilityMajor, &major),
                                  std::pair(CudaApi::kComputeCapabilityMinor, &minor)})
    ADAPT_RETURN_IF_ERROR(
        check(api.cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute"));
  name = text;
  capability = major * 10 + minor;
  ADAPT_RETURN_IF_ERROR(
      check(api.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain"));
  ADAPT_RETURN_IF_ERROR(makeCurrent());
  ADAPT_RETURN_IF_ERROR(
      check(api.cuStreamCreate(&stream, CudaApi::kStreamNonBlocking), "cuStreamCreate"));
  for (void **event : {&begin, &end})
    ADAPT_RETURN_IF_ERROR(check(api.cuEventCreate(event, 0), "cuEventCreate"));
  return absl::OkStatus();
}

absl::Status CudaDriver::checkArch(absl::string_view wanted, bool portable) const {
  std::optional<SmArch> code = parseArch(wanted);
  if (!code)
    return absl::FailedPreconditionError(
        absl::StrCat("'", wanted, "' is no architecture of CUDA's (as sm_90)"));
  // Code for sm_90a or sm_100f uses what belongs to that device (or family) alone. A cubin runs on
  // devices of its major version that are not older; PTX on all that are not older.
  bool fits = code->suffix == "a" ? code->number == capability
              : !code->suffix.empty() || !portable
                  ? code->number / 10 == capability / 10 && code->number <= capability
                  : code->number <= capability;
  if (fits)
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the bundle was compiled for ", wanted,
                                                    ", but the device ", name, " is ", arch(),
                                                    ": compile with --target=cuda:", arch()));
}

absl::Status CudaDriver::loadModule(const std::string &image) {
  ADAPT_RETURN_IF_ERROR(makeCurrent());
  std::string log(8192, '\0');
  int options[] = {CudaApi::kJitErrorLogBuffer, CudaApi::kJitErrorLogBufferBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(static_cast<uintptr_t>(log.size()))};
  absl::Status status = check(api.cuModuleLoadDataEx(&module, image.c_str(), 2, options, values),
                              "cuModuleLoadDataEx");
  log.resize(std::min(log.find('\0'), log.size()));
  if (status.ok() || log.empty())
    return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "\n", log));
}

} // namespace

absl::StatusOr<std::unique_ptr<Driver>> gpu::openCuda(const std::string &path, int index) {
  auto driver = std::make_unique<CudaDriver>();
  ADAPT_RETURN_IF_ERROR(driver->open(path, index));
  return driver;
}
