// The CPU as a device: kernels from a shared object, work items over a thread pool.
#include "adapt/Device.h"
#include "adapt/ThreadPool.h"

#include "absl/cleanup/cleanup.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>

using namespace adapt;
using namespace adapt::rt;

namespace {

/// docs/bundle.md, "The kernel ABI (CPU)".
using KernelFn = int (*)(void *const *buffers, const int64_t *sizes, void *scratch,
                         const uint32_t id[3]);

constexpr uint64_t kHugePage = uint64_t(2) << 20;
constexpr uint64_t kCopyPiece = uint64_t(64) << 10;

/// The items i of `items` with i * threads / items == thread.
struct Range {
  uint64_t begin, end;
  Range(uint64_t items, int thread, int threads)
      : begin(first(items, thread, threads)), end(first(items, thread + 1, threads)) {}

private:
  static uint64_t first(uint64_t items, uint64_t thread, uint64_t threads) {
    return (items * thread + threads - 1) / threads;
  }
};

class CpuDevice : public Device {
public:
  explicit CpuDevice(std::unique_ptr<ThreadPool> pool) : pool(std::move(pool)) {}
  ~CpuDevice() override {
    if (library)
      dlclose(library);
  }

  absl::string_view name() const override { return "cpu"; }
  bool hostAccessible() const override { return true; }
  int threads() const override { return pool->size(); }

  absl::Status loadKernels(const std::string &path, absl::Span<const std::string> symbols,
                           uint64_t scratchBytes) override;
  absl::StatusOr<Memory> allocate(uint64_t bytes, absl::string_view what) override;

