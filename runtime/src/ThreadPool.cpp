#include "adapt/ThreadPool.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace adapt;
using namespace adapt::rt;

namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A pause takes 10 to 45 ns: this is 30 to 100 µs.
constexpr int kSpins = 2500;

long futex(std::atomic<uint32_t> &word, int op, uint32_t value) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), op, value, nullptr, nullptr, 0);
}

bool pinTo(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return pthread_setaffinity_np(thread, sizeof(set), &set) == 0;
}

/// The physical core of a CPU, as the list of CPUs that share it; empty where unknown.
std::string coreOf(int cpu) {
  std::ifstream file(
      absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
  std::string siblings;
  std::getline(file, siblings);
  return siblings;
}

/// CPUs' worth of time that the control group grants (cgroup v2); INT_MAX without a limit.
int grantedCpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  long long period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0)
    return INT_MAX;
  long long value = std::atoll(quota.c_str());
  return value <= 0 ? INT_MAX
                    : static_cast<int>(std::min<long long>((value + period - 1) / period, INT_MAX));
}

std::vector<int> cpusWithCores(int &physicalCores) {
  std::vector<int> firsts, siblings;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    std::set<std::string> cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &set))
        continue;
      std::string core = coreOf(cpu);
      bool first = core.empty() || cores.insert(core).second;
      (first ? firsts : siblings).push_back(cpu);
    }
  }
  physicalCores = static_cast<int>(firsts.size());
  firsts.insert(firsts.end(), siblings.begin(), siblings.end());
  return firsts;
}

} // namespace

std::vector<int> rt::availableCpus() {
  int physicalCores;
  return cpusWithCores(physicalCores);
}

int rt::defaultThreads() {
  int physicalCores;
  cpusWithCores(physicalCores);
  if (physicalCores == 0) // more CPUs than cpu_set_t holds
    physicalCores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(std::min(physicalCores, grantedCpus()), 1, ThreadPool::kMaxThreads);
}

absl::StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::create(const Options &options) {
  int threads = options.threads;
  if (threads == 0)
    threads = std::max(1, defaultThreads() / std::max(1, options.share.ranks));
  if (threads < 1 || threads > kMaxThreads)
    return absl::InvalidArgumentError(
        absl::StrCat(threads, " threads: 1 to ", kMaxThreads, " are possible"));
  std::unique_ptr<ThreadPool> pool(new ThreadPool(threads));
  std::vector<int> cpus = availableCpus();
  // Each rank has its CPUs, one after the other.
  size_t first = static_cast<size_t>(options.share.rank) * threads;
  bool enough = cpus.size() >= static_cast<size_t>(options.share.ranks) * threads &&
                options.share.rank < options.share.ranks;
  pool->spins = enough ? kSpins : 0;
  try {
    for (int thread = 1; thread < threads; ++thread) {
      pool->workers.emplace_back([raw = pool.get(), thread] { raw->work(thread); });
      // Pinning is for speed alone: a system that does not allow it is no error.
      if (options.pin && enough)
        pinTo(pool->workers.back().native_handle(), cpus[first + thread]);
    }
  } catch (const std::system_error &error) {
    size_t started = pool->workers.size();
    return absl::ResourceExhaustedError(
        absl::StrCat("started ", started + 1, " of ", threads, " threads, then: ", error.what()));
  }
  if (options.pin && options.pinCaller && enough &&
      pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), &pool->callerMask) == 0)
    pool->callerPinned = pinTo(pthread_self(), cpus[first]);
  return pool;
}

ThreadPool::~ThreadPool() {
  job = nullptr;
  epoch.fetch_add(1, std::memory_order_seq_cst);
  futex(epoch, FUTEX_WAKE_PRIVATE, INT_MAX);
  for (std::thread &worker : workers)
    worker.join();
  if (callerPinned)
    pthread_setaffinity_np(pthread_self(), sizeof(callerMask), &callerMask);
}

void ThreadPool::run(absl::FunctionRef<void(int)> newJob) {
  if (threadCount == 1) {
    newJob(0);
    return;
  }
  job = &newJob;
  // The worker counts itself a sleeper and then looks at the epoch; we change the epoch and then
  // look for sleepers. Both in one total order: one of us sees the other.
  epoch.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    futex(epoch, FUTEX_WAKE_PRIVATE, INT_MAX);
  newJob(0);
  barrier(0);
}

void ThreadPool::barrier(int thread) {
  if (threadCount == 1)
    return;
  // Only this thread writes its flag. Flags wrap around; they differ by one at most.
  Flag &own = flags[thread];
  uint32_t mine = own.passed.load(std::memory_order_relaxed) + 1;
  // As in run(): who sleeps counts itself and then looks at the flag, we do the reverse.
  own.passed.store(mine, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) != 0)
    futex(own.passed, FUTEX_WAKE_PRIVATE, INT_MAX);
  for (int other = 0; other < threadCount; ++other)
    if (other != thread)
      awaitFlag(flags[other], mine);
}

/// Spins for longer than a launch's threads should be apart. Whoever is not there by then has lost
/// its CPU to another process: to spin on would only use up our own share of this one.
void ThreadPool::awaitFlag(Flag &flag, uint32_t wanted) {
  auto isBehind = [&](uint32_t value) { return static_cast<int32_t>(value - wanted) < 0; };
  for (int spun = 0; spun < 4 * spins; ++spun) {
    if (!isBehind(flag.passed.load(std::memory_order_acquire)))
      return;
    relax();
  }
  flag.sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (uint32_t now; isBehind(now = flag.passed.load(std::memory_order_seq_cst));)
    futex(flag.passed, FUTEX_WAIT_PRIVATE, now); // returns at once if the flag has changed
  flag.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

uint32_t ThreadPool::awaitEpoch(uint32_t seen) {
  for (int spun = 0; spun < spins; ++spun) {
    if (uint32_t now = epoch.load(std::memory_order_acquire); now != seen)
      return now;
    relax();
  }
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  uint32_t now;
  while ((now = epoch.load(std::memory_order_seq_cst)) == seen)
    futex(epoch, FUTEX_WAIT_PRIVATE, seen); // returns at once if the epoch has changed
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  return now;
}

void ThreadPool::work(int thread) {
  // Jobs are handed over one at a time, so no epoch is missed. A worker that starts late still
  // finds epoch 1 with its job: run() waits for it.
  uint32_t seen = 0;
  while (true) {
    seen = awaitEpoch(seen);
    const absl::FunctionRef<void(int)> *current = job;
    if (!current)
      return;
    (*current)(thread);
    barrier(thread);
  }
}
