#include "weights/Support.h"

#include "fmt/format.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace adapt::weights {

std::optional<uint64_t> countElements(absl::Span<const int64_t> shape) {
  uint64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, uint64_t(extent), &count) ||
        count > uint64_t(INT64_MAX))
      return std::nullopt;
  }
  return count;
}

std::string printable(std::string_view text, size_t maxBytes) {
  std::string result;
  for (unsigned char c : text.substr(0, maxBytes)) {
    if (c < 0x20 || c >= 0x7f || c == '\\')
      result += fmt::format("\\x{:02x}", c);
    else
      result += char(c);
  }
  if (text.size() > maxBytes)
    result += "…";
  return result;
}

std::string quote(std::string_view name) { return "'" + printable(name, 200) + "'"; }

std::string shapeString(absl::Span<const int64_t> shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i == 16) {
      result += fmt::format(", … {} more", shape.size() - i);
      break;
    }
    result += fmt::format("{}{}", i ? ", " : "", shape[i]);
  }
  return result + "]";
}

void Problems::add(std::string text) {
  constexpr size_t kKept = 20;
  if (++total <= kKept)
    texts.push_back(std::move(text));
}

absl::Status Problems::status(std::string_view subject, absl::StatusCode code) const {
  if (empty())
    return absl::OkStatus();
  if (total == 1)
    return absl::Status(code, fmt::format("{}: {}", subject, texts[0]));
  std::string message = fmt::format("{}: {} problems:", subject, total);
  for (const std::string &text : texts)
    message += "\n  " + text;
  if (total > texts.size())
    message += fmt::format("\n  and {} more", total - texts.size());
  return absl::Status(code, message);
}

bool isInnerPath(std::string_view path) {
  if (path.empty() || path.find('\0') != path.npos)
    return false;
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find('/', begin), path.size());
    std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..")
      return false;
    begin = end + 1;
  }
  return true;
}

FileDescriptor &FileDescriptor::operator=(FileDescriptor &&other) noexcept {
  std::swap(fd, other.fd);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd >= 0)
    ::close(fd);
}

absl::Status systemError(std::string_view path, std::string_view what, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      fmt::format("{}: {}: {}", printable(path, 4096), what,
                                  std::generic_category().message(error)));
}

absl::StatusOr<OpenedFile> openForReading(const std::string &path) {
  // Non-blocking, so that a named pipe cannot hang us before fstat tells what it is.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0)
    return systemError(path, "cannot be opened", errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0)
    return systemError(path, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(
        fmt::format("{}: is not a regular file", printable(path, 4096)));
  FileStamp stamp;
  stamp.bytes = uint64_t(info.st_size);
  stamp.mtimeNs = int64_t(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec;
  stamp.device = info.st_dev;
  stamp.inode = info.st_ino;
  return OpenedFile{std::move(fd), stamp};
}

absl::Status readExactly(int fd, uint64_t offset, absl::Span<std::byte> out,
                         std::string_view path) {
  while (!out.empty()) {
    ssize_t got = ::pread(fd, out.data(), out.size(), off_t(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError(path, "cannot be read", errno);
    if (got == 0)
      return absl::DataLossError(
          fmt::format("{}: ends at byte {}, {} bytes too early (was it changed while being read?)",
                      printable(path, 4096), offset, out.size()));
    offset += uint64_t(got);
    out.remove_prefix(size_t(got));
  }
  return absl::OkStatus();
}

absl::StatusOr<MappedFile> MappedFile::map(int fd, uint64_t bytes, std::string_view path) {
  MappedFile file;
  if (bytes == 0)
    return file;
  void *base = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED)
    return systemError(path, "cannot be mapped", errno);
  file.base = base;
  file.length = bytes;
  return file;
}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(base, other.base);
  std::swap(length, other.length);
  return *this;
}

MappedFile::~MappedFile() {
  if (base)
    ::munmap(base, length);
}

} // namespace adapt::weights
