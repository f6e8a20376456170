#include "Fiber.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define ADAPT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADAPT_ASAN 1
#endif
#endif
#ifdef ADAPT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::sim;

namespace {
constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 64 << 10;
constexpr size_t kStride = kStackBytes + kPage; // the page is the guard, below the stack
/// Tops of stacks at the same place of a page would share a few sets of the caches.
constexpr size_t kStagger = 5 * 64;
} // namespace

#if defined(__x86_64__)

// void adapt_sim_switch(void **save, void *load): what the ABI lets a callee change need not be
// kept.
extern "C" void adapt_sim_switch(void **save, void *load);
asm(R"(
.pushsection .text
.hidden adapt_sim_switch
.globl adapt_sim_switch
.type adapt_sim_switch, @function
adapt_sim_switch:
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
  .cfi_endproc
.size adapt_sim_switch, . - adapt_sim_switch
.popsection
)");

namespace {
/// A stack on which adapt_sim_switch will find zeros for six registers, and `entry` to return to.
void *prepareStack(char *top, void (*entry)()) {
  auto **slot = reinterpret_cast<void **>(top);
  *--slot = nullptr; // the return address of `entry`, for who unwinds
  // `entry` is to see its stack as after a call: 8 bytes off a multiple of 16.
  *--slot = reinterpret_cast<void *>(entry);
  for (int i = 0; i < 6; ++i)
    *--slot = nullptr;
  return slot;
}
} // namespace

#else

static void adapt_sim_switch(void **, void *) { std::abort(); }
namespace {
void *prepareStack(char *, void (*)()) { std::abort(); }
} // namespace

#endif

void sim::switchContext(Context &from, Context &to, bool last) {
#ifdef ADAPT_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &from.fakeStack, to.bottom, to.bytes);
  adapt_sim_switch(&from.stackPointer, to.stackPointer);
  __sanitizer_finish_switch_fiber(from.fakeStack, nullptr, nullptr);
#else
  (void)last;
  adapt_sim_switch(&from.stackPointer, to.stackPointer);
#endif
}

void sim::enterContext(Context *caller) {
#ifdef ADAPT_ASAN
  if (caller)
    __sanitizer_finish_switch_fiber(nullptr, &caller->bottom, &caller->bytes);
  else
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#else
  (void)caller;
#endif
}

Stacks::~Stacks() {
  if (base)
    munmap(base, kStride * count);
}

absl::Status Stacks::reserve(uint32_t wanted) {
  if (wanted <= count)
    return absl::OkStatus();
  void *mapped = mmap(nullptr, kStride * wanted, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapped == MAP_FAILED)
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the stacks of ", wanted, " lanes: ", std::strerror(errno)));
  char *stacks = static_cast<char *>(mapped);
  for (uint32_t i = 0; i < wanted; ++i)
    if (mprotect(stacks + kStride * i, kPage, PROT_NONE) != 0) {
      absl::Status status = absl::ResourceExhaustedError(
          absl::StrCat("no guard for the stacks of ", wanted, " lanes: ", std::strerror(errno)));
      munmap(mapped, kStride * wanted);
      return status;
    }
  if (base)
    munmap(base, kStride * count);
  base = stacks;
  count = wanted;
  return absl::OkStatus();
}

Context Stacks::start(uint32_t index, void (*entry)()) {
  char *bottom = base + kStride * index + kPage;
  Context context;
  context.bottom = bottom;
  context.bytes = kStackBytes;
  context.stackPointer = prepareStack(bottom + kStackBytes - kStagger * index % kPage, entry);
  return context;
}

void Stacks::abandon() {
#ifdef ADAPT_ASAN
  // Frames that were never left would stay forbidden.
  for (uint32_t i = 0; i < count; ++i)
    __asan_unpoison_memory_region(base + kStride * i + kPage, kStackBytes);
#endif
}
