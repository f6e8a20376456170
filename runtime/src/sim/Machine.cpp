#include "Machine.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::sim;
using Op = WarpOp;

namespace {

/// The machine whose lanes run on this thread.
thread_local Machine *machine = nullptr;

/// All ones is a NaN in every floating-point type.
constexpr int kPoison = 0xff;

uint64_t lowBits(uint32_t count) { return count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1; }

/// Block number `index` of a run in this order: a bijection on 0 … blocks-1.
uint64_t orderedBlock(LaneOrder order, uint64_t seed, uint64_t index, uint64_t blocks) {
  if (order == LaneOrder::kForward)
    return index;
  if (order == LaneOrder::kReverse)
    return blocks - 1 - index;
  uint64_t step = seed % blocks | 1;
  while (std::gcd(step, blocks) != 1)
    step += 2; // ends at the latest at a prime beyond `blocks`
  return static_cast<uint64_t>((static_cast<unsigned __int128>(index) * step + seed) % blocks);
}

/// "lanes 0-31, 40" of sorted numbers.
std::string ranges(const std::vector<uint32_t> &lanes) {
  std::string text = lanes.size() == 1 ? "lane " : "lanes ";
  for (size_t i = 0; i < lanes.size();) {
    size_t end = i + 1;
    while (end < lanes.size() && lanes[end] == lanes[end - 1] + 1)
      ++end;
    absl::StrAppend(&text, i ? ", " : "", lanes[i]);
    if (end - i > 1)
      absl::StrAppend(&text, "-", lanes[end - 1]);
    i = end;
  }
  return text;
}

} // namespace

Machine::Machine(uint32_t warp, LaneOrder order, uint64_t seed)
    : warpSize(warp), order(order), seed(seed) {
  for (uint32_t i = 0; i < warp; ++i)
    laneAt[i] = static_cast<uint8_t>(order == LaneOrder::kReverse ? warp - 1 - i : i);
  for (uint32_t i = 0; i < warp; ++i)
    positionOf[laneAt[i]] = static_cast<uint8_t>(i);
}

