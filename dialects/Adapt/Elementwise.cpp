#include "dialects/Adapt/Recipes.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace adapt;

//===----------------------------------------------------------------------===//
// Cost and sharding: the same for all
//===----------------------------------------------------------------------===//

// `flops` counts operations per element; transcendental functions as about ten.
#define ADAPT_ELEMENTWISE(OP, FLOPS)                                                               \
  Cost OP::getCost() { return getElementwiseCost(getOperation(), FLOPS); }                         \
  ShardingRule OP::getShardingRule() {                                                             \
    ShardingRule rule = getElementwiseRule(getOperation());                                        \
    rule.isLinear = isa<AddOp, SubOp, NegOp>(getOperation());                                      \
    return rule;                                                                                   \
  }

ADAPT_ELEMENTWISE(AddOp, 1)
ADAPT_ELEMENTWISE(SubOp, 1)
ADAPT_ELEMENTWISE(MulOp, 1)
ADAPT_ELEMENTWISE(DivOp, 1)
ADAPT_ELEMENTWISE(MaximumOp, 1)
ADAPT_ELEMENTWISE(MinimumOp, 1)
ADAPT_ELEMENTWISE(RemOp, 3)
ADAPT_ELEMENTWISE(PowOp, 20)
ADAPT_ELEMENTWISE(AndOp, 1)
ADAPT_ELEMENTWISE(OrOp, 1)
ADAPT_ELEMENTWISE(XorOp, 1)
ADAPT_ELEMENTWISE(CompareOp, 1)
ADAPT_ELEMENTWISE(SelectOp, 1)
ADAPT_ELEMENTWISE(NegOp, 1)
ADAPT_ELEMENTWISE(ExpOp, 10)
ADAPT_ELEMENTWISE(LogOp, 10)
ADAPT_ELEMENTWISE(AbsOp, 1)
ADAPT_ELEMENTWISE(FloorOp, 1)
ADAPT_ELEMENTWISE(CeilOp, 1)
ADAPT_ELEMENTWISE(RoundOp, 1)
ADAPT_ELEMENTWISE(GeluOp, 14)
ADAPT_ELEMENTWISE(SqrtOp, 1)
ADAPT_ELEMENTWISE(RsqrtOp, 2)
ADAPT_ELEMENTWISE(TanhOp, 10)
ADAPT_ELEMENTWISE(ErfOp, 10)
ADAPT_ELEMENTWISE(SinOp, 10)
ADAPT_ELEMENTWISE(CosOp, 10)
ADAPT_ELEMENTWISE(SigmoidOp, 12)
ADAPT_ELEMENTWISE(CastOp, 1)
ADAPT_ELEMENTWISE(GatedActivationOp, 14)
#undef ADAPT_ELEMENTWISE

//===----------------------------------------------------------------------===//
// The computation of one element
//===----------------------------------------------------------------------===//

namespace {
bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

template <typename FloatOp, typename IntOp>
Value emitBinary(OpBuilder &builder, Location loc, ValueRange args) {
  if (isFloat(args[0]))
    return FloatOp::create(builder, loc, args[0], args[1]);
  return IntOp::create(builder, loc, args[0], args[1]);
}

Value splat(OpBuilder &builder, Location loc, Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr = builder.getFloatAttr(element, value);
  if (auto shaped = dyn_cast<ShapedType>(type))
    attr = DenseElementsAttr::get(shaped, attr);
  return arith::ConstantOp::create(builder, loc, attr);
}
} // namespace

Value AddOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return emitBinary<arith::AddFOp, arith::AddIOp>(b, loc, args);
}
double AddOp::evaluateScalar(ArrayRef<double> x) { return x[0] + x[1]; }

Value SubOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return emitBinary<arith::SubFOp, arith::SubIOp>(b, loc, args);
}
double SubOp::evaluateScalar(ArrayRef<double> x) { return x[0] - x[1]; }

Value MulOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return emitBinary<arith::MulFOp, arith::MulIOp>(b, loc, args);
}
double MulOp::evaluateScalar(ArrayRef<double> x) { return x[0] * x[1]; }

