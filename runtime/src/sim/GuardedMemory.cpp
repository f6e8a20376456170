#include "GuardedMemory.h"

#include <cerrno>
#include <cstring>
#include <tuple>

#include <sys/mman.h>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::sim;

namespace {
constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = uint64_t(2) << 20;
constexpr uint64_t kMaxBytes = uint64_t(1) << 46;

uint64_t wholePages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// All pages that hold any of these bytes.
void protect(const void *data, uint64_t bytes, bool open) {
  uintptr_t begin = reinterpret_cast<uintptr_t>(data) / kPage * kPage;
  uintptr_t end = wholePages(reinterpret_cast<uintptr_t>(data) + bytes);
  // Fails only for ranges that are not mapped, or where there is no memory to note the change: the
  // access that follows then faults.
  mprotect(reinterpret_cast<void *>(begin), end - begin, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}
} // namespace

absl::StatusOr<Memory> GuardedMemory::allocate(uint64_t bytes, absl::string_view what) {
  if (bytes == 0)
    return Memory();
  void *base = MAP_FAILED;
  errno = ENOMEM;
  std::lock_guard<std::mutex> lock(mutex);
  if (bytes <= kMaxBytes)
    base = mmap(nullptr, wholePages(bytes) + kPage, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", bytes, " bytes of memory: ", std::strerror(errno)));
  // For speed alone: a change of protection costs by the page.
  if (bytes >= kHugePage)
    madvise(base, wholePages(bytes), MADV_HUGEPAGE);
  Memory memory;
  memory.data = static_cast<char *>(base);
  memory.bytes = bytes;
  memory.owner = std::shared_ptr<void>(
      base, [self = shared_from_this()](void *data) { self->release(static_cast<char *>(data)); });
  regions.emplace(memory.data, bytes);
  if (users)
    protect(memory.data, bytes, true);
  return memory;
}

void GuardedMemory::release(char *data) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = regions.find(data);
  munmap(data, wholePages(found->second) + kPage);
  regions.erase(found);
}

bool GuardedMemory::contains(const void *address, uint64_t bytes) const {
  std::lock_guard<std::mutex> lock(mutex);
  return containsLocked(address, bytes);
}

bool GuardedMemory::containsLocked(const void *address, uint64_t bytes) const {
  auto *at = static_cast<const char *>(address);
  auto after = regions.upper_bound(at);
  if (after == regions.begin())
    return false;
  auto [start, size] = *std::prev(after);
  uint64_t offset = at - start;
  return offset <= size && bytes <= size - offset;
}

/// Copies, with those sides opened that belong to the device.
absl::Status GuardedMemory::transfer(void *to, bool isToOurs, const void *from, bool isFromOurs,
                                     uint64_t bytes) {
  if (bytes == 0)
    return absl::OkStatus();
  std::lock_guard<std::mutex> lock(mutex);
  for (auto [address, isOurs, what] :
       {std::tuple(static_cast<const void *>(to), isToOurs, "write"), {from, isFromOurs, "read"}}) {
    if (isOurs && !containsLocked(address, bytes))
      return absl::InvalidArgumentError(
          absl::StrCat("a ", what, " of ", bytes, " bytes at 0x",
                       absl::Hex(reinterpret_cast<uintptr_t>(address)),
                       ", which is not within one allocation of the device"));
  }
  auto open = [&](bool isOpen) {
    if (users)
      return; // all is open
    if (isToOurs)
      protect(to, bytes, isOpen);
    if (isFromOurs)
      protect(from, bytes, isOpen);
  };
  open(true);
  std::memmove(to, from, bytes);
  open(false);
  return absl::OkStatus();
}

void GuardedMemory::openAll(int change) {
  std::lock_guard<std::mutex> lock(mutex);
  bool was = users > 0;
  users += change;
  if (was != (users > 0))
    for (auto [data, bytes] : regions)
      protect(data, bytes, users > 0);
}
