// NumPy's .npy files: little-endian arrays in C order.
#pragma once
#include "adapt/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace adapt::rt {

/// An array as it lies in a file.
struct NpyArray {
  std::string descr; ///< "<f4", "|b1", …
  std::vector<int64_t> shape;
  std::vector<std::byte> data; ///< row-major
};

/// Reads format versions 1 to 3, C order, floats and signed integers of any width, uint8 and bool.
/// Errors: anything else, and a file that is longer or shorter than its header says. Memory is
/// bounded by the file's size.
absl::StatusOr<NpyArray> readNpy(const std::string &path);

/// An array of integers that was read from a file, widened to 64 bits.
struct NpyIntegers {
  std::vector<int64_t> shape;
  std::vector<int64_t> values; ///< row-major
};

/// The same of types <i4 and <i8 only.
absl::StatusOr<NpyIntegers> readNpyIntegers(const std::string &path);

/// Writes an array piece by piece. What is never written is zero. The file appears under its name
/// when finish() succeeds, complete; an abandoned writer leaves nothing behind.
class NpyWriter {
public:
  /// `descr` is one of those that readNpy() reads.
  static absl::StatusOr<NpyWriter> create(const std::string &path, const std::string &descr,
                                          const std::vector<int64_t> &shape);
  NpyWriter(NpyWriter &&other) noexcept;
  NpyWriter &operator=(NpyWriter &&) = delete;
  ~NpyWriter();

  /// Writes `count` elements from element `offset` on.
  absl::Status write(uint64_t offset, const void *data, uint64_t count);
  absl::Status finish();

private:
  NpyWriter() = default;

  std::string path, temporary;
  int file = -1;
  uint64_t headerBytes = 0, elementBytes = 0, elements = 0;
};

} // namespace adapt::rt
