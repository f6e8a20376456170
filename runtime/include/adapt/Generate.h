// One sequence from a prompt to its end.
#pragma once
#include "absl/functional/function_ref.h"
#include "adapt/LanguageModel.h"
#include "text/Sampler.h"
#include "text/StopRule.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace adapt::rt {

struct GenerationRequest {
  std::vector<int32_t> prompt;
  SamplingOptions sampling;
  std::optional<int64_t> maxTokens; ///< nothing: as many as the context holds
  std::vector<int32_t> endIds;      ///< tokens that end the sequence
};

struct GenerationResult {
  std::vector<int32_t> tokens; ///< with the one that ended the sequence
  FinishReason reason = FinishReason::kLength;
  double prefillSeconds = 0; ///< until the first token is known
  double decodeSeconds = 0;  ///< all further tokens
};

/// Calls `onToken` with each new token, as soon as it is known; its error ends the generation. The
/// sequence's blocks are free again afterwards, whatever happened. Errors: those of StopRule,
/// Sampler and LanguageModel::step.
absl::StatusOr<GenerationResult> generate(LanguageModel &model, const GenerationRequest &request,
                                          absl::FunctionRef<absl::Status(int32_t)> onToken);

} // namespace adapt::rt
