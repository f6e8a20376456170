// Kernels against the interpreter in typed mode, on random inputs.
#include "adapt/Interpreter/Interpreter.h"
#include "KernelRunner.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace adapt;
using namespace adapt::test;
using interp::Tensor;

namespace {
struct Case {
  std::string name;
  const char *text; ///< one kernel; its sizes are s0 …
  std::vector<std::map<std::string, int64_t>> sizes = {{{"s0", 1}}, {{"s0", 19}}};
  double tolerance = 1e-6; ///< for f32 results; narrower ones may be an ulp off
  float scale = 2.0f;      ///< floats are uniform in ±scale
  int64_t intEnd = 5;      ///< integers in [0, intEnd)
  const char *features = "";
  std::string target = "cpu";
};

void PrintTo(const Case &c, std::ostream *os) { *os << c.name; }

std::string print(const testing::TestParamInfo<Case> &info) { return info.param.name; }

std::string getName(mlir::Type element) {
  return element.isBF16() ? "bf16" : element.isF16() ? "f16" : "f32";
}

/// Writes a tensor's elements as its type lies in memory.
Buffer toBuffer(const Tensor &tensor, mlir::RankedTensorType type) {
  mlir::Type element = tensor.getElementType();
  auto packed = mlir::dyn_cast_or_null<PackedAttr>(type.getEncoding());
  if (tensor.isFloat()) {
    std::vector<float> values(tensor.floats().begin(), tensor.floats().end());
    if (packed)
      values = pack(values, tensor.getDim(0), tensor.getDim(1), packed.getK());
    return Buffer::floats(getName(element), values);
  }
  llvm::ArrayRef<int64_t> ints = tensor.ints();
  if (element.isInteger(64))
    return Buffer::of(std::vector<int64_t>(ints.begin(), ints.end()));
  if (element.isInteger(32))
    return Buffer::of(std::vector<int32_t>(ints.begin(), ints.end()));
  return Buffer::of(std::vector<int8_t>(ints.begin(), ints.end()));
}

std::vector<float> fromBuffer(const Buffer &buffer, mlir::Type element) {
  auto convert = [](const auto &values) {
    return std::vector<float>(values.begin(), values.end());
  };
  if (mlir::isa<mlir::FloatType>(element))
    return buffer.toFloats(getName(element));
  if (element.isInteger(64))
    return convert(buffer.to<int64_t>());
  if (element.isInteger(32))
    return convert(buffer.to<int32_t>());
  return convert(buffer.to<int8_t>());
}

class AgainstInterpreter : public testing::TestWithParam<Case> {};
} // namespace

