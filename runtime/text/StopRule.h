// When a sequence ends.
//
// The rule: a context of N tokens holds the prompt and all tokens generated after it, the last one
// too. A prompt of n tokens is
//   - refused if n = 0 (there is nothing to continue) or n > N;
//   - else followed by at most min(max tokens, N - n) tokens. If that is 0 (so with n = N), none is
//     generated and the reason is "length".
// A token that ends the sequence ("stop") counts as generated; whether it is shown is the caller's
// affair. If the last token that fits ends the sequence, the reason is "stop".
#pragma once
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace adapt::rt {

enum class FinishReason { kStop, kLength };

inline const char *toString(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

class StopRule {
public:
  /// `maxTokens`: nothing for as many as fit. Errors: InvalidArgument for an empty prompt or a
  /// negative number; OutOfRange for a prompt longer than the context, with both numbers.
  static absl::StatusOr<StopRule> create(absl::Span<const int32_t> endIds, int64_t promptTokens,
                                         int64_t contextTokens,
                                         std::optional<int64_t> maxTokens = std::nullopt) {
    if (promptTokens <= 0)
      return absl::InvalidArgumentError("the prompt has no tokens");
    if (maxTokens && *maxTokens < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("max tokens is ", *maxTokens, "; it must be 0 or more"));
    if (promptTokens > contextTokens)
      return absl::OutOfRangeError(absl::StrCat("the prompt has ", promptTokens,
                                                " tokens, the context holds ", contextTokens));
    StopRule rule;
    rule.ends.assign(endIds.begin(), endIds.end());
    rule.limit = contextTokens - promptTokens;
    if (maxTokens)
      rule.limit = std::min(rule.limit, *maxTokens);
    return rule;
  }

  /// How many tokens may be generated in all.
  int64_t maxNewTokens() const { return limit; }
  int64_t generated() const { return count; }

  /// Before the first token: a reason if none may be generated.
  std::optional<FinishReason> start() const {
    return limit == 0 ? std::optional(FinishReason::kLength) : std::nullopt;
  }

  /// Counts a generated token. A reason if it is the last.
  std::optional<FinishReason> next(int32_t id) {
    ++count;
    if (std::find(ends.begin(), ends.end(), id) != ends.end())
      return FinishReason::kStop;
    if (count >= limit)
      return FinishReason::kLength;
    return std::nullopt;
  }

private:
  StopRule() = default;
  std::vector<int32_t> ends;
  int64_t limit = 0;
  int64_t count = 0;
};

} // namespace adapt::rt