namespace {
/// The divisor, or one where an integer division would trap: by zero, and of the least number by
/// -1.
Value makeDivisorSafe(OpBuilder &b, Location loc, Value lhs, Value rhs) {
  Type type = rhs.getType();
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  auto constant = [&](APInt value) -> Value {
    TypedAttr attr = b.getIntegerAttr(getElementTypeOrSelf(type), value);
    if (auto shaped = dyn_cast<ShapedType>(type))
      attr = DenseElementsAttr::get(shaped, attr);
    return arith::ConstantOp::create(b, loc, attr);
  };
  auto equal = [&](Value value, APInt number) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, value, constant(number));
  };
  Value overflows = arith::AndIOp::create(b, loc, equal(lhs, APInt::getSignedMinValue(width)),
                                          equal(rhs, APInt::getAllOnes(width)));
  Value unsafe = arith::OrIOp::create(b, loc, equal(rhs, APInt::getZero(width)), overflows);
  return arith::SelectOp::create(b, loc, unsafe, constant(APInt(width, 1)), rhs);
}
} // namespace

Value DivOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  if (isFloat(args[0]))
    return arith::DivFOp::create(b, loc, args[0], args[1]);
  return arith::DivSIOp::create(b, loc, args[0], makeDivisorSafe(b, loc, args[0], args[1]));
}
double DivOp::evaluateScalar(ArrayRef<double> x) {
  double quotient = x[0] / x[1];
  return isa<FloatType>(getType().getElementType()) ? quotient : std::trunc(quotient);
}

Value RemOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  if (isFloat(args[0]))
    return arith::RemFOp::create(b, loc, args[0], args[1]);
  return arith::RemSIOp::create(b, loc, args[0], makeDivisorSafe(b, loc, args[0], args[1]));
}
double RemOp::evaluateScalar(ArrayRef<double> x) { return std::fmod(x[0], x[1]); }

Value PowOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return math::PowFOp::create(b, loc, args[0], args[1]);
}
double PowOp::evaluateScalar(ArrayRef<double> x) { return std::pow(x[0], x[1]); }

Value AndOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return arith::AndIOp::create(b, loc, args[0], args[1]);
}
double AndOp::evaluateScalar(ArrayRef<double> x) { return int64_t(x[0]) & int64_t(x[1]); }

Value OrOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return arith::OrIOp::create(b, loc, args[0], args[1]);
}
double OrOp::evaluateScalar(ArrayRef<double> x) { return int64_t(x[0]) | int64_t(x[1]); }

Value XorOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return arith::XOrIOp::create(b, loc, args[0], args[1]);
}
double XorOp::evaluateScalar(ArrayRef<double> x) { return int64_t(x[0]) ^ int64_t(x[1]); }

//===----------------------------------------------------------------------===//
// compare and select
//===----------------------------------------------------------------------===//

LogicalResult CompareOp::verify() {
  auto operand = cast<RankedTensorType>(getLhs().getType());
  if (getType() != withElementType(operand, IntegerType::get(getContext(), 1)))
    return emitOpError() << "of " << operand << " must give as many i1, not " << getType();
  return success();
}

Value CompareOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  constexpr F kFloats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  constexpr I kSigned[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  constexpr I kBools[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  unsigned index = static_cast<unsigned>(getPredicate());
  if (isFloat(args[0]))
    return arith::CmpFOp::create(b, loc, kFloats[index], args[0], args[1]);
  bool isBool = getElementTypeOrSelf(args[0].getType()).isInteger(1);
  return arith::CmpIOp::create(b, loc, isBool ? kBools[index] : kSigned[index], args[0], args[1]);
}

double CompareOp::evaluateScalar(ArrayRef<double> x) {
  switch (getPredicate()) {
  case Predicate::Equal:
    return x[0] == x[1];
  case Predicate::NotEqual:
    return x[0] != x[1];
  case Predicate::Less:
    return x[0] < x[1];
  case Predicate::LessEqual:
    return x[0] <= x[1];
  case Predicate::Greater:
    return x[0] > x[1];
  case Predicate::GreaterEqual:
    return x[0] >= x[1];
  }
  llvm_unreachable("unknown predicate");
}

LogicalResult SelectOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (getCondition().getType() != withElementType(type, IntegerType::get(getContext(), 1)))
    return emitOpError() << "needs a condition for each of " << shapeToString(type) << ", not "
                         << getCondition().getType();
  return success();
}

