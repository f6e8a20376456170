#include "dialects/Adapt/AdaptDialect.h"

using namespace mlir;
using namespace adapt;

LogicalResult RmsNormOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto weight = cast<RankedTensorType>(getWeight().getType());
  if (input.getRank() < 1)
    return emitOpError("needs an axis to normalise over");
  if (weight.getRank() != 1 || getDims(weight)[0] != getDims(input).back())
    return emitOpError() << "weight must have the last size of the input, ["
                         << toString(getDims(input).back()) << "], not " << shapeToString(weight);
  if (!(getEpsilon().convertToDouble() >= 0))
    return emitOpError() << "epsilon must not be negative";
  return success();
}

ShardingRule RmsNormOp::getShardingRule() {
  ShardingRule rule = getElementwiseRule(*this);
  // The normalised axis stays whole.
  rule.factors.pop_back();
  rule.operands[0].back() = rule.results[0].back() = ShardingRule::kNone;
  rule.operands[1] = {ShardingRule::kNone};
  return rule;
}

Cost RmsNormOp::getCost() { return getElementwiseCost(*this, 5); }
