#include "WarpOps.h"

#include "absl/strings/str_cat.h"
#include "adapt/SimRuntime.h"

using namespace adapt::rt::sim;
using Op = WarpOp;

namespace {

constexpr int kNone = -1; // no source: the lane's own value, or what bound control says

uint64_t bit(int lane) { return uint64_t(1) << lane; }

/// Calls each(lane) for every bit, the lowest first.
template <typename Each> void forLanes(uint64_t lanes, const Each &each) {
  for (; lanes; lanes &= lanes - 1)
    each(__builtin_ctzll(lanes));
}

/// The source lane of shfl.sync; kNone where it is out of range. See the PTX ISA's pseudo code.
int shuffleSource(uint32_t mode, uint32_t a, uint32_t b, int lane) {
  int distance = a & 31, clamp = b & 31, segment = b >> 8 & 31;
  int low = lane & segment, limit = low | (clamp & ~segment);
  int source = lane;
  switch (mode) {
  case ADAPT_SIM_UP:
    source = lane - distance;
    return source >= limit ? source : kNone;
  case ADAPT_SIM_DOWN:
    source = lane + distance;
    break;
  case ADAPT_SIM_BUTTERFLY:
    source = lane ^ distance;
    break;
  default:
    source = low | (distance & ~segment & 31);
    break;
  }
  return source <= limit ? source : kNone;
}

/// The source lane of a DPP control; kNone where there is none. See AMD's "MI200" ISA, DPP_CTRL.
int dppSource(uint32_t control, int lane) {
  int row = lane & ~15, at = lane & 15, n = control & 15;
  auto within = [&](int source) { return source >= 0 && source < 16 ? row | source : kNone; };
  if (control < 0x100) // quad_perm
    return (lane & ~3) | (control >> 2 * (lane & 3) & 3);
  switch (control & 0x1f0) {
  case 0x100: // row_shl
    return within(at + n);
  case 0x110: // row_shr
    return within(at - n);
  case 0x120: // row_ror
    return row | ((at - n) & 15);
  case 0x150: // row_newbcast
    return row | n;
  default:
    break;
  }
  switch (control) {
  case 0x130: // wave_shl:1
    return lane < 63 ? lane + 1 : kNone;
  case 0x134: // wave_rol:1
    return (lane + 1) & 63;
  case 0x138:        // wave_shr:1
    return lane - 1; // of lane 0: kNone
  case 0x13c:        // wave_ror:1
    return (lane - 1) & 63;
  case 0x140: // row_mirror
    return row | (15 - at);
  case 0x141: // row_half_mirror
    return (lane & ~7) | (7 - (lane & 7));
  case 0x142: // row_bcast:15
    return row ? row - 1 : kNone;
  default: // row_bcast:31, the only one left of those that knownDpp() lets through
    return lane > 31 ? 31 : kNone;
  }
}

bool knownDpp(uint32_t control) {
  if (control < 0x100)
    return true;
  switch (control & ~15u) {
  case 0x100:
  case 0x110:
  case 0x120:
    return control & 15; // by 1 to 15
  case 0x150:
    return true;
  default:
    return control == 0x130 || control == 0x134 || control == 0x138 || control == 0x13c ||
           (control >= 0x140 && control <= 0x143);
  }
}

int swizzleSource(uint32_t offset, int lane) {
  if (offset & 0x8000)
    return (lane & ~3) | (offset >> 2 * (lane & 3) & 3);
  int at = lane & 31;
  return (lane & 32) | (((at & offset) | (offset >> 5)) ^ (offset >> 10)) % 32;
}

/// Gives each lane the value of lane source(lane), or otherwise(lane).
template <typename Source, typename Otherwise>
std::string gather(const Meeting &meeting, WarpOperands &warp, uint64_t participants,
                   const Source &source, const Otherwise &otherwise) {
  int reader = kNone, missing = kNone;
  forLanes(participants, [&](int lane) {
    int from = source(lane);
    warp.inRange[lane] = from != kNone;
    if (from == kNone)
      warp.result[lane] = otherwise(lane);
    else if (participants & bit(from))
      warp.result[lane] = warp.value[from];
    else if (reader == kNone)
      reader = lane, missing = from;
  });
  if (reader == kNone)
    return {};
  return absl::StrCat(name(meeting.op), " at '", meeting.place, "': lane ", reader, " reads lane ",
                      missing, ", which does not take part");
}

void giveAll(WarpOperands &warp, uint64_t participants, uint64_t result) {
  forLanes(participants, [&](int lane) { warp.result[lane] = result; });
}

uint64_t lanesThatSayYes(const WarpOperands &warp, uint64_t participants) {
  uint64_t yes = 0;
  forLanes(participants, [&](int lane) { yes |= warp.value[lane] ? bit(lane) : 0; });
  return yes;
}

void vote(WarpOperands &warp, uint64_t participants, uint32_t mode) {
  uint64_t yes = lanesThatSayYes(warp, participants);
  bool all = yes == participants, none = yes == 0;
  giveAll(warp, participants,
          mode == ADAPT_SIM_ALL   ? all
          : mode == ADAPT_SIM_ANY ? !none
                                  : all || none);
}

void permute(WarpOperands &warp, uint64_t participants) {
  giveAll(warp, participants, 0);
  forLanes(participants, [&](int lane) { warp.result[warp.a[lane] / 4 % 64] = warp.value[lane]; });
}

std::string dpp(const Meeting &meeting, WarpOperands &warp, uint64_t participants) {
  // Rows and banks that are masked out keep their old value, and read nothing.
  auto isOn = [&](int lane) {
    return (warp.b[lane] >> (9 + lane / 16) & 1) && (warp.b[lane] >> (13 + lane % 16 / 4) & 1);
  };
  uint32_t control = warp.b[__builtin_ctzll(participants)] & 0x1ff;
  if (!knownDpp(control))
    return absl::StrCat("update.dpp with the control 0x", absl::Hex(control),
                        ", unknown to gfx90a");
  std::string problem = gather(
      meeting, warp, participants,
      [&](int lane) { return isOn(lane) ? dppSource(control, lane) : lane; },
      [&](int lane) { return warp.b[lane] >> 17 & 1 ? 0 : warp.a[lane]; });
  forLanes(participants, [&](int lane) {
    if (!isOn(lane))
      warp.result[lane] = warp.a[lane];
  });
  return problem;
}

} // namespace

