// libamdhip64.so for tests: FakeGpu.h by the names of HIP.
#include "FakeGpu.h"

using namespace adapt::rt::test;

namespace {
FakeGpu &gpu() {
  static FakeGpu instance(64, "gfx942:sramecc+:xnack-");
  return instance;
}
} // namespace

extern "C" {
int hipInit(unsigned) { return gpu().devices ? kFakeSuccess : kFakeNoDevice; }
const char *hipGetErrorName(int error) {
  switch (error) {
  case kFakeOutOfMemory:
    return "hipErrorOutOfMemory";
  case kFakeNoDevice:
    return "hipErrorNoDevice";
  case kFakeInvalidImage:
    return "hipErrorInvalidImage";
  case kFakeLaunchFailed:
    return "hipErrorLaunchFailure";
  default:
    return "hipErrorInvalidValue";
  }
}
const char *hipGetErrorString(int error) {
  return error == kFakeLaunchFailed ? "unspecified launch failure"
         : error == kFakeNoDevice   ? "no ROCm-capable device is detected"
                                    : "a fake error";
}
int hipGetDeviceCount(int *count) {
  *count = gpu().devices;
  return kFakeSuccess;
}
int hipSetDevice(int device) {
  return device >= 0 && device < gpu().devices ? kFakeSuccess : kFakeInvalidValue;
}
int hipGetDevicePropertiesR0600(void *properties, int) {
  std::memset(properties, 0x55, 1472); // sizeof(hipDeviceProp_tR0600)
  std::snprintf(static_cast<char *>(properties), 256, "fake AMD");
  // offsetof(hipDeviceProp_tR0600, gcnArchName)
  std::snprintf(static_cast<char *>(properties) + 1160, 256, "%s", gpu().arch.c_str());
  return kFakeSuccess;
}
int hipMalloc(uint64_t *address, size_t bytes) { return gpu().allocate(address, bytes); }
int hipFree(uint64_t address) { return gpu().free(address); }
int hipMemsetAsync(uint64_t address, int value, size_t bytes, void *stream) {
  return gpu().fill(address, value, bytes, stream);
}
int hipMemcpyHtoDAsync(uint64_t to, const void *from, size_t bytes, void *stream) {
  return gpu().write(to, from, bytes, stream);
}
int hipMemcpyDtoHAsync(void *to, uint64_t from, size_t bytes, void *stream) {
  return gpu().read(to, from, bytes, stream);
}
int hipMemcpyDtoDAsync(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  return gpu().copy(to, from, bytes, stream);
}
int hipModuleLoadData(void **module, const void *image) {
  std::string log;
  return gpu().loadModule(module, image, log);
}
int hipModuleUnload(void *module) { return gpu().unloadModule(module); }
int hipModuleGetFunction(void **function, void *module, const char *name) {
  return gpu().findFunction(function, module, name);
}
int hipModuleLaunchKernel(void *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                          unsigned blockX, unsigned blockY, unsigned blockZ, unsigned, void *stream,
                          void **arguments, void **) {
  return gpu().launch(function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, stream, arguments);
}
int hipStreamCreateWithFlags(void **stream, unsigned) { return gpu().createStream(stream); }
int hipStreamSynchronize(void *stream) { return gpu().synchronize(stream); }
int hipStreamDestroy(void *stream) { return gpu().destroyStream(stream); }
int hipEventCreate(void **event) { return gpu().createEvent(event); }
int hipEventRecord(void *event, void *stream) { return gpu().record(event, stream); }
int hipEventElapsedTime(float *milliseconds, void *begin, void *end) {
  return gpu().elapsed(milliseconds, begin, end);
}
int hipEventDestroy(void *event) { return gpu().destroyEvent(event); }
}