TEST_P(AgainstInterpreter, SameResults) {
  const Case &c = GetParam();
  auto kernel = Kernel::create(c.text, c.target, c.features);

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<AdaptDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(c.text, &context);
  ASSERT_TRUE(module);
  KernelOp op = *module->getOps<KernelOp>().begin();
  for (const auto &sizes : c.sizes) {
    interp::EvalContext evaluation;
    for (const auto &[name, value] : sizes)
      evaluation.symbols[name] = value;
    std::mt19937 engine(42);
    std::vector<interp::Value> arguments;
    std::vector<Buffer> buffers;
    for (mlir::Type type : op.getArgumentTypes()) {
      Tensor tensor = *evaluation.makeTensor(op, type);
      for (int64_t i = 0; i < tensor.getNumElements(); ++i)
        tensor.setFromDouble(i, tensor.isFloat() ? c.scale * (engine() / 2147483648.0 - 1.0)
                                                 : double(engine() % c.intEnd));
      tensor.roundToElementType();
      buffers.push_back(toBuffer(tensor, mlir::cast<mlir::RankedTensorType>(type)));
      arguments.push_back(std::move(tensor));
    }
    interp::Options interpretation;
    interpretation.mode = interp::Mode::Typed;
    interp::Interpreter interpreter(*module, interpretation);
    auto expected = interpreter.run(op, arguments, {}, evaluation.symbols);
    ASSERT_TRUE(mlir::succeeded(expected));

    for (const interp::Value &value : *expected) {
      mlir::Type element = value.tensor().getElementType();
      buffers.emplace_back(value.tensor().getNumElements() *
                           ((element.getIntOrFloatBitWidth() + 7) / 8));
    }
    std::vector<const Buffer *> pointers;
    for (const Buffer &buffer : buffers)
      pointers.push_back(&buffer);
    kernel->run(pointers, sizes, /*backwards=*/true);
    for (size_t i = 0; i < expected->size(); ++i) {
      const Tensor &tensor = (*expected)[i].tensor();
      mlir::Type element = tensor.getElementType();
      std::vector<float> reference;
      for (int64_t j = 0; j < tensor.getNumElements(); ++j)
        reference.push_back(tensor.getAsDouble(j));
      double tolerance = !mlir::isa<mlir::FloatType>(element)
                             ? 0
                             : c.tolerance + (element.isF32() ? 0 : epsilonOf(getName(element)));
      EXPECT_LE(maxError(fromBuffer(buffers[arguments.size() + i], element), reference), tolerance)
          << "result " << i << ", s0 = " << sizes.begin()->second;
    }
  }
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

constexpr const char *kUnary = R"(
!x = tensor<?x37xf32, #adapt.dims<[s0, 37]>>
adapt.kernel @k(%x: !x) -> (!x, !x, !x, !x, !x, !x, !x) attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.neg %x : !x
  %1 = adapt.exp %x : !x
  %2 = adapt.tanh %x : !x
  %3 = adapt.erf %x : !x
  %4 = adapt.sin %x : !x
  %5 = adapt.cos %x : !x
  %6 = adapt.sigmoid %x : !x
  adapt.yield %0, %1, %2, %3, %4, %5, %6 : !x, !x, !x, !x, !x, !x, !x
})";

constexpr const char *kRoots = R"(
!x = tensor<?x37xf32, #adapt.dims<[s0, 37]>>
adapt.kernel @k(%x: !x) -> (!x, !x) attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.mul %x, %x : !x
  %1 = adapt.sqrt %0 : !x
  %2 = adapt.rsqrt %0 : !x
  adapt.yield %1, %2 : !x, !x
})";

constexpr const char *kBinary = R"(
!x = tensor<?x5x3xf32, #adapt.dims<[s0, 5, 3]>>
!b = tensor<?x5x3xbf16, #adapt.dims<[s0, 5, 3]>>
adapt.kernel @k(%x: !x, %y: !x, %u: !b, %v: !b) -> (!x, !x, !x, !x, !b, !b)
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.sub %x, %y : !x
  %1 = adapt.div %x, %y : !x
  %2 = adapt.maximum %x, %y : !x
  %3 = adapt.minimum %x, %y : !x
  %4 = adapt.add %u, %v : !b
  %5 = adapt.mul %u, %v : !b
  adapt.yield %0, %1, %2, %3, %4, %5 : !x, !x, !x, !x, !b, !b
})";

// Where LLVM computes in halves, the simulated GPU has none.
constexpr const char *kHalves = R"(
!x = tensor<?x37xf16, #adapt.dims<[s0, 37]>>
!f = tensor<?x37xf32, #adapt.dims<[s0, 37]>>
adapt.kernel @k(%x: !x, %y: !x, %f: !f) -> (!x, !x, !x, !x, !x, !x, !f, !x)
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.add %x, %y : !x
  %1 = adapt.sub %x, %y : !x
  %2 = adapt.mul %x, %y : !x
  %3 = adapt.div %x, %y : !x
  %4 = adapt.maximum %x, %y : !x
  %5 = adapt.neg %x : !x
  %6 = adapt.cast %x : !x -> !f
  %7 = adapt.cast %f : !f -> !x
  adapt.yield %0, %1, %2, %3, %4, %5, %6, %7 : !x, !x, !x, !x, !x, !x, !f, !x
})";

