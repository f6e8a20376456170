// Weights as the interpreter sees them.
#include "adapt/Interpreter/Sources.h"
#include "adapt/Interpreter/Interpreter.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "dialects/Adapt/Recipes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "weights/Recipe.h"

#include "gtest/gtest.h"

using namespace adapt;
using namespace adapt::interp;

namespace {

/// w: f32 [2, 3] = 0.5 … 5.5; h: f16 and b: bf16 of 1, -2, 0.333…; i: i16; n: an unaligned f32.
class Memory : public weights::SourceProvider {
public:
  absl::StatusOr<weights::SourceTensor> source(std::string_view name) const override {
    auto bytes = [](const auto &values) {
      return absl::Span<const std::byte>(reinterpret_cast<const std::byte *>(std::data(values)),
                                         std::size(values) * sizeof(values[0]));
    };
    static const float w[] = {0.5, 1.5, 2.5, 3.5, 4.5, 5.5};
    static const uint16_t h[] = {0x3c00, 0xc000, 0x3555}, b[] = {0x3f80, 0xc000, 0x3eab};
    static const int16_t i[] = {-300, 7};
    static const char n[] = "\0\0\0\xc0\x3f"; // 1.5 from byte 1 on
    if (name == "w")
      return weights::SourceTensor{schema::F32, {2, 3}, bytes(w)};
    if (name == "h")
      return weights::SourceTensor{schema::F16, {3}, bytes(h)};
    if (name == "b")
      return weights::SourceTensor{schema::BF16, {3}, bytes(b)};
    if (name == "i")
      return weights::SourceTensor{schema::I16, {2}, bytes(i)};
    if (name == "n")
      return weights::SourceTensor{
          schema::F32, {}, {reinterpret_cast<const std::byte *>(n) + 1, 4}};
    if (name == "splat")
      return weights::SourceTensor{schema::F32, {4}, bytes(w).subspan(4, 4), true};
    return absl::NotFoundError("no tensor");
  }
};

TEST(SourcesTest, ReadsEveryKind) {
  mlir::MLIRContext context;
  context.loadDialect<AdaptDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @main() -> (tensor<2x3xf32>, tensor<3xf16>, tensor<3xbf16>, tensor<2xi16>, tensor<f32>, tensor<4xf32>) {
      %w = adapt.param "w" : tensor<2x3xf32> { %0 = adapt.source "w" : tensor<2x3xf32> adapt.yield %0 : tensor<2x3xf32> }
      %h = adapt.param "h" : tensor<3xf16> { %0 = adapt.source "h" : tensor<3xf16> adapt.yield %0 : tensor<3xf16> }
      %b = adapt.param "b" : tensor<3xbf16> { %0 = adapt.source "b" : tensor<3xbf16> adapt.yield %0 : tensor<3xbf16> }
      %i = adapt.param "i" : tensor<2xi16> { %0 = adapt.source "i" : tensor<2xi16> adapt.yield %0 : tensor<2xi16> }
      %n = adapt.param "n" : tensor<f32> { %0 = adapt.source "n" : tensor<f32> adapt.yield %0 : tensor<f32> }
      %s = adapt.param "splat" : tensor<4xf32> { %0 = adapt.source "splat" : tensor<4xf32> adapt.yield %0 : tensor<4xf32> }
      return %w, %h, %b, %i, %n, %s : tensor<2x3xf32>, tensor<3xf16>, tensor<3xbf16>, tensor<2xi16>, tensor<f32>, tensor<4xf32>
    })",
                                                        &context);
  ASSERT_TRUE(module);
  Memory memory;
  Options options;
  options.readSource = readFrom(memory);
  Interpreter interpreter(*module, options);
  auto results = interpreter.run(interpreter.lookup("main"), {});
  ASSERT_TRUE(mlir::succeeded(results));
  EXPECT_EQ((*results)[0].tensor().floats(),
            llvm::ArrayRef<double>({0.5, 1.5, 2.5, 3.5, 4.5, 5.5}));
  // 0x3555 is 1365 / 4096 and 0x3eab is 171 / 512 (IEEE 754).
  EXPECT_EQ((*results)[1].tensor().floats(), llvm::ArrayRef<double>({1, -2, 1365 / 4096.0}));
  EXPECT_EQ((*results)[2].tensor().floats(), llvm::ArrayRef<double>({1, -2, 171 / 512.0}));
  EXPECT_EQ((*results)[3].tensor().ints(), llvm::ArrayRef<int64_t>({-300, 7}));
  EXPECT_EQ((*results)[4].tensor().floats(), llvm::ArrayRef<double>({1.5}));
  EXPECT_EQ((*results)[5].tensor().floats(), llvm::ArrayRef<double>({1.5, 1.5, 1.5, 1.5}));
}

// A param means the same here and in the recipe evaluator, which writes the bundle's weights.
TEST(SourcesTest, AgreesWithTheRecipeEvaluator) {
  mlir::MLIRContext context;
  context.loadDialect<AdaptDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @main() -> tensor<5x4xbf16> {
      %w = adapt.param "w" : tensor<5x4xbf16> {
        %0 = adapt.source "w" : tensor<2x3xf32>
        %1 = adapt.transpose %0 [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
        %2 = adapt.slice %1 offsets = [0, 1] strides = [2, 1] : tensor<3x2xf32> -> tensor<2x1xf32>
        %3 = adapt.splat 1.00390625 : tensor<3x1xf32>
        %4 = adapt.concat axis 0 (%2, %3) : (tensor<2x1xf32>, tensor<3x1xf32>) -> tensor<5x1xf32>
        %5 = adapt.source "h" : tensor<3xf16>
        %6 = adapt.cast %5 : tensor<3xf16> -> tensor<3xf32>
        %7 = adapt.reshape %6 : tensor<3xf32> -> tensor<1x3xf32>
        %8 = adapt.splat -0.1 : tensor<4x3xf32>
        %9 = adapt.concat axis 0 (%8, %7) : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<5x3xf32>
        %10 = adapt.concat axis 1 (%4, %9) : (tensor<5x1xf32>, tensor<5x3xf32>) -> tensor<5x4xf32>
        %11 = adapt.cast %10 : tensor<5x4xf32> -> tensor<5x4xbf16>
        adapt.yield %11 : tensor<5x4xbf16>
      }
      return %w : tensor<5x4xbf16>
    })",
                                                        &context);
  ASSERT_TRUE(module);
  Memory memory;
  Options options;
  options.mode = Mode::Typed;
  options.readSource = readFrom(memory);
  Interpreter interpreter(*module, options);
  auto results = interpreter.run(interpreter.lookup("main"), {});
  ASSERT_TRUE(mlir::succeeded(results));
  schema::Recipe recipe;
  module->walk([&](ParamOp param) { ASSERT_TRUE(mlir::succeeded(toRecipe(param, recipe))); });
  std::vector<uint16_t> bytes(20);
  absl::Status status = weights::evaluate(
      recipe, {}, memory, absl::MakeSpan(reinterpret_cast<std::byte *>(bytes.data()), 40));
  ASSERT_TRUE(status.ok()) << status;
  for (auto [i, value] : llvm::enumerate((*results)[0].tensor().floats()))
    EXPECT_EQ(value, weights::bf16ToF32(bytes[i])) << i;
}

} // namespace