Value SelectOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return arith::SelectOp::create(b, loc, args[0], args[1], args[2]);
}
double SelectOp::evaluateScalar(ArrayRef<double> x) { return x[0] != 0 ? x[1] : x[2]; }

//===----------------------------------------------------------------------===//
// Operations on one operand
//===----------------------------------------------------------------------===//

#define ADAPT_UNARY(OP, MATH, FUNCTION)                                                            \
  Value OP::emitScalar(OpBuilder &b, Location loc, ValueRange args) {                              \
    return math::MATH::create(b, loc, args[0]);                                                    \
  }                                                                                                \
  double OP::evaluateScalar(ArrayRef<double> x) { return FUNCTION(x[0]); }
ADAPT_UNARY(LogOp, LogOp, std::log)
ADAPT_UNARY(AbsOp, AbsFOp, std::fabs)
ADAPT_UNARY(FloorOp, FloorOp, std::floor)
ADAPT_UNARY(CeilOp, CeilOp, std::ceil)
ADAPT_UNARY(RoundOp, RoundEvenOp, std::nearbyint)
#undef ADAPT_UNARY

Value MaximumOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return emitBinary<arith::MaximumFOp, arith::MaxSIOp>(b, loc, args);
}
double MaximumOp::evaluateScalar(ArrayRef<double> x) {
  return std::isnan(x[0]) || std::isnan(x[1]) ? NAN : std::fmax(x[0], x[1]);
}

Value MinimumOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return emitBinary<arith::MinimumFOp, arith::MinSIOp>(b, loc, args);
}
double MinimumOp::evaluateScalar(ArrayRef<double> x) {
  return std::isnan(x[0]) || std::isnan(x[1]) ? NAN : std::fmin(x[0], x[1]);
}

Value NegOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return arith::NegFOp::create(b, loc, args[0]);
}
double NegOp::evaluateScalar(ArrayRef<double> x) { return -x[0]; }

Value ExpOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return math::ExpOp::create(b, loc, args[0]);
}
double ExpOp::evaluateScalar(ArrayRef<double> x) { return std::exp(x[0]); }

Value SqrtOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return math::SqrtOp::create(b, loc, args[0]);
}
double SqrtOp::evaluateScalar(ArrayRef<double> x) { return std::sqrt(x[0]); }

Value RsqrtOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  // Not math.rsqrt: its lowering may be an estimate.
  Value root = math::SqrtOp::create(b, loc, args[0]);
  return arith::DivFOp::create(b, loc, splat(b, loc, args[0].getType(), 1.0), root);
}
double RsqrtOp::evaluateScalar(ArrayRef<double> x) { return 1.0 / std::sqrt(x[0]); }

Value TanhOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return math::TanhOp::create(b, loc, args[0]);
}
double TanhOp::evaluateScalar(ArrayRef<double> x) { return std::tanh(x[0]); }

Value ErfOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return math::ErfOp::create(b, loc, args[0]);
}
double ErfOp::evaluateScalar(ArrayRef<double> x) { return std::erf(x[0]); }

Value SinOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return math::SinOp::create(b, loc, args[0]);
}
double SinOp::evaluateScalar(ArrayRef<double> x) { return std::sin(x[0]); }

Value CosOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return math::CosOp::create(b, loc, args[0]);
}
double CosOp::evaluateScalar(ArrayRef<double> x) { return std::cos(x[0]); }

Value SigmoidOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  Value one = splat(b, loc, args[0].getType(), 1.0);
  Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, args[0]));
  return arith::DivFOp::create(b, loc, one, arith::AddFOp::create(b, loc, one, e));
}
double SigmoidOp::evaluateScalar(ArrayRef<double> x) { return 1.0 / (1.0 + std::exp(-x[0])); }

//===----------------------------------------------------------------------===//
// cast
//===----------------------------------------------------------------------===//

LogicalResult CastOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getType());
  if (withElementType(from, to.getElementType()) != to)
    return emitOpError() << "changes only the element type, but " << from << " to " << to
                         << " changes sizes or storage";
  return success();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