constexpr const char *kIntegers = R"(
!i = tensor<?x7xi32, #adapt.dims<[s0, 7]>>
!l = tensor<?x7xi64, #adapt.dims<[s0, 7]>>
adapt.kernel @k(%x: !i, %y: !i, %l: !l) -> (!i, !i, !i, !i, !l)
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.add %x, %y : !i
  %1 = adapt.sub %x, %y : !i
  %2 = adapt.maximum %x, %y : !i
  %3 = adapt.cast %l : !l -> !i
  %4 = adapt.cast %x : !i -> !l
  %5 = adapt.mul %4, %l : !l
  adapt.yield %0, %1, %2, %3, %5 : !i, !i, !i, !i, !l
})";

constexpr const char *kCasts = R"(
!f = tensor<?x9xf32, #adapt.dims<[s0, 9]>>
!b = tensor<?x9xbf16, #adapt.dims<[s0, 9]>>
!i = tensor<?x9xi32, #adapt.dims<[s0, 9]>>
!p = tensor<?x9xi1, #adapt.dims<[s0, 9]>>
adapt.kernel @k(%f: !f, %b: !b, %i: !i) -> (!b, !f, !i, !i, !f, !p, !f)
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.cast %f : !f -> !b
  %1 = adapt.cast %b : !b -> !f
  %2 = adapt.cast %f : !f -> !i
  %3 = adapt.cast %b : !b -> !i
  %4 = adapt.cast %i : !i -> !f
  %5 = adapt.cast %i : !i -> !p
  %6 = adapt.cast %5 : !p -> !f
  adapt.yield %0, %1, %2, %3, %4, %5, %6 : !b, !f, !i, !i, !f, !p, !f
})";

INSTANTIATE_TEST_SUITE_P(
    Elementwise, AgainstInterpreter,
    testing::ValuesIn(
        onAll({Case{"unary", kUnary}, Case{"unary_large", kUnary, {{{"s0", 50}}}, 2e-7, 30},
               Case{"unary_small", kUnary, {{{"s0", 50}}}, 2e-7, 0.1f},
               Case{"unary_sse", kUnary, {{{"s0", 50}}}, 1e-6, 5, 5, "-avx,-avx2,-fma,-avx512f"},
               Case{"roots", kRoots}, Case{"binary", kBinary}, Case{"integers", kIntegers},
               Case{"halves", kHalves, {{{"s0", 30}}}, 0, 200},
               Case{"halves_small", kHalves, {{{"s0", 30}}}, 0, 1e-4f},
               Case{"casts", kCasts, {{{"s0", 1}}, {{"s0", 30}}}, 1e-6, 100},
               Case{"casts_avx2", kCasts, {{{"s0", 30}}}, 1e-6, 100, 5, "-avx512f"}})),
    print);

//===----------------------------------------------------------------------===//
// Shapes, reductions, gathers
//===----------------------------------------------------------------------===//

constexpr const char *kShapes = R"(
!x = tensor<?x4x6xf32, #adapt.dims<[s0, 4, 6]>>
!t = tensor<?x6x4xf32, #adapt.dims<[s0, 6, 4]>>
!r = tensor<?x24xf32, #adapt.dims<[s0, 24]>>
!s = tensor<?x2x2xf32, #adapt.dims<[s0, 2, 2]>>
!c = tensor<?x4x12xf32, #adapt.dims<[s0, 4, 12]>>
!d = tensor<?x3x2x4xf32, #adapt.dims<[s0, 3, 2, 4]>>
!e = tensor<?x1x6xf32, #adapt.dims<[s0, 1, 6]>>
adapt.kernel @k(%x: !x, %e: !e, %w: tensor<6xf32>) -> (!t, !r, !s, !c, !d, !x, !x)
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.transpose %x [0, 2, 1] : !x -> !t
  %1 = adapt.reshape %x : !x -> !r
  %2 = adapt.slice %x offsets = [0, 1, 1] strides = [1, 2, 3] : !x -> !s
  %3 = adapt.concat axis 2 (%x, %x) : (!x, !x) -> !c
  %4 = adapt.reshape %0 : !t -> !d
  %5 = adapt.broadcast %e dims = [0, 1, 2] : !e -> !x
  %6 = adapt.broadcast %w dims = [2] : tensor<6xf32> -> !x
  adapt.yield %0, %1, %2, %3, %4, %5, %6 : !t, !r, !s, !c, !d, !x, !x
})";

