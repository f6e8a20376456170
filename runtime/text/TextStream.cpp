#include "text/TextStream.h"
#include "text/Utf8.h"

#include <fmt/format.h>

namespace adapt::rt {

std::string Utf8Stream::push(std::string_view bytes) {
  pending += bytes;
  std::string out;
  size_t consumed = appendLossyUtf8(out, pending, /*final=*/false);
  pending.erase(0, consumed);
  return out;
}

std::string Utf8Stream::flush() {
  std::string out;
  appendLossyUtf8(out, pending, /*final=*/true);
  pending.clear();
  return out;
}

absl::StatusOr<std::string> TextStream::push(int32_t id) {
  if (!tokenizer->contains(id))
    return absl::OutOfRangeError(
        fmt::format("id {} is not a token's (they lie below {})", id, tokenizer->idLimit()));
  if (skipSpecialTokens && tokenizer->isSpecial(id))
    return std::string();
  return utf8.push(tokenizer->tokenBytes(id));
}

} // namespace adapt::rt
