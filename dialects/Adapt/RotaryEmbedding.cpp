#include "dialects/Adapt/ToLinalg.h"

using namespace mlir;
using namespace adapt;

LogicalResult RopeTableOp::verify() {
  auto positions = cast<RankedTensorType>(getPositions().getType());
  auto frequencies = cast<ShapedType>(getInverseFrequencies().getType());
  if (positions.getRank() != 1)
    return emitOpError() << "positions must be a vector, not of rank " << positions.getRank();
  if (!frequencies.getElementType().isF32() || frequencies.getRank() != 1)
    return emitOpError() << "inverse frequencies must be a vector of f32, not " << frequencies;
  SmallVector<AffineExpr> dims = getDims(positions);
  dims.push_back(getAffineConstantExpr(frequencies.getDimSize(0), getContext()));
  RankedTensorType expected = getTensorType(dims, Float32Type::get(getContext()));
  if (getCosines().getType() != expected)
    return emitOpError() << "tables must have type " << expected << ", not "
                         << getCosines().getType();
  return success();
}

ShardingRule RopeTableOp::getShardingRule() {
  ShardingRule rule;
  rule.factors.push_back({getDims(cast<RankedTensorType>(getPositions().getType()))[0]});
  rule.operands = {{0}};
  rule.results = {{0, ShardingRule::kNone}, {0, ShardingRule::kNone}};
  return rule;
}

Cost RopeTableOp::getCost() { return getElementwiseCost(*this, 20); }

LogicalResult RopeOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto cosines = cast<RankedTensorType>(getCosines().getType());
  if (input.getRank() != 3)
    return emitOpError() << "input must be [tokens, heads, head size], not of rank "
                         << input.getRank();
  if (cosines.getRank() != 2)
    return emitOpError() << "tables must be [tokens, R], not of rank " << cosines.getRank();
  if (getDims(cosines)[0] != getDims(input)[0])
    return emitOpError() << "tables are for " << toString(getDims(cosines)[0])
                         << " tokens, the input has " << toString(getDims(input)[0]);
  int64_t rotary = cosines.getDimSize(1), head = input.getDimSize(2);
  if (ShapedType::isDynamic(rotary) || ShapedType::isDynamic(head) || 2 * rotary > head)
    return emitOpError() << "rotates 2 * " << toString(getDims(cosines)[1])
                         << " elements of a head of " << toString(getDims(input)[2]);
  return success();
}

ShardingRule RopeOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<AffineExpr> dims = getDims(cast<RankedTensorType>(getInput().getType()));
  rule.factors.push_back({dims[0]});
  rule.factors.push_back({dims[1]});
  SmallVector<int> input = {0, 1, ShardingRule::kNone}, table = {0, ShardingRule::kNone};
  rule.operands = {input, table, table};
  rule.results = {input};
  return rule;
}

Cost RopeOp::getCost() { return getElementwiseCost(*this, 3); }

FailureOr<SmallVector<Value>> RopeTableOp::decompose(OpBuilder &builder) {
  Decomposer d(builder, getLoc());
  auto type = cast<RankedTensorType>(getCosines().getType());
  Value positions = d.toF32(getPositions());
  Value frequencies = ConstantOp::create(builder, getLoc(), getInverseFrequencies());
  Value like = BroadcastOp::create(builder, getLoc(), type, positions, ArrayRef<int64_t>{0});
  Value angles = d.mul(like, d.broadcast(frequencies, like, {1}));
  Value cosines = d.unary<CosOp>(angles), sines = d.unary<SinOp>(angles);
  double scale = getScale().convertToDouble();
  if (scale != 1.0) {
    cosines = d.mul(cosines, d.splat(cosines, scale));
    sines = d.mul(sines, d.splat(sines, scale));
  }
  return SmallVector<Value>{cosines, sines};
}

FailureOr<SmallVector<Value>> RopeOp::decompose(OpBuilder &builder) {
  Decomposer d(builder, getLoc());
  Value x = d.toF32(getInput());
  auto type = cast<RankedTensorType>(x.getType());
  int64_t head = type.getDimSize(2);
  int64_t rotary = cast<RankedTensorType>(getCosines().getType()).getDimSize(1);
  bool interleaved = getInterleaved();
  int64_t second = interleaved ? 1 : rotary, stride = interleaved ? 2 : 1;
  Value a = d.sliceLast(x, 0, rotary, stride), b = d.sliceLast(x, second, rotary, stride);
  Value c = d.broadcast(getCosines(), a, {0, 2}), s = d.broadcast(getSines(), a, {0, 2});
  Value first = d.sub(d.mul(a, c), d.mul(b, s)), other = d.add(d.mul(b, c), d.mul(a, s));
  Value rotated;
  if (interleaved) {
    SmallVector<AffineExpr> dims = getDims(cast<RankedTensorType>(a.getType()));
    SmallVector<AffineExpr> pair = dims;
    pair.push_back(builder.getAffineConstantExpr(1));
    dims.back() = dims.back() * 2;
    rotated = d.reshape(d.concatLast({d.reshape(first, pair), d.reshape(other, pair)}), dims);
  } else {
    rotated = d.concatLast({first, other});
  }
  if (2 * rotary < head)
    rotated = d.concatLast({rotated, d.sliceLast(x, 2 * rotary, head - 2 * rotary)});
  return SmallVector<Value>{d.cast(rotated, cast<RankedTensorType>(getType()).getElementType())};
}
