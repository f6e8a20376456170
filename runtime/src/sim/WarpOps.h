// What the lanes of a warp do together: shuffles, votes, and AMD's moves between lanes.
#pragma once
#include <cstdint>
#include <string>

namespace adapt::rt::sim {

/// What a lane asks of its warp, and what it gets. The operations are those of SimRuntime.h.
struct WarpRequest {
  enum class Op : uint8_t {
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
  Op op = Op::kWarpBarrier;
  const char *place = nullptr;
  uint32_t mask = 0; // CUDA
  uint32_t mode = 0; // of a shuffle or vote
  uint32_t value = 0;
  uint32_t a = 0, b = 0; // lane or distance and clamp; address; offset; old value and control
  uint32_t rowMask = 0, bankMask = 0, boundControl = 0;

  uint64_t result = 0;
  uint32_t inRange = 0;

  bool isCuda() const { return op <= Op::kWarpBarrier; }
  /// Whether two lanes do the same thing together.
  bool meets(const WarpRequest &other) const {
    return op == other.op && place == other.place && mask == other.mask && mode == other.mode;
  }
};

/// The operation's name as its instruction set has it.
const char *name(WarpRequest::Op op);

/// Performs what the participants (bits of lanes, all with requests that meet) ask for. Returns
/// what is wrong with it, empty if nothing is: a lane that reads one that does not take part.
std::string perform(WarpRequest *lanes, uint64_t participants);

} // namespace adapt::rt::sim
