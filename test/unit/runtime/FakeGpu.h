// A GPU's driver for tests: what fake_cuda.cpp and fake_hip.cpp share. A module is a library for
// the simulated GPU, a launch runs it. Memory faults where the host touches it. Copies wait in
// their stream until somebody waits for it, so that a missing wait is seen; an error of a kernel
// comes out there too, and stays.
//
// From the environment, at the first call: ADAPT_FAKE_DEVICES, their number (1); ADAPT_FAKE_ARCH,
// of all; ADAPT_FAKE_MODULE, a library to load in place of any image, as of a real device's.
#pragma once
#include "sim/GuardedMemory.h"
#include "sim/Library.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <functional>
#include <mutex>
#include <vector>

namespace adapt::rt::test {

/// Numbers that CUDA and HIP have in common.
enum FakeError {
  kFakeSuccess = 0,
  kFakeInvalidValue = 1,
  kFakeOutOfMemory = 2,
  kFakeNoDevice = 100,
  kFakeInvalidImage = 200,
  kFakeInvalidContext = 201,
  kFakeNotFound = 500,
  kFakeLaunchFailed = 719
};

struct FakeModule;
struct FakeFunction {
  FakeModule *module;
  sim::Kernel kernel;
};

struct FakeModule {
  std::unique_ptr<sim::Library> library;
  std::unique_ptr<sim::Machine> machine;
  std::mutex mutex;
  std::vector<std::unique_ptr<FakeFunction>> functions;
};

/// May be destroyed while it waits in a stream.
using FakeEvent = std::shared_ptr<std::chrono::steady_clock::time_point>;

class FakeStream {
public:
  ~FakeStream() { flush(); }
  int enqueue(std::function<void()> work) {
    if (!error)
      queue.push_back(std::move(work));
    return error;
  }
  int flush() {
    for (; !queue.empty() && !error; queue.erase(queue.begin()))
      queue.front()();
    return error;
  }
  int error = 0;

private:
  std::vector<std::function<void()>> queue;
};

class FakeGpu {
public:
  FakeGpu(uint32_t warp, const char *arch)
      : arch(environment("ADAPT_FAKE_ARCH", arch)),
        devices(std::atoi(environment("ADAPT_FAKE_DEVICES", "1").c_str())), warp(warp) {}

  static std::string environment(const char *name, const char *otherwise) {
    const char *value = std::getenv(name);
    return value ? value : otherwise;
  }

  int allocate(uint64_t *address, size_t bytes) {
    if (bytes == 0)
      return kFakeInvalidValue;
    absl::StatusOr<Memory> got = memory->allocate(bytes, "");
    if (!got.ok() || bytes > (uint64_t(1) << 38))
      return kFakeOutOfMemory;
    std::lock_guard<std::mutex> lock(mutex);
    *address = reinterpret_cast<uintptr_t>(got->data);
    // Real memory is not zero at first.
    std::vector<char> junk(std::min<size_t>(bytes, 1 << 16), 'j');
    (void)memory->write(got->data, junk.data(), junk.size());
    held.push_back(*got);
    return kFakeSuccess;
  }
  int free(uint64_t address) {
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t i = 0; i < held.size(); ++i)
      if (reinterpret_cast<uintptr_t>(held[i].data) == address) {
        held.erase(held.begin() + i);
        return kFakeSuccess;
      }
    return kFakeInvalidValue;
  }

  int fill(uint64_t to, int value, size_t bytes, void *stream) {
    if (!memory->contains(pointer(to), bytes))
      return kFakeInvalidValue;
    return of(stream).enqueue([=] {
      sim::GuardedMemory::Access access(*memory);
      std::memset(pointer(to), value, bytes);
    });
  }
  int write(uint64_t to, const void *from, size_t bytes, void *stream) {
    if (!memory->contains(pointer(to), bytes))
      return kFakeInvalidValue;
    return of(stream).enqueue([=] { (void)memory->write(pointer(to), from, bytes); });
  }
  int read(void *to, uint64_t from, size_t bytes, void *stream) {
    if (!memory->contains(pointer(from), bytes))
      return kFakeInvalidValue;
    return of(stream).enqueue([=] { (void)memory->read(to, pointer(from), bytes); });
  }
  int copy(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    if (!memory->contains(pointer(from), bytes) || !memory->contains(pointer(to), bytes))
      return kFakeInvalidValue;
    return of(stream).enqueue([=] { (void)memory->copy(pointer(to), pointer(from), bytes); });
  }

