// Kernels of the conformance suite, each with one meaning on every device. Compiled for the CPU's
// ABI, and with ADAPT_TEST_WARP (32 or 64) for the simulated GPU's, where a work item is a block of
// lanes.
#include <stdint.h>

#ifdef ADAPT_TEST_WARP
#include "adapt/SimRuntime.h"

const uint32_t adapt_sim_version = ADAPT_SIM_VERSION;
const uint32_t adapt_sim_warp = ADAPT_TEST_WARP;
const AdaptSimRuntime *adapt_sim_runtime;

#define KERNEL(name) void name(void *const *args __attribute__((unused)))
#define BUFFER(type, i) (*(type *const *)args[i])
#define SIZE(numBuffers, i) (*(const int64_t *)args[(numBuffers) + (i)])
#define ID(rank, i) adapt_sim_runtime->block_id((rank) - 1 - (i)) // the last extent lies along x
#define LANE adapt_sim_runtime->thread_id(0)
#define LANES adapt_sim_runtime->block_dim(0)
#define BARRIER(place) adapt_sim_runtime->barrier(place)
#define FAIL(message) adapt_sim_runtime->trap(message, "DeviceKernels.c")
#define DONE return
#else
#define KERNEL(name)                                                                               \
  int name(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3])
#define BUFFER(type, i) ((type *)buffers[i])
#define SIZE(numBuffers, i) (sizes[i])
#define ID(rank, i) (id[i])
#define LANE 0
#define LANES 1
#define FAIL(message) return -7
#define DONE                                                                                       \
  (void)buffers, (void)sizes, (void)scratch, (void)id;                                             \
  return 0
#endif

// Buffers: out, i64[items, 4]. Sizes: the grid's extents. Each item counts itself and says its id.
#define RECORD(rank, item, id0, id1, id2)                                                          \
  if (LANE == 0) {                                                                                 \
    int64_t *out = BUFFER(int64_t, 0) + 4 * (item);                                                \
    out[0] += 1, out[1] = (id0), out[2] = (id1), out[3] = (id2);                                   \
  }
KERNEL(record1) {
  RECORD(1, (int64_t)ID(1, 0), ID(1, 0), 0, 0)
  DONE;
}
KERNEL(record2) {
  RECORD(2, (int64_t)ID(2, 0) * SIZE(1, 1) + ID(2, 1), ID(2, 0), ID(2, 1), 0)
  DONE;
}
KERNEL(record3) {
  RECORD(3, ((int64_t)ID(3, 0) * SIZE(1, 1) + ID(3, 1)) * SIZE(1, 2) + ID(3, 2), ID(3, 0), ID(3, 1),
         ID(3, 2))
  DONE;
}

// Buffers: in, out, i64[n]. Size n. Grid [n]: out[i] = in[n - 1 - i] + 1, which another item of the
// launch before wrote.
KERNEL(reverse_increment) {
  if (LANE == 0)
    BUFFER(int64_t, 1)[ID(1, 0)] = BUFFER(const int64_t, 0)[SIZE(2, 0) - 1 - ID(1, 0)] + 1;
  DONE;
}

// Buffers: x, f32[rows, n]; out, f32[rows]. Size n. Grid [rows]: sums of rows.
#ifdef ADAPT_TEST_WARP
float partial[1024 / ADAPT_TEST_WARP];

static float bits(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } both = {u};
  return both.f;
}
static uint32_t word(float f) {
  union {
    float f;
    uint32_t u;
  } both = {f};
  return both.u;
}
#if ADAPT_TEST_WARP == 32
static float fromLane(float value, uint32_t distance) { // lane ^ distance
  return bits(adapt_sim_runtime->shuffle_sync(ADAPT_SIM_BUTTERFLY, ~0u, word(value), distance, 0x1f,
                                              0, "row_sum:shuffle"));
}
#else
static float fromLane(float value, uint32_t distance) {
  uint32_t lane = adapt_sim_runtime->lane_id() ^ distance;
  return bits(adapt_sim_runtime->ds_bpermute(4 * lane, word(value), "row_sum:permute"));
}
#endif

KERNEL(row_sum) {
  const float *x = BUFFER(const float, 0) + ID(1, 0) * SIZE(2, 0);
  float sum = 0;
  for (int64_t i = LANE; i < SIZE(2, 0); i += LANES)
    sum += x[i];
  for (uint32_t distance = ADAPT_TEST_WARP / 2; distance; distance /= 2)
    sum += fromLane(sum, distance);
  if (LANE % ADAPT_TEST_WARP == 0)
    partial[LANE / ADAPT_TEST_WARP] = sum;
  BARRIER("row_sum:barrier");
  if (LANE == 0) {
    float all = 0;
    for (uint32_t w = 0; w < LANES / ADAPT_TEST_WARP; ++w)
      all += partial[w];
    BUFFER(float, 1)[ID(1, 0)] = all;
  }
}
#else
KERNEL(row_sum) {
  const float *x = BUFFER(const float, 0) + id[0] * SIZE(2, 0);
  float sum = 0;
  for (int64_t i = 0; i < SIZE(2, 0); ++i)
    sum += x[i];
  BUFFER(float, 1)[id[0]] = sum;
  DONE;
}
#endif

// Buffers: 40 of i64[1], the last is out. 20 sizes. out = sum (b + 1) * buffer b + sum (s + 50) *
// size s.
KERNEL(many_arguments) {
  if (LANE == 0) {
    int64_t sum = 0;
    for (int b = 0; b < 39; ++b)
      sum += (b + 1) * *BUFFER(const int64_t, b);
    for (int s = 0; s < 20; ++s)
      sum += (s + 50) * SIZE(40, s);
    *BUFFER(int64_t, 39) = sum;
  }
  DONE;
}

// Fails in item 3.
KERNEL(fail) {
  if (ID(1, 0) == 3) {
    FAIL("a planted fault");
  }
  DONE;
}

#ifdef ADAPT_TEST_WARP
const AdaptSimShared adapt_sim_shared[] = {{row_sum, partial, sizeof(partial)}, {0, 0, 0}};
#endif
