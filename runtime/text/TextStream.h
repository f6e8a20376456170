// Text from tokens, piece by piece.
#pragma once
#include "absl/status/statusor.h"
#include "text/Tokenizer.h"

#include <string>
#include <string_view>

namespace adapt::rt {

/// Whole characters out of bytes that come in pieces. What push() and flush() return, joined, is
/// the lossy decoding of all bytes together: U+FFFD for each maximal ill-formed subpart. Holds at
/// most the three bytes of an unfinished character.
class Utf8Stream {
public:
  /// The characters that these bytes completed; maybe none. Ill-formed bytes hold nothing up.
  std::string push(std::string_view bytes);
  /// U+FFFD where the bytes end in the middle of a character, else nothing. Then starts afresh.
  std::string flush();

private:
  std::string pending;
};

/// The pieces, joined with flush()'s, equal Tokenizer::decode of the same ids. Keeps a pointer to
/// the tokenizer.
class TextStream {
public:
  explicit TextStream(const Tokenizer &tokenizer, bool skipSpecialTokens = true)
      : tokenizer(&tokenizer), skipSpecialTokens(skipSpecialTokens) {}

  /// The text that this token completed; maybe empty.
  /// Error (OutOfRange): an id that is not a token's; the stream stays as it was.
  absl::StatusOr<std::string> push(int32_t id);
  /// At the end of a sequence: see Utf8Stream::flush.
  std::string flush() { return utf8.flush(); }

private:
  const Tokenizer *tokenizer;
  bool skipSpecialTokens;
  Utf8Stream utf8;
};

} // namespace adapt::rt
