#include "weights/ElementType.h"

#include <cfloat>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace adapt::weights {
namespace {

TEST(ElementType, NamesAreThereAndBack) {
  for (const ElementInfo &info : kElementInfos) {
    EXPECT_EQ(elementFromName(elementName(info.element)), info.element);
    EXPECT_EQ(elementFromSafetensorsName(safetensorsName(info.element)), info.element);
    EXPECT_EQ(elementBytes(info.element), info.bytes);
  }
  EXPECT_EQ(std::size(kElementInfos), size_t(schema::ElementType_ARRAYSIZE - 1));
  EXPECT_EQ(elementBytes(schema::ELEMENT_TYPE_UNSPECIFIED), 0u);
  EXPECT_EQ(elementBytes(ElementType(99)), 0u);
  EXPECT_FALSE(elementFromName("float"));
}

// IEEE 754 by its definition: sign, exponent with bias, mantissa.
double decode(uint16_t bits, int exponentBits, int mantissaBits) {
  int bias = (1 << (exponentBits - 1)) - 1;
  int exponent = (bits >> mantissaBits) & ((1 << exponentBits) - 1);
  int mantissa = bits & ((1 << mantissaBits) - 1);
  double magnitude;
  if (exponent == (1 << exponentBits) - 1)
    magnitude = mantissa ? std::nan("") : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(mantissa, 1 - bias - mantissaBits);
  else
    magnitude = std::ldexp(mantissa + (1 << mantissaBits), exponent - bias - mantissaBits);
  return bits & 0x8000 ? -magnitude : magnitude;
}

struct Format {
  int exponentBits, mantissaBits;
  float (*widen)(uint16_t);
  uint16_t (*fromF32)(float);
  uint16_t (*fromF64)(double);
  double decode(uint16_t bits) const { return weights::decode(bits, exponentBits, mantissaBits); }
  /// Nearest, ties to even, found by bisection over the ordered positive values.
  uint16_t round(double value) const {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double magnitude = std::fabs(value);
    uint16_t infinity = uint16_t(((1 << exponentBits) - 1) << mantissaBits);
    uint16_t low = 0, high = infinity;
    while (high - low > 1) {
      uint16_t middle = uint16_t((low + high) / 2);
      (decode(middle) <= magnitude ? low : high) = middle;
    }
    if (std::isinf(magnitude))
      return sign | infinity;
    // The value after the largest finite one, as if the exponent went on.
    double above = high == infinity ? 2 * decode(low) - decode(uint16_t(low - 1)) : decode(high);
    double down = magnitude - decode(low), up = above - magnitude;
    bool goUp = up < down || (up == down && (low & 1));
    return sign | (goUp ? high : low);
  }
};

constexpr Format kF16 = {5, 10, f16ToF32, f32ToF16, f64ToF16};
constexpr Format kBf16 = {8, 7, bf16ToF32, f32ToBf16, f64ToBf16};

class NarrowFloat : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, NarrowFloat, ::testing::Values(kF16, kBf16));

TEST_P(NarrowFloat, EveryValueWidensExactlyAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    double expected = GetParam().decode(uint16_t(bits));
    float wide = GetParam().widen(uint16_t(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(GetParam().widen(GetParam().fromF32(wide))));
      EXPECT_EQ(std::signbit(wide), (bits & 0x8000) != 0);
      EXPECT_EQ(GetParam().fromF32(wide) & 0x8000, bits & 0x8000);
      continue;
    }
    ASSERT_EQ(double(wide), expected) << bits;
    ASSERT_EQ(std::signbit(wide), std::signbit(expected)) << bits;
    ASSERT_EQ(GetParam().fromF32(wide), bits);
    ASSERT_EQ(GetParam().fromF64(expected), bits);
  }
}

TEST_P(NarrowFloat, RoundsToNearestEven) {
  std::vector<double> values;
  // Around every border between two neighbours: the tie, and a little to each side.
  for (uint32_t bits = 0; bits < 0x7fff; ++bits) {
    double low = GetParam().decode(uint16_t(bits)), high = GetParam().decode(uint16_t(bits + 1));
    if (!std::isfinite(low))
      break;
    double tie = std::isinf(high) ? low + (low - GetParam().decode(uint16_t(bits - 1))) / 2
                                  : (low + high) / 2;
    for (double value :
         {tie, std::nextafter(tie, 0.0), std::nextafter(tie, 1e300),
          double(std::nextafterf(float(tie), 0.0f)), double(std::nextafterf(float(tie), INFINITY))})
      values.push_back(value);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i)
    values.push_back(std::fabs(double(bitCast<float>(uint32_t(random() & 0x7fffffff)))));
  values.insert(values.end(),
                {1e300, 1e-300, 5e-324, INFINITY, double(FLT_MAX), 65519.99, 65520.0});
  for (double magnitude : values) {
    if (std::isnan(magnitude))
      continue;
    for (double value : {magnitude, -magnitude}) {
      ASSERT_EQ(GetParam().fromF64(value), GetParam().round(value)) << std::hexfloat << value;
      if (double(float(value)) == value) {
        ASSERT_EQ(GetParam().fromF32(float(value)), GetParam().round(value))
            << std::hexfloat << value;
      }
    }
  }
}

TEST_P(NarrowFloat, NaNsStayNaNs) {
  for (uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu, 0x7f80ffffu}) {
    uint16_t narrow = GetParam().fromF32(bitCast<float>(bits));
    EXPECT_TRUE(std::isnan(GetParam().decode(narrow))) << bits;
    EXPECT_EQ(narrow & 0x8000u, bits >> 16 & 0x8000u) << bits;
  }
  EXPECT_TRUE(std::isnan(GetParam().decode(GetParam().fromF64(std::nan("")))));
}

TEST(ElementType, LargeIntegersRoundOnce) {
  // 2^60 + 2^52 lies on the tie of bf16 between 2^60 and 2^60 + 2^53; one more must go up. Rounding
  // to f64 first would lose that one.
  uint64_t tie = (uint64_t(1) << 60) + (uint64_t(1) << 52);
  EXPECT_EQ(f64ToBf16(integerToF64RoundToOdd(tie, false)), f64ToBf16(std::ldexp(1.0, 60)));
  EXPECT_EQ(bf16ToF32(f64ToBf16(integerToF64RoundToOdd(tie + 1, false))),
            float(std::ldexp(1.0, 60) + std::ldexp(1.0, 53)));
  EXPECT_EQ(integerToF64RoundToOdd(123456789, true), -123456789.0);
  EXPECT_EQ(integerToF64RoundToOdd(UINT64_C(1) << 63, true), -9223372036854775808.0);
}

} // namespace
} // namespace adapt::weights
