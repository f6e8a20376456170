// What a device does for the runtime. Kept small: load kernels, own memory, run a flat list of
// launches.
#pragma once
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "adapt/Status.h"
#include "adapt/ThreadPool.h"

#include <cstdint>
#include <memory>
#include <string>

namespace adapt::rt {

/// Memory of a device, freed with its last owner. `data` is 64-byte aligned, zero at first, and an
/// address of the device (an address of the host only where Device::hostAccessible()).
struct Memory {
  std::shared_ptr<void> owner;
  char *data = nullptr;
  uint64_t bytes = 0;
};

/// What one step of a program function launches, with this run's sizes: shared by all calls of the
/// function.
struct LaunchShape {
  enum class Kind : uint8_t { kKernel, kCopy };
  Kind kind = Kind::kKernel;
  uint32_t kernel = 0;          ///< index in the symbols that loadKernels() was given
  uint32_t grid[3] = {1, 1, 1}; ///< id[0] is the slowest; unused extents, the last, are 1
  uint32_t gridRank = 1;        ///< extents in use, 1 to 3
  uint32_t threads = 0;         ///< of a block; a GPU's work item is a block. 0: a CPU's kernel
  uint32_t numBuffers = 0;      ///< of each launch; 2 of a copy
  uint32_t numSizes = 0;
  uint64_t items = 0;             ///< pieces of work: product of the grid; 0: nothing to do
  const int64_t *sizes = nullptr; ///< in the order of Kernel.sizes
  uint64_t copyBytes = 0;         ///< kCopy: from buffer 0 to buffer 1
};

/// One launch: a shape and its buffers, `buffers[firstBuffer] …` of the list.
struct Launch {
  uint32_t shape;
  uint32_t firstBuffer;
};

/// Launches run one after the other: each sees all that those before it wrote.
struct LaunchList {
  absl::Span<const LaunchShape> shapes;
  absl::Span<const Launch> launches;
  void *const *buffers = nullptr;
};

class Device {
public:
  virtual ~Device() = default;

  virtual absl::string_view name() const = 0;

  /// Whether addresses of this device can be read and written by the host.
  virtual bool hostAccessible() const = 0;

  /// What it is, in words: "NVIDIA H200 (sm_90)".
  virtual std::string description() const { return std::string(name()); }

  /// Whether code for an architecture of its target ("sm_90", "gfx942") runs on it; `portable`:
  /// PTX, which newer devices take too. FailedPrecondition says what to compile for instead.
  virtual absl::Status checkArch(absl::string_view arch, bool portable) const {
    (void)arch, (void)portable;
    return absl::OkStatus();
  }

  /// Loads a kernel library and resolves `symbols`; every launch may use `scratchBytes` per work
  /// item in flight. Errors name all symbols that are missing.
  virtual absl::Status loadKernels(const std::string &path, absl::Span<const std::string> symbols,
                                   uint64_t scratchBytes) = 0;

  /// Memory that is resident only where it was touched, in huge pages where there are.
  virtual absl::StatusOr<Memory> allocate(uint64_t bytes, absl::string_view what) = 0;

  virtual absl::Status write(void *to, const void *from, uint64_t bytes) = 0;
  virtual absl::Status read(void *to, const void *from, uint64_t bytes) = 0;

  /// Runs the list to its end. One run at a time. An error names the kernel that failed.
  virtual absl::Status run(const LaunchList &list) = 0;

  /// How long the device was busy with the last run(), by its own clock; 0 where it has none.
  virtual double runSeconds() const { return 0; }

  /// Threads of the host that this device computes with; 0 where it has none.
  virtual int threads() const { return 0; }

  /// Calls job(t) for every such thread at once. Not while run() runs.
  virtual void parallel(absl::FunctionRef<void(int)> job) { job(0); }
};

struct CpuDeviceOptions {
  int threads = 0;        ///< 0: one for each core that this process may use
  bool pin = true;        ///< pin threads to cores, if there are as many cores
  bool pinCaller = false; ///< the creating thread too: it must then be the one that calls run()
  CpuShare share = {};
};
absl::StatusOr<std::unique_ptr<Device>> createCpuDevice(const CpuDeviceOptions &options = {});

/// In which order a simulated GPU runs blocks, the warps of a block and the lanes of a warp, as far
/// as they do not wait for each other. Permuted: anew for each block, by the seed.
enum class LaneOrder : uint8_t { kForward, kReverse, kPermuted };

struct SimDeviceOptions {
  bool hip = false; ///< sim-hip, waves of 64; else sim-cuda, warps of 32
  LaneOrder order = LaneOrder::kForward;
  uint64_t seed = 1;
  int threads = 0; ///< blocks at a time; 0: as CpuDeviceOptions
  CpuShare share = {};
};
/// A GPU simulated on the CPU, from kernels.sim.so (SimRuntime.h). Its memory faults where the host
/// touches it. Unimplemented on other machines than x86-64.
absl::StatusOr<std::unique_ptr<Device>> createSimDevice(const SimDeviceOptions &options = {});

struct GpuDeviceOptions {
  bool hip = false;
  int index = 0; ///< which of the machine's devices
  /// Path of the driver's library; empty: $ADAPT_CUDA_DRIVER or $ADAPT_HIP_DRIVER, else
  /// libcuda.so.1, or libamdhip64.so of versions 7 to 5.
  std::string driver;
  /// Wait after each launch, so that an error names its kernel; also by $ADAPT_LAUNCH_BLOCKING=1.
  bool blocking = false;
};
/// An NVIDIA or AMD GPU. NotFound, in one sentence, without a driver or device.
absl::StatusOr<std::unique_ptr<Device>> createGpuDevice(const GpuDeviceOptions &options = {});

} // namespace adapt::rt
