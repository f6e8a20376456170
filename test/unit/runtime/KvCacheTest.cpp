#include "adapt/KvCache.h"
#include "Programs.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace adapt;
using namespace adapt::rt;

namespace {

TEST(BlockAllocator, GivesEachBlockOnce) {
  BlockAllocator blocks(5);
  std::vector<int32_t> a, b;
  ASSERT_TRUE(blocks.allocate(2, a).ok());
  ASSERT_TRUE(blocks.allocate(3, b).ok());
  EXPECT_EQ(a, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(blocks.numFree(), 0);
  std::vector<int32_t> all = a;
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

TEST(BlockAllocator, FullSaysTheNumbersAndChangesNothing) {
  BlockAllocator blocks(4);
  std::vector<int32_t> list;
  ASSERT_TRUE(blocks.allocate(3, list).ok());
  absl::Status status = blocks.allocate(2, list);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the cache is full: 2 blocks wanted, 1 of 4 are free");
  EXPECT_EQ(list.size(), 3u);
  blocks.release(list, 1);
  EXPECT_EQ(list, (std::vector<int32_t>{0}));
  EXPECT_EQ(blocks.numFree(), 3);
  EXPECT_TRUE(blocks.allocate(3, list).ok());
}

TEST(KvCache, PlanesAreApartAndAligned) {
  auto device = createCpuDevice();
  ASSERT_TRUE(device.ok());
  schema::Program program;
  for (uint64_t bytes : {64, 1024, 192}) {
    schema::State &state = *program.add_states();
    state.set_name("s" + std::to_string(bytes));
    state.set_bytes_per_block(bytes);
  }
  absl::StatusOr<KvCache> cache = KvCache::create(**device, program, 100, 16);
  ASSERT_TRUE(cache.ok()) << cache.status();
  ASSERT_EQ(cache->planes().size(), 3u);
  EXPECT_EQ(cache->planes()[1].bytes, 102400u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(cache->planes()[i].data) % 64, 0u);
    if (i) {
      EXPECT_GE(cache->planes()[i].data,
                cache->planes()[i - 1].data + cache->planes()[i - 1].bytes);
    }
    std::fill_n(cache->planes()[i].data, cache->planes()[i].bytes, 'x');
  }
  EXPECT_EQ(cache->blocksFor(0), 0);
  EXPECT_EQ(cache->blocksFor(16), 1);
  EXPECT_EQ(cache->blocksFor(17), 2);
}

TEST(KvCache, RefusesSizes) {
  auto device = createCpuDevice();
  ASSERT_TRUE(device.ok());
  schema::Program program;
  schema::State &state = *program.add_states();
  state.set_name("kv");
  state.set_bytes_per_block(uint64_t(1) << 60);
  EXPECT_EQ(KvCache::create(**device, program, 16, 16).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(KvCache::create(**device, program, 1, 16).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(KvCache::create(**device, program, 0, 16).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(KvCache::create(**device, program, int64_t(1) << 40, 16).status().code(),
            absl::StatusCode::kInvalidArgument);
}

} // namespace
