// libcuda.so.1 for tests: FakeGpu.h by the names of CUDA's driver.
#include "FakeGpu.h"

using namespace adapt::rt::test;

namespace {
FakeGpu &gpu() {
  static FakeGpu instance(32, "90");
  return instance;
}
thread_local void *current = nullptr;
int context; // there is but one
} // namespace

/// The driver refuses threads that have no context.
#define NEEDS_CONTEXT                                                                              \
  if (current != &context)                                                                         \
  return kFakeInvalidContext

extern "C" {
int cuInit(unsigned) { return gpu().devices ? kFakeSuccess : kFakeNoDevice; }
int cuGetErrorName(int error, const char **name) {
  switch (error) {
  case kFakeOutOfMemory:
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    break;
  case kFakeNoDevice:
    *name = "CUDA_ERROR_NO_DEVICE";
    break;
  case kFakeInvalidImage:
    *name = "CUDA_ERROR_INVALID_IMAGE";
    break;
  case kFakeLaunchFailed:
    *name = "CUDA_ERROR_LAUNCH_FAILED";
    break;
  default:
    *name = "CUDA_ERROR_INVALID_VALUE";
    break;
  }
  return kFakeSuccess;
}
int cuGetErrorString(int error, const char **text) {
  *text = error == kFakeLaunchFailed ? "unspecified launch failure"
          : error == kFakeNoDevice   ? "no CUDA-capable device is detected"
                                     : "a fake error";
  return kFakeSuccess;
}
int cuDeviceGetCount(int *count) {
  *count = gpu().devices;
  return kFakeSuccess;
}
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal < gpu().devices ? kFakeSuccess : kFakeInvalidValue;
}
int cuDeviceGetName(char *name, int bytes, int) {
  std::snprintf(name, bytes, "fake NVIDIA");
  return kFakeSuccess;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
  int capability = std::atoi(gpu().arch.c_str());
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : -1;
  return *value < 0 ? kFakeInvalidValue : kFakeSuccess;
}
int cuDevicePrimaryCtxRetain(void **result, int) {
  *result = &context;
  return kFakeSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int) { return kFakeSuccess; }
int cuCtxSetCurrent(void *wanted) {
  current = wanted;
  return kFakeSuccess;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  NEEDS_CONTEXT;
  return gpu().allocate(address, bytes);
}
int cuMemFree_v2(uint64_t address) {
  NEEDS_CONTEXT;
  return gpu().free(address);
}
int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void *stream) {
  NEEDS_CONTEXT;
  return gpu().fill(address, value, bytes, stream);
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  NEEDS_CONTEXT;
  return gpu().write(to, from, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  NEEDS_CONTEXT;
  return gpu().read(to, from, bytes, stream);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  NEEDS_CONTEXT;
  return gpu().copy(to, from, bytes, stream);
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                       void **values) {
  NEEDS_CONTEXT;
  std::string log;
  int error = gpu().loadModule(module, image, log);
  char *text = nullptr;
  size_t bytes = 0;
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == 5) // CU_JIT_ERROR_LOG_BUFFER
      text = static_cast<char *>(values[i]);
    else if (options[i] == 6) // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
      bytes = reinterpret_cast<uintptr_t>(values[i]);
  if (text && bytes)
    std::snprintf(text, bytes, "%s", log.c_str());
  return error;
}
int cuModuleUnload(void *module) { return gpu().unloadModule(module); }
int cuModuleGetFunction(void **function, void *module, const char *name) {
  NEEDS_CONTEXT;
  return gpu().findFunction(function, module, name);
}
int cuLaunchKernel(void *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                   unsigned blockY, unsigned blockZ, unsigned, void *stream, void **arguments,
                   void **) {
  NEEDS_CONTEXT;
  return gpu().launch(function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, stream, arguments);
}
int cuStreamCreate(void **stream, unsigned) { return gpu().createStream(stream); }
int cuStreamSynchronize(void *stream) {
  NEEDS_CONTEXT;
  return gpu().synchronize(stream);
}
int cuStreamDestroy_v2(void *stream) { return gpu().destroyStream(stream); }
int cuEventCreate(void **event, unsigned) { return gpu().createEvent(event); }
int cuEventRecord(void *event, void *stream) { return gpu().record(event, stream); }
int cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
  return gpu().elapsed(milliseconds, begin, end);
}
int cuEventDestroy_v2(void *event) { return gpu().destroyEvent(event); }
}
