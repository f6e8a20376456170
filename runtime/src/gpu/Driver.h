// What GpuDevice asks of a GPU's driver: CUDA's and HIP's, which are alike.
#pragma once
#include "absl/strings/string_view.h"
#include "adapt/Status.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace adapt::rt::gpu {

/// One device, one stream. Every call works on any thread. Errors hold the call, the driver's name
/// for the error and its text ("cuLaunchKernel: CUDA_ERROR_INVALID_VALUE: invalid argument").
class Driver {
public:
  virtual ~Driver() = default;

  /// "cuda" or "hip".
  virtual absl::string_view target() const = 0;
  /// The device's name, and that of the architecture: "NVIDIA H200", "sm_90".
  virtual std::string deviceName() const = 0;
  virtual std::string arch() const = 0;
  /// As Device::checkArch.
  virtual absl::Status checkArch(absl::string_view wanted, bool portable) const = 0;

  /// Filled with zeros. ResourceExhausted where there is not so much.
  virtual absl::StatusOr<uint64_t> allocate(uint64_t bytes) = 0;
  virtual void free(uint64_t address) = 0;

  /// Host to device and back; done when they return.
  virtual absl::Status write(uint64_t to, const void *from, uint64_t bytes) = 0;
  virtual absl::Status read(void *to, uint64_t from, uint64_t bytes) = 0;

  /// One module at a time; unloaded with the driver at the latest.
  virtual absl::Status loadModule(const std::string &image) = 0;
  virtual void unloadModule() = 0;
  /// Null where the module has no such kernel.
  virtual absl::StatusOr<void *> findKernel(const std::string &name) = 0;

  /// Put into the stream, in this order. An error may also be one of an earlier call.
  virtual absl::Status launch(void *kernel, const std::array<uint32_t, 3> &grid, uint32_t threads,
                              void **arguments) = 0;
  virtual absl::Status copy(uint64_t to, uint64_t from, uint64_t bytes) = 0;
  /// Marks the begin and the end of what is timed.
  virtual absl::Status markBegin() = 0;
  virtual absl::Status markEnd() = 0;
  /// Waits for the stream.
  virtual absl::Status synchronize() = 0;
  /// Seconds between the marks, after synchronize().
  virtual absl::StatusOr<double> elapsed() = 0;
};

/// Opens the driver's library, the first of its usual names or the one at `path`, and its device
/// `index`. NotFound where there is no driver, no device, or none of this index.
absl::StatusOr<std::unique_ptr<Driver>> openCuda(const std::string &path, int index);
absl::StatusOr<std::unique_ptr<Driver>> openHip(const std::string &path, int index);

} // namespace adapt::rt::gpu
