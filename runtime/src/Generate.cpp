#include "adapt/Generate.h"

#include "absl/cleanup/cleanup.h"

#include <chrono>

using namespace adapt;
using namespace adapt::rt;

absl::StatusOr<GenerationResult> rt::generate(LanguageModel &model,
                                              const GenerationRequest &request,
                                              absl::FunctionRef<absl::Status(int32_t)> onToken) {
  using Clock = std::chrono::steady_clock;
  ADAPT_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(request.sampling));
  ADAPT_ASSIGN_OR_RETURN(
      StopRule rule, StopRule::create(request.endIds, static_cast<int64_t>(request.prompt.size()),
                                      model.maxSeqLen(), request.maxTokens));
  GenerationResult result;
  if (std::optional<FinishReason> reason = rule.start()) {
    result.reason = *reason;
    return result;
  }
  LanguageModel::SequenceId sequence = model.addSequence();
  absl::Cleanup remove = [&] { model.removeSequence(sequence); };
  absl::Span<const int32_t> input = request.prompt;
  Clock::time_point begin = Clock::now();
  while (true) {
    SampledToken token{};
    auto sample = [&](size_t, int64_t, absl::Span<const float> logits) -> absl::Status {
      ADAPT_ASSIGN_OR_RETURN(token,
                             sampler.sample(logits, request.prompt.size() + result.tokens.size()));
      return absl::OkStatus();
    };
    ADAPT_RETURN_IF_ERROR(model.step({{sequence, input}}, sample));
    result.tokens.push_back(token.id);
    double &seconds = result.tokens.size() == 1 ? result.prefillSeconds : result.decodeSeconds;
    Clock::time_point now = Clock::now();
    seconds += std::chrono::duration<double>(now - begin).count();
    begin = now;
    ADAPT_RETURN_IF_ERROR(onToken(token.id));
    if (std::optional<FinishReason> reason = rule.next(token.id)) {
      result.reason = *reason;
      return result;
    }
    input = absl::MakeConstSpan(result.tokens).last(1);
  }
}
