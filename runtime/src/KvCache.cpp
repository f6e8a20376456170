#include "adapt/KvCache.h"

#include <limits>

using namespace adapt;
using namespace adapt::rt;

BlockAllocator::BlockAllocator(int32_t numBlocks) : total(numBlocks) {
  freeList.reserve(numBlocks);
  for (int32_t block = numBlocks; block > 0; --block)
    freeList.push_back(block - 1);
}

absl::Status BlockAllocator::allocate(int64_t count, std::vector<int32_t> &list) {
  if (count > static_cast<int64_t>(freeList.size()))
    return absl::ResourceExhaustedError(absl::StrCat("the cache is full: ", count,
                                                     " blocks wanted, ", freeList.size(), " of ",
                                                     total, " are free"));
  for (int64_t i = 0; i < count; ++i) {
    list.push_back(freeList.back());
    freeList.pop_back();
  }
  return absl::OkStatus();
}

void BlockAllocator::release(std::vector<int32_t> &list, size_t keep) {
  while (list.size() > keep) {
    freeList.push_back(list.back());
    list.pop_back();
  }
}

absl::StatusOr<KvCache> KvCache::create(Device &device, const schema::Program &program,
                                        int64_t numBlocks, uint32_t blockTokens) {
  constexpr uint64_t kPage = 4096;
  if (numBlocks < 1 || numBlocks > std::numeric_limits<int32_t>::max() || blockTokens == 0)
    return absl::InvalidArgumentError(absl::StrCat("a cache of ", numBlocks, " blocks of ",
                                                   blockTokens, " tokens is not possible"));
  KvCache cache(static_cast<int32_t>(numBlocks), blockTokens);
  std::vector<uint64_t> offsets;
  uint64_t total = 0;
  for (const schema::State &state : program.states()) {
    uint64_t bytes;
    if (__builtin_mul_overflow(state.bytes_per_block(), static_cast<uint64_t>(numBlocks), &bytes) ||
        bytes > std::numeric_limits<uint64_t>::max() / 2 - total)
      return absl::ResourceExhaustedError(absl::StrCat("state '", state.name(), "': ", numBlocks,
                                                       " blocks of ", state.bytes_per_block(),
                                                       " bytes are more than memory can hold"));
    offsets.push_back(total);
    total += (bytes + kPage - 1) / kPage * kPage;
    cache.regions.push_back({nullptr, bytes});
  }
  ADAPT_ASSIGN_OR_RETURN(
      cache.memory, device.allocate(total, absl::StrCat("KV cache of ", numBlocks, " blocks of ",
                                                        blockTokens, " tokens")));
  for (size_t i = 0; i < offsets.size(); ++i)
    cache.regions[i].data = cache.memory.data + offsets[i];
  return cache;
}
