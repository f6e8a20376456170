#include "text/Sampler.h"
#include "text/Random.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <string>

using namespace adapt::rt;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampler sampler(const SamplingOptions &options) { return *Sampler::create(options); }

SamplingOptions sampled(double temperature = 1) {
  SamplingOptions options;
  options.temperature = temperature;
  options.seed = 1234;
  return options;
}

// Tokens 0 to 3 with the probabilities 0.1, 0.2, 0.3, 0.4.
const std::vector<float> kTenths = {std::log(1.f), std::log(2.f), std::log(3.f), std::log(4.f)};

// Pearson's statistic of draws against probabilities; a token without probability must not occur.
double chiSquare(Sampler sampler, const std::vector<float> &logits, const std::vector<double> &p) {
  constexpr int kDraws = 100000;
  std::vector<int> counts(p.size());
  for (int i = 0; i < kDraws; ++i)
    ++counts[static_cast<size_t>(sampler.sample(logits, static_cast<uint64_t>(i))->id)];
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
      continue;
    }
    double expected = p[i] * kDraws;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}
constexpr double kLimit3 = 16.27, kLimit2 = 13.82, kLimit1 = 10.83; // p = 0.001 at 3, 2, 1 degrees

// Known answers of the authors' library Random123 (tests/kat_vectors, philox 4 32 10).
TEST(RandomTest, PhiloxKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The same answers as choices among 1000 equal tokens: u is 0xe169c58d / 2^32 = 0.8805 and so on.
TEST(SamplerTest, ChoicesFollowFromTheGenerator) {
  std::vector<float> equal(1000, -3.f);
  SamplingOptions options = sampled();
  options.seed = 0;
  EXPECT_EQ(sampler(options).sample(equal, 0)->id, 880);
  options.seed = 0x299f31d0a4093822;
  options.stream = 0x0370734413198a2e;
  EXPECT_EQ(sampler(options).sample(equal, 0x85a308d3243f6a88)->id, 581);
  options.seed = options.stream = ~uint64_t{0};
  EXPECT_EQ(sampler(options).sample(equal, ~uint64_t{0})->id, 256);
  options.topK = 1000;
  options.minP = 0.5; // through the filters: all are equal, ids in order
  EXPECT_EQ(sampler(options).sample(equal, ~uint64_t{0})->id, 256);
}

TEST(SamplerTest, GreedyTakesTheLowestOfEqualIds) {
  Sampler greedy = sampler({});
  EXPECT_EQ(greedy.sample({1, 3, 3, 2}, 0)->id, 1);
  EXPECT_EQ(greedy.sample({-kInfinity, -5, -5}, 9)->id, 1);
  EXPECT_EQ(greedy.sample({0.f, -0.f}, 0)->id, 0);
  EXPECT_EQ(greedy.sample({-0.f, 0.f}, 0)->id, 0);
  EXPECT_EQ(greedy.sample({7}, 0)->id, 0);
}

TEST(SamplerTest, LogprobIsTheModels) {
  EXPECT_NEAR(sampler({}).sample(kTenths, 0)->logprob, std::log(0.4), 1e-6);
  SamplingOptions options = sampled(0.5);
  options.topK = 1;
  options.topP = 0.1;
  EXPECT_NEAR(sampler(options).sample(kTenths, 0)->logprob, std::log(0.4), 1e-6);
  // Far from zero, and with what is ruled out.
  EXPECT_NEAR(sampler({}).sample({1000, 1000, -kInfinity}, 0)->logprob, std::log(0.5), 1e-6);
  EXPECT_NEAR(sampler({}).sample({-3e38f, 3e38f}, 0)->logprob, 0, 1e-6);
}

TEST(SamplerTest, LogprobCanBeLeftOut) {
  SamplingOptions options = sampled();
  int32_t id = sampler(options).sample(kTenths, 3)->id;
  options.logprob = false;
  SampledToken token = *sampler(options).sample(kTenths, 3);
  EXPECT_EQ(token.id, id);
  EXPECT_TRUE(std::isnan(token.logprob));
}

TEST(SamplerTest, RefusesWhatIsNotFinite) {
  for (SamplingOptions options : {SamplingOptions(), sampled()}) {
    Sampler s = sampler(options);
    for (std::vector<float> logits :
         {std::vector<float>{}, {kNan}, {1, kNan, 2}, {kInfinity, 1}, {-kInfinity, -kInfinity}})
      EXPECT_EQ(s.sample(logits, 0).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(s.sample({1, kNan, 2, kNan}, 0).status().message()),
              "2 of 4 logits are not finite, the first is nan of token 1");
  }
}

TEST(SamplerTest, RefusesBadOptions) {
  auto refused = [](auto change) {
    SamplingOptions options = sampled();
    change(options);
    return Sampler::create(options).status().code() == absl::StatusCode::kInvalidArgument;
  };
  for (double value : {-0.1, double{kNan}, double{kInfinity}})
    EXPECT_TRUE(refused([=](SamplingOptions &o) { o.temperature = value; })) << value;
  for (double value : {0.0, -1.0, 1.1, double{kNan}})
    EXPECT_TRUE(refused([=](SamplingOptions &o) { o.topP = value; })) << value;
  for (double value : {-0.1, 1.1, double{kNan}})
    EXPECT_TRUE(refused([=](SamplingOptions &o) { o.minP = value; })) << value;
  EXPECT_TRUE(refused([](SamplingOptions &o) { o.topK = -1; }));
  EXPECT_FALSE(refused([](SamplingOptions &) {}));
}

TEST(SamplerTest, Distribution) {
  EXPECT_LT(chiSquare(sampler(sampled()), kTenths, {.1, .2, .3, .4}), kLimit3);
  // Temperature 0.5 squares the odds: 1, 4, 9, 16 of 30.
  EXPECT_LT(chiSquare(sampler(sampled(0.5)), kTenths, {1 / 30., 4 / 30., 9 / 30., 16 / 30.}),
            kLimit3);
  // The order of tokens plays no part, nor does what is ruled out.
  EXPECT_LT(chiSquare(sampler(sampled()), {kTenths[3], -kInfinity, kTenths[0], kTenths[1]},
                      {4 / 7., 0, 1 / 7., 2 / 7.}),
            kLimit2);
}

TEST(SamplerTest, TopK) {
  SamplingOptions options = sampled();
  options.topK = 2;
  EXPECT_LT(chiSquare(sampler(options), kTenths, {0, 0, 3 / 7., 4 / 7.}), kLimit1);
  EXPECT_LT(chiSquare(sampler(options), {1, 1, 1, 1}, {.5, .5, 0, 0}), kLimit1); // ties: lower ids
  options.topK = 1;
  EXPECT_EQ(chiSquare(sampler(options), kTenths, {0, 0, 0, 1}), 0);
  options.topK = 100; // more than there are
  EXPECT_LT(chiSquare(sampler(options), kTenths, {.1, .2, .3, .4}), kLimit3);
}

TEST(SamplerTest, TopP) {
  SamplingOptions options = sampled();
  options.topP = 0.5; // 0.4 is too little, 0.4 + 0.3 is enough
  EXPECT_LT(chiSquare(sampler(options), kTenths, {0, 0, 3 / 7., 4 / 7.}), kLimit1);
  options.topP = 0.39;
  EXPECT_EQ(chiSquare(sampler(options), kTenths, {0, 0, 0, 1}), 0);
  options.topP = 1e-9; // never none
  EXPECT_EQ(chiSquare(sampler(options), kTenths, {0, 0, 0, 1}), 0);
  options.topP = 0.55; // of what top-k left: 4/7 alone is enough
  options.topK = 2;
  EXPECT_EQ(chiSquare(sampler(options), kTenths, {0, 0, 0, 1}), 0);
  options.topK = 0;
  options.temperature = 1e6; // after temperature: nearly equal, so three are needed
  EXPECT_LT(chiSquare(sampler(options), kTenths, {0, 1 / 3., 1 / 3., 1 / 3.}), kLimit2);
}

TEST(SamplerTest, MinP) {
  SamplingOptions options = sampled();
  options.minP = 0.6; // 0.3 / 0.4 passes, 0.2 / 0.4 does not
  EXPECT_LT(chiSquare(sampler(options), kTenths, {0, 0, 3 / 7., 4 / 7.}), kLimit1);
  options.minP = 0.8;
  EXPECT_EQ(chiSquare(sampler(options), kTenths, {0, 0, 0, 1}), 0);
}

TEST(SamplerTest, VerySmallTemperaturesAreGreedy) {
  for (double temperature : {1e-3, 1e-30, 5e-324}) {
    EXPECT_EQ(chiSquare(sampler(sampled(temperature)), {1, 3, 2}, {0, 1, 0}), 0);
    SamplingOptions options = sampled(temperature);
    options.topP = 0.9;
    EXPECT_EQ(chiSquare(sampler(options), {1, 3, 2}, {0, 1, 0}), 0);
  }
}

TEST(SamplerTest, AChoiceDependsOnSeedStreamAndStepOnly) {
  std::vector<float> equal(1000, 0.f);
  SamplingOptions options = sampled();
  Sampler one = sampler(options), other = sampler(options);
  int32_t expected = one.sample(equal, 5)->id;
  for (uint64_t step : {1, 2, 3, 4})
    ASSERT_TRUE(other.sample(kTenths, step).ok());
  EXPECT_EQ(other.sample(equal, 5)->id, expected);
  EXPECT_NE(one.sample(equal, 6)->id, expected);
  options.stream = 1;
  EXPECT_NE(sampler(options).sample(equal, 5)->id, expected);
  options.stream = 0;
  options.seed = 1235;
  EXPECT_NE(sampler(options).sample(equal, 5)->id, expected);
}

// The exponential inside is our own: against the library's, through log-probabilities.
TEST(SamplerTest, ExponentialIsAccurate) {
  for (int i = 1; i < 2000; ++i) {
    float gap = static_cast<float>(i) * 0.01f;
    double expected = -std::log1p(std::exp(-double{gap}));
    EXPECT_NEAR(sampler({}).sample({0, -gap}, 0)->logprob, expected,
                1e-7 * std::abs(expected) + 1e-12);
  }
}

} // namespace
