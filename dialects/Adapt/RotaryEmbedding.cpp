#include "dialects/Adapt/AdaptDialect.h"

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