uint64_t Machine::random() {
  // SplitMix64.
  uint64_t z = randomState += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

uint64_t Machine::positionsOf(uint64_t laneMask) const {
  if (order == LaneOrder::kForward)
    return laneMask;
  uint64_t positions = 0;
  for (; laneMask; laneMask &= laneMask - 1)
    positions |= uint64_t(1) << positionOf[__builtin_ctzll(laneMask)];
  return positions;
}

absl::Status Machine::run(const KernelLaunch &next, uint64_t first, uint64_t last) {
  if (!supported())
    return absl::UnimplementedError("the simulated GPU runs on x86-64 only");
  if (next.threads < 1 || next.threads > kMaxThreads)
    return absl::InvalidArgumentError(absl::StrCat("kernel '", next.kernel->name, "': blocks of ",
                                                   next.threads, " threads, 1 to ", kMaxThreads,
                                                   " are possible"));
  ADAPT_RETURN_IF_ERROR(stacks.reserve(next.threads));
  launch = &next;
  host = Context();
  contexts.resize(next.threads);
  places.resize(next.threads);
  warps.resize((next.threads + warpSize - 1) / warpSize);
  for (size_t w = 0; w < warps.size(); ++w) {
    warps[w].first = static_cast<uint32_t>(w) * warpSize;
    warps[w].size = std::min(warpSize, next.threads - warps[w].first);
  }
  warpOrder.resize(warps.size());
  std::iota(warpOrder.begin(), warpOrder.end(), 0);
  if (order == LaneOrder::kReverse)
    std::reverse(warpOrder.begin(), warpOrder.end());

  Machine *outer = std::exchange(machine, this);
  absl::Status status;
  for (uint64_t i = first; i < last && status.ok(); ++i)
    status = runBlock(orderedBlock(order, seed, i, next.blocks()));
  machine = outer;
  return status;
}

void Machine::startBlock(uint64_t index) {
  blockId = {static_cast<uint32_t>(index % launch->grid[0]),
             static_cast<uint32_t>(index / launch->grid[0] % launch->grid[1]),
             static_cast<uint32_t>(index / launch->grid[0] / launch->grid[1])};
  for (auto [data, bytes] : launch->kernel->shared)
    std::memset(data, kPoison, bytes);
  if (order == LaneOrder::kPermuted) {
    randomState = seed + index;
    for (uint32_t i = warpSize - 1; i > 0; --i)
      std::swap(laneAt[i], laneAt[random() % (i + 1)]);
    for (uint32_t i = 0; i < warpSize; ++i)
      positionOf[laneAt[i]] = static_cast<uint8_t>(i);
    for (size_t i = warpOrder.size() - 1; i > 0; --i)
      std::swap(warpOrder[i], warpOrder[random() % (i + 1)]);
  }
  for (Warp &warp : warps) {
    warp.live = lowBits(warp.size);
    warp.atBarrier = warp.waiting = 0;
    warp.ready = positionsOf(warp.live);
  }
  for (uint32_t i = 0; i < contexts.size(); ++i)
    contexts[i] = stacks.start(i, laneEntry);
}

absl::Status Machine::runBlock(uint64_t index) {
  startBlock(index);
  problem.clear();
  for (bool progress = true; progress && problem.empty();) {
    progress = false;
    for (uint32_t w : warpOrder) {
      Warp &warp = warps[w];
      if (!warp.ready)
        continue;
      progress = true;
      // This lane switches to the next of its warp, and the last one back to here.
      uint32_t position = __builtin_ctzll(warp.ready);
      warp.ready &= warp.ready - 1;
      running = &warp;
      current = warp.first + laneAt[position];
      enteredFromHost = true;
      switchContext(host, contexts[current]);
      if (!problem.empty())
        break;
    }
    if (!progress)
      progress = releaseBarrier();
  }
  if (problem.empty() &&
      std::any_of(warps.begin(), warps.end(), [](const Warp &warp) { return warp.live != 0; }))
    problem = describeStuck();
  if (problem.empty())
    return absl::OkStatus();
  stacks.abandon();
  return absl::InternalError(absl::StrCat(where(), ": ", problem));
}

std::string Machine::where() const {
  return absl::StrCat("kernel '", launch->kernel->name, "', block (", blockId[0], ", ", blockId[1],
                      ", ", blockId[2], ")");
}

/// If all lanes of the block wait at one barrier, they go on.
bool Machine::releaseBarrier() {
  for (const Warp &warp : warps)
    if (warp.atBarrier != lowBits(warp.size))
      return false;
  if (std::any_of(places.begin(), places.end(),
                  [&](const char *place) { return place != places[0]; }))
    return false;
  for (Warp &warp : warps) {
    warp.ready = positionsOf(warp.atBarrier);
    warp.atBarrier = 0;
  }
  return true;
}

/// What every lane of a block that cannot go on waits for; lanes alike in one line.
std::string Machine::describeStuck() const {
  std::vector<std::pair<std::string, std::vector<uint32_t>>> groups;
  bool barrier = false;
  for (uint32_t i = 0; i < contexts.size(); ++i) {
    const Warp &warp = warps[i / warpSize];
    uint32_t lane = i % warpSize;
    std::string what = "returned";
    if (warp.atBarrier >> lane & 1) {
      what = absl::StrCat("at the barrier '", places[i], "'");
      barrier = true;
    } else if (warp.waiting >> lane & 1) {
      const Meeting &meeting = warp.meetings[lane];
      what = absl::StrCat("at ", name(meeting.op), " '", meeting.place, "'");
      if (isCuda(meeting.op))
        absl::StrAppend(&what, " with the mask 0x", absl::Hex(meeting.mask));
    }
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto &group) { return group.first == what; });
    if (found == groups.end())
      found = groups.insert(groups.end(), {what, {}});
    found->second.push_back(i);
  }
  std::string text = barrier ? "a barrier in divergent code: the block's lanes wait for each other"
                             : "lanes of a warp wait for others that do not come";
  for (const auto &[what, members] : groups)
    absl::StrAppend(&text, "\n  ", ranges(members), ": ", what);
  return text;
}