  absl::Status write(void *to, const void *from, uint64_t bytes) override {
    if (bytes)
      std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status read(void *to, const void *from, uint64_t bytes) override {
    return write(to, from, bytes);
  }

  absl::Status run(const LaunchList &list) override;
  void parallel(absl::FunctionRef<void(int)> job) override { pool->run(job); }

private:
  void runThread(const LaunchList &list, int thread);

  std::unique_ptr<ThreadPool> pool;
  void *library = nullptr;
  std::vector<KernelFn> kernels;
  std::vector<std::string> names;
  Memory scratch;
  uint64_t scratchStride = 0;
  /// The launch that failed first, as far as anybody knows; its number and what it returned.
  std::atomic<bool> failed{false};
  std::atomic<uint64_t> failure{0};
};

absl::Status CpuDevice::loadKernels(const std::string &path, absl::Span<const std::string> symbols,
                                    uint64_t scratchBytes) {
  // A relative path without a slash would be searched in the system's folders.
  if (path.empty() || path[0] != '/')
    return absl::InvalidArgumentError(
        absl::StrCat("kernel library '", path, "': not an absolute path"));
  if (library)
    return absl::FailedPreconditionError("kernels are already loaded");
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return absl::InvalidArgumentError(absl::StrCat("kernel library ", dlerror()));
  absl::Cleanup close = [&] { dlclose(handle); };
  std::vector<std::string> missing;
  std::vector<KernelFn> found;
  for (const std::string &symbol : symbols) {
    void *address = dlsym(handle, symbol.c_str());
    if (!address)
      missing.push_back(symbol);
    found.push_back(reinterpret_cast<KernelFn>(address));
  }
  if (!missing.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("kernel library ", path, ": ", missing.size(), " of ", symbols.size(),
                     " kernels are missing: ", absl::StrJoin(missing, ", ")));
  // One page apart, so that no two threads share a line.
  scratchStride = (scratchBytes + 4095) / 4096 * 4096;
  if (scratchStride) {
    ADAPT_ASSIGN_OR_RETURN(scratch, allocate(scratchStride * pool->size(), "kernel scratch"));
  }
  std::move(close).Cancel();
  library = handle;
  kernels = std::move(found);
  names.assign(symbols.begin(), symbols.end());
  return absl::OkStatus();
}

absl::StatusOr<Memory> CpuDevice::allocate(uint64_t bytes, absl::string_view what) {
  if (bytes == 0)
    return Memory();
  // Huge pages need 2 MiB alignment: reserve so much more, and give the ends back.
  bool huge = bytes >= kHugePage;
  uint64_t slack = huge ? kHugePage : 0;
  uint64_t size = (bytes + 4095) / 4096 * 4096;
  void *base = MAP_FAILED;
  errno = ENOMEM;
  if (bytes <= (uint64_t(1) << 47))
    base = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", bytes, " bytes of memory: ", std::strerror(errno)));
  char *data = static_cast<char *>(base);
  if (huge) {
    uint64_t head = (kHugePage - reinterpret_cast<uintptr_t>(data) % kHugePage) % kHugePage;
    if (head)
      munmap(data, head);
    if (slack - head)
      munmap(data + head + size, slack - head);
    data += head;
    madvise(data, size, MADV_HUGEPAGE); // for speed alone
  }
  Memory memory;
  memory.data = data;
  memory.bytes = bytes;
  memory.owner = std::shared_ptr<void>(data, [size](void *mapped) { munmap(mapped, size); });
  return memory;
}

absl::Status CpuDevice::run(const LaunchList &list) {
  failed.store(false, std::memory_order_relaxed);
  pool->run([&](int thread) { runThread(list, thread); });
  if (!failed.load(std::memory_order_relaxed))
    return absl::OkStatus();
  uint64_t code = failure.load(std::memory_order_relaxed);
  const Launch &launch = list.launches[code >> 32];
  return absl::InternalError(absl::StrCat("launch ", code >> 32, " of ", list.launches.size(),
                                          ": kernel '", names[list.shapes[launch.shape].kernel],
                                          "' returned ", static_cast<int32_t>(code)));
}

/// Each thread walks the whole list and does its share of every launch. After a failure the rest
/// is skipped, but every barrier is still taken, so that nobody waits for ever.
void CpuDevice::runThread(const LaunchList &list, int thread) {
  int threads = pool->size();
  char *myScratch = scratchStride ? scratch.data + scratchStride * thread : nullptr;
  for (size_t l = 0; l < list.launches.size(); ++l) {
    const Launch &launch = list.launches[l];
    const LaunchShape &shape = list.shapes[launch.shape];
    if (shape.items == 0)
      continue; // on all threads alike
    void *const *buffers = list.buffers + launch.firstBuffer;
    if (shape.kind == LaunchShape::Kind::kCopy) {
      Range pieces(shape.items, thread, threads);
      uint64_t begin = pieces.begin * kCopyPiece;
      uint64_t end = std::min(pieces.end * kCopyPiece, shape.copyBytes);
      if (begin < end && !failed.load(std::memory_order_relaxed))
        std::memcpy(static_cast<char *>(buffers[1]) + begin,
                    static_cast<const char *>(buffers[0]) + begin, end - begin);
    } else if (!failed.load(std::memory_order_relaxed)) {
      Range items(shape.items, thread, threads);
      KernelFn kernel = kernels[shape.kernel];
      const uint32_t *grid = shape.grid;
      uint64_t inner = uint64_t(grid[1]) * grid[2];
      uint32_t id[3] = {static_cast<uint32_t>(items.begin / inner),
                        static_cast<uint32_t>(items.begin % inner / grid[2]),
                        static_cast<uint32_t>(items.begin % grid[2])};
      // The ABI's ids have as many entries as the kernel's grid: unused ones are last.
      for (uint64_t item = items.begin; item < items.end; ++item) {
        if (int code = kernel(buffers, shape.sizes, myScratch, id)) {
          failure.store(uint64_t(l) << 32 | static_cast<uint32_t>(code), std::memory_order_relaxed);
          failed.store(true, std::memory_order_relaxed);
          break;
        }
        if (++id[2] == grid[2]) {
          id[2] = 0;
          if (++id[1] == grid[1]) {
            id[1] = 0;
            ++id[0];
          }
        }
      }
    }
    // The barrier after the last launch is ThreadPool::run's.
    if (l + 1 < list.launches.size())
      pool->barrier(thread);
  }
}

} // namespace

absl::StatusOr<std::unique_ptr<Device>> rt::createCpuDevice(const CpuDeviceOptions &options) {
  ThreadPool::Options poolOptions;
  poolOptions.threads = options.threads;
  poolOptions.pin = options.pin;
  poolOptions.pinCaller = options.pinCaller;
  poolOptions.share = options.share;
  ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(poolOptions));
  return std::unique_ptr<Device>(new CpuDevice(std::move(pool)));
}
