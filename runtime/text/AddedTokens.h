// Added tokens: strings that stand for one token wherever they occur in the text.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adapt::rt {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool singleWord = false; // matches only where no word character is beside it
  bool lstrip = false;     // takes the white space on its left with it
  bool rstrip = false;     // … on its right
  bool normalized = false; // is sought in the normalised text
};

/// Finds added tokens in text: the leftmost, and of those that start there the longest. The
/// answers, also in odd cases (a match that is turned down still hides what overlaps it), are those
/// of Hugging Face tokenizers, src/tokenizer/added_vocabulary.rs.
class AddedTokenMatcher {
public:
  struct Segment {
    int32_t id; // or -1: text
    std::string_view text;
  };

  /// `pattern` is what to seek: the content, normalised where the token is. It is not empty.
  /// Returns false where another token has the same pattern.
  bool add(AddedToken token, std::string_view pattern);

  /// The segments of `text`, in order; those of text are not empty. With `parseSpecial` false,
  /// special tokens stay text.
  void split(std::string_view text, bool parseSpecial, std::vector<Segment> &segments) const;

  bool empty() const { return tokens.empty(); }

private:
  struct Found {
    size_t token, end;
  };
  bool longestAt(std::string_view text, size_t pos, Found &found) const;

  static constexpr uint32_t kNone = 0xFFFFFFFF;
  std::vector<AddedToken> tokens;
  // A trie of bytes: (node << 8 | byte) to node; node 0 is the root.
  absl::flat_hash_map<uint64_t, uint32_t> edges;
  std::vector<uint32_t> tokenOfNode = {kNone};
  bool starts[256] = {};
};

} // namespace adapt::rt
