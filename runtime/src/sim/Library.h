// A kernels.sim.so, opened as a copy of its own.
#pragma once
#include "Machine.h"
#include "absl/types/span.h"

#include <memory>
#include <string>
#include <vector>

namespace adapt::rt::sim {

class Library {
public:
  /// Opens an absolute path. Its globals are shared with no other Library, so that each of several
  /// threads can run blocks. Errors: not readable, of another version of SimRuntime.h or other
  /// warps.
  static absl::StatusOr<std::unique_ptr<Library>> open(const std::string &path, uint32_t warp);
  /// The same from the bytes of one; `name` is for messages.
  static absl::StatusOr<std::unique_ptr<Library>> open(absl::string_view bytes,
                                                       const std::string &name, uint32_t warp);
  ~Library();
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  /// One kernel for each symbol. InvalidArgument names all that are missing.
  absl::StatusOr<std::vector<Kernel>> find(absl::Span<const std::string> symbols) const;

private:
  Library() = default;
  absl::Status check(uint32_t warp);

  std::string name;
  int file = -1;
  void *handle = nullptr;
};

} // namespace adapt::rt::sim
