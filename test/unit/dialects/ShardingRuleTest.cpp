// Sharding rules as einsum-like text, derived by hand from each operation's definition.
#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace adapt;

namespace {

// "ac,bc->ab c=sum": one letter a factor, '-' for an axis that stays whole.
std::string toText(const ShardingRule &rule) {
  auto axes = [](llvm::ArrayRef<int> factors) {
    std::string text;
    for (int factor : factors)
      text += factor == ShardingRule::kNone ? '-' : static_cast<char>('a' + factor);
    return text;
  };
  std::string text;
  for (const auto &operand : rule.operands)
    text += (text.empty() ? "" : ",") + axes(operand);
  text += "->";
  for (auto [index, result] : llvm::enumerate(rule.results))
    text += (index ? "," : "") + axes(result);
  for (auto [index, factor] : llvm::enumerate(rule.factors)) {
    const char *kNames[] = {"", "sum", "max", "min"};
    if (factor.reduction != ShardingRule::Reduction::None)
      text += std::string(" ") + static_cast<char>('a' + index) + "=" +
              kNames[static_cast<int>(factor.reduction)];
  }
  return text;
}

class ShardingRuleTest : public testing::Test {
protected:
  ShardingRuleTest() { context.loadDialect<AdaptDialect, func::FuncDialect>(); }

  // The rule of the last operation before the return.
  std::string rule(const std::string &arguments, const std::string &body) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + body + "\nreturn }", &context);
    if (!module)
      return "does not parse";
    Operation *op = nullptr;
    module->walk([&](Operation *inner) {
      if (isa<ShardingRuleOpInterface>(inner))
        op = inner;
    });
    return op ? toText(cast<ShardingRuleOpInterface>(op).getShardingRule()) : "no rule";
  }

  MLIRContext context;
};

TEST_F(ShardingRuleTest, Elementwise) {
  EXPECT_EQ(rule("%x: tensor<2x3xf32>", "%0 = adapt.add %x, %x : tensor<2x3xf32>"), "ab,ab->ab");
}

TEST_F(ShardingRuleTest, MatmulSumsOverK) {
  EXPECT_EQ(rule("%x: tensor<2x4xf32>, %w: tensor<8x4xf32>",
                 "%0 = adapt.matmul %x, %w : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>"),
            "ac,bc->ab c=sum");
}

TEST_F(ShardingRuleTest, NormKeepsItsAxisWhole) {
  EXPECT_EQ(rule("%x: tensor<2x4xf32>, %w: tensor<4xf32>",
                 "%0 = adapt.rms_norm %x, %w epsilon = 0.0 : tensor<2x4xf32>, tensor<4xf32>"),
            "a-,-->a-");
}

TEST_F(ShardingRuleTest, RopeSplitsTokensAndHeads) {
  EXPECT_EQ(rule("%x: tensor<5x2x4xf32>, %c: tensor<5x2xf32>",
                 "%0 = adapt.rope %x, %c, %c : tensor<5x2x4xf32>, tensor<5x2xf32>"),
            "ab-,a-,a-->ab-");
}

TEST_F(ShardingRuleTest, AttentionSplitsHeadsInGroups) {
  EXPECT_EQ(
      rule("%q: tensor<3x4x8xf32>, %s: !adapt.paged<tensor<2x8xf32>, tensor<2x8xf32>>, "
           "%a: tensor<2xi32>, %b: tensor<1xi32>, %c: tensor<1x8xi32>",
           "%0, %1 = adapt.paged_attend %q, %s at %a, %b, %c scale = 1.0 : (tensor<3x4x8xf32>, "
           "!adapt.paged<tensor<2x8xf32>, tensor<2x8xf32>>, tensor<2xi32>, tensor<1xi32>, "
           "tensor<1x8xi32>) -> (tensor<3x4x8xf32>, "
           "!adapt.paged<tensor<2x8xf32>, tensor<2x8xf32>>)"),
      "-a-,a,-,-,--->-a-,a");
}

TEST_F(ShardingRuleTest, ReduceSums) {
  EXPECT_EQ(rule("%x: tensor<2x3xf32>",
                 "%0 = adapt.reduce sum %x axes = [1] : tensor<2x3xf32> -> tensor<2xf32>"),
            "ab->a b=sum");
  // No collective combines means of parts.
  EXPECT_EQ(rule("%x: tensor<2x3xf32>",
                 "%0 = adapt.reduce mean %x axes = [1] : tensor<2x3xf32> -> tensor<2xf32>"),
            "a-->a");
}

TEST_F(ShardingRuleTest, GatherSplitsRowsOfTheResultAndColumns) {
  EXPECT_EQ(rule("%t: tensor<8x4xf32>, %i: tensor<2xi32>",
                 "%0 = adapt.gather %t[%i] : tensor<8x4xf32>, tensor<2xi32> -> tensor<2x4xf32>"),
            "cb,a->ab c=sum");
}

TEST_F(ShardingRuleTest, TransposeMovesFactors) {
  EXPECT_EQ(rule("%x: tensor<2x3xf32>",
                 "%0 = adapt.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>"),
            "ab->ba");
}

TEST_F(ShardingRuleTest, SliceAndConcatKeepTheirAxisWhole) {
  EXPECT_EQ(rule("%x: tensor<2x3xf32>", "%0 = adapt.slice %x offsets = [0, 1] strides = [1, 1] : "
                                        "tensor<2x3xf32> -> tensor<2x2xf32>"),
            "a-->a-");
  EXPECT_EQ(rule("%x: tensor<2x3xf32>", "%0 = adapt.concat axis 1(%x, %x) : (tensor<2x3xf32>, "
                                        "tensor<2x3xf32>) -> tensor<2x6xf32>"),
            "a-,a-->a-");
}

// [T, 12] -> [T, 3, 4]: a split of 12 falls on whole heads of 4.
TEST_F(ShardingRuleTest, ReshapeSplitsTheOutermostOfAGroup) {
  EXPECT_EQ(
      rule("%x: tensor<2x12xf32>", "%0 = adapt.reshape %x : tensor<2x12xf32> -> tensor<2x3x4xf32>"),
      "ab->ab-");
  EXPECT_EQ(rule("%x: tensor<2x3x4xf32>",
                 "%0 = adapt.reshape %x : tensor<2x3x4xf32> -> tensor<2x12xf32>"),
            "ab-->ab");
}

TEST_F(ShardingRuleTest, ReshapeOfSymbolicSizes) {
  EXPECT_EQ(rule("%x: tensor<?x12xf32, #adapt.dims<[T, 12]>>",
                 "%0 = adapt.reshape %x : tensor<?x12xf32, #adapt.dims<[T, 12]>> -> "
                 "tensor<?x3x4xf32, #adapt.dims<[T, 3, 4]>>"),
            "ab->ab-");
}

} // namespace