constexpr const char *kReductions = R"(
!x = tensor<?x4x33xf32, #adapt.dims<[s0, 4, 33]>>
!b = tensor<?x4x33xbf16, #adapt.dims<[s0, 4, 33]>>
!y = tensor<?x4xf32, #adapt.dims<[s0, 4]>>
!z = tensor<?x33xf32, #adapt.dims<[s0, 33]>>
!v = tensor<?xf32, #adapt.dims<[s0]>>
!c = tensor<?x4xbf16, #adapt.dims<[s0, 4]>>
!i = tensor<?x4x33xi32, #adapt.dims<[s0, 4, 33]>>
!j = tensor<?x4xi32, #adapt.dims<[s0, 4]>>
adapt.kernel @k(%x: !x, %b: !b, %i: !i) -> (!y, !z, !y, !y, !v, !c, !c, !j, !j)
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.reduce sum %x axes = [2] : !x -> !y
  %1 = adapt.reduce mean %x axes = [1] : !x -> !z
  %2 = adapt.reduce max %x axes = [2] : !x -> !y
  %3 = adapt.reduce min %x axes = [2] : !x -> !y
  %4 = adapt.reduce sum %x axes = [1, 2] : !x -> !v
  %5 = adapt.reduce mean %b axes = [2] : !b -> !c
  %6 = adapt.reduce max %b axes = [2] : !b -> !c
  %7 = adapt.reduce sum %i axes = [2] : !i -> !j
  %8 = adapt.reduce min %i axes = [2] : !i -> !j
  adapt.yield %0, %1, %2, %3, %4, %5, %6, %7, %8 : !y, !z, !y, !y, !v, !c, !c, !j, !j
})";

// Over the symbolic size itself: one work item.
constexpr const char *kColumns = R"(
!x = tensor<?x9xf32, #adapt.dims<[s0, 9]>>
adapt.kernel @k(%x: !x) -> (tensor<9xf32>, tensor<9xf32>) attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.reduce mean %x axes = [0] : !x -> tensor<9xf32>
  %1 = adapt.reduce max %x axes = [0] : !x -> tensor<9xf32>
  adapt.yield %0, %1 : tensor<9xf32>, tensor<9xf32>
})";

constexpr const char *kGather = R"(
!i = tensor<?x2xi64, #adapt.dims<[s0, 2]>>
!j = tensor<?xi32, #adapt.dims<[s0]>>
!y = tensor<?x2x3xf32, #adapt.dims<[s0, 2, 3]>>
!p = tensor<?x21xbf16, #adapt.dims<[s0, 21]>>
adapt.kernel @k(%t: tensor<5x3xf32>, %i: !i, %w: tensor<37x21xbf16, #adapt.packed<16, 2>>, %j: !j)
    -> (!y, !p) attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.gather %t[%i] : tensor<5x3xf32>, !i -> !y
  %1 = adapt.gather %w[%j] : tensor<37x21xbf16, #adapt.packed<16, 2>>, !j -> !p
  adapt.yield %0, %1 : !y, !p
})";

