// Matmuls against double loops: odd sizes, tails, element types, CPUs.
#include "KernelRunner.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace adapt;
using namespace adapt::test;

namespace {
struct Case {
  std::string name;
  std::string input, weight; ///< element types
  int64_t n, k;
  std::string features; ///< of the CPU
  bool residual = false;
  std::string target = "cpu";
};

void PrintTo(const Case &c, std::ostream *os) { *os << c.name; }

std::string print(const testing::TestParamInfo<Case> &info) { return info.param.name; }

class Matmul : public testing::TestWithParam<Case> {};

std::string getText(const Case &c) {
  std::string k = std::to_string(c.k), n = std::to_string(c.n);
  std::string depth = c.weight == "bf16" ? "2" : "1";
  std::string text = "!x = tensor<?x" + k + "x" + c.input + ", #adapt.dims<[s0, " + k + "]>>\n" +
                     "!y = tensor<?x" + n + "x" + c.input + ", #adapt.dims<[s0, " + n + "]>>\n" +
                     "!f = tensor<?x" + n + "xf32, #adapt.dims<[s0, " + n + "]>>\n" +
                     "!w = tensor<" + n + "x" + k + "x" + c.weight +
                     (c.target == "cpu" ? ", #adapt.packed<16, " + depth + ">" : "") + ">\n";
  if (!c.residual)
    return text + "adapt.kernel @mm(%x: !x, %w: !w) -> !y attributes {adapt.symbols = [\"s0\"]} {\n"
                  "  %y = adapt.matmul %x, %w : !x, !w -> !y\n"
                  "  adapt.yield %y : !y\n}\n";
  // In f32: product + residual, rounded once.
  return text + "adapt.kernel @mm(%x: !x, %w: !w, %r: !f) -> (!f, !y) "
                "attributes {adapt.symbols = [\"s0\"]} {\n"
                "  %p = adapt.matmul %x, %w : !x, !w -> !f\n"
                "  %s = adapt.add %p, %r : !f\n"
                "  %c = adapt.cast %s : !f -> !y\n"
                "  adapt.yield %s, %c : !f, !y\n}\n";
}

std::vector<float> values(const std::string &type, size_t count, unsigned seed) {
  std::vector<float> result = randomFloats(count, seed);
  for (float &value : result)
    value = roundTo(type, value);
  return result;
}
} // namespace

TEST_P(Matmul, EqualsDoubleLoops) {
  const Case &c = GetParam();
  auto kernel = Kernel::create(getText(c), c.target, c.features);
  bool isCpu = c.target == "cpu";
  std::vector<float> weight = values(c.weight, c.n * c.k, 7);
  int64_t depth = c.weight == "bf16" ? 2 : 1;
  Buffer bw = Buffer::floats(c.weight, isCpu ? pack(weight, c.n, c.k, depth) : weight);
  std::vector<float> firstRow;
  for (int64_t rows : {1, 2, 3, 4, 5, 8, 9, 17, 131}) {
    std::vector<float> x = values(c.input, rows * c.k, 3), r = randomFloats(rows * c.n, 4);
    std::vector<float> expected(rows * c.n), scale(rows * c.n);
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = c.residual ? r[t * c.n + j] : 0;
        for (int64_t i = 0; i < c.k; ++i)
          sum += double(x[t * c.k + i]) * weight[j * c.k + i];
        expected[t * c.n + j] = sum;
      }
    Buffer bx = Buffer::floats(c.input, x), br = Buffer::of(r);
    Buffer by(rows * c.n * bytesOf(c.input)), bf(rows * c.n * 4);
    std::string variant = c.residual
                              ? kernel->run({&bx, &bw, &br, &bf, &by}, {{"s0", rows}})
                              : kernel->run({&bx, &bw, &by}, {{"s0", rows}}, /*backwards=*/true);
    if (c.features.empty()) {
      EXPECT_EQ(variant, rows == 1            ? "one"
                         : rows <= 4          ? "few"
                         : rows <= 8 && isCpu ? "several"
                                              : "many");
    }
    double narrow = 2e-6 + epsilonOf(c.input);
    EXPECT_LE(maxError(by.toFloats(c.input), expected), narrow) << rows << " rows";
    if (c.residual) {
      EXPECT_LE(maxError(bf.to<float>(), expected), 2e-6) << rows << " rows";
    }
    // The same bits in every tile; a GPU's warps and tiles add in another order.
    if (!isCpu)
      continue;
    std::vector<float> row = by.toFloats(c.input);
    row.resize(c.n);
    if (!firstRow.empty() && !c.residual) {
      EXPECT_EQ(row, firstRow) << rows << " rows";
    }
    firstRow = row;
  }
}

