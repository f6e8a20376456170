// Kernels that try out the simulated GPU itself: what its operations give, and planted faults.
// Compiled with ADAPT_TEST_WARP 32 and 64. Buffer 0 is out; sizes follow.
#include "adapt/SimRuntime.h"

const uint32_t adapt_sim_version = ADAPT_SIM_VERSION;
const uint32_t adapt_sim_warp = ADAPT_TEST_WARP;
const AdaptSimRuntime *adapt_sim_runtime;

#define KERNEL(name) void name(void *const *args __attribute__((unused)))
#define OUT(type) (*(type *const *)args[0])
#define SIZE(i) (uint32_t)(*(const int64_t *)args[1 + (i)])
#define RT adapt_sim_runtime
#define LANE RT->thread_id(0)

// Where every lane is: out u32[blocks, threads, 13]. Sizes: none.
KERNEL(identity) {
  uint32_t block =
      (RT->block_id(2) * RT->grid_dim(1) + RT->block_id(1)) * RT->grid_dim(0) + RT->block_id(0);
  uint32_t *out = OUT(uint32_t) + 13 * (block * RT->block_dim(0) + LANE);
  for (uint32_t axis = 0; axis < 3; ++axis) {
    out[axis] = RT->thread_id(axis);
    out[3 + axis] = RT->block_id(axis);
    out[6 + axis] = RT->block_dim(axis);
    out[9 + axis] = RT->grid_dim(axis);
  }
  out[12] = RT->lane_id();
}

// The order of blocks and lanes: out u32: a count, then what ran. With one thread of the host only.
KERNEL(order) {
  uint32_t *out = OUT(uint32_t);
  out[1 + out[0]++] = RT->block_id(0) * RT->block_dim(0) + LANE;
  RT->barrier("order:barrier");
}

float tile[256], tile2[256];

// Shared memory as a block finds it.
KERNEL(unwritten) { OUT(float)[RT->block_id(0) * 256 + LANE] = tile[LANE] + tile2[255 - LANE]; }

// out[i] = n - 1 - i by way of shared memory, and without the barrier that it needs.
KERNEL(reversed) {
  tile[LANE] = (float)LANE;
  RT->barrier("reversed:barrier");
  OUT(float)[RT->block_id(0) * RT->block_dim(0) + LANE] = tile[RT->block_dim(0) - 1 - LANE];
}
KERNEL(reversed_unguarded) {
  tile2[LANE] = (float)LANE;
  OUT(float)[RT->block_id(0) * RT->block_dim(0) + LANE] = tile2[RT->block_dim(0) - 1 - LANE];
}

// A hundred barriers, each followed by a read of what another warp wrote before it.
KERNEL(many_barriers) {
  uint32_t n = RT->block_dim(0);
  tile[LANE] = 0;
  for (int i = 0; i < 100; ++i) {
    RT->barrier("many_barriers:1");
    float next = tile[(LANE + 33) % n] + 1;
    RT->barrier("many_barriers:2");
    tile[LANE] = next;
  }
  OUT(float)[LANE] = tile[LANE];
}

// Faults with barriers. Size: a lane.
KERNEL(two_barriers) {
  if (LANE < SIZE(0))
    RT->barrier("two_barriers:then");
  else
    RT->barrier("two_barriers:else");
}
KERNEL(some_return) {
  if (LANE >= SIZE(0))
    return;
  RT->barrier("some_return:barrier");
}
KERNEL(barrier_or_shuffle) {
  if (LANE == SIZE(0))
    RT->barrier("barrier_or_shuffle:barrier");
#if ADAPT_TEST_WARP == 32
  else
    RT->warp_barrier(~0u, "barrier_or_shuffle:warp");
#else
  else
    RT->wave_barrier("barrier_or_shuffle:warp");
#endif
}
KERNEL(trapped) {
  if (LANE == SIZE(0))
    RT->trap("index out of bounds", "trapped:7");
}

// 40 KiB of a lane's own memory.
KERNEL(deep_stack) {
  volatile uint32_t own[10000];
  for (uint32_t i = 0; i < 10000; ++i)
    own[i] = i * LANE;
  RT->barrier("deep_stack:barrier");
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 10000; ++i)
    sum += own[i];
  OUT(uint32_t)[LANE] = sum;
}

// sqrt and division on a stack that must be aligned for SSE.
KERNEL(vectors) {
  typedef float Four __attribute__((vector_size(16)));
  volatile Four four = {(float)LANE, 1, 2, 3};
  Four sum = four * four + four / (Four){2, 2, 2, 2};
  RT->barrier("vectors:barrier");
  for (int i = 0; i < 4; ++i)
    OUT(float)[4 * LANE + i] = sum[i];
}

