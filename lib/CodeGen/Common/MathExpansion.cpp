#include "MathExpansion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace adapt::codegen {
namespace {
/// Arithmetic on values of one shape; a multiply and an add may become one FMA later.
class Emitter {
public:
  Emitter(OpBuilder &builder, Location loc, Value like)
      : builder(builder), loc(loc), type(like.getType()) {}

  Type with(Type element) const {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped ? Type(shaped.clone(element)) : element;
  }
  Value constant(double value, Type element) {
    TypedAttr attr = builder.getFloatAttr(element, value);
    if (auto shaped = dyn_cast<ShapedType>(with(element)))
      attr = DenseElementsAttr::get(shaped, attr);
    return arith::ConstantOp::create(builder, loc, attr);
  }
  Value constant(double value) { return constant(value, builder.getF32Type()); }
  Value integer(int32_t value) {
    TypedAttr attr = builder.getI32IntegerAttr(value);
    if (auto shaped = dyn_cast<ShapedType>(with(builder.getI32Type())))
      attr = DenseElementsAttr::get(shaped, attr);
    return arith::ConstantOp::create(builder, loc, attr);
  }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(builder, loc, a, b); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
  Value div(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
  Value round(Value a) { return math::RoundEvenOp::create(builder, loc, a); }
  Value abs(Value a) { return math::AbsFOp::create(builder, loc, a); }
  Value copySign(Value a, Value sign) { return math::CopySignOp::create(builder, loc, a, sign); }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  }
  Value less(Value a, Value b) { return compare(arith::CmpFPredicate::OLT, a, b); }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
  /// Coefficients from the highest power down.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value result = constant(coefficients.front());
    for (double c : coefficients.drop_front())
      result = add(mul(result, x), constant(c));
    return result;
  }
  /// value * 2^n, n integral within [-126, 127] and the result normal.
  Value scale(Value value, Value n) {
    Type ints = with(builder.getI32Type());
    Value exponent = arith::FPToSIOp::create(builder, loc, ints, n);
    exponent = arith::ShLIOp::create(builder, loc, exponent, integer(23));
    Value bits = arith::BitcastOp::create(builder, loc, ints, value);
    bits = arith::AddIOp::create(builder, loc, bits, exponent);
    return arith::BitcastOp::create(builder, loc, with(builder.getF32Type()), bits);
  }

  OpBuilder &builder;
  Location loc;
  Type type;
};

// e^r = 1 + r + r² P(r) for |r| ≤ ln 2 / 2 (Cephes, expf).
Value emitExpReduced(Emitter &e, Value r) {
  Value p = e.polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                             1.6666665459e-1, 5.0000001201e-1});
  return e.add(e.add(e.mul(e.mul(r, r), p), r), e.constant(1.0));
}

Value emitTanh(Emitter &e, Value x) {
  // Near zero a polynomial (Cephes, tanhf), else by e^2|x|.
  Value z = e.mul(x, x);
  Value p = e.polynomial(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                             1.33314422036e-1, -3.33332819422e-1});
  Value near = e.add(e.mul(e.mul(p, z), x), x);
  Value size = e.abs(x);
  Value power = emitExp(e.builder, e.loc, e.add(size, size));
  Value far = e.sub(e.constant(1.0), e.div(e.constant(2.0), e.add(power, e.constant(1.0))));
  return e.select(e.less(size, e.constant(0.625)), near, e.copySign(far, x));
}

Value emitErf(Emitter &e, Value x) {
  // Two polynomials, the outer in an exponent (N. Juffa, stackoverflow.com/q/35148198), 1 ulp.
  Value t = e.abs(x), s = e.mul(x, x);
  Value r = e.add(e.mul(e.constant(-1.72853470e-5), t), e.constant(3.83197126e-4));
  Value u = e.add(e.mul(e.constant(-3.88396438e-3), t), e.constant(2.42546219e-2));
  r = e.add(e.mul(r, s), u);
  for (double c : {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1})
    r = e.add(e.mul(r, t), e.constant(c));
  r = e.sub(e.mul(r, t), t);
  Value far = e.copySign(e.sub(e.constant(1.0), emitExp(e.builder, e.loc, r)), x);
  Value p = e.polynomial(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
                             -3.76125336e-1, 1.28379166e-1});
  Value near = e.add(e.mul(p, x), x);
  return e.select(e.less(e.constant(0.927734375), t), far, near);
}