Value CastOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  // Floats come as f32 and go as f32 (the caller rounds), so only kinds change here.
  Type from = getElementTypeOrSelf(getInput().getType());
  Type to = getElementTypeOrSelf(getType());
  Type arg = args[0].getType();
  auto like = [&](Type element) -> Type {
    auto shaped = dyn_cast<ShapedType>(arg);
    return shaped ? Type(shaped.clone(element)) : element;
  };
  if (isa<FloatType>(to)) {
    Type wide = to.isF64() ? to : b.getF32Type();
    if (isa<FloatType>(from)) {
      unsigned width = getElementTypeOrSelf(arg).getIntOrFloatBitWidth();
      if (width < wide.getIntOrFloatBitWidth())
        return arith::ExtFOp::create(b, loc, like(wide), args[0]);
      if (width > wide.getIntOrFloatBitWidth())
        return arith::TruncFOp::create(b, loc, like(wide), args[0]);
      return args[0];
    }
    if (from.isInteger(1) || from.isUnsignedInteger())
      return arith::UIToFPOp::create(b, loc, like(wide), args[0]);
    return arith::SIToFPOp::create(b, loc, like(wide), args[0]);
  }
  if (isa<FloatType>(from)) {
    if (to.isInteger(1))
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, args[0],
                                   splat(b, loc, arg, 0.0));
    return arith::FPToSIOp::create(b, loc, like(to), args[0]);
  }
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (toBits == 1) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(arg));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, args[0], zero);
  }
  if (fromBits > toBits)
    return arith::TruncIOp::create(b, loc, like(to), args[0]);
  if (fromBits == toBits)
    return args[0];
  if (fromBits == 1 || from.isUnsignedInteger())
    return arith::ExtUIOp::create(b, loc, like(to), args[0]);
  return arith::ExtSIOp::create(b, loc, like(to), args[0]);
}

double CastOp::evaluateScalar(ArrayRef<double> x) {
  Type from = getElementTypeOrSelf(getInput().getType());
  Type to = getElementTypeOrSelf(getType());
  if (isa<FloatType>(to))
    return x[0];
  if (to.isInteger(1))
    return x[0] != 0.0;
  double truncated = isa<FloatType>(from) ? std::trunc(x[0]) : x[0];
  if (to.getIntOrFloatBitWidth() >= 64)
    return truncated;
  // Keep the low bits, as two's complement.
  double modulus = std::ldexp(1.0, to.getIntOrFloatBitWidth());
  double low = truncated - modulus * std::floor(truncated / modulus);
  return !to.isUnsignedInteger() && low >= modulus / 2 ? low - modulus : low;
}

LogicalResult CastOp::toRecipe(schema::RecipeNode &node) {
  node.mutable_cast();
  return success();
}

//===----------------------------------------------------------------------===//
// Lowering to linalg: the same for all
//===----------------------------------------------------------------------===//

#define ADAPT_LOWER_ELEMENTWISE(OP)                                                                \
  FailureOr<SmallVector<Value>> OP::lowerToLinalg(OpBuilder &builder, LinalgContext &context,      \
                                                  ValueRange operands) {                           \
    return lowerElementwise(*this, builder, context, operands);                                    \
  }

ADAPT_LOWER_ELEMENTWISE(AddOp)
ADAPT_LOWER_ELEMENTWISE(SubOp)
ADAPT_LOWER_ELEMENTWISE(MulOp)
ADAPT_LOWER_ELEMENTWISE(DivOp)
ADAPT_LOWER_ELEMENTWISE(MaximumOp)
ADAPT_LOWER_ELEMENTWISE(MinimumOp)
ADAPT_LOWER_ELEMENTWISE(RemOp)
ADAPT_LOWER_ELEMENTWISE(PowOp)
ADAPT_LOWER_ELEMENTWISE(AndOp)
ADAPT_LOWER_ELEMENTWISE(OrOp)
ADAPT_LOWER_ELEMENTWISE(XorOp)
ADAPT_LOWER_ELEMENTWISE(CompareOp)
ADAPT_LOWER_ELEMENTWISE(SelectOp)
ADAPT_LOWER_ELEMENTWISE(LogOp)
ADAPT_LOWER_ELEMENTWISE(AbsOp)
ADAPT_LOWER_ELEMENTWISE(FloorOp)
ADAPT_LOWER_ELEMENTWISE(CeilOp)
ADAPT_LOWER_ELEMENTWISE(RoundOp)
ADAPT_LOWER_ELEMENTWISE(NegOp)
ADAPT_LOWER_ELEMENTWISE(ExpOp)
ADAPT_LOWER_ELEMENTWISE(SqrtOp)
ADAPT_LOWER_ELEMENTWISE(RsqrtOp)
ADAPT_LOWER_ELEMENTWISE(TanhOp)
ADAPT_LOWER_ELEMENTWISE(ErfOp)
ADAPT_LOWER_ELEMENTWISE(SinOp)
ADAPT_LOWER_ELEMENTWISE(CosOp)
ADAPT_LOWER_ELEMENTWISE(SigmoidOp)
ADAPT_LOWER_ELEMENTWISE(CastOp)
#undef ADAPT_LOWER_ELEMENTWISE

