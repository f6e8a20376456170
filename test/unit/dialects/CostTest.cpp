// Costs, counted by hand.
#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace adapt;

namespace {

TEST(CostTest, MatmulReadsItsWeightOnce) {
  MLIRContext context;
  context.loadDialect<AdaptDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      "func.func @f(%x: tensor<?x4xbf16, #adapt.dims<[T, 4]>>, "
      "%w: tensor<10x4xbf16, #adapt.packed<16, 2>>) {"
      "%0 = adapt.matmul %x, %w : tensor<?x4xbf16, #adapt.dims<[T, 4]>>, tensor<10x4xbf16, "
      "#adapt.packed<16, 2>> -> tensor<?x10xf32, #adapt.dims<[T, 10]>> return }",
      &context);
  ASSERT_TRUE(module);
  Cost cost;
  module->walk([&](MatmulOp op) { cost = op.getCost(); });
  auto at = [](AffineExpr expr, int64_t tokens) {
    return evaluateSize(expr, [&](StringRef) { return std::optional(tokens); }).value_or(-1);
  };
  EXPECT_EQ(at(cost.flops, 3), 3 * 10 * 4 * 2);
  // Input 3 x 4 bf16; the weight as stored: one panel of 16 rows.
  EXPECT_EQ(at(cost.bytesRead, 3), 3 * 4 * 2 + 16 * 4 * 2);
  EXPECT_EQ(at(cost.bytesWritten, 3), 3 * 10 * 4);
}

} // namespace