const char *adapt::rt::sim::name(WarpOp op) {
  switch (op) {
  case Op::kShuffle:
    return "shfl.sync";
  case Op::kVote:
    return "vote.sync";
  case Op::kBallotSync:
    return "vote.sync.ballot";
  case Op::kWarpBarrier:
    return "bar.warp.sync";
  case Op::kBpermute:
    return "ds_bpermute";
  case Op::kPermute:
    return "ds_permute";
  case Op::kSwizzle:
    return "ds_swizzle";
  case Op::kDpp:
    return "update.dpp";
  case Op::kReadLane:
    return "readlane";
  case Op::kReadFirstLane:
    return "readfirstlane";
  case Op::kBallot:
    return "ballot";
  case Op::kWaveBarrier:
    return "wave.barrier";
  }
  return "unknown operation";
}

std::string adapt::rt::sim::perform(const Meeting &meeting, WarpOperands &warp,
                                    uint64_t participants) {
  int first = __builtin_ctzll(participants);
  auto own = [&](int lane) { return warp.value[lane]; };
  switch (meeting.op) {
  case Op::kShuffle:
    return gather(
        meeting, warp, participants,
        [&](int lane) { return shuffleSource(meeting.mode, warp.a[lane], warp.b[lane], lane); },
        own);
  case Op::kVote:
    vote(warp, participants, meeting.mode);
    return {};
  case Op::kBallotSync:
  case Op::kBallot:
    giveAll(warp, participants, lanesThatSayYes(warp, participants));
    return {};
  case Op::kBpermute:
    return gather(
        meeting, warp, participants,
        [&](int lane) { return static_cast<int>(warp.a[lane] / 4 % 64); }, own);
  case Op::kPermute:
    permute(warp, participants);
    return {};
  case Op::kSwizzle:
    if (warp.a[first] >= 0xc000)
      return absl::StrCat("ds_swizzle with the offset 0x", absl::Hex(warp.a[first]),
                          ": rotations and FFT are not simulated");
    return gather(
        meeting, warp, participants, [&](int lane) { return swizzleSource(warp.a[lane], lane); },
        own);
  case Op::kDpp:
    return dpp(meeting, warp, participants);
  case Op::kReadLane:
    return gather(
        meeting, warp, participants, [&](int lane) { return static_cast<int>(warp.a[lane] % 64); },
        own);
  case Op::kReadFirstLane:
    giveAll(warp, participants, warp.value[first]);
    return {};
  case Op::kWarpBarrier:
  case Op::kWaveBarrier:
    return {};
  }
  return {};
}
