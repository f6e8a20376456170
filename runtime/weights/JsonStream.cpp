#include "weights/JsonStream.h"

#include "fmt/format.h"

#include <algorithm>
#include <cstring>

namespace adapt::weights {

static constexpr size_t kPiece = 256 * 1024;

std::string hexDigest(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

JsonStream::JsonStream(int fd, uint64_t offset, uint64_t bytes, std::string_view path)
    : fd(fd), offset(offset), remaining(bytes), path(path),
      buffer(new char[std::min<uint64_t>(kPiece, std::max<uint64_t>(bytes, 1))]),
      state(XXH3_createState()) {
  XXH3_128bits_reset(state);
  refill();
}

JsonStream::~JsonStream() { XXH3_freeState(state); }

void JsonStream::refill() {
  size_t bytes = size_t(std::min<uint64_t>(kPiece, remaining));
  current = end = buffer.get();
  if (bytes == 0)
    return;
  error = readExactly(fd, offset,
                      absl::MakeSpan(reinterpret_cast<std::byte *>(buffer.get()), bytes), path);
  if (!error.ok()) {
    remaining = 0;
    return;
  }
  // The parser takes a zero byte for the end of the text, and would pass over the rest.
  if (const void *zero = std::memchr(buffer.get(), 0, bytes)) {
    uint64_t at = offset + uint64_t(static_cast<const char *>(zero) - buffer.get());
    error = absl::InvalidArgumentError(fmt::format(
        "{}: JSON text has a zero byte at byte {} of the file", printable(path, 4096), at));
    remaining = 0;
    return;
  }
  XXH3_128bits_update(state, buffer.get(), bytes);
  offset += bytes;
  remaining -= bytes;
  end = current + bytes;
}

std::string JsonStream::hash() const { return hexDigest(XXH3_128bits_digest(state)); }

bool JsonHandler::parse_error(size_t, const std::string &,
                              const nlohmann::detail::exception &error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
  std::string_view text = error.what();
  if (size_t bracket = text.find("] "); !text.empty() && text[0] == '[' && bracket != text.npos)
    text.remove_prefix(bracket + 2);
  return fail(printable(text));
}

absl::Status parseJson(JsonStream &stream, JsonHandler &handler, std::string_view subject) {
  bool parsed = nlohmann::json::sax_parse(stream.begin(), stream.finish(), &handler);
  if (!stream.status().ok())
    return stream.status();
  if (!parsed)
    return absl::InvalidArgumentError(fmt::format(
        "{}: {}", subject, handler.failure.empty() ? "is not valid JSON" : handler.failure));
  return absl::OkStatus();
}

} // namespace adapt::weights
