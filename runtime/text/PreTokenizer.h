// The pre-tokenizers of byte-level BPE: they cut text into words, which BPE never crosses.
#pragma once
#include "absl/status/status.h"
#include "text/Regex.h"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adapt::rt {

/// What becomes of the matches of a pattern (as in Hugging Face tokenizers).
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStep {
  std::optional<Regex> regex; // else `literal`, not empty
  std::string literal;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false; // the matches are what lies between those of the pattern
};

/// Numeric characters (Nd, Nl, No), one by one or in runs, apart from the rest.
struct DigitsStep {
  bool individual = false;
};

/// GPT-2's pattern, and a space in front of each word that has none. The map to the byte alphabet
/// is left out: Bpe takes bytes.
struct ByteLevelStep {
  bool addPrefixSpace = false;
  bool useRegex = true;
};

class PreTokenizer {
public:
  void add(SplitStep step);
  void add(DigitsStep step);
  /// Error: the pattern does not compile (a fault of the build of PCRE2).
  absl::Status add(ByteLevelStep step);

  /// The words, none empty, as views of `text` (valid UTF-8) or of strings added to `arena`.
  absl::Status run(std::string_view text, std::deque<std::string> &arena,
                   std::vector<std::string_view> &words) const;

private:
  struct Step {
    enum Kind { kPattern, kDigits, kPrefixSpace } kind;
    SplitStep split;
    bool individual = false;
  };
  std::vector<Step> steps;
};

} // namespace adapt::rt
