#include "AttendTile.h"
#include "CodeGen/Common/MathExpansion.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>

using namespace mlir;

namespace adapt::codegen {

Value AttendTile::getFirstKey(Value position, int64_t chunk) {
  Value first = b.constant(0);
  if (int64_t window = op.getWindow().value_or(0))
    first = b.max(first, b.sub(b.add(position, 1), b.constant(window)));
  return b.mul(b.div(first, chunk), chunk);
}

Value AttendTile::getScores(Value products, Value keyNumbers, Value position) {
  position = lanes.broadcast(position);
  Value seen = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, keyNumbers, position);
  if (int64_t window = op.getWindow().value_or(0)) {
    Value size = b.intConstant(position.getType(),
                               std::min<int64_t>(window, std::numeric_limits<int32_t>::max()));
    Value oldest = arith::SubIOp::create(builder, loc, position, size);
    seen = arith::AndIOp::create(
        builder, loc, seen,
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, keyNumbers, oldest));
  }
  Type type = products.getType();
  Value scale = b.floatConstant(type, op.getScale().convertToDouble() * M_LOG2E);
  Value masked = b.floatConstant(type, -std::numeric_limits<double>::infinity());
  Value scores = arith::MulFOp::create(builder, loc, products, scale);
  return arith::SelectOp::create(builder, loc, seen, scores, masked);
}

AttendTile::Row AttendTile::update(Value maximum, Value sum, AttendScores &scores) {
  Value old = maximum;
  Value largest = scores.fold(lanes.broadcast(old), [&](Value score, Value, Value carried) {
    return larger(score, carried);
  });
  maximum = lanes.getMaximum(largest);
  Value shrink = emitExp2(builder, loc, arith::SubFOp::create(builder, loc, old, maximum));
  Value spread = lanes.broadcast(maximum);
  sum = arith::MulFOp::create(builder, loc, lanes.broadcast(shrink), sum);
  sum = scores.fold(sum, [&](Value score, Value place, Value carried) -> Value {
    Value power = emitExp2(builder, loc, arith::SubFOp::create(builder, loc, score, spread));
    scores.keep(power, place);
    return arith::AddFOp::create(builder, loc, carried, power);
  });
  return {maximum, sum, shrink};
}

Value AttendTile::larger(Value a, Value c) {
  Value greater = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, a, c);
  return arith::SelectOp::create(builder, loc, greater, a, c);
}

Value AttendTile::finish(Value mixed, Value total, Type element) {
  Value result = arith::DivFOp::create(builder, loc, mixed, lanes.broadcast(total));
  return narrow(builder, loc, result, element);
}

} // namespace adapt::codegen