constexpr const char *kNoBf16 = "-avx512bf16";
constexpr const char *kAvx2 = "-avx512f,+avx2,+fma";
constexpr const char *kSse = "-avx,-avx2,-fma,-avx512f";
INSTANTIATE_TEST_SUITE_P(
    Sizes, Matmul,
    testing::ValuesIn(onAll(
        {Case{"bf16", "bf16", "bf16", 96, 64, ""}, Case{"bf16_odd_k", "bf16", "bf16", 48, 37, ""},
         Case{"bf16_odd_n", "bf16", "bf16", 75, 64, ""},
         Case{"bf16_one_panel", "bf16", "bf16", 16, 2, ""},
         Case{"bf16_tiny", "bf16", "bf16", 3, 1, ""},
         Case{"bf16_residual", "bf16", "bf16", 81, 50, "", true},
         Case{"bf16_fma", "bf16", "bf16", 75, 37, kNoBf16, true},
         Case{"bf16_avx2", "bf16", "bf16", 75, 37, kAvx2, true},
         Case{"bf16_sse", "bf16", "bf16", 75, 37, kSse, true},
         Case{"bf16_of_f32", "f32", "bf16", 64, 33, "", true},
         Case{"f16", "f16", "f16", 75, 37, "", true},
         Case{"f16_avx2", "f16", "f16", 75, 37, kAvx2, true}, Case{"f32", "f32", "f32", 96, 64, ""},
         Case{"f32_odd", "f32", "f32", 77, 33, "", true},
         Case{"f32_avx2", "f32", "f32", 77, 33, kAvx2, true},
         Case{"f32_sse", "f32", "f32", 77, 33, kSse}})),
    print);

TEST(MatmulForms, BiasAndConstantsFollow) {
  Kernel kernel(R"(
!x = tensor<?x24xf32, #adapt.dims<[s0, 24]>>
!y = tensor<?x40xf32, #adapt.dims<[s0, 40]>>
!w = tensor<40x24xf32, #adapt.packed<16, 1>>
adapt.kernel @mm(%x: !x, %w: !w, %b: tensor<40xf32>) -> !y attributes {adapt.symbols = ["s0"]} {
  %p = adapt.matmul %x, %w : !x, !w -> !y
  %c = adapt.constant dense<0.5> : tensor<f32>
  %half = adapt.broadcast %c dims = [] : tensor<f32> -> !y
  %h = adapt.mul %p, %half : !y
  %bias = adapt.broadcast %b dims = [1] : tensor<40xf32> -> !y
  %s = adapt.add %h, %bias : !y
  adapt.yield %s : !y
})");
  std::vector<float> x = randomFloats(6 * 24, 1), w = randomFloats(40 * 24, 2),
                     b = randomFloats(40, 3), expected(6 * 40);
  for (int t = 0; t < 6; ++t)
    for (int j = 0; j < 40; ++j) {
      double sum = 0;
      for (int i = 0; i < 24; ++i)
        sum += double(x[t * 24 + i]) * w[j * 24 + i];
      expected[t * 40 + j] = sum / 2 + b[j];
    }
  Buffer bx = Buffer::of(x), bw = Buffer::of(pack(w, 40, 24, 1)), bb = Buffer::of(b);
  Buffer by(6 * 40 * 4);
  EXPECT_EQ(kernel.run({&bx, &bw, &bb, &by}, {{"s0", 6}}), "several");
  EXPECT_LE(maxError(by.to<float>(), expected), 1e-6);
}

TEST(MatmulForms, RowMajorWeightGoesByLinalg) {
  Kernel kernel(R"(
!x = tensor<?x24xbf16, #adapt.dims<[s0, 24]>>
!y = tensor<?x10xbf16, #adapt.dims<[s0, 10]>>
adapt.kernel @mm(%x: !x, %w: tensor<10x24xbf16>) -> !y attributes {adapt.symbols = ["s0"]} {
  %p = adapt.matmul %x, %w : !x, tensor<10x24xbf16> -> !y
  adapt.yield %p : !y
})");
  std::vector<float> x = values("bf16", 3 * 24, 1), w = values("bf16", 10 * 24, 2),
                     expected(3 * 10);
  for (int t = 0; t < 3; ++t)
    for (int j = 0; j < 10; ++j)
      for (int i = 0; i < 24; ++i)
        expected[t * 10 + j] += x[t * 24 + i] * w[j * 24 + i];
  Buffer bx = Buffer::floats("bf16", x), bw = Buffer::floats("bf16", w), by(3 * 10 * 2);
  EXPECT_EQ(kernel.run({&bx, &bw, &by}, {{"s0", 3}}), "any");
  EXPECT_LE(maxError(by.toFloats("bf16"), expected), 4e-3);
}