// The rows whose logits are asked for, normalised: two sizes.
// bf16 that is only moved, and constant.
constexpr const char *kMoves = R"(
!x = tensor<?x6xbf16, #adapt.dims<[s0, 6]>>
!y = tensor<?x12xbf16, #adapt.dims<[s0, 12]>>
!p = tensor<?x21xbf16, #adapt.dims<[s0, 21]>>
!j = tensor<?xi32, #adapt.dims<[s0]>>
adapt.kernel @k(%x: !x, %w: tensor<37x21xbf16, #adapt.packed<16, 2>>, %j: !j) -> (!y, !x, !x, !p)
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.concat axis 1 (%x, %x) : (!x, !x) -> !y
  %1 = adapt.constant dense<[1.5, -2.0, 0.0, 3.0, 4.0, -0.5]> : tensor<6xbf16>
  %2 = adapt.broadcast %1 dims = [1] : tensor<6xbf16> -> !x
  %3 = adapt.add %2, %x : !x
  %4 = adapt.gather %w[%j] : tensor<37x21xbf16, #adapt.packed<16, 2>>, !j -> !p
  adapt.yield %0, %2, %3, %4 : !y, !x, !x, !p
})";

constexpr const char *kGatherNorm = R"(
!x = tensor<?x40xbf16, #adapt.dims<[s0, 40]>>
!i = tensor<?xi32, #adapt.dims<[s1]>>
!y = tensor<?x40xbf16, #adapt.dims<[s1, 40]>>
adapt.kernel @k(%x: !x, %i: !i, %w: tensor<40xbf16>) -> !y attributes {adapt.symbols = ["s0", "s1"]} {
  %0 = adapt.gather %x[%i] : !x, !i -> !y
  %1 = adapt.rms_norm %0, %w epsilon = 1.0e-6 : !y, tensor<40xbf16>
  adapt.yield %1 : !y
})";

// Table and indices have the same size, but rows are not independent.
constexpr const char *kPermute = R"(
!x = tensor<?x3xf32, #adapt.dims<[s0, 3]>>
!i = tensor<?xi32, #adapt.dims<[s0]>>
adapt.kernel @k(%x: !x, %i: !i) -> !x attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.gather %x[%i] : !x, !i -> !x
  adapt.yield %0 : !x
})";

constexpr const char *kStatic = R"(
adapt.kernel @k(%x: tensor<3x5xf32>) -> (tensor<5x3xf32>, tensor<2xf32>, tensor<f32>)
    attributes {adapt.symbols = []} {
  %0 = adapt.transpose %x [1, 0] : tensor<3x5xf32> -> tensor<5x3xf32>
  %1 = adapt.constant dense<[1.5, -2.0]> : tensor<2xf32>
  %2 = adapt.reduce sum %x axes = [0, 1] : tensor<3x5xf32> -> tensor<f32>
  adapt.yield %0, %1, %2 : tensor<5x3xf32>, tensor<2xf32>, tensor<f32>
})";

INSTANTIATE_TEST_SUITE_P(
    Shape, AgainstInterpreter,
    testing::ValuesIn(
        onAll({Case{"shapes", kShapes}, Case{"reductions", kReductions}, Case{"columns", kColumns},
               Case{"gather", kGather}, Case{"moves", kMoves},
               Case{"moves_avx2", kMoves, {{{"s0", 1}}, {{"s0", 19}}}, 0, 2, 5, "-avx512f"},
               Case{"gather_norm", kGatherNorm, {{{"s0", 9}, {"s1", 4}}, {{"s0", 5}, {"s1", 20}}}},
               Case{"permute", kPermute, {{{"s0", 5}}, {{"s0", 40}}}},
               Case{"static", kStatic, {{{"s0", 0}}}}})),
    print);

//===----------------------------------------------------------------------===//
// Composites
//===----------------------------------------------------------------------===//

