// Kernels by way of linalg, against plain loops in double precision.
#include "KernelRunner.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace adapt;
using namespace adapt::test;

namespace {
std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

class FloatTypes : public testing::TestWithParam<const char *> {
protected:
  std::string type = GetParam();
  double tolerance = 2e-6 + 2 * epsilonOf(type); // relative to the largest value
  std::vector<float> values(size_t count, unsigned seed, float scale = 1.0f) {
    std::vector<float> result = randomFloats(count, seed, scale);
    for (float &value : result)
      value = roundTo(type, value);
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(All, FloatTypes, testing::Values("f32", "bf16", "f16"),
                         [](const auto &info) { return std::string(info.param); });

std::vector<float> rmsNorm(const std::vector<float> &x, const std::vector<float> &weight,
                           double epsilon) {
  size_t size = weight.size();
  std::vector<float> result(x.size());
  for (size_t row = 0; row < x.size() / size; ++row) {
    double sum = 0;
    for (size_t i = 0; i < size; ++i)
      sum += double(x[row * size + i]) * x[row * size + i];
    for (size_t i = 0; i < size; ++i)
      result[row * size + i] = x[row * size + i] / std::sqrt(sum / size + epsilon) * weight[i];
  }
  return result;
}
} // namespace

TEST_P(FloatTypes, RmsNormOfAnyNumberOfRows) {
  Kernel kernel(replaceAll(R"(
!x = tensor<?x100xE, #adapt.dims<[s0, 100]>>
adapt.kernel @norm(%x: !x, %w: tensor<100xE>) -> !x attributes {adapt.symbols = ["s0"]} {
  %y = adapt.rms_norm %x, %w epsilon = 1.0e-5 : !x, tensor<100xE>
  adapt.yield %y : !x
})",
                           "E", type));
  for (int64_t rows : {1, 2, 16, 17, 53}) {
    std::vector<float> x = values(rows * 100, 1, 3.0f), w = values(100, 2);
    Buffer bx = Buffer::floats(type, x), bw = Buffer::floats(type, w);
    Buffer by(bx.size());
    kernel.run({&bx, &bw, &by}, {{"s0", rows}});
    EXPECT_LE(maxError(by.toFloats(type), rmsNorm(x, w, 1e-5)), tolerance) << rows << " rows";
  }
}