//===----------------------------------------------------------------------===//
// On a lane's own stack
//===----------------------------------------------------------------------===//

void Machine::laneEntry() {
  Machine &self = *machine;
  enterContext(std::exchange(self.enteredFromHost, false) ? &self.host : nullptr);
  self.launch->kernel->function(self.launch->args);
  Warp &warp = *self.running;
  warp.live &= ~(uint64_t(1) << self.currentLane());
  // Those that waited for this lane may be complete without it.
  for (uint64_t rest = warp.waiting; rest; rest &= rest - 1)
    if (warp.waiting >> __builtin_ctzll(rest) & 1)
      self.complete(warp, Meeting(warp.meetings[__builtin_ctzll(rest)]));
  self.block(/*last=*/true);
}

void Machine::block(bool last) {
  Context &mine = contexts[current];
  Warp &warp = *running;
  if (!warp.ready) {
    switchContext(mine, host, last);
  } else {
    uint32_t position = __builtin_ctzll(warp.ready);
    warp.ready &= warp.ready - 1;
    current = warp.first + laneAt[position];
    enteredFromHost = false;
    switchContext(mine, contexts[current], last);
  }
}

void Machine::barrier(const char *place) {
  running->atBarrier |= uint64_t(1) << currentLane();
  places[current] = place;
  block();
}

void Machine::fail(std::string text) {
  problem = absl::StrCat("lane ", current, ": ", text);
  std::string().swap(text); // nobody unwinds this stack
  switchContext(contexts[current], host, /*last=*/true);
  __builtin_unreachable();
}

void Machine::meet(const Meeting &meeting, uint32_t value, uint32_t a, uint32_t b) {
  if (isCuda(meeting.op) != (warpSize == 32))
    fail(absl::StrCat(name(meeting.op), " at '", meeting.place, "' in a warp of ", warpSize,
                      " lanes"));
  Warp &warp = *running;
  uint32_t lane = currentLane();
  uint64_t mine = uint64_t(1) << lane;
  if (isCuda(meeting.op) && !(meeting.mask & mine))
    fail(absl::StrCat(name(meeting.op), " at '", meeting.place, "' with the mask 0x",
                      absl::Hex(meeting.mask), ", in which this lane is not"));
  warp.operands.value[lane] = value;
  warp.operands.a[lane] = a;
  warp.operands.b[lane] = b;
  warp.meetings[lane] = meeting;
  if (!warp.waiting) {
    warp.meeting = meeting;
    warp.arrived = 0;
    warp.several = false;
  }
  warp.waiting |= mine;
  ++warp.arrived;
  warp.several |= meeting != warp.meeting;
  if (complete(warp, meeting))
    warp.ready &= ~positionsOf(mine); // it runs on at once
  else
    block();
}

/// Performs the operation if all who take part have come.
bool Machine::complete(Warp &warp, const Meeting &meeting) {
  uint64_t participants = warp.live & (isCuda(meeting.op) ? meeting.mask : ~uint64_t(0));
  if ((warp.waiting & participants) != participants || !participants)
    return false;
  for (uint64_t rest = warp.several ? participants : 0; rest; rest &= rest - 1)
    if (warp.meetings[__builtin_ctzll(rest)] != meeting)
      return false;
  std::string wrong = perform(meeting, warp.operands, participants);
  if (!wrong.empty())
    fail(std::move(wrong));
  warp.waiting &= ~participants;
  warp.ready |= positionsOf(participants);
  return true;
}

//===----------------------------------------------------------------------===//
// What kernels call
//===----------------------------------------------------------------------===//