// What a llama layer does between its matmuls: q, k and v of one product, rotated.
constexpr const char *kRope = R"(
!x = tensor<?x96xbf16, #adapt.dims<[s0, 96]>>
!c = tensor<?x8xf32, #adapt.dims<[s0, 8]>>
!q = tensor<?x64xbf16, #adapt.dims<[s0, 64]>>
!k = tensor<?x16xbf16, #adapt.dims<[s0, 16]>>
!qh = tensor<?x4x16xbf16, #adapt.dims<[s0, 4, 16]>>
!kh = tensor<?x1x16xbf16, #adapt.dims<[s0, 1, 16]>>
adapt.kernel @k(%x: !x, %c: !c, %s: !c) -> (!qh, !kh, !kh) attributes {adapt.symbols = ["s0"]} {
  %q = adapt.slice %x offsets = [0, 0] strides = [1, 1] : !x -> !q
  %k = adapt.slice %x offsets = [0, 64] strides = [1, 1] : !x -> !k
  %v = adapt.slice %x offsets = [0, 80] strides = [1, 1] : !x -> !k
  %q1 = adapt.reshape %q : !q -> !qh
  %k1 = adapt.reshape %k : !k -> !kh
  %v1 = adapt.reshape %v : !k -> !kh
  %q2 = adapt.rope %q1, %c, %s : !qh, !c
  %k2 = adapt.rope %k1, %c, %s : !kh, !c
  adapt.yield %q2, %k2, %v1 : !qh, !kh, !kh
})";

constexpr const char *kRopePart = R"(
!x = tensor<?x3x20xf32, #adapt.dims<[s0, 3, 20]>>
!c = tensor<?x6xf32, #adapt.dims<[s0, 6]>>
adapt.kernel @k(%x: !x, %c: !c, %s: !c) -> (!x, !x) attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.rope %x, %c, %s : !x, !c
  %1 = adapt.rope %x, %c, %s interleaved : !x, !c
  adapt.yield %0, %1 : !x, !x
})";

constexpr const char *kRopeTable = R"(
!p = tensor<?xi32, #adapt.dims<[s0]>>
!c = tensor<?x4xf32, #adapt.dims<[s0, 4]>>
adapt.kernel @k(%p: !p) -> (!c, !c) attributes {adapt.symbols = ["s0"]} {
  %c, %s = adapt.rope_table %p inverse_frequencies = dense<[1.0, 0.1, 0.01, 1.0e-4]> : tensor<4xf32>
      {scale = 1.5 : f64} : !p -> !c
  adapt.yield %c, %s : !c, !c
})";

constexpr const char *kGated = R"(
!g = tensor<?x70xbf16, #adapt.dims<[s0, 70]>>
!x = tensor<?x35xbf16, #adapt.dims<[s0, 35]>>
!f = tensor<?x35xf32, #adapt.dims<[s0, 35]>>
adapt.kernel @k(%x: !g, %f: !f, %h: !f) -> (!x, !f, !f) attributes {adapt.symbols = ["s0"]} {
  %g = adapt.slice %x offsets = [0, 0] strides = [1, 1] : !g -> !x
  %u = adapt.slice %x offsets = [0, 35] strides = [1, 1] : !g -> !x
  %0 = adapt.gated_activation silu %g, %u : !x
  %1 = adapt.gated_activation gelu_erf %f, %h : !f
  %2 = adapt.gated_activation gelu_tanh %f, %h : !f
  adapt.yield %0, %1, %2 : !x, !f, !f
})";

constexpr const char *kNorm = R"(
!x = tensor<?x576xbf16, #adapt.dims<[s0, 576]>>
!h = tensor<?x3x24xf32, #adapt.dims<[s0, 3, 24]>>
adapt.kernel @k(%x: !x, %w: tensor<576xbf16>, %h: !h, %v: tensor<24xf32>) -> (!x, !h)
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.rms_norm %x, %w epsilon = 1.0e-5 : !x, tensor<576xbf16>
  %1 = adapt.rms_norm %h, %v epsilon = 1.0e-5 : !h, tensor<24xf32>
  adapt.yield %0, %1 : !x, !h
})";

INSTANTIATE_TEST_SUITE_P(
    Composite, AgainstInterpreter,
    testing::ValuesIn(
        onAll({Case{"rope", kRope}, Case{"rope_part", kRopePart},
               Case{"rope_table", kRopeTable, {{{"s0", 1}}, {{"s0", 300}}}, 4e-7, 1, 1000000},
               Case{"gated", kGated}, Case{"norm", kNorm},
               Case{"norm_avx2", kNorm, {{{"s0", 3}}}, 1e-6, 2, 5, "-avx512f"}})),
    print);
