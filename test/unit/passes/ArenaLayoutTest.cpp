#include "passes/Plan/ArenaLayout.h"
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace adapt;

namespace {
ArenaRequest make(int64_t bytes, int64_t first, int64_t last) { return {bytes, first, last, 0}; }

bool overlap(const ArenaRequest &a, const ArenaRequest &b) {
  bool sameTime = a.firstStep <= b.lastStep && b.firstStep <= a.lastStep;
  return sameTime && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// The most bytes that live at one step, each aligned: no layout is smaller.
int64_t lowerBound(const std::vector<ArenaRequest> &requests, int64_t steps, int64_t alignment) {
  int64_t most = 0;
  for (int64_t step = 0; step < steps; ++step) {
    int64_t bytes = 0;
    for (const ArenaRequest &request : requests)
      if (request.firstStep <= step && step <= request.lastStep)
        bytes += (request.bytes + alignment - 1) / alignment * alignment;
    most = std::max(most, bytes);
  }
  return most;
}
} // namespace

TEST(ArenaLayout, NothingTakesNothing) {
  std::vector<ArenaRequest> none;
  EXPECT_EQ(layOutArena(none, 64), 0);
}

TEST(ArenaLayout, NeighboursInTimeDoNotShare) {
  // a is read by the step that writes b.
  std::vector<ArenaRequest> requests = {make(100, 0, 1), make(100, 1, 2)};
  EXPECT_EQ(layOutArena(requests, 64), 256);
  EXPECT_FALSE(overlap(requests[0], requests[1]));
}

TEST(ArenaLayout, AChainNeedsTwo) {
  std::vector<ArenaRequest> requests;
  for (int64_t step = 0; step < 30; ++step)
    requests.push_back(make(1000, step, step + 1));
  EXPECT_EQ(layOutArena(requests, 64), 2 * 1024);
}

TEST(ArenaLayout, SmallOnesFillTheSmallestGap) {
  // During step 1 the gap of 256 between two long ones is free, and so is all above.
  std::vector<ArenaRequest> requests = {make(1024, 0, 2), make(256, 0, 0), make(512, 0, 2),
                                        make(256, 1, 1)};
  EXPECT_EQ(layOutArena(requests, 64), 1024 + 512 + 256);
}

TEST(ArenaLayout, RefusesSumsThatLeave63Bits) {
  std::vector<ArenaRequest> requests = {make(std::numeric_limits<int64_t>::max() / 2, 0, 1),
                                        make(std::numeric_limits<int64_t>::max() / 2, 0, 1)};
  EXPECT_EQ(layOutArena(requests, 64), std::nullopt);
  requests = {make(std::numeric_limits<int64_t>::max(), 0, 1)};
  EXPECT_EQ(layOutArena(requests, 64), std::nullopt);
}

// Whatever the requests: aligned, inside, never overlapping while both live, and not wasteful.
TEST(ArenaLayout, RandomRequests) {
  std::mt19937 random(1);
  double worst = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<ArenaRequest> requests;
    int64_t steps = 1 + random() % 40;
    for (unsigned i = 0, n = 1 + random() % 60; i < n; ++i) {
      int64_t first = random() % steps;
      requests.push_back(
          make(random() % 5000, first, std::min<int64_t>(steps - 1, first + random() % 6)));
    }
    std::optional<int64_t> bytes = layOutArena(requests, 64);
    ASSERT_TRUE(bytes);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(requests[i].offset % 64, 0);
      EXPECT_LE(requests[i].offset + requests[i].bytes, *bytes);
      for (size_t j = 0; j < i; ++j)
        EXPECT_FALSE(overlap(requests[i], requests[j]));
    }
    int64_t bound = lowerBound(requests, steps, 64);
    EXPECT_GE(*bytes, bound);
    if (bound)
      worst = std::max(worst, static_cast<double>(*bytes) / bound);
  }
  EXPECT_LT(worst, 1.7);
}