//===----------------------------------------------------------------------===//
// gelu and gated_activation
//===----------------------------------------------------------------------===//

Value GatedActivationOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  Value x = args[0];
  auto constant = [&](double value) { return splat(b, loc, x.getType(), value); };
  auto add = [&](Value l, Value r) -> Value { return arith::AddFOp::create(b, loc, l, r); };
  auto mul = [&](Value l, Value r) -> Value { return arith::MulFOp::create(b, loc, l, r); };
  auto gelu = [&](Value tangent) { // x/2 (1 + tangent)
    return mul(mul(x, constant(0.5)), add(tangent, constant(1.0)));
  };
  Value activated;
  switch (getActivation()) {
  case Activation::Silu: {
    Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x));
    activated = arith::DivFOp::create(b, loc, x, add(constant(1.0), e));
    break;
  }
  case Activation::GeluErf:
    activated = gelu(math::ErfOp::create(b, loc, mul(x, constant(M_SQRT1_2))));
    break;
  case Activation::GeluTanh: {
    Value cube = mul(mul(x, x), mul(x, constant(0.044715)));
    Value inner = mul(add(x, cube), constant(M_2_SQRTPI * M_SQRT1_2));
    activated = gelu(math::TanhOp::create(b, loc, inner));
    break;
  }
  }
  return mul(activated, args[1]);
}

double GatedActivationOp::evaluateScalar(ArrayRef<double> args) {
  double x = args[0];
  switch (getActivation()) {
  case Activation::Silu:
    return x / (1.0 + std::exp(-x)) * args[1];
  case Activation::GeluErf:
    return 0.5 * x * (1.0 + std::erf(x * M_SQRT1_2)) * args[1];
  case Activation::GeluTanh: {
    double inner = M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + std::tanh(inner)) * args[1];
  }
  }
  llvm_unreachable("an activation is one of three");
}

static Value emitGelu(Decomposer &d, Value x, bool tanhForm) {
  Value tangent;
  if (tanhForm) {
    Value cube = d.mul(d.mul(x, x), d.mul(x, d.splat(x, 0.044715)));
    tangent = d.unary<TanhOp>(d.mul(d.add(x, cube), d.splat(x, M_2_SQRTPI * M_SQRT1_2)));
  } else {
    tangent = d.unary<ErfOp>(d.mul(x, d.splat(x, M_SQRT1_2)));
  }
  return d.mul(d.mul(x, d.splat(x, 0.5)), d.add(tangent, d.splat(x, 1.0)));
}

FailureOr<SmallVector<Value>> GeluOp::decompose(OpBuilder &builder) {
  Decomposer d(builder, getLoc());
  Value result = emitGelu(d, d.toF32(getInput()), getTanhForm());
  return SmallVector<Value>{d.cast(result, cast<RankedTensorType>(getType()).getElementType())};
}

FailureOr<SmallVector<Value>> GatedActivationOp::decompose(OpBuilder &builder) {
  Decomposer d(builder, getLoc());
  Value gate = d.toF32(getGate()), up = d.toF32(getUp());
  Value activated = getActivation() == Activation::Silu
                        ? d.mul(gate, d.unary<SigmoidOp>(gate))
                        : emitGelu(d, gate, getActivation() == Activation::GeluTanh);
  return SmallVector<Value>{
      d.cast(d.mul(activated, up), cast<RankedTensorType>(getType()).getElementType())};
}
