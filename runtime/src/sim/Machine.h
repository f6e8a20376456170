// Runs blocks of a simulated GPU's kernels, one after the other: a fiber for each lane. Lanes run
// until they wait for others; nothing depends on time, so that a run can be repeated.
#pragma once
#include "Fiber.h"
#include "WarpOps.h"
#include "adapt/Device.h"
#include "adapt/SimRuntime.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace adapt::rt::sim {

using KernelFn = void (*)(void *const *args);

struct Kernel {
  std::string name;
  KernelFn function = nullptr;
  std::vector<std::pair<void *, uint64_t>> shared; // its shared memory
};

struct KernelLaunch {
  const Kernel *kernel = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1}; // blocks along x, y and z
  uint32_t threads = 1;                     // of a block, along x
  void *const *args = nullptr;

  uint64_t blocks() const { return uint64_t(grid[0]) * grid[1] * grid[2]; }
};

class Machine {
public:
  /// `warp`: 32 or 64 lanes.
  Machine(uint32_t warp, LaneOrder order, uint64_t seed);
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;

  static constexpr uint32_t kMaxThreads = 1024;

  /// Runs blocks first … last-1 of the launch, in the machine's order of blocks (which is a
  /// permutation of all of them). Errors name kernel, block, lanes and places: lanes that do not
  /// meet at a barrier, lanes that read those that do not take part, traps.
  absl::Status run(const KernelLaunch &launch, uint64_t first, uint64_t last);

  /// What a kernel library's adapt_sim_runtime is to point to; for all machines alike.
  static const AdaptSimRuntime *runtime();

private:
  friend struct Calls; // the functions of runtime()

  /// Positions are ranks in the order of lanes; other masks are of lanes.
  struct Warp {
    uint32_t first = 0, size = 0;
    uint64_t live = 0;      // have not returned
    uint64_t atBarrier = 0; // of the block
    uint64_t waiting = 0;   // in an operation of the warp
    uint64_t ready = 0;     // positions
    /// If all that wait are at one meeting: which, and how many.
    Meeting meeting;
    uint32_t arrived = 0;
    bool several = false;
    Meeting meetings[64]; // of each lane that waits
    WarpOperands operands;
  };

  void startBlock(uint64_t block);
  absl::Status runBlock(uint64_t block);
  bool releaseBarrier();
  std::string describeStuck() const;
  std::string where() const;

  static void laneEntry();
  /// The running lane's own: stops, lets others run, and returns when it is ready again.
  void block(bool last = false);
  void barrier(const char *place);
  /// The running lane meets others, who take a, b and value from it; its results then lie in its
  /// warp.
  void meet(const Meeting &meeting, uint32_t value, uint32_t a = 0, uint32_t b = 0);
  bool complete(Warp &warp, const Meeting &meeting);
  [[noreturn]] void fail(std::string problem);

  uint32_t currentLane() const { return current - running->first; } // of its warp
  uint64_t positionsOf(uint64_t lanes) const;
  uint64_t random();

  const uint32_t warpSize;
  const LaneOrder order;
  const uint64_t seed;
  uint64_t randomState = 0;

  const KernelLaunch *launch = nullptr;
  std::array<uint32_t, 3> blockId = {};
  Stacks stacks;
  Context host;
  std::vector<Context> contexts;    // of lanes
  std::vector<const char *> places; // of the barriers where lanes wait
  std::vector<Warp> warps;
  std::vector<uint32_t> warpOrder;
  std::array<uint8_t, 64> laneAt = {}, positionOf = {}; // of lanes of a warp
  uint32_t current = 0;                                 // the lane that runs, of the block
  Warp *running = nullptr;                              // its warp
  bool enteredFromHost = false;
  std::string problem;
};

} // namespace adapt::rt::sim
