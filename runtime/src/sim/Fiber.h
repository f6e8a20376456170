// Stacks for the lanes of a block, and the switch from one to another.
#pragma once
#include "adapt/Status.h"

#include <cstddef>
#include <cstdint>

namespace adapt::rt::sim {

/// A stack that nothing runs on now: where it goes on, and what AddressSanitizer keeps for it.
struct Context {
  void *stackPointer = nullptr;
  const void *bottom = nullptr; // lowest address; unknown of the host's own stack until left once
  size_t bytes = 0;
  void *fakeStack = nullptr;
};

/// Goes on where `to` stopped; returns when somebody switches to `from`. With `last`, nobody will.
void switchContext(Context &from, Context &to, bool last = false);

/// What a context must do first when it runs for the first time. `caller`: the context that started
/// it, whose stack becomes known; null if it is known already.
void enterContext(Context *caller);

/// Stacks of one size, a guard page below each, kept from block to block.
class Stacks {
public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks &) = delete;
  Stacks &operator=(const Stacks &) = delete;

  /// At least `count` stacks. ResourceExhausted without memory for them.
  absl::Status reserve(uint32_t count);

  /// A context that will run `entry` on stack `index` from its top. `entry` must not return.
  Context start(uint32_t index, void (*entry)());

  /// After a block that did not end: its stacks are nobody's any more.
  void abandon();

private:
  char *base = nullptr;
  uint32_t count = 0;
};

/// Whether this machine can run fibers: on x86-64 only, as the code of kernels.sim.so.
constexpr bool supported() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

} // namespace adapt::rt::sim
