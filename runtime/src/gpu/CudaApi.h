// The functions of NVIDIA's driver that we call, declared by ourselves so that nothing of the CUDA
// toolkit is needed. Names, types and numbers are those of cuda.h; types that we only hand through
// are void *.
#pragma once
#include <cstddef>
#include <cstdint>

namespace adapt::rt::gpu {

struct CudaApi {
  using Result = int;
  static constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200,
                          kNoBinaryForGpu = 209, kInvalidPtx = 218, kUnsupportedPtxVersion = 222,
                          kNotFound = 500;
  static constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;
  static constexpr unsigned kStreamNonBlocking = 1;
  static constexpr int kJitErrorLogBuffer = 5, kJitErrorLogBufferBytes = 6;

  Result (*cuInit)(unsigned flags);
  Result (*cuGetErrorName)(Result error, const char **name);
  Result (*cuGetErrorString)(Result error, const char **text);
  Result (*cuDeviceGetCount)(int *count);
  Result (*cuDeviceGet)(int *device, int ordinal);
  Result (*cuDeviceGetName)(char *name, int bytes, int device);
  Result (*cuDeviceGetAttribute)(int *value, int attribute, int device);
  Result (*cuDevicePrimaryCtxRetain)(void **context, int device);
  Result (*cuDevicePrimaryCtxRelease_v2)(int device);
  Result (*cuCtxSetCurrent)(void *context);
  Result (*cuMemAlloc_v2)(uint64_t *address, size_t bytes);
  Result (*cuMemFree_v2)(uint64_t address);
  Result (*cuMemsetD8Async)(uint64_t address, unsigned char value, size_t bytes, void *stream);
  Result (*cuMemcpyHtoDAsync_v2)(uint64_t to, const void *from, size_t bytes, void *stream);
  Result (*cuMemcpyDtoHAsync_v2)(void *to, uint64_t from, size_t bytes, void *stream);
  Result (*cuMemcpyDtoDAsync_v2)(uint64_t to, uint64_t from, size_t bytes, void *stream);
  Result (*cuModuleLoadDataEx)(void **module, const void *image, unsigned numOptions, int *options,
                               void **values);
  Result (*cuModuleUnload)(void *module);
  Result (*cuModuleGetFunction)(void **function, void *module, const char *name);
  Result (*cuLaunchKernel)(void *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                           unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                           void *stream, void **arguments, void **extra);
  Result (*cuStreamCreate)(void **stream, unsigned flags);
  Result (*cuStreamSynchronize)(void *stream);
  Result (*cuStreamDestroy_v2)(void *stream);
  Result (*cuEventCreate)(void **event, unsigned flags);
  Result (*cuEventRecord)(void *event, void *stream);
  Result (*cuEventElapsedTime)(float *milliseconds, void *begin, void *end);
  Result (*cuEventDestroy_v2)(void *event);
};

} // namespace adapt::rt::gpu