namespace adapt::rt::sim {

struct Calls {
  static uint32_t threadId(uint32_t axis) { return axis ? 0 : machine->current; }
  static uint32_t blockId(uint32_t axis) { return machine->blockId[std::min(axis, 2u)]; }
  static uint32_t blockDim(uint32_t axis) { return axis ? 1 : machine->launch->threads; }
  static uint32_t gridDim(uint32_t axis) { return machine->launch->grid[std::min(axis, 2u)]; }
  static uint32_t laneId() { return machine->currentLane(); }
  static void barrier(const char *place) { machine->barrier(place); }
  static void trap(const char *message, const char *place) {
    machine->fail(absl::StrCat(message, " at '", place, "'"));
  }

  /// Meets the others; the lane's result.
  static uint64_t meet(const Meeting &meeting, uint32_t value, uint32_t a = 0, uint32_t b = 0) {
    machine->meet(meeting, value, a, b);
    return machine->running->operands.result[machine->currentLane()];
  }
  static uint32_t meet32(const Meeting &meeting, uint32_t value, uint32_t a = 0, uint32_t b = 0) {
    return static_cast<uint32_t>(meet(meeting, value, a, b));
  }

  static uint32_t shuffleSync(uint32_t mode, uint32_t mask, uint32_t value, uint32_t b, uint32_t c,
                              uint32_t *inRange, const char *place) {
    uint32_t result = meet32({place, mask, Op::kShuffle, uint8_t(mode)}, value, b, c);
    if (inRange)
      *inRange = machine->running->operands.inRange[machine->currentLane()];
    return result;
  }
  static uint32_t voteSync(uint32_t mode, uint32_t mask, uint32_t predicate, const char *place) {
    return meet32({place, mask, Op::kVote, uint8_t(mode)}, predicate);
  }
  static uint32_t ballotSync(uint32_t mask, uint32_t predicate, const char *place) {
    return meet32({place, mask, Op::kBallotSync}, predicate);
  }
  static void warpBarrier(uint32_t mask, const char *place) {
    meet({place, mask, Op::kWarpBarrier}, 0);
  }

  static uint32_t dsBpermute(uint32_t address, uint32_t value, const char *place) {
    return meet32({place, 0, Op::kBpermute}, value, address);
  }
  static uint32_t dsPermute(uint32_t address, uint32_t value, const char *place) {
    return meet32({place, 0, Op::kPermute}, value, address);
  }
  static uint32_t dsSwizzle(uint32_t value, uint32_t offset, const char *place) {
    return meet32({place, 0, Op::kSwizzle}, value, offset & 0xffff);
  }
  static uint32_t updateDpp(uint32_t oldValue, uint32_t value, uint32_t control, uint32_t rowMask,
                            uint32_t bankMask, uint32_t boundControl, const char *place) {
    return meet32({place, 0, Op::kDpp}, value, oldValue,
                  dppOperand(control, rowMask, bankMask, boundControl));
  }
  static uint32_t readLane(uint32_t value, uint32_t lane, const char *place) {
    return meet32({place, 0, Op::kReadLane}, value, lane);
  }
  static uint32_t readFirstLane(uint32_t value, const char *place) {
    return meet32({place, 0, Op::kReadFirstLane}, value);
  }
  static uint64_t ballot(uint32_t predicate, const char *place) {
    return meet({place, 0, Op::kBallot}, predicate);
  }
  static void waveBarrier(const char *place) { meet({place, 0, Op::kWaveBarrier}, 0); }
};

} // namespace adapt::rt::sim

const AdaptSimRuntime *Machine::runtime() {
  static const AdaptSimRuntime table = {
      ADAPT_SIM_VERSION,  sizeof(AdaptSimRuntime), Calls::threadId,      Calls::blockId,
      Calls::blockDim,    Calls::gridDim,          Calls::laneId,        Calls::barrier,
      Calls::trap,        Calls::shuffleSync,      Calls::voteSync,      Calls::ballotSync,
      Calls::warpBarrier, Calls::dsBpermute,       Calls::dsPermute,     Calls::dsSwizzle,
      Calls::updateDpp,   Calls::readLane,         Calls::readFirstLane, Calls::ballot,
      Calls::waveBarrier};
  return &table;
}
