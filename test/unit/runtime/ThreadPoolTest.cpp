#include "adapt/ThreadPool.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <chrono>

using namespace adapt::rt;

namespace {

std::unique_ptr<ThreadPool> makePool(int threads) {
  ThreadPool::Options options;
  options.threads = threads;
  absl::StatusOr<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(options);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

TEST(ThreadPool, RunsOnEveryThreadAndReturnsAfterAll) {
  for (int threads : {1, 2, 3, 8}) {
    std::unique_ptr<ThreadPool> pool = makePool(threads);
    ASSERT_EQ(pool->size(), threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<int> ran(threads, 0); // plain memory: run() must order it
      pool->run([&](int thread) { ran[thread] += round + 1; });
      EXPECT_EQ(ran, std::vector<int>(threads, round + 1));
    }
  }
}

TEST(ThreadPool, BarriersOrderAllThreads) {
  for (int threads : {2, 5}) {
    std::unique_ptr<ThreadPool> pool = makePool(threads);
    std::vector<int64_t> from(threads, 0), to(threads, 0);
    constexpr int kRounds = 300;
    pool->run([&](int thread) {
      for (int round = 0; round < kRounds; ++round) {
        std::vector<int64_t> &in = round % 2 ? to : from, &out = round % 2 ? from : to;
        // A sum over what all the others wrote in the round before.
        int64_t highest = *std::max_element(in.begin(), in.end());
        int64_t lowest = *std::min_element(in.begin(), in.end());
        out[thread] = highest == lowest ? highest + 1 : -1000000;
        pool->barrier(thread);
      }
    });
    EXPECT_EQ(from, std::vector<int64_t>(threads, kRounds));
  }
}

TEST(ThreadPool, WakesSleepingWorkers) {
  std::unique_ptr<ThreadPool> pool = makePool(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::vector<int> ran(3, 0);
    pool->run([&](int thread) { ran[thread] = 1; });
    EXPECT_EQ(ran, std::vector<int>(3, 1));
  }
}

TEST(ThreadPool, StopsWithoutAJob) { makePool(4); }

TEST(ThreadPool, RefusesCounts) {
  for (int threads : {-1, ThreadPool::kMaxThreads + 1}) {
    ThreadPool::Options options;
    options.threads = threads;
    EXPECT_EQ(ThreadPool::create(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ThreadPool, RestoresTheCallersAffinity) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  {
    ThreadPool::Options options;
    options.threads = 1;
    options.pinCaller = true;
    absl::StatusOr<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(options);
    ASSERT_TRUE(pool.ok());
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPool, DefaultIsPossible) {
  EXPECT_GE(defaultThreads(), 1);
  EXPECT_LE(static_cast<size_t>(defaultThreads()), std::max<size_t>(1, availableCpus().size()));
}

} // namespace