#if ADAPT_TEST_WARP == 32
// out u32[threads, 2]: value (100 + lane) and whether in range. Sizes: mode, b, c, mask. b of 99: a
// lane of its own for each.
KERNEL(shuffle) {
  uint32_t inRange = 7, b = SIZE(1) == 99 ? (LANE * 3 + 1) & 31 : SIZE(1);
  if (SIZE(3) >> (LANE & 31) & 1) {
    OUT(uint32_t)
    [2 * LANE] = RT->shuffle_sync(SIZE(0), SIZE(3), 100 + LANE, b, SIZE(2), &inRange, "shuffle:1");
    OUT(uint32_t)[2 * LANE + 1] = inRange;
  }
}
// Both halves of a warp, each among themselves at places of their own, then all together.
KERNEL(halves) {
  uint32_t half = LANE & 16, mask = half ? 0xffff0000u : 0xffffu, sum;
  if (half)
    sum = RT->shuffle_sync(ADAPT_SIM_BUTTERFLY, mask, LANE, 8, 0x1f, 0, "halves:upper");
  else
    sum = RT->shuffle_sync(ADAPT_SIM_BUTTERFLY, mask, LANE, 4, 0x1f, 0, "halves:lower");
  OUT(uint32_t)[LANE] = RT->shuffle_sync(ADAPT_SIM_BUTTERFLY, ~0u, sum, 16, 0x1f, 0, "halves:all");
}
// A lane that is not in its own mask.
KERNEL(outside_mask) { RT->warp_barrier(SIZE(0), "outside_mask:1"); }
// Lanes that name different masks never meet.
KERNEL(masks_differ) { RT->warp_barrier(LANE & 1 ? ~0u : 0x7fffffffu, "masks_differ:1"); }
// Votes over the lanes below 20: out u32[threads, 4]. Size: a mask of lanes that say yes.
KERNEL(votes) {
  if (LANE >= 20)
    return;
  uint32_t yes = SIZE(0) >> LANE & 1, *out = OUT(uint32_t) + 4 * LANE;
  out[0] = RT->vote_sync(ADAPT_SIM_ALL, 0xfffff, yes, "votes:all");
  out[1] = RT->vote_sync(ADAPT_SIM_ANY, 0xfffff, yes, "votes:any");
  out[2] = RT->vote_sync(ADAPT_SIM_UNIFORM, 0xfffff, yes, "votes:uniform");
  out[3] = RT->ballot_sync(0xfffff, yes, "votes:ballot");
}
KERNEL(foreign) { RT->wave_barrier("foreign:1"); }
#else
// out u32[threads]: lane + 100 by way of update.dpp with old = lane + 1000. Sizes: control, masks
// of rows and banks, bound control.
KERNEL(dpp) {
  OUT(uint32_t)
  [LANE] = RT->update_dpp(1000 + LANE, 100 + LANE, SIZE(0), SIZE(1), SIZE(2), SIZE(3), "dpp:1");
}
// out u32[threads]. Size: the offset.
KERNEL(swizzle) { OUT(uint32_t)[LANE] = RT->ds_swizzle(100 + LANE, SIZE(0), "swizzle:1"); }
// out u32[threads, 5]. Size: a lane.
KERNEL(moves) {
  uint32_t *out = OUT(uint32_t) + 5 * LANE;
  out[0] = RT->ds_bpermute(4 * (LANE * 5 + 3), 100 + LANE, "moves:bpermute");
  out[1] = RT->ds_permute(4 * (LANE / 2), 100 + LANE, "moves:permute");
  out[2] = RT->read_lane(100 + LANE, SIZE(0), "moves:readlane");
  out[3] = RT->read_first_lane(100 + LANE, "moves:readfirstlane");
  uint64_t odd = RT->ballot(LANE & 1, "moves:ballot");
  out[4] = (uint32_t)(odd >> 32);
}
// The lanes below a size read from one that has returned.
KERNEL(reads_returned) {
  if (LANE < SIZE(0))
    OUT(uint32_t)[LANE] = RT->ds_bpermute(4 * (LANE + 1), LANE, "reads_returned:1");
}
KERNEL(foreign) { RT->warp_barrier(~0u, "foreign:1"); }
#endif

const AdaptSimShared adapt_sim_shared[] = {
    {unwritten, tile, sizeof(tile)},     {unwritten, tile2, sizeof(tile2)},
    {reversed, tile, sizeof(tile)},      {reversed_unguarded, tile2, sizeof(tile2)},
    {many_barriers, tile, sizeof(tile)}, {0, 0, 0}};
