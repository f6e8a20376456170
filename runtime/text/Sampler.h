// The next token from logits.
#pragma once
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include <cstdint>
#include <vector>

namespace adapt::rt {

struct SamplingOptions {
  /// 0: greedy, the largest logit, of equal ones the lowest id; the rest is of no consequence then.
  double temperature = 0;
  /// Only the k largest logits (of equal ones the lower ids); 0: all.
  int64_t topK = 0;
  /// Only the fewest most probable tokens that have this probability together; 1: all.
  double topP = 1;
  /// Only tokens at least this many times as probable as the most probable; 0: all.
  double minP = 0;
  /// Sequences with the same seed, stream and logits get the same tokens.
  uint64_t seed = 0;
  /// Tells sequences of one seed apart (the choices of one request).
  uint64_t stream = 0;
  /// False leaves SampledToken::logprob NaN and saves the larger part of a greedy choice's time.
  bool logprob = true;
};

struct SampledToken {
  int32_t id;
  /// Its log-probability in the model's own distribution: natural logarithm, temperature 1, nothing
  /// left out.
  float logprob;
};

/// Applies temperature, then top-k, top-p (of what top-k left) and min-p, in this order (that of
/// transformers). Choices depend on seed, stream, step and logits only: not on earlier calls, the
/// batch, the platform or its mathematical library. Not for several threads at once.
class Sampler {
public:
  /// Errors (InvalidArgument): a value out of its range, or not a number.
  static absl::StatusOr<Sampler> create(const SamplingOptions &options);

  /// `logits`: one value a token. `step`: the index of the new token in its sequence. -inf rules a
  /// token out. Errors (InvalidArgument): no logits, NaN or +inf (how many, and the first), or
  /// nothing but -inf.
  absl::StatusOr<SampledToken> sample(absl::Span<const float> logits, uint64_t step);

private:
  explicit Sampler(const SamplingOptions &options) : options(options) {}
  int32_t pickFromAll(absl::Span<const float> logits, float largest, double u);
  int32_t pickFiltered(absl::Span<const float> logits, float largest, double u);

  SamplingOptions options;
  std::vector<double> weights; // exp of (logit - largest) / temperature
  std::vector<int32_t> candidates;
};

} // namespace adapt::rt
