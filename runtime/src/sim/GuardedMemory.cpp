#include "GuardedMemory.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::sim;

namespace {
constexpr uint64_t kPage = 4096;
constexpr uint64_t kMaxBytes = uint64_t(1) << 46;

uint64_t wholePages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void protect(const char *data, uint64_t bytes, bool open) {
  // Fails only for ranges that are not mapped: these are.
  mprotect(const_cast<char *>(data), wholePages(bytes), open ? PROT_READ | PROT_WRITE : PROT_NONE);
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
  auto *at = static_cast<const char *>(address);
  auto after = regions.upper_bound(at);
  if (after == regions.begin())
    return false;
  auto [start, size] = *std::prev(after);
  uint64_t offset = at - start;
  return offset <= size && bytes <= size - offset;
}

absl::Status GuardedMemory::checkRange(const void *address, uint64_t bytes,
                                       const char *what) const {
  if (contains(address, bytes))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " of ", bytes, " bytes at 0x", absl::Hex(reinterpret_cast<uintptr_t>(address)),
      ", which is not within one allocation of the device"));
}

absl::Status GuardedMemory::write(void *to, const void *from, uint64_t bytes) {
  if (bytes == 0)
    return absl::OkStatus();
  ADAPT_RETURN_IF_ERROR(checkRange(to, bytes, "a write"));
  Access access(*this);
  std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status GuardedMemory::read(void *to, const void *from, uint64_t bytes) {
  if (bytes == 0)
    return absl::OkStatus();
  ADAPT_RETURN_IF_ERROR(checkRange(from, bytes, "a read"));
  Access access(*this);
  std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status GuardedMemory::copy(void *to, const void *from, uint64_t bytes) {
  if (bytes == 0)
    return absl::OkStatus();
  ADAPT_RETURN_IF_ERROR(checkRange(from, bytes, "a copy from"));
  ADAPT_RETURN_IF_ERROR(checkRange(to, bytes, "a copy to"));
  Access access(*this);
  std::memcpy(to, from, bytes);
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
