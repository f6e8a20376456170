#include "adapt/Model/Model.h"
#include "gmock/gmock.h"
#include <cmath>

using adapt::computeInverseFrequencies;
using llvm::json::Object;
using llvm::json::Value;

namespace {

std::string getError(Value scaling, int64_t size = 64, double theta = 1e4) {
  auto result = computeInverseFrequencies(size, theta, scaling);
  return result ? "" : llvm::toString(result.takeError());
}

TEST(Rope, Default) {
  auto frequencies = computeInverseFrequencies(8, 1e4, nullptr);
  ASSERT_TRUE(bool(frequencies));
  // 10000^(-2i/8): 1, 0.1, 0.01, 0.001.
  EXPECT_THAT(*frequencies, testing::ElementsAre(1.0f, 0.1f, 0.01f, 0.001f));
}

TEST(Rope, Linear) {
  auto frequencies = computeInverseFrequencies(8, 1e4, Object{{"type", "linear"}, {"factor", 4.0}});
  ASSERT_TRUE(bool(frequencies));
  EXPECT_THAT(*frequencies, testing::ElementsAre(0.25f, 0.025f, 0.0025f, 0.00025f));
}

// Case D01: with head_dim 64, theta 5e5, factor 32, low 1, high 4 and original length 8192, pairs
// 0-14 stay, 15-17 are blended, 18-31 are divided by 32. The four numbers come with the case.
TEST(Rope, Llama3) {
  for (const char *key : {"rope_type", "type"}) {
    Object scaling{{key, "llama3"},          {"factor", 32.0},
                   {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
                   {"rope_theta", 500000.0}, {"original_max_position_embeddings", 8192}};
    auto scaled = computeInverseFrequencies(64, 5e5, std::move(scaling));
    ASSERT_TRUE(bool(scaled)) << key;
    ASSERT_EQ(scaled->size(), 32u);
    auto relative = [](double a, double b) { return std::abs(a - b) / b; };
    for (int i = 0; i < 32; ++i) {
      double plain = std::pow(5e5, -2.0 * i / 64);
      if (i <= 14)
        EXPECT_EQ((*scaled)[i], float(plain)) << i;
      else if (i >= 18)
        EXPECT_EQ((*scaled)[i], float(plain / 32)) << i;
      else
        EXPECT_TRUE((*scaled)[i] < plain * 0.999 && (*scaled)[i] > plain / 32 * 1.001) << i;
    }
    EXPECT_LT(relative((*scaled)[15], 1.290548e-3), 1e-6);
    EXPECT_LT(relative((*scaled)[16], 4.295568e-4), 1e-6);
    EXPECT_LT(relative((*scaled)[17], 9.708288e-5), 1e-6);
    EXPECT_LT(relative((*scaled)[31], 9.418307e-8), 1e-6);
  }
}

TEST(Rope, Refused) {
  for (const char *kind : {"yarn", "dynamic", "longrope", "proportional", "su", "mrope"})
    EXPECT_EQ(getError(Object{{"rope_type", kind}, {"factor", 2.0}}),
              std::string("rope scaling of kind '") + kind +
                  "' is not supported; supported are default, linear and llama3");
  EXPECT_THAT(getError(Object{{"rope_type", "linear"}}), testing::HasSubstr("lacks factor"));
  EXPECT_THAT(getError(Object{{"rope_type", "linear"}, {"factor", 0}}),
              testing::HasSubstr("factor must be a number above 0, not 0"));
  EXPECT_THAT(getError(Object{{"rope_type", "linear"}, {"type", "llama3"}, {"factor", 2}}),
              testing::HasSubstr("rope_type is 'linear' but type is 'llama3'"));
  EXPECT_THAT(getError(Object{{"rope_type", "default"}, {"factor", 2}, {"mscale", 1}}),
              testing::HasSubstr("kind default does not know factor = 2, mscale = 1"));
  EXPECT_THAT(getError(Object{{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}),
              testing::HasSubstr("partial_rotary_factor = 0.5"));
  EXPECT_THAT(getError(Object{{"rope_type", "llama3"},
                              {"factor", 8},
                              {"low_freq_factor", 4},
                              {"high_freq_factor", 4},
                              {"original_max_position_embeddings", 8192}}),
              testing::HasSubstr("high_freq_factor must be above low_freq_factor"));
  EXPECT_THAT(getError(Object{{"rope_type", 3}}), testing::HasSubstr("must be a word, not 3"));
  EXPECT_THAT(getError("linear"), testing::HasSubstr("must be a map"));
  EXPECT_THAT(getError(nullptr, 7), testing::HasSubstr("even number of elements, not 7"));
  EXPECT_THAT(getError(nullptr, 64, 0), testing::HasSubstr("theta above 0"));
}

} // namespace
