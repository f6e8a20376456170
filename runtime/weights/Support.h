//===- Support.h - Checked arithmetic, messages and files -----------------===//
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adapt::weights {

//===----------------------------------------------------------------------===//
// Checked arithmetic
//===----------------------------------------------------------------------===//

inline std::optional<uint64_t> checkedMul(uint64_t a, uint64_t b) {
  uint64_t result;
  if (__builtin_mul_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

inline std::optional<uint64_t> checkedAdd(uint64_t a, uint64_t b) {
  uint64_t result;
  if (__builtin_add_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

/// Product of the extents; nothing if one is negative or the product needs more than 63 bits.
std::optional<uint64_t> countElements(absl::Span<const int64_t> shape);

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// `name` in single quotes, shortened, with bytes that a terminal should not see as \xNN.
std::string quote(std::string_view name);

/// The text itself, made safe in the same way.
std::string printable(std::string_view text, size_t maxBytes = 300);

/// "[2, 3]"
std::string shapeString(absl::Span<const int64_t> shape);

inline std::string_view toStd(absl::string_view text) { return {text.data(), text.size()}; }
inline absl::string_view toAbsl(std::string_view text) { return {text.data(), text.size()}; }

/// Problems of one kind, told together. Keeps the text of the first twenty.
class Problems {
public:
  void add(std::string text);
  bool empty() const { return total == 0; }
  size_t size() const { return total; }
  /// "subject: problem", or "subject: N problems:" and a line for each. OK if there are none.
  absl::Status status(std::string_view subject,
                      absl::StatusCode code = absl::StatusCode::kInvalidArgument) const;

private:
  std::vector<std::string> texts;
  size_t total = 0;
};

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Whether a path from a file's contents stays below a directory: relative, no part is empty, "."
/// or
/// "..".
bool isInnerPath(std::string_view path);

/// A file descriptor that closes itself.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept : fd(other.fd) { other.fd = -1; }
  FileDescriptor &operator=(FileDescriptor &&other) noexcept;
  ~FileDescriptor();
  int get() const { return fd; }

private:
  int fd = -1;
};

/// What identifies the contents of a file, short of reading it.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t mtimeNs = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileStamp &other) const {
    return bytes == other.bytes && mtimeNs == other.mtimeNs && device == other.device &&
           inode == other.inode;
  }
  bool operator!=(const FileStamp &other) const { return !(*this == other); }
};

struct OpenedFile {
  FileDescriptor fd;
  FileStamp stamp;
};

/// Opens a regular file for reading (symbolic links are followed; a pipe or a device is refused).
absl::StatusOr<OpenedFile> openForReading(const std::string &path);

/// Fills `out` from `offset`; a file that ends before is an error.
absl::Status readExactly(int fd, uint64_t offset, absl::Span<std::byte> out, std::string_view path);

/// A whole file, mapped read-only. The bytes must not be truncated while it is mapped.
class MappedFile {
public:
  static absl::StatusOr<MappedFile> map(int fd, uint64_t bytes, std::string_view path);
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept : base(other.base), length(other.length) {
    other.base = nullptr;
    other.length = 0;
  }
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();
  absl::Span<const std::byte> bytes() const {
    return {static_cast<const std::byte *>(base), size_t(length)};
  }

private:
  void *base = nullptr;
  uint64_t length = 0;
};

/// The reason of a failed system call, as a status: "path: what: No such file or directory".
absl::Status systemError(std::string_view path, std::string_view what, int error);

} // namespace adapt::weights
