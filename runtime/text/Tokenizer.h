// Byte-level BPE tokenizers from a tokenizer.json of Hugging Face tokenizers (version "1.0").
//
// Known: model BPE (vocab, merges in both forms, unk_token, fuse_unk, ignore_merges);
// pre-tokenizers ByteLevel, Digits, Split and Sequence of these, with ByteLevel last; normalisers
// NFC and Sequence of it; added tokens with all their flags; post-processors ByteLevel,
// TemplateProcessing (single) and Sequence of these; decoder ByteLevel. Whatever else a file asks
// for is refused by name, all items at once.
//
// Ids are those of the Python package `tokenizers` (0.23), but for two things. Characters that are
// newer than the Unicode version of a library, here or there (14 in PCRE2 10.42, 15 in utf8proc
// 2.8), may fall into other words, and marks newer than the package's own tables keep their order
// there where NFC moves them. And see EncodeOptions::parseSpecialTokens.
#pragma once
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adapt::rt {

struct EncodeOptions {
  /// Adds what the post-processor's template adds, such as a beginning-of-sequence token.
  bool addSpecialTokens = true;
  /// False: for text from users. The text of special tokens stays text, and no token marked special
  /// comes out of it, except one that is the vocabulary's only way to write a byte. (The package's
  /// encode_special_tokens lets special tokens out that are ordinary words of the vocabulary too.)
  bool parseSpecialTokens = true;
};

struct Encoded {
  std::vector<int32_t> ids;
  /// Bytes that the vocabulary cannot write (some lack control characters) and that were left out,
  /// as the `tokenizers` package does.
  size_t droppedBytes = 0;
};

/// Immutable; all functions may be called from several threads at once.
class Tokenizer {
public:
  /// Errors: NotFound or InvalidArgument with the path; files over 128 MiB.
  static absl::StatusOr<Tokenizer> fromFile(const std::string &path);
  /// Errors (InvalidArgument): what is not supported or wrong, all at once.
  static absl::StatusOr<Tokenizer> fromJson(std::string_view json);

  /// Errors: InvalidArgument for text that is not valid UTF-8, with the offset; ResourceExhausted
  /// for text of 2^30 bytes or more, or a pattern of the file that backtracks without end.
  absl::StatusOr<Encoded> encode(std::string_view text, const EncodeOptions &options = {}) const;

  /// The text of `ids`; ill-formed bytes become U+FFFD, one a maximal subpart.
  /// Error (OutOfRange): an id that is not a token's.
  absl::StatusOr<std::string> decode(absl::Span<const int32_t> ids,
                                     bool skipSpecialTokens = false) const;

  /// One more than the largest id. A model needs at least that many rows of logits.
  int32_t idLimit() const;
  bool contains(int32_t id) const;
  bool isSpecial(int32_t id) const;
  /// What a token adds to the text; empty for ids that are not a token's. Not always whole
  /// characters. The view lives as long as the tokenizer.
  std::string_view tokenBytes(int32_t id) const;
  /// By content as written in the file ("<|im_end|>", "Ġthe").
  std::optional<int32_t> tokenToId(std::string_view content) const;

  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace adapt::rt
