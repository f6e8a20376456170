// What the lanes of a warp do together: shuffles, votes, and AMD's moves between lanes.
#pragma once
#include <cstdint>
#include <string>

namespace adapt::rt::sim {

/// The operations of SimRuntime.h.
enum class WarpOp : uint8_t {
  // CUDA: the lanes of a mask.
  kShuffle,
  kVote,
  kBallotSync,
  kWarpBarrier,
  // AMD: all lanes of the wave.
  kBpermute,
  kPermute,
  kSwizzle,
  kDpp,
  kReadLane,
  kReadFirstLane,
  kBallot,
  kWaveBarrier
};

/// The operation's name as its instruction set has it.
const char *name(WarpOp op);

inline bool isCuda(WarpOp op) { return op <= WarpOp::kWarpBarrier; }

/// What lanes must agree on to do something together.
struct Meeting {
  const char *place = nullptr;
  uint32_t mask = 0; ///< CUDA: the lanes that take part
  WarpOp op = WarpOp::kWarpBarrier;
  uint8_t mode = 0; ///< of a shuffle or vote

  bool operator==(const Meeting &other) const {
    return place == other.place && mask == other.mask && op == other.op && mode == other.mode;
  }
  bool operator!=(const Meeting &other) const { return !(*this == other); }
};

/// The operands of the lanes of a warp, and their results.
struct WarpOperands {
  uint32_t value[64];
  uint32_t a[64]; ///< a lane or distance; an address; an offset; the old value of update.dpp
  uint32_t b[64]; ///< the clamp of a shuffle; dppOperand() of update.dpp
  uint64_t result[64];
  uint8_t inRange[64]; ///< of a shuffle
};

constexpr uint32_t dppOperand(uint32_t control, uint32_t rowMask, uint32_t bankMask, bool bound) {
  return (control & 0x1ff) | (rowMask & 15) << 9 | (bankMask & 15) << 13 | uint32_t(bound) << 17;
}

/// Performs what the participants (bits of lanes, not none) have met for. Returns what is wrong
/// with it, empty if nothing is: a lane that reads one that does not take part.
std::string perform(const Meeting &meeting, WarpOperands &warp, uint64_t participants);

} // namespace adapt::rt::sim
