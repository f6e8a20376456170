// Threads that take a job over within a microsecond, and barriers between them.
#pragma once
#include "absl/functional/function_ref.h"
#include "adapt/Status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <sched.h>

namespace adapt::rt {

/// The CPUs this process may run on, the first of each physical core before its siblings.
std::vector<int> availableCpus();

/// Threads that are worth starting: the physical cores among availableCpus(), or fewer where a
/// control group grants less CPU time than that.
int defaultThreads();

/// The share of this machine's CPUs that is ours, where several ranks have some each.
struct CpuShare {
  int ranks = 1; ///< that share the CPUs which this process may use
  int rank = 0;  ///< of these
};

/// n - 1 workers and the caller. Between jobs a worker spins for some tens of microseconds, then
/// sleeps; a generation loop therefore finds its workers awake, and an idle session costs nothing.
///
/// Why this is free of data races: everything that the caller wrote before run() happens before the
/// job on each worker (store-release of `epoch`, load-acquire by the worker); everything that a
/// thread wrote before barrier() happens before what any thread does after it (each thread
/// publishes its own flag with release and reads all others with acquire); run() ends with such a
/// barrier, so that all of the job happens before run() returns. `job` is written by the caller
/// only between that barrier and the next store of `epoch`, while no worker reads it.
class ThreadPool {
public:
  struct Options {
    int threads = 0; ///< 0: this share of defaultThreads()
    bool pin = true; ///< only done where there are at least as many CPUs as threads of all ranks
    bool pinCaller = false;
    CpuShare share;
  };
  static absl::StatusOr<std::unique_ptr<ThreadPool>> create(const Options &options);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int size() const { return threadCount; }

  /// Calls job(t) for t in [0, size()), job(0) on the calling thread, and returns when all are
  /// done. One caller at a time. The job must not throw.
  void run(absl::FunctionRef<void(int)> job);

  /// Within a job: waits until every thread has called it equally often.
  void barrier(int thread);

  static constexpr int kMaxThreads = 1024;

private:
  explicit ThreadPool(int threads) : threadCount(threads), flags(threads) {}
  void work(int thread);
  uint32_t awaitEpoch(uint32_t seen);
  struct Flag;
  void awaitFlag(Flag &flag, uint32_t wanted);

  struct alignas(64) Flag {
    std::atomic<uint32_t> passed{0};   // barriers this thread has reached
    std::atomic<uint32_t> sleepers{0}; // others in, or about to enter, futex wait for it
  };

  int threadCount;
  int spins = 0; // before sleeping; 0 if threads share CPUs
  std::vector<Flag> flags;
  std::vector<std::thread> workers;
  const absl::FunctionRef<void(int)> *job = nullptr; // null: stop
  alignas(64) std::atomic<uint32_t> epoch{0};        // jobs handed over so far
  alignas(64) std::atomic<uint32_t> sleepers{0};     // workers in, or about to enter, futex wait
  bool callerPinned = false;
  cpu_set_t callerMask;
};

} // namespace adapt::rt
