#include "WarpOps.h"

#include "absl/strings/str_cat.h"
#include "adapt/SimRuntime.h"

using namespace adapt::rt::sim;
using Op = WarpRequest::Op;

namespace {

constexpr int kNone = -1; // no source: the lane's own value, or what bound control says

uint64_t bit(int lane) { return uint64_t(1) << lane; }

/// Calls each(lane) for every bit, the lowest first.
template <typename Each> void forLanes(uint64_t lanes, const Each &each) {
  for (; lanes; lanes &= lanes - 1)
    each(__builtin_ctzll(lanes));
}

/// The source lane of shfl.sync; kNone where it is out of range. See the PTX ISA's pseudo code.
int shuffleSource(const WarpRequest &request, int lane) {
  int distance = request.a & 31, clamp = request.b & 31, segment = request.b >> 8 & 31;
  int low = lane & segment, limit = low | (clamp & ~segment);
  int source = lane;
  switch (request.mode) {
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

std::string missing(const WarpRequest &request, int reader, int source) {
  return absl::StrCat(name(request.op), " at '", request.place, "': lane ", reader, " reads lane ",
                      source, ", which does not take part");
}

/// Gives each lane the value of lane source(request, lane), or of otherwise(request).
template <typename Source, typename Otherwise>
std::string gather(WarpRequest *lanes, uint64_t participants, const Source &source,
                   const Otherwise &otherwise) {
  std::string problem;
  forLanes(participants, [&](int lane) {
    WarpRequest &request = lanes[lane];
    int from = source(request, lane);
    request.inRange = from != kNone;
    if (from == kNone)
      request.result = otherwise(request);
    else if (participants & bit(from))
      request.result = lanes[from].value;
    else if (problem.empty())
      problem = missing(request, lane, from);
  });
  return problem;
}

void giveAll(WarpRequest *lanes, uint64_t participants, uint64_t result) {
  forLanes(participants, [&](int lane) { lanes[lane].result = result; });
}

uint64_t lanesThatSayYes(const WarpRequest *lanes, uint64_t participants) {
  uint64_t yes = 0;
  forLanes(participants, [&](int lane) { yes |= lanes[lane].value ? bit(lane) : 0; });
  return yes;
}

void vote(WarpRequest *lanes, uint64_t participants, uint32_t mode) {
  uint64_t yes = lanesThatSayYes(lanes, participants);
  bool all = yes == participants, none = yes == 0;
  giveAll(lanes, participants,
          mode == ADAPT_SIM_ALL   ? all
          : mode == ADAPT_SIM_ANY ? !none
                                  : all || none);
}

void permute(WarpRequest *lanes, uint64_t participants) {
  giveAll(lanes, participants, 0);
  forLanes(participants,
           [&](int lane) { lanes[lanes[lane].a / 4 % 64].result = lanes[lane].value; });
}

std::string dpp(WarpRequest *lanes, uint64_t participants) {
  uint32_t control = lanes[__builtin_ctzll(participants)].b;
  if (!knownDpp(control))
    return absl::StrCat("update.dpp with the control 0x", absl::Hex(control),
                        ", unknown to gfx90a");
  std::string problem = gather(
      lanes, participants,
      [](const WarpRequest &request, int lane) {
        // Rows and banks that are masked out keep their old value, and read nothing.
        bool on = (request.rowMask >> lane / 16 & 1) && (request.bankMask >> lane % 16 / 4 & 1);
        return on ? dppSource(request.b, lane) : lane;
      },
      [](const WarpRequest &request) { return request.boundControl ? 0 : request.a; });
  forLanes(participants, [&](int lane) {
    WarpRequest &request = lanes[lane];
    if (!(request.rowMask >> lane / 16 & 1) || !(request.bankMask >> lane % 16 / 4 & 1))
      request.result = request.a;
  });
  return problem;
}

} // namespace

const char *adapt::rt::sim::name(Op op) {
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

std::string adapt::rt::sim::perform(WarpRequest *lanes, uint64_t participants) {
  int first = __builtin_ctzll(participants);
  auto own = [](const WarpRequest &request) { return request.value; };
  switch (lanes[first].op) {
  case Op::kShuffle:
    return gather(lanes, participants, shuffleSource, own);
  case Op::kVote:
    vote(lanes, participants, lanes[first].mode);
    return {};
  case Op::kBallotSync:
  case Op::kBallot:
    giveAll(lanes, participants, lanesThatSayYes(lanes, participants));
    return {};
  case Op::kBpermute:
    return gather(
        lanes, participants,
        [](const WarpRequest &request, int) { return static_cast<int>(request.a / 4 % 64); }, own);
  case Op::kPermute:
    permute(lanes, participants);
    return {};
  case Op::kSwizzle:
    if (lanes[first].a >= 0xc000)
      return absl::StrCat("ds_swizzle with the offset 0x", absl::Hex(lanes[first].a),
                          ": rotations and FFT are not simulated");
    return gather(
        lanes, participants,
        [](const WarpRequest &request, int lane) { return swizzleSource(request.a, lane); }, own);
  case Op::kDpp:
    return dpp(lanes, participants);
  case Op::kReadLane:
    return gather(
        lanes, participants,
        [](const WarpRequest &request, int) { return static_cast<int>(request.a % 64); }, own);
  case Op::kReadFirstLane:
    giveAll(lanes, participants, lanes[first].value);
    return {};
  case Op::kWarpBarrier:
  case Op::kWaveBarrier:
    return {};
  }
  return {};
}
