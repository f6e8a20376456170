// Places buffers in an arena by when they live.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>

namespace adapt {

/// A buffer that lives from the first step that mentions it to the last, both included.
struct ArenaRequest {
  int64_t bytes = 0;
  int64_t firstStep = 0;
  int64_t lastStep = 0;
  int64_t offset = 0; ///< the answer
};

/// Sets the offsets, multiples of `alignment`, such that requests that live at the same step do not
/// overlap; returns the arena's size in bytes, a multiple of `alignment`. Greedy: the largest
/// first, each into the smallest gap that holds it. nullopt if the size leaves 63 bits.
std::optional<int64_t> layOutArena(llvm::MutableArrayRef<ArenaRequest> requests, int64_t alignment);

} // namespace adapt
