// Memory of a simulated device: addresses that the host cannot read or write, except while the
// device itself works.
#pragma once
#include "adapt/Device.h"

#include <map>
#include <memory>
#include <mutex>

namespace adapt::rt::sim {

class GuardedMemory : public std::enable_shared_from_this<GuardedMemory> {
public:
  static std::shared_ptr<GuardedMemory> create() {
    return std::shared_ptr<GuardedMemory>(new GuardedMemory);
  }

  /// Zeros, from the start of a page, with a forbidden page behind. Lives as long as its owner,
  /// which holds this object.
  absl::StatusOr<Memory> allocate(uint64_t bytes, absl::string_view what);

  /// Whether so many bytes at an address belong to one allocation.
  bool contains(const void *address, uint64_t bytes) const;

  /// InvalidArgument where contains() does not hold for the device's side.
  absl::Status write(void *to, const void *from, uint64_t bytes) {
    return transfer(to, true, from, false, bytes);
  }
  absl::Status read(void *to, const void *from, uint64_t bytes) {
    return transfer(to, false, from, true, bytes);
  }
  absl::Status copy(void *to, const void *from, uint64_t bytes) {
    return transfer(to, true, from, true, bytes);
  }

  /// The device may touch all of it while one of these lives.
  class Access {
  public:
    explicit Access(GuardedMemory &memory) : memory(memory) { memory.openAll(+1); }
    ~Access() { memory.openAll(-1); }
    Access(const Access &) = delete;
    Access &operator=(const Access &) = delete;

  private:
    GuardedMemory &memory;
  };

private:
  GuardedMemory() = default;
  void openAll(int change);
  void release(char *data);
  bool containsLocked(const void *address, uint64_t bytes) const;
  absl::Status transfer(void *to, bool isToOurs, const void *from, bool isFromOurs, uint64_t bytes);

  mutable std::mutex mutex;
  std::map<const char *, uint64_t> regions; // start to bytes
  int users = 0;                            // Access objects
};

} // namespace adapt::rt::sim
