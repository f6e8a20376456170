/* What kernels.sim.so and the device that runs it know of each other: the C ABI of the simulated
 * GPU.
 *
 * A kernel is a function of one lane, `void SYMBOL(void *const *args)`: args[i] points to argument
 * i of the flat list of docs/bundle.md (each buffer, an address; each size, an int64_t). The device
 * runs it once for each lane of a block, each on a stack of its own, and switches between lanes
 * where one waits for others: in barrier() and in the operations of a warp. Nothing else switches.
 *
 * The library exports, beside its kernels:
 *   const uint32_t adapt_sim_version          ADAPT_SIM_VERSION that it was made for
 *   const uint32_t adapt_sim_warp             lanes of a warp: 32, or a wave's 64
 *   const AdaptSimRuntime *adapt_sim_runtime  null; the device sets it after it has opened the
 * library const AdaptSimShared adapt_sim_shared[]   shared memory, ended by an entry whose data is
 * null
 *
 * Every device opens a copy of its own for each thread of the host, so that ordinary globals serve
 * as shared memory.
 *
 * A `place` says where in its source a call stands ("attention.3 at model.layers.0:17"). Two calls
 * are the same place if the pointers are equal: one string per call, never merged.
 */
#ifndef ADAPT_SIM_RUNTIME_H
#define ADAPT_SIM_RUNTIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ADAPT_SIM_VERSION = 1 };

/** Shared memory (LDS) that a kernel uses: filled with NaN patterns before each of its blocks. One
 * entry for each pair of a kernel and a variable. */
typedef struct AdaptSimShared {
  void (*kernel)(void *const *args);
  void *data;
  uint64_t bytes;
} AdaptSimShared;

/** Modes of shfl.sync, as in the PTX ISA. */
enum { ADAPT_SIM_UP = 0, ADAPT_SIM_DOWN = 1, ADAPT_SIM_BUTTERFLY = 2, ADAPT_SIM_INDEX = 3 };

/** Modes of vote.sync. */
enum { ADAPT_SIM_ALL = 0, ADAPT_SIM_ANY = 1, ADAPT_SIM_UNIFORM = 2 };

/** Functions of the device, called by a lane. Axes: 0 is x, 1 is y, 2 is z. */
typedef struct AdaptSimRuntime {
  uint32_t version; /**< ADAPT_SIM_VERSION of the device */
  uint32_t bytes;   /**< sizeof(AdaptSimRuntime) */

  uint32_t (*thread_id)(uint32_t axis);
  uint32_t (*block_id)(uint32_t axis);
  uint32_t (*block_dim)(uint32_t axis); /**< threads */
  uint32_t (*grid_dim)(uint32_t axis);  /**< blocks */
  uint32_t (*lane_id)(void);            /**< in its warp */

  /** All lanes of the block, at this place: a lane elsewhere, or one that has returned, is a fault.
   */
  void (*barrier)(const char *place);

  /** Ends the run with an error that says `message` and the place. Does not return. */
  void (*trap)(const char *message, const char *place);

  /* CUDA: warps of 32. The lanes of `mask` that have not returned meet at this place. */

  /** shfl.sync.MODE.b32, operands as in the PTX ISA: b is a lane or a distance, c holds the clamp
   * in bits 0-4 and the mask of segments in bits 8-12. *in_range (unless null) is 1 where the
   * source lane is within its segment, else 0, and the lane's own value comes back. A source lane
   * in range that does not take part is a fault. */
  uint32_t (*shuffle_sync)(uint32_t mode, uint32_t mask, uint32_t value, uint32_t b, uint32_t c,
                           uint32_t *in_range, const char *place);
  uint32_t (*vote_sync)(uint32_t mode, uint32_t mask, uint32_t predicate, const char *place);
  uint32_t (*ballot_sync)(uint32_t mask, uint32_t predicate, const char *place);
  void (*warp_barrier)(uint32_t mask, const char *place);

  /* AMD: waves of 64. All lanes of the wave that have not returned meet at this place (as without
   * divergence on the real thing, where the active lanes take part). A source lane that does not
   * take part is a fault. */

  /** ds_bpermute_b32: the value of lane address / 4 % 64. */
  uint32_t (*ds_bpermute)(uint32_t address, uint32_t value, const char *place);
  /** ds_permute_b32: pushes to lane address / 4 % 64; the highest lane wins; 0 where nobody pushes.
   */
  uint32_t (*ds_permute)(uint32_t address, uint32_t value, const char *place);
  /** ds_swizzle_b32; the offset's modes quad_perm and bit masks within 32 lanes. */
  uint32_t (*ds_swizzle)(uint32_t value, uint32_t offset, const char *place);
  /** llvm.amdgcn.update.dpp.i32, all controls of gfx90a. */
  uint32_t (*update_dpp)(uint32_t old_value, uint32_t value, uint32_t control, uint32_t row_mask,
                         uint32_t bank_mask, uint32_t bound_control, const char *place);
  uint32_t (*read_lane)(uint32_t value, uint32_t lane, const char *place);
  uint32_t (*read_first_lane)(uint32_t value, const char *place);
  uint64_t (*ballot)(uint32_t predicate, const char *place);
  /** llvm.amdgcn.wave.barrier */
  void (*wave_barrier)(const char *place);
} AdaptSimRuntime;

#ifdef __cplusplus
}
#endif

#endif
