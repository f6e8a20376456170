#include "adapt/Interpreter/Value.h"
#include "adapt/Interpreter/Files.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <random>

using namespace adapt::interp;

namespace {

class ValueTest : public testing::Test {
protected:
  mlir::MLIRContext context;
  mlir::Builder builder{&context};

  Tensor floats(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> values) {
    Tensor tensor(builder.getF32Type(), shape);
    llvm::copy(values, tensor.mutableFloats().begin());
    return tensor;
  }
};

TEST_F(ValueTest, CopiesAreIndependent) {
  Tensor a = floats({2}, {1, 2});
  Tensor b = a;
  EXPECT_EQ(a.floats().data(), b.floats().data());
  b.mutableFloats()[0] = 7;
  EXPECT_EQ(a.floats()[0], 1);
  EXPECT_EQ(b.floats()[0], 7);
  const double *place = b.floats().data();
  b.mutableFloats()[1] = 8;
  EXPECT_EQ(b.floats().data(), place) << "an unshared tensor was copied";
  Tensor c = b.withShape({1, 2});
  c.mutableFloats()[0] = 9;
  EXPECT_EQ(b.floats()[0], 7);
}

// The conversion through f32 agrees with APFloat's direct one, ties and subnormals included.
TEST_F(ValueTest, RoundsLikeAPFloat) {
  auto reference = [](double value, const llvm::fltSemantics &semantics) {
    llvm::APFloat number(value);
    bool lost;
    number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lost);
    number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
    return number.convertToDouble();
  };
  std::mt19937_64 generator(1);
  std::vector<double> values = {0.0,
                                -0.0,
                                1 + 0x1p-8,
                                1 + 0x1p-8 + 0x1p-40,
                                1 + 3 * 0x1p-8,
                                0x1p-133,
                                0x1p-134,
                                0x1.8p-134,
                                0x1p-149,
                                0x1p-150,
                                0x1p-1074,
                                0x1.fep127,
                                0x1.ffp127,
                                0x1.fefffffp127,
                                1e300,
                                -1e300,
                                std::numeric_limits<double>::infinity()};
  for (int i = 0; i < 200000; ++i) {
    double value;
    uint64_t bits = generator();
    // All exponents of f32 and some beyond; half of the values near a tie of bf16.
    bits = (bits & 0x800fffffffffffff) | ((896 - 40 + generator() % 340) << 52);
    if (i % 2)
      bits = (bits & ~((uint64_t(1) << 45) - 1)) | (uint64_t(1) << 44) | (generator() % 3);
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(value);
  }
  for (double value : values) {
    double bf16 = roundToType(builder.getBF16Type(), value);
    EXPECT_EQ(bf16, reference(value, llvm::APFloat::BFloat())) << std::hexfloat << value;
    EXPECT_EQ(std::signbit(bf16), std::signbit(value));
    EXPECT_EQ(roundToType(builder.getF32Type(), value),
              reference(value, llvm::APFloat::IEEEsingle()));
    EXPECT_EQ(roundToType(builder.getF64Type(), value), value);
  }
  EXPECT_TRUE(std::isnan(roundToType(builder.getBF16Type(), NAN)));
  EXPECT_TRUE(std::isnan(roundToType(builder.getF16Type(), NAN)));
  EXPECT_EQ(roundToType(builder.getF16Type(), 65519.0), 65504.0);
  EXPECT_EQ(roundToType(builder.getF16Type(), 65520.0), INFINITY);
}

TEST_F(ValueTest, IntegersWrap) {
  EXPECT_EQ(wrapToType(builder.getIntegerType(8), 200), -56);
  EXPECT_EQ(wrapToType(builder.getIntegerType(8), -129), 127);
  EXPECT_EQ(wrapToType(builder.getIntegerType(8, false), -1), 255);
  EXPECT_EQ(wrapToType(builder.getI1Type(), 3), 1);
  EXPECT_EQ(wrapToType(builder.getI64Type(), INT64_MIN), INT64_MIN);
}

TEST_F(ValueTest, ConstantsOfAllKinds) {
  auto read = [](mlir::ElementsAttr attr) { return *getConstant(attr); };
  auto type = [&](mlir::Type element) { return mlir::RankedTensorType::get({2}, element); };
  Tensor splat = read(mlir::DenseElementsAttr::get(
      type(builder.getBF16Type()),
      mlir::Attribute(builder.getFloatAttr(builder.getBF16Type(), 1.5))));
  EXPECT_EQ(splat.floats(), llvm::ArrayRef<double>({1.5, 1.5}));
  Tensor bits = read(
      mlir::DenseElementsAttr::get(type(builder.getI1Type()), llvm::ArrayRef<bool>({true, false})));
  EXPECT_EQ(bits.ints(), llvm::ArrayRef<int64_t>({1, 0}));
  Tensor bytes = read(mlir::DenseElementsAttr::get(type(builder.getIntegerType(8)),
                                                   llvm::ArrayRef<int8_t>({-1, 127})));
  EXPECT_EQ(bytes.ints(), llvm::ArrayRef<int64_t>({-1, 127}));
}

TEST_F(ValueTest, Compares) {
  Value a = floats({2}, {1, -4}), b = floats({2}, {1.5, -4});
  EXPECT_EQ(compare(a, a)->error, 0);
  EXPECT_EQ(compare(a, a)->cosine, 1);
  EXPECT_EQ(compare(a, b)->error, 0.125); // max|a-b| / max|b|
  EXPECT_NEAR(compare(a, b)->cosine, 17.5 / std::sqrt(17 * 18.25), 1e-15);
  Value nan = floats({2}, {NAN, -4}), infinite = floats({2}, {INFINITY, -4});
  EXPECT_EQ(compare(nan, nan)->error, 0);
  EXPECT_EQ(compare(nan, a)->error, INFINITY);
  EXPECT_EQ(compare(infinite, infinite)->error, 0);
  EXPECT_EQ(compare(infinite, a)->error, INFINITY);
  EXPECT_EQ(compare(a, Value(floats({2}, {0, 0})))->error, INFINITY);
  EXPECT_FALSE(compare(a, Value(floats({1, 2}, {1, -4}))));
  EXPECT_FALSE(compare(a, Value(State{{floats({2}, {1, -4})}})));
}

} // namespace
