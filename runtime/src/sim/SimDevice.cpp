// sim-cuda and sim-hip: a GPU's kernels on the CPU, a fiber for each lane (SimRuntime.h).
#include "GuardedMemory.h"
#include "Library.h"
#include "Machine.h"
#include "adapt/Device.h"
#include "adapt/ThreadPool.h"

#include <atomic>
#include <mutex>
#include <vector>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::sim;

namespace {

class SimDevice : public Device {
public:
  SimDevice(const SimDeviceOptions &options, std::unique_ptr<ThreadPool> pool)
      : options(options), pool(std::move(pool)), memory(GuardedMemory::create()) {}

  absl::string_view name() const override { return options.hip ? "sim-hip" : "sim-cuda"; }
  bool hostAccessible() const override { return false; }
  int threads() const override { return pool->size(); }
  void parallel(absl::FunctionRef<void(int)> job) override { pool->run(job); }

  absl::Status loadKernels(const std::string &path, absl::Span<const std::string> symbols,
                           uint64_t scratchBytes) override;
  absl::StatusOr<Memory> allocate(uint64_t bytes, absl::string_view what) override {
    return memory->allocate(bytes, what);
  }
  absl::Status write(void *to, const void *from, uint64_t bytes) override {
    return memory->write(to, from, bytes);
  }
  absl::Status read(void *to, const void *from, uint64_t bytes) override {
    return memory->read(to, from, bytes);
  }
  absl::Status run(const LaunchList &list) override;

private:
  uint32_t warp() const { return options.hip ? 64 : 32; }

  /// A thread of the host and what it runs blocks with.
  struct Worker {
    std::unique_ptr<Library> library;
    std::vector<Kernel> kernels;
    std::unique_ptr<Machine> machine;
    std::vector<void *> args;
  };

  absl::Status checkBuffers(const LaunchList &list) const;
  void runThread(const LaunchList &list, int thread);
  absl::Status runLaunch(const LaunchShape &shape, void *const *buffers, Worker &worker,
                         int thread);

  SimDeviceOptions options;
  std::unique_ptr<ThreadPool> pool;
  std::shared_ptr<GuardedMemory> memory;
  std::vector<Worker> workers;

  std::atomic<size_t> failedLaunch{0};
  std::mutex mutex;
  absl::Status failure; // of the lowest thread that failed, so that it does not depend on time
  int failedThread = 0;
};

absl::Status SimDevice::loadKernels(const std::string &path, absl::Span<const std::string> symbols,
                                    uint64_t scratchBytes) {
  if (!workers.empty())
    return absl::FailedPreconditionError("kernels are already loaded");
  if (scratchBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("kernels with ", scratchBytes, " bytes of scratch are not a GPU's"));
  std::vector<Worker> loaded(pool->size());
  for (Worker &worker : loaded) {
    ADAPT_ASSIGN_OR_RETURN(worker.library, Library::open(path, warp()));
    ADAPT_ASSIGN_OR_RETURN(worker.kernels, worker.library->find(symbols));
    worker.machine = std::make_unique<Machine>(warp(), options.order, options.seed);
  }
  workers = std::move(loaded);
  return absl::OkStatus();
}

/// A host's address among the buffers would work here, and on no real device.
absl::Status SimDevice::checkBuffers(const LaunchList &list) const {
  for (const Launch &launch : list.launches) {
    const LaunchShape &shape = list.shapes[launch.shape];
    for (uint32_t b = 0; b < shape.numBuffers && shape.items; ++b)
      if (const void *data = list.buffers[launch.firstBuffer + b];
          data && !memory->contains(data, 1))
        return absl::InvalidArgumentError(absl::StrCat("launch ", &launch - list.launches.data(),
                                                       ": buffer ", b,
                                                       " is not memory of the device"));
  }
  return absl::OkStatus();
}

absl::Status SimDevice::run(const LaunchList &list) {
  ADAPT_RETURN_IF_ERROR(checkBuffers(list));
  GuardedMemory::Access access(*memory);
  failedLaunch.store(list.launches.size(), std::memory_order_relaxed);
  failure = absl::OkStatus();
  pool->run([&](int thread) { runThread(list, thread); });
  return failure;
}

/// As on the CPU: every thread walks the list and does its share of every launch.
void SimDevice::runThread(const LaunchList &list, int thread) {
  for (size_t l = 0; l < list.launches.size(); ++l) {
    const Launch &launch = list.launches[l];
    const LaunchShape &shape = list.shapes[launch.shape];
    if (shape.items == 0)
      continue; // on all threads alike
    // Before a barrier, others may see or not see that this launch has failed, but not that an
    // earlier one has: what runs does not depend on time.
    if (l <= failedLaunch.load(std::memory_order_relaxed)) {
      void *const *buffers = list.buffers + launch.firstBuffer;
      absl::Status status;
      if (shape.kind == LaunchShape::Kind::kKernel)
        status = runLaunch(shape, buffers, workers[thread], thread);
      else if (thread == 0)
        status = memory->copy(buffers[1], buffers[0], shape.copyBytes);
      if (!status.ok()) {
        std::lock_guard<std::mutex> lock(mutex);
        if (failure.ok() || thread < failedThread) {
          failure =
              absl::Status(status.code(), absl::StrCat("launch ", l, " of ", list.launches.size(),
                                                       ": ", status.message()));
          failedThread = thread;
          failedLaunch.store(l, std::memory_order_relaxed);
        }
      }
    }
    // The barrier after the last launch is ThreadPool::run's.
    if (l + 1 < list.launches.size())
      pool->barrier(thread);
  }
}

absl::Status SimDevice::runLaunch(const LaunchShape &shape, void *const *buffers, Worker &worker,
                                  int thread) {
  const Kernel &kernel = worker.kernels[shape.kernel];
  if (shape.threads == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("kernel '", kernel.name, "' has no threads, it is a CPU's"));
  worker.args.clear();
  for (uint32_t b = 0; b < shape.numBuffers; ++b)
    worker.args.push_back(const_cast<void **>(&buffers[b]));
  for (uint32_t s = 0; s < shape.numSizes; ++s)
    worker.args.push_back(const_cast<int64_t *>(&shape.sizes[s]));
  KernelLaunch launch;
  launch.kernel = &kernel;
  launch.threads = shape.threads;
  launch.args = worker.args.data();
  for (uint32_t i = 0; i < shape.gridRank; ++i)
    launch.grid[i] = shape.grid[shape.gridRank - 1 - i];
  uint64_t threads = pool->size();
  return worker.machine->run(launch, shape.items * thread / threads,
                             shape.items * (thread + 1) / threads);
}

} // namespace

absl::StatusOr<std::unique_ptr<Device>> rt::createSimDevice(const SimDeviceOptions &options) {
  if (!supported())
    return absl::UnimplementedError("the simulated GPU runs on x86-64 only");
  ThreadPool::Options poolOptions;
  poolOptions.threads = options.threads;
  poolOptions.share = options.share;
  poolOptions.pin = false; // there may be several devices, as for several ranks
  ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(poolOptions));
  return std::unique_ptr<Device>(new SimDevice(options, std::move(pool)));
}
