#include "text/Tokenizer.h"
#include "text/Normalizer.h"
#include "text/TokenizerParts.h"
#include "text/Utf8.h"

#include <fmt/format.h>
#include <fstream>
#include <mutex>

namespace adapt::rt {

struct Tokenizer::Impl {
  TokenizerParts parts;
  // One call at a time works with the shared cache; others, meanwhile, with one of their own.
  mutable std::mutex cacheMutex;
  mutable WordCache cache;

  absl::Status encodeText(std::string_view text, bool plain, WordCache &words, Encoded &out) const;
};

absl::StatusOr<Tokenizer> Tokenizer::fromJson(std::string_view json) {
  absl::StatusOr<TokenizerParts> parts = TokenizerParts::load(json);
  if (!parts.ok())
    return parts.status();
  auto impl = std::make_unique<Impl>();
  impl->parts = *std::move(parts);
  return Tokenizer(std::move(impl));
}

absl::StatusOr<Tokenizer> Tokenizer::fromFile(const std::string &path) {
  constexpr std::streamoff kMaxBytes = std::streamoff{128} << 20;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    return absl::NotFoundError(fmt::format("{}: cannot be opened", path));
  std::streamoff size = file.tellg();
  if (size < 0 || size > kMaxBytes)
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes, at most {} are read", path, size, kMaxBytes));
  std::string json(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(json.data(), size))
    return absl::InvalidArgumentError(fmt::format("{}: cannot be read", path));
  absl::StatusOr<Tokenizer> tokenizer = fromJson(json);
  if (!tokenizer.ok())
    return absl::Status(tokenizer.status().code(),
                        fmt::format("{}: {}", path, std::string(tokenizer.status().message())));
  return tokenizer;
}

absl::Status Tokenizer::Impl::encodeText(std::string_view text, bool plain, WordCache &words,
                                         Encoded &out) const {
  std::deque<std::string> arena;
  std::vector<std::string_view> pieces;
  auto encodePlain = [&](std::string_view part) {
    if (absl::Status status = parts.preTokenizer.run(part, arena, pieces); !status.ok())
      return status;
    for (std::string_view piece : pieces) {
      const WordCache::Entry &entry = words.get(parts.bpe, piece, plain);
      out.ids.insert(out.ids.end(), entry.ids.begin(), entry.ids.end());
      out.droppedBytes += entry.dropped;
    }
    return absl::OkStatus();
  };
  std::vector<AddedTokenMatcher::Segment> raw, normalized;
  parts.addedRaw.split(text, !plain, raw);
  for (const AddedTokenMatcher::Segment &segment : raw) {
    if (segment.id >= 0) {
      out.ids.push_back(segment.id);
      continue;
    }
    std::string_view part = segment.text;
    if (parts.nfc) {
      absl::StatusOr<std::string> normal = normalizeNfc(part);
      if (!normal.ok())
        return normal.status();
      part = arena.emplace_back(*std::move(normal));
    }
    parts.addedNormalized.split(part, !plain, normalized);
    for (const AddedTokenMatcher::Segment &inner : normalized) {
      if (inner.id >= 0)
        out.ids.push_back(inner.id);
      else if (absl::Status status = encodePlain(inner.text); !status.ok())
        return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Encoded> Tokenizer::encode(std::string_view text,
                                          const EncodeOptions &options) const {
  if (text.size() >= (size_t{1} << 30))
    return absl::ResourceExhaustedError(
        fmt::format("{} bytes of text are too much to encode at once", text.size()));
  if (size_t bad = findInvalidUtf8(text); bad != std::string_view::npos)
    return absl::InvalidArgumentError(fmt::format("text is not valid UTF-8 at byte {}", bad));
  Encoded out;
  if (options.addSpecialTokens)
    out.ids = impl->parts.prefix;
  std::unique_lock<std::mutex> lock(impl->cacheMutex, std::try_to_lock);
  WordCache own;
  if (absl::Status status =
          impl->encodeText(text, !options.parseSpecialTokens, lock ? impl->cache : own, out);
      !status.ok())
    return status;
  if (options.addSpecialTokens)
    out.ids.insert(out.ids.end(), impl->parts.suffix.begin(), impl->parts.suffix.end());
  return out;
}

absl::StatusOr<std::string> Tokenizer::decode(absl::Span<const int32_t> ids,
                                              bool skipSpecialTokens) const {
  std::string bytes;
  for (int32_t id : ids) {
    if (!contains(id))
      return absl::OutOfRangeError(
          fmt::format("id {} is not a token's (they lie below {})", id, idLimit()));
    if (!skipSpecialTokens || !isSpecial(id))
      bytes += tokenBytes(id);
  }
  std::string text;
  appendLossyUtf8(text, bytes, /*final=*/true);
  return text;
}

int32_t Tokenizer::idLimit() const { return static_cast<int32_t>(impl->parts.known.size()); }

bool Tokenizer::contains(int32_t id) const {
  return id >= 0 && id < idLimit() && impl->parts.known[static_cast<size_t>(id)];
}

bool Tokenizer::isSpecial(int32_t id) const {
  return contains(id) && impl->parts.special[static_cast<size_t>(id)];
}

std::string_view Tokenizer::tokenBytes(int32_t id) const {
  return contains(id) ? std::string_view(impl->parts.bytes[static_cast<size_t>(id)])
                      : std::string_view();
}

std::optional<int32_t> Tokenizer::tokenToId(std::string_view content) const {
  auto it = impl->parts.ids.find(absl::string_view(content.data(), content.size()));
  if (it == impl->parts.ids.end())
    return std::nullopt;
  return it->second;
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

} // namespace adapt::rt
