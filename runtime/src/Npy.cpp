#include "adapt/Npy.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace adapt;
using namespace adapt::rt;

namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr uint64_t kMaxHeader = 1 << 16;
constexpr uint64_t kMaxElements = uint64_t(1) << 40;

absl::Status failure(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::Status systemFailure(absl::string_view path) { return failure(path, std::strerror(errno)); }

absl::Status readAll(int file, const std::string &path, uint64_t offset, void *to, uint64_t bytes) {
  char *out = static_cast<char *>(to);
  while (bytes) {
    ssize_t got = pread(file, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemFailure(path);
    if (got == 0)
      return failure(path, "the file ends too early");
    out += got;
    offset += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

struct Header {
  std::string descr;
  bool fortranOrder = false;
  std::vector<int64_t> shape;
};

/// The Python dictionary of the header: exactly the three keys, in any order.
class HeaderParser {
public:
  explicit HeaderParser(absl::string_view text) : rest(text) {}

  /// Nothing where the text is not a header.
  std::optional<Header> parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    if (!take("{"))
      return std::nullopt;
    while (!take("}")) {
      std::optional<std::string> key = quoted();
      if (!key || !take(":"))
        return std::nullopt;
      if (*key == "descr" && !descr) {
        std::optional<std::string> value = quoted();
        if (!value)
          return std::nullopt;
        header.descr = *value;
        descr = true;
      } else if (*key == "fortran_order" && !order) {
        header.fortranOrder = take("True");
        if (!header.fortranOrder && !take("False"))
          return std::nullopt;
        order = true;
      } else if (*key == "shape" && !shape && parseShape(header.shape)) {
        shape = true;
      } else {
        return std::nullopt;
      }
      if (!take(",") && !peek('}'))
        return std::nullopt;
    }
    skipSpace();
    if (!rest.empty() || !descr || !order || !shape)
      return std::nullopt;
    return header;
  }

private:
  void skipSpace() { rest = absl::StripLeadingAsciiWhitespace(rest); }
  bool take(absl::string_view token) {
    skipSpace();
    return absl::ConsumePrefix(&rest, token);
  }
  bool peek(char c) {
    skipSpace();
    return !rest.empty() && rest[0] == c;
  }
  std::optional<std::string> quoted() {
    skipSpace();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"'))
      return std::nullopt;
    size_t end = rest.find(rest[0], 1);
    if (end == absl::string_view::npos)
      return std::nullopt;
    std::string text(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    return text;
  }
  bool parseShape(std::vector<int64_t> &shape) {
    if (!take("("))
      return false;
    while (!take(")")) {
      skipSpace();
      size_t digits = 0;
      while (digits < rest.size() && absl::ascii_isdigit(rest[digits]))
        ++digits;
      int64_t extent;
      if (!absl::SimpleAtoi(rest.substr(0, digits), &extent))
        return false;
      rest.remove_prefix(digits);
      shape.push_back(extent);
      if (!take(",") && !peek(')'))
        return false;
    }
    return true;
  }

  absl::string_view rest;
};

/// Elements of a shape, or nothing if there are too many.
std::optional<uint64_t> countElements(const std::vector<int64_t> &shape) {
  uint64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count))
      return std::nullopt;
  return count <= kMaxElements ? std::optional<uint64_t>(count) : std::nullopt;
}

/// The types of NumPy that are read; the integers of readNpyIntegers first.
struct ElementType {
  absl::string_view descr;
  absl::string_view name;
  unsigned bytes;
};
constexpr ElementType kTypes[] = {
    {"<i4", "int32", 4},   {"<i8", "int64", 8},   {"<i2", "int16", 2},
    {"|i1", "int8", 1},    {"|u1", "uint8", 1},   {"|b1", "bool", 1},
    {"<f2", "float16", 2}, {"<f4", "float32", 4}, {"<f8", "float64", 8}};

void formatType(std::string *out, const ElementType &type) {
  absl::StrAppend(out, type.descr, " (", type.name, ")");
}

} // namespace

static absl::StatusOr<NpyArray> readArray(const std::string &path,
                                          absl::Span<const ElementType> wanted) {
  // Without O_NONBLOCK a pipe would be waited for.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return systemFailure(path);
  absl::Cleanup close = [&] { ::close(file); };
  struct stat info;
  if (fstat(file, &info) != 0)
    return systemFailure(path);
  if (!S_ISREG(info.st_mode))
    return failure(path, "not a regular file");
  uint64_t size = info.st_size;
  unsigned char prefix[12] = {};
  if (size < sizeof(prefix))
    return failure(path, "too short for an .npy file");
  ADAPT_RETURN_IF_ERROR(readAll(file, path, 0, prefix, sizeof(prefix)));
  if (std::memcmp(prefix, kMagic.data(), kMagic.size()) != 0)
    return failure(path, "not an .npy file");
  if (prefix[6] < 1 || prefix[6] > 3)
    return failure(path, absl::StrCat(".npy version ", int(prefix[6]), ", known are 1 to 3"));
  uint64_t start = prefix[6] == 1 ? 10 : 12;
  uint64_t length = prefix[8] | uint64_t(prefix[9]) << 8;
  if (prefix[6] > 1)
    length |= uint64_t(prefix[10]) << 16 | uint64_t(prefix[11]) << 24;
  if (length > kMaxHeader || start + length > size)
    return failure(path, absl::StrCat("header of ", length, " bytes in a file of ", size));
  std::string text(length, '\0');
  ADAPT_RETURN_IF_ERROR(readAll(file, path, start, text.data(), length));
  std::optional<Header> header = HeaderParser(text).parse();
  if (!header)
    return failure(path, "its header is not a dictionary of descr, fortran_order and shape");
  const auto *type = std::find_if(wanted.begin(), wanted.end(), [&](const ElementType &type) {
    return type.descr == header->descr;
  });
  if (type == wanted.end())
    return failure(path, absl::StrCat("elements of type '", header->descr, "', wanted are ",
                                      absl::StrJoin(wanted, " or ", formatType)));
  if (header->fortranOrder && header->shape.size() > 1)
    return failure(path, "Fortran order; save it with numpy.ascontiguousarray");
  std::optional<uint64_t> count = countElements(header->shape);
  uint64_t data = size - start - length;
  if (!count || *count * type->bytes != data)
    return failure(path, absl::StrCat("shape (", absl::StrJoin(header->shape, ", "), ") of ",
                                      header->descr, ", but ", data, " bytes of data"));
  NpyArray result;
  result.descr = std::move(header->descr);
  result.shape = std::move(header->shape);
  result.data.resize(data);
  ADAPT_RETURN_IF_ERROR(readAll(file, path, start + length, result.data.data(), data));
  return result;
}

absl::StatusOr<NpyArray> rt::readNpy(const std::string &path) { return readArray(path, kTypes); }

absl::StatusOr<NpyIntegers> rt::readNpyIntegers(const std::string &path) {
  absl::StatusOr<NpyArray> array = readArray(path, absl::MakeSpan(kTypes).subspan(0, 2));
  if (!array.ok())
    return array.status();
  NpyIntegers result;
  result.shape = std::move(array->shape);
  if (array->data.empty())
    return result; // no null pointers into memcpy
  if (array->descr == kTypes[1].descr) {
    result.values.resize(array->data.size() / sizeof(int64_t));
    std::memcpy(result.values.data(), array->data.data(), array->data.size());
    return result;
  }
  std::vector<int32_t> narrow(array->data.size() / sizeof(int32_t));
  std::memcpy(narrow.data(), array->data.data(), array->data.size());
  result.values.assign(narrow.begin(), narrow.end());
  return result;
}

absl::StatusOr<NpyWriter> NpyWriter::create(const std::string &path, const std::string &descr,
                                            const std::vector<int64_t> &shape) {
  std::optional<uint64_t> count = countElements(shape);
  if (!count)
    return failure(path, absl::StrCat("shape (", absl::StrJoin(shape, ", "), ") is too large"));
  const auto *type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const ElementType &type) { return type.descr == descr; });
  if (type == std::end(kTypes))
    return failure(path, absl::StrCat("elements of type '", descr, "' cannot be written"));
  NpyWriter writer;
  writer.path = path;
  // A link stays and what it leads to is replaced; a device or a folder never is.
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode))
      return failure(path, "is there and not a regular file: it is not replaced");
    std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
    if (!real)
      return systemFailure(path);
    writer.path = real.get();
  }
  writer.temporary = absl::StrCat(writer.path, ".", getpid(), ".tmp");
  writer.elementBytes = type->bytes;
  writer.elements = *count;
  std::string header =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  // Padded so that the data begins at a multiple of 64, with a newline at the end.
  uint64_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.resize(total - 11, ' ');
  header += '\n';
  std::string start(kMagic);
  start += {'\x01', '\x00', static_cast<char>(header.size() & 255),
            static_cast<char>(header.size() >> 8)};
  start += header;
  writer.headerBytes = start.size();
  writer.file = open(writer.temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (writer.file < 0)
    return systemFailure(writer.temporary);
  if (pwrite(writer.file, start.data(), start.size(), 0) != static_cast<ssize_t>(start.size()) ||
      ftruncate(writer.file, static_cast<off_t>(start.size() + *count * writer.elementBytes)) != 0)
    return systemFailure(writer.temporary);
  return writer;
}

NpyWriter::NpyWriter(NpyWriter &&other) noexcept
    : path(std::move(other.path)), temporary(std::move(other.temporary)),
      file(std::exchange(other.file, -1)), headerBytes(other.headerBytes),
      elementBytes(other.elementBytes), elements(other.elements) {}

NpyWriter::~NpyWriter() {
  if (file < 0)
    return;
  close(file);
  unlink(temporary.c_str());
}

absl::Status NpyWriter::write(uint64_t offset, const void *data, uint64_t count) {
  if (offset > elements || count > elements - offset)
    return absl::InternalError(
        absl::StrCat(path, ": elements ", offset, " + ", count, " of ", elements));
  const char *from = static_cast<const char *>(data);
  uint64_t at = headerBytes + offset * elementBytes, bytes = count * elementBytes;
  while (bytes) {
    ssize_t done = pwrite(file, from, bytes, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return systemFailure(temporary);
    from += done;
    at += done;
    bytes -= done;
  }
  return absl::OkStatus();
}

absl::Status NpyWriter::finish() {
  int descriptor = std::exchange(file, -1);
  if (close(descriptor) != 0 || rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status status = systemFailure(path);
    unlink(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}
