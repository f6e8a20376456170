#include "passes/Common/SizeBounds.h"
#include "mlir/IR/Builders.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace adapt;

namespace {
struct SizeBoundsTest : testing::Test {
  SizeBoundsTest() {
    context.loadDialect<AdaptDialect>();
    module = ModuleOp::create(UnknownLoc::get(&context));
    Builder builder(&context);
    auto range = [&](int64_t min, int64_t max) { return builder.getI64ArrayAttr({min, max}); };
    (*module)->setAttr(
        SizeBounds::kAttribute,
        builder.getDictionaryAttr({builder.getNamedAttr("T", builder.getI64IntegerAttr(7)),
                                   builder.getNamedAttr("S", range(2, 5)),
                                   builder.getNamedAttr("H", range(1, int64_t(1) << 62))}));
    FailureOr<SizeBounds> read = SizeBounds::get(*module);
    EXPECT_TRUE(succeeded(read));
    bounds = *read;
    T = getSymbolExpr(&context, "T");
    S = getSymbolExpr(&context, "S");
    H = getSymbolExpr(&context, "H");
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  SizeBounds bounds;
  AffineExpr T, S, H;
};
} // namespace

// Every value that an expression takes lies in its range.
TEST_F(SizeBoundsTest, RangesHoldAllValues) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<AffineExpr> pool = {T, S, getAffineConstantExpr(3, &context),
                                    getAffineConstantExpr(-2, &context)};
    for (int depth = 0; depth < 4; ++depth) {
      AffineExpr a = pool[random() % pool.size()], b = pool[random() % pool.size()];
      int64_t divisor = 1 + random() % 4;
      switch (random() % 6) {
      case 0:
        pool.push_back(a + b);
        break;
      case 1:
        pool.push_back(a - b);
        break;
      case 2:
        pool.push_back(a * b);
        break;
      case 3:
        pool.push_back(a.floorDiv(divisor));
        break;
      case 4:
        pool.push_back(a.ceilDiv(divisor));
        break;
      default:
        pool.push_back(a % divisor);
      }
    }
    AffineExpr expr = pool.back();
    std::optional<SizeBounds::Range> range = bounds.getRange(expr);
    ASSERT_TRUE(range);
    for (int64_t t = 1; t <= 7; ++t)
      for (int64_t s = 2; s <= 5; ++s) {
        std::optional<int64_t> value =
            evaluateSize(expr, [&](StringRef name) { return std::optional(name == "T" ? t : s); });
        ASSERT_TRUE(value);
        EXPECT_LE(range->min, *value) << toString(expr);
        EXPECT_GE(range->max, *value) << toString(expr);
      }
  }
}

TEST_F(SizeBoundsTest, KnownRanges) {
  auto expect = [&](AffineExpr expr, int64_t min, int64_t max) {
    std::optional<SizeBounds::Range> range = bounds.getRange(expr);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->min, min);
    EXPECT_EQ(range->max, max);
  };
  expect(T, 1, 7);
  expect(S + 1, 3, 6);
  expect(T * S, 2, 35);
  expect(T - S, -4, 5);
  expect(T.ceilDiv(4), 1, 2);
  expect(S % 16, 2, 5);
  expect(T % 4, 0, 3);
}

TEST_F(SizeBoundsTest, NoRange) {
  EXPECT_FALSE(bounds.getRange(getSymbolExpr(&context, "unknown")));
  EXPECT_FALSE(bounds.getRange(H * 4)); // Leaves 64 bits.
  EXPECT_FALSE(bounds.getRange(H + H));
  EXPECT_FALSE(bounds.getRange(AffineExpr()));
}