  int loadModule(void **module, const void *image, std::string &log) {
    auto loaded = std::make_unique<FakeModule>();
    auto *header = static_cast<const Elf64_Ehdr *>(image);
    std::string substitute = environment("ADAPT_FAKE_MODULE", "");
    absl::StatusOr<std::unique_ptr<sim::Library>> library = absl::NotFoundError("no ELF file");
    if (!substitute.empty())
      library = sim::Library::open(substitute, warp);
    else if (std::strncmp(static_cast<const char *>(image), ELFMAG, SELFMAG) == 0)
      library = sim::Library::open(
          absl::string_view(static_cast<const char *>(image),
                            header->e_shoff + header->e_shnum * header->e_shentsize),
          "image", warp);
    if (!library.ok()) {
      log = std::string(library.status().message());
      return kFakeInvalidImage;
    }
    loaded->library = *std::move(library);
    loaded->machine = std::make_unique<sim::Machine>(warp, LaneOrder::kForward, 0);
    *module = loaded.release();
    return kFakeSuccess;
  }
  int unloadModule(void *module) {
    delete static_cast<FakeModule *>(module);
    return kFakeSuccess;
  }
  int findFunction(void **function, void *module, const char *name) {
    auto *in = static_cast<FakeModule *>(module);
    absl::StatusOr<std::vector<sim::Kernel>> found = in->library->find({std::string(name)});
    if (!found.ok())
      return kFakeNotFound;
    in->functions.push_back(std::make_unique<FakeFunction>(FakeFunction{in, found->front()}));
    *function = in->functions.back().get();
    return kFakeSuccess;
  }

  int launch(void *function, const std::array<unsigned, 3> &grid,
             const std::array<unsigned, 3> &block, void *stream, void **arguments) {
    if (block[0] < 1 || block[0] > 1024 || block[1] != 1 || block[2] != 1 || !grid[0] || !grid[1] ||
        !grid[2] || grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535)
      return kFakeInvalidValue;
    if (int error = of(stream).flush())
      return error;
    auto &called = *static_cast<FakeFunction *>(function);
    FakeModule &module = *called.module;
    std::lock_guard<std::mutex> lock(module.mutex);
    sim::KernelLaunch launch;
    launch.kernel = &called.kernel;
    launch.grid = {grid[0], grid[1], grid[2]};
    launch.threads = block[0];
    launch.args = arguments;
    sim::GuardedMemory::Access access(*memory);
    if (!module.machine->run(launch, 0, launch.blocks()).ok())
      of(stream).error = kFakeLaunchFailed; // said when somebody waits
    return kFakeSuccess;
  }

  int createStream(void **stream) {
    *stream = new FakeStream;
    return kFakeSuccess;
  }
  int destroyStream(void *stream) {
    delete static_cast<FakeStream *>(stream);
    return kFakeSuccess;
  }
  int synchronize(void *stream) { return of(stream).flush(); }

  int createEvent(void **event) {
    *event = new FakeEvent(std::make_shared<FakeEvent::element_type>());
    return kFakeSuccess;
  }
  int destroyEvent(void *event) {
    delete static_cast<FakeEvent *>(event);
    return kFakeSuccess;
  }
  int record(void *event, void *stream) {
    return of(stream).enqueue([marked = *static_cast<FakeEvent *>(event)] {
      *marked = std::chrono::steady_clock::now();
    });
  }
  int elapsed(float *milliseconds, void *begin, void *end) {
    *milliseconds = std::chrono::duration<float, std::milli>(**static_cast<FakeEvent *>(end) -
                                                             **static_cast<FakeEvent *>(begin))
                        .count();
    return kFakeSuccess;
  }

  const std::string arch;
  const int devices;

private:
  static char *pointer(uint64_t address) {
    return reinterpret_cast<char *>(static_cast<uintptr_t>(address));
  }
  static FakeStream &of(void *stream) { return *static_cast<FakeStream *>(stream); }

  uint32_t warp;
  std::shared_ptr<sim::GuardedMemory> memory = sim::GuardedMemory::create();
  std::mutex mutex;
  std::vector<Memory> held;
};

} // namespace adapt::rt::test
