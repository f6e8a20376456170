// The paged cache: planes of blocks on a device, and who owns which block.
#pragma once
#include "absl/types/span.h"
#include "adapt/Device.h"
#include "adapt/ExecutionPlan.h"
#include "adapt/Program.h"

#include <cstdint>
#include <vector>

namespace adapt::rt {

/// Hands out blocks 0 … numBlocks - 1.
class BlockAllocator {
public:
  explicit BlockAllocator(int32_t numBlocks);

  /// Appends `count` blocks to `list`. ResourceExhausted, and no change, if there are too few.
  absl::Status allocate(int64_t count, std::vector<int32_t> &list);

  /// Takes back all but the first `keep` blocks of `list`.
  void release(std::vector<int32_t> &list, size_t keep = 0);

  int32_t numBlocks() const { return total; }
  int32_t numFree() const { return static_cast<int32_t>(freeList.size()); }

private:
  int32_t total;
  std::vector<int32_t> freeList; // the next block is the last entry
};

/// One plane for each state of a program, each of numBlocks * bytes_per_block bytes, and one
/// allocator for all of them. Memory is resident only where blocks were written.
class KvCache {
public:
  static absl::StatusOr<KvCache> create(Device &device, const schema::Program &program,
                                        int64_t numBlocks, uint32_t blockTokens);

  absl::Span<const Region> planes() const { return regions; }
  uint32_t blockTokens() const { return tokensPerBlock; }
  uint64_t bytes() const { return memory.bytes; }
  BlockAllocator &blocks() { return allocator; }
  const BlockAllocator &blocks() const { return allocator; }

  /// Blocks that hold `tokens` tokens.
  int64_t blocksFor(int64_t tokens) const { return (tokens + tokensPerBlock - 1) / tokensPerBlock; }

private:
  KvCache(int32_t numBlocks, uint32_t blockTokens)
      : allocator(numBlocks), tokensPerBlock(blockTokens) {}

  Memory memory;
  std::vector<Region> regions;
  BlockAllocator allocator;
  int64_t tokensPerBlock;
};

} // namespace adapt::rt
