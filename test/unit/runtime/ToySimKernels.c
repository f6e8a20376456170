// The kernels of Kernels.c as a GPU's: one thread of each block does the work item of the CPU's.
#define embed cpu_embed
#define append cpu_append
#define attend cpu_attend
#define head cpu_head
#define head_one cpu_head_one
#include "Kernels.c"
#undef embed
#undef append
#undef attend
#undef head
#undef head_one

#include "adapt/SimRuntime.h"

const uint32_t adapt_sim_version = ADAPT_SIM_VERSION;
const uint32_t adapt_sim_warp = ADAPT_TEST_WARP;
const AdaptSimRuntime *adapt_sim_runtime;
const AdaptSimShared adapt_sim_shared[] = {{0, 0, 0}};

#define KERNEL(name, numBuffers, numSizes, gridRank)                                               \
  void name(void *const *args) {                                                                   \
    void *buffers[numBuffers];                                                                     \
    int64_t sizes[numSizes];                                                                       \
    float scratch[16];                                                                             \
    uint32_t id[3] = {0, 0, 0};                                                                    \
    for (int b = 0; b < numBuffers; ++b)                                                           \
      buffers[b] = *(void *const *)args[b];                                                        \
    for (int s = 0; s < numSizes; ++s)                                                             \
      sizes[s] = *(const int64_t *)args[numBuffers + s];                                           \
    for (int i = 0; i < gridRank; ++i)                                                             \
      id[i] = adapt_sim_runtime->block_id(gridRank - 1 - i);                                       \
    if (adapt_sim_runtime->thread_id(0) == adapt_sim_runtime->block_dim(0) - 1 &&                  \
        cpu_##name(buffers, sizes, scratch, id))                                                   \
      adapt_sim_runtime->trap("failed", #name);                                                    \
  }
KERNEL(embed, 2, 1, 1)
KERNEL(append, 5, 3, 1)
KERNEL(attend, 6, 3, 1)
KERNEL(head, 4, 2, 2)
KERNEL(head_one, 4, 2, 1)
