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

//===----------------------------------------------------------------------===//
// Kernels of graphs: any number of symbolic sizes
//===----------------------------------------------------------------------===//

TEST(GraphKernel, SoftmaxOverASymbolicAxis) {
  Kernel kernel(R"(
!x = tensor<?x2x?xf32, #adapt.dims<[s0, 2, s1]>>
adapt.kernel @softmax(%x: !x) -> !x attributes {adapt.symbols = ["s0", "s1"]} {
  %y = adapt.softmax %x axis = 2 : !x
  adapt.yield %y : !x
})");
  for (auto [batch, size] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {20, 33}}) {
    std::vector<float> x = randomFloats(batch * 2 * size, 1, 4.0f), expected(x.size());
    for (int64_t row = 0; row < batch * 2; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < size; ++i)
        sum += std::exp(double(x[row * size + i]));
      for (int64_t i = 0; i < size; ++i)
        expected[row * size + i] = std::exp(double(x[row * size + i])) / sum;
    }
    Buffer bx = Buffer::floats("f32", x), by(bx.size());
    kernel.run({&bx, &by}, {{"s0", batch}, {"s1", size}});
    EXPECT_LE(maxError(by.toFloats("f32"), expected), 2e-6) << batch << " x " << size;
  }
}

// The row's axes lie apart in memory.
TEST(GraphKernel, TransposeOfSymbolicAxes) {
  Kernel kernel(R"(
!x = tensor<?x?x3x4xf32, #adapt.dims<[s0, s1, 3, 4]>>
!y = tensor<?x3x?x4xf32, #adapt.dims<[s0, 3, s1, 4]>>
adapt.kernel @transpose(%x: !x) -> !y attributes {adapt.symbols = ["s0", "s1"]} {
  %y = adapt.transpose %x [0, 2, 1, 3] : !x -> !y
  adapt.yield %y : !y
})");
  int64_t batch = 2, size = 5;
  std::vector<float> x = randomFloats(batch * size * 12, 1), expected(x.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < size; ++s)
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t i = 0; i < 4; ++i)
          expected[((b * 3 + h) * size + s) * 4 + i] = x[((b * size + s) * 3 + h) * 4 + i];
  Buffer bx = Buffer::floats("f32", x), by(bx.size());
  kernel.run({&bx, &by}, {{"s0", batch}, {"s1", size}});
  EXPECT_EQ(by.toFloats("f32"), expected);
}

TEST(GraphKernel, BatchMatmulOfSymbolicSizes) {
  Kernel kernel(R"(
!x = tensor<?x?x5xf32, #adapt.dims<[s0, s1, 5]>>
!y = tensor<?x5x?xf32, #adapt.dims<[s0, 5, s2]>>
!z = tensor<?x?x?xf32, #adapt.dims<[s0, s1, s2]>>
adapt.kernel @product(%x: !x, %y: !y) -> !z attributes {adapt.symbols = ["s0", "s1", "s2"]} {
  %z = adapt.batch_matmul %x, %y : !x, !y -> !z
  adapt.yield %z : !z
})");
  int64_t batch = 3, m = 4, n = 7;
  std::vector<float> x = randomFloats(batch * m * 5, 1), y = randomFloats(batch * 5 * n, 2);
  std::vector<float> expected(batch * m * n);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 5; ++k)
          sum += double(x[(b * m + i) * 5 + k]) * y[(b * 5 + k) * n + j];
        expected[(b * m + i) * n + j] = sum;
      }
  Buffer bx = Buffer::floats("f32", x), by = Buffer::floats("f32", y);
  Buffer bz = Buffer::floats("f32", std::vector<float>(expected.size()));
  kernel.run({&bx, &by, &bz}, {{"s0", batch}, {"s1", m}, {"s2", n}});
  EXPECT_LE(maxError(bz.toFloats("f32"), expected), 2e-6);
}