/// sin(x + quadrants · π/2).
Value emitSine(Emitter &e, Value x, int quadrants) {
  OpBuilder &b = e.builder;
  Type f64 = b.getF64Type();
  Value wide = arith::ExtFOp::create(b, e.loc, e.with(f64), x);
  Value n = e.round(e.mul(wide, e.constant(M_2_PI, f64)));
  // π/2 in three parts of 33 bits and the rest (fdlibm): the first products are exact.
  Value r = wide;
  for (double part :
       {1.57079632673412561417e+00, 6.07710050630396597660e-11, 2.02226624879595063154e-21})
    r = e.sub(r, e.mul(n, e.constant(part, f64)));
  r = arith::TruncFOp::create(b, e.loc, e.with(b.getF32Type()), r);

  // The quadrant modulo 4, in f64: it cannot overflow.
  n = e.add(n, e.constant(quadrants, f64));
  Value quarter = math::FloorOp::create(b, e.loc, e.mul(n, e.constant(0.25, f64)));
  n = e.sub(n, e.mul(quarter, e.constant(4.0, f64)));
  Value negative = e.less(e.constant(1.5, f64), n); // 2 and 3
  Value half = e.select(negative, e.sub(n, e.constant(2.0, f64)), n);
  Value odd = e.less(e.constant(0.5, f64), half);

  Value z = e.mul(r, r);
  Value sine = e.polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  sine = e.add(e.mul(e.mul(sine, z), r), r);
  Value cosine =
      e.polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  cosine = e.add(e.sub(e.mul(e.mul(cosine, z), z), e.mul(z, e.constant(0.5))), e.constant(1.0));
  Value result = e.select(odd, cosine, sine);
  return e.select(negative, arith::NegFOp::create(b, e.loc, result), result);
}

Value expand(OpBuilder &builder, Operation *op) {
  if (op->getNumOperands() != 1 || !getElementTypeOrSelf(op->getOperand(0).getType()).isF32())
    return {};
  Value x = op->getOperand(0);
  Emitter e(builder, op->getLoc(), x);
  return TypeSwitch<Operation *, Value>(op)
      .Case<math::ExpOp>([&](auto) { return emitExp(builder, op->getLoc(), x); })
      .Case<math::TanhOp>([&](auto) { return emitTanh(e, x); })
      .Case<math::ErfOp>([&](auto) { return emitErf(e, x); })
      .Case<math::SinOp>([&](auto) { return emitSine(e, x, 0); })
      .Case<math::CosOp>([&](auto) { return emitSine(e, x, 1); })
      .Default([](auto) { return Value(); });
}
} // namespace

Value emitExp(OpBuilder &builder, Location loc, Value x) {
  Emitter e(builder, loc, x);
  Value low = e.constant(-86.6), high = e.constant(88.72283);
  Value clamped = e.select(e.less(low, x), x, low); // a NaN too becomes `low`
  clamped = e.select(e.less(clamped, high), clamped, high);
  Value n = e.round(e.mul(clamped, e.constant(M_LOG2E)));
  Value r = e.sub(e.sub(clamped, e.mul(n, e.constant(0.693359375))),
                  e.mul(n, e.constant(-2.12194440e-4)));
  // n reaches 128: half of it, twice.
  Value one = e.constant(1.0);
  Value result = e.scale(emitExpReduced(e, r), e.sub(n, one));
  result = e.add(result, result);
  result = e.select(e.less(x, low), e.constant(0.0), result);
  result = e.select(e.less(high, x), e.constant(std::numeric_limits<double>::infinity()), result);
  return e.select(e.compare(arith::CmpFPredicate::UNO, x, x), x, result);
}

Value emitExp2(OpBuilder &builder, Location loc, Value x) {
  Emitter e(builder, loc, x);
  Value low = e.constant(-125.0);
  Value clamped = e.select(e.less(low, x), x, low);
  Value n = e.round(clamped);
  Value r = e.mul(e.sub(clamped, n), e.constant(M_LN2));
  Value result = e.scale(emitExpReduced(e, r), n);
  return e.select(e.less(x, low), e.constant(0.0), result);
}

void expandMath(Operation *root) {
  SmallVector<Operation *> ops;
  root->walk([&](Operation *op) {
    if (isa<math::ExpOp, math::TanhOp, math::ErfOp, math::SinOp, math::CosOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder builder(op);
    if (Value value = expand(builder, op)) {
      op->getResult(0).replaceAllUsesWith(value);
      op->erase();
    }
  }
}

} // namespace adapt::codegen
