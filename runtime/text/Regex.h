// The regular expressions of tokenizer.json, which are written for Oniguruma, run by PCRE2.
#pragma once
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace adapt::rt {

/// Immutable, cheap to copy, and usable from several threads at once.
///
/// Character classes are those of the Unicode version that PCRE2 was built with (14 in
/// PCRE2 10.42): characters that Unicode assigned later count as unassigned.
class Regex {
public:
  struct Match {
    size_t begin, end;
  };

  /// Errors (InvalidArgument): constructs whose meaning in PCRE2 differs or is not known to be
  /// equal (see OnigSyntax.h), and what PCRE2 refuses.
  static absl::StatusOr<Regex> compile(std::string_view onigPattern);

  /// All matches from left to right, without overlap, in valid UTF-8; an empty match right after
  /// another match is skipped. Error (ResourceExhausted): the pattern backtracks beyond the limit.
  absl::Status findAll(std::string_view text, std::vector<Match> &matches) const;

private:
  struct Code;
  std::shared_ptr<const Code> code;
};

} // namespace adapt::rt
