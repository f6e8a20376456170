// Built without contraction of a*b+c (see CMakeLists.txt), so that all compilers round alike.
#include "text/Sampler.h"
#include "text/Random.h"

#include "absl/strings/str_cat.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace adapt::rt {
namespace {

// exp(x) for x <= 0, within 2 units in the last place; 0 below -700. Of IEEE operations alone, for
// libraries differ in the last bit, and that could choose another token. Without branches, so that
// compilers make vectors of loops over it.
inline double expNegative(double x) {
  constexpr double kShift = 0x1.8p52; // a sum with it has its integer part in its lowest bits
  constexpr double kLog2e = 0x1.71547652b82fep0;
  constexpr double kLn2High = 0x1.62e42fefa3800p-1, kLn2Low = 0x1.ef35793c7673p-45;
  double bounded = x > -700 ? x : -700;
  double shifted = bounded * kLog2e + kShift;
  double n = shifted - kShift;
  double r = (bounded - n * kLn2High) - n * kLn2Low; // |r| <= ln(2) / 2
  double p = 1.0 / 6227020800.0;                     // the Taylor series to r^13
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 1.0 / 2.0;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + 1023) << 52; // 2^n
  double scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return x > -700 ? p * scale : 0;
}

// weights[i] = exp((logits[i] - largest) / temperature); returns their sum. Eight sums side by
// side, always the same: the order is part of the result.
double softWeights(const float *logits, size_t count, float largest, double temperature,
                   double *weights) {
  for (size_t i = 0; i < count; ++i)
    weights[i] = expNegative((double{logits[i]} - largest) / temperature);
  double sums[8] = {};
  for (size_t i = 0; i < count; ++i)
    sums[i % 8] += weights[i];
  double total = 0;
  for (double sum : sums)
    total += sum;
  return total;
}

} // namespace

absl::StatusOr<Sampler> Sampler::create(const SamplingOptions &options) {
  auto bad = [](const char *name, double value, const char *range) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it must be ", range));
  };
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    return bad("temperature", options.temperature, "0 or more, and finite");
  if (options.topK < 0)
    return bad("top-k", static_cast<double>(options.topK), "0 (all) or more");
  if (!(options.topP > 0 && options.topP <= 1))
    return bad("top-p", options.topP, "above 0 and at most 1");
  if (!(options.minP >= 0 && options.minP <= 1))
    return bad("min-p", options.minP, "from 0 to 1");
  return Sampler(options);
}

absl::StatusOr<SampledToken> Sampler::sample(absl::Span<const float> logits, uint64_t step) {
  if (logits.empty() || logits.size() > std::numeric_limits<int32_t>::max())
    return absl::InvalidArgumentError(
        absl::StrCat("cannot sample from ", logits.size(), " logits"));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  size_t best = 0, faults = 0, firstFault = 0;
  float largest = -kInfinity;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfinity)) {
      if (faults++ == 0)
        firstFault = i;
    } else if (logits[i] > largest) {
      largest = logits[i];
      best = i;
    }
  }
  if (faults)
    return absl::InvalidArgumentError(absl::StrCat(faults, " of ", logits.size(),
                                                   " logits are not finite, the first is ",
                                                   logits[firstFault], " of token ", firstFault));
  if (largest == -kInfinity)
    return absl::InvalidArgumentError(
        absl::StrCat("all ", logits.size(), " logits are -inf: no token is possible"));

  int32_t id = static_cast<int32_t>(best);
  if (options.temperature > 0) {
    double u = uniform(options.seed, options.stream, step);
    bool filtered = options.topK > 0 || options.topP < 1 || options.minP > 0;
    id = filtered ? pickFiltered(logits, largest, u) : pickFromAll(logits, largest, u);
  }
  if (!options.logprob)
    return SampledToken{id, std::numeric_limits<float>::quiet_NaN()};
  double sum = 0, block[512];
  for (size_t i = 0; i < logits.size(); i += 512)
    sum += softWeights(&logits[i], std::min<size_t>(512, logits.size() - i), largest, 1, block);
  return SampledToken{
      id, static_cast<float>(double{logits[static_cast<size_t>(id)]} - largest - std::log(sum))};
}

// The first token at which the running sum of weights exceeds u times their total.
int32_t Sampler::pickFromAll(absl::Span<const float> logits, float largest, double u) {
  weights.resize(logits.size());
  double total =
      softWeights(logits.data(), logits.size(), largest, options.temperature, weights.data());
  double threshold = u * total, running = 0;
  size_t pick = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0)
      continue;
    pick = i; // the last one, should rounding leave the threshold above all sums
    running += weights[i];
    if (running > threshold)
      break;
  }
  return static_cast<int32_t>(pick);
}

// As pickFromAll, of the candidates that the filters leave, from the most probable down.
int32_t Sampler::pickFiltered(absl::Span<const float> logits, float largest, double u) {
  auto weightOf = [&](int32_t id) {
    return expNegative((double{logits[static_cast<size_t>(id)]} - largest) / options.temperature);
  };
  auto better = [&](int32_t a, int32_t b) {
    float left = logits[static_cast<size_t>(a)], right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  auto worse = [&](int32_t a, int32_t b) { return better(b, a); };

  candidates.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    candidates[i] = static_cast<int32_t>(i);
  if (options.topK > 0 && static_cast<size_t>(options.topK) < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + (options.topK - 1), candidates.end(),
                     better);
    candidates.resize(static_cast<size_t>(options.topK));
  }
  double mass = 0;
  for (int32_t id : candidates)
    mass += weightOf(id);

  // A heap gives the candidates in order, as many as are needed: few, most times. The largest has
  // the weight 1, so min-p is a bound on weights.
  std::make_heap(candidates.begin(), candidates.end(), worse);
  weights.clear();
  double running = 0;
  size_t left = candidates.size();
  while (left > 0) {
    std::pop_heap(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(left), worse);
    double weight = weightOf(candidates[left - 1]);
    bool first = weights.empty();
    if (!first && (weight == 0 || weight < options.minP))
      break;
    --left;
    weights.push_back(weight);
    running += weight;
    if (options.topP < 1 && running >= options.topP * mass)
      break;
  }
  double threshold = u * running, sum = 0;
  size_t pick = 0;
  for (; pick + 1 < weights.size(); ++pick) {
    sum += weights[pick];
    if (sum > threshold)
      break;
  }
  return candidates[candidates.size() - 1 - pick];
}

} // namespace adapt::rt
