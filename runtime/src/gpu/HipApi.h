// The functions of AMD's HIP runtime that we call, declared by ourselves so that nothing of ROCm is
// needed. Names, types and numbers are those of hip_runtime_api.h; types that we only hand through
// are void *.
#pragma once
#include <cstddef>
#include <cstdint>

namespace adapt::rt::gpu {

struct HipApi {
  using Result = int;
  static constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200,
                          kNoBinaryForGpu = 209, kInvalidKernelFile = 218, kNotFound = 500;
  static constexpr unsigned kStreamNonBlocking = 1;

  /// hipDeviceProp_t is large and ours only to hand through: its parts by their offsets. ROCm 6
  /// gave it and the function a new form (hipGetDevicePropertiesR0600).
  static constexpr size_t kPropertiesBytes = 8192; // more than either needs
  static constexpr size_t kNameBytes = 256;
  static constexpr size_t kArchNameOffset = 396, kArchNameOffsetR0600 = 1160;

  Result (*hipInit)(unsigned flags);
  const char *(*hipGetErrorName)(Result error);
  const char *(*hipGetErrorString)(Result error);
  Result (*hipGetDeviceCount)(int *count);
  Result (*hipSetDevice)(int device);
  Result (*hipMalloc)(uint64_t *address, size_t bytes);
  Result (*hipFree)(uint64_t address);
  Result (*hipMemsetAsync)(uint64_t address, int value, size_t bytes, void *stream);
  Result (*hipMemcpyHtoDAsync)(uint64_t to, const void *from, size_t bytes, void *stream);
  Result (*hipMemcpyDtoHAsync)(void *to, uint64_t from, size_t bytes, void *stream);
  Result (*hipMemcpyDtoDAsync)(uint64_t to, uint64_t from, size_t bytes, void *stream);
  Result (*hipModuleLoadData)(void **module, const void *image);
  Result (*hipModuleUnload)(void *module);
  Result (*hipModuleGetFunction)(void **function, void *module, const char *name);
  Result (*hipModuleLaunchKernel)(void *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                                  unsigned blockX, unsigned blockY, unsigned blockZ,
                                  unsigned sharedBytes, void *stream, void **arguments,
                                  void **extra);
  Result (*hipStreamCreateWithFlags)(void **stream, unsigned flags);
  Result (*hipStreamSynchronize)(void *stream);
  Result (*hipStreamDestroy)(void *stream);
  Result (*hipEventCreate)(void **event);
  Result (*hipEventRecord)(void *event, void *stream);
  Result (*hipEventElapsedTime)(float *milliseconds, void *begin, void *end);
  Result (*hipEventDestroy)(void *event);

  // One of these; the other is null.
  Result (*hipGetDevicePropertiesR0600)(void *properties, int device);
  Result (*hipGetDeviceProperties)(void *properties, int device);
};

} // namespace adapt::rt::gpu
