#include "dialects/Adapt/AdaptDialect.h"

using namespace mlir;
using namespace adapt;

LogicalResult MatmulOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto weight = cast<RankedTensorType>(getWeight().getType());
  auto result = cast<RankedTensorType>(getType());
  if (weight.getRank() != 2)
    return emitOpError() << "weight must be a matrix [N, K], not of rank " << weight.getRank();
  if (input.getRank() < 1 || input.getRank() != result.getRank())
    return emitOpError() << "input and result must have the same rank of at least 1, not "
                         << input.getRank() << " and " << result.getRank();
  SmallVector<AffineExpr> in = getDims(input), w = getDims(weight), out = getDims(result);
  if (in.back() != w[1])
    return emitOpError() << "input's last size " << toString(in.back())
                         << " is not the weight's K = " << toString(w[1]);
  if (out.back() != w[0])
    return emitOpError() << "result's last size " << toString(out.back())
                         << " is not the weight's N = " << toString(w[0]);
  in.pop_back();
  out.pop_back();
  if (in != out)
    return emitOpError() << "leading sizes differ: input " << shapeToString(input) << ", result "
                         << shapeToString(result);
  return success();
}

ShardingRule MatmulOp::getShardingRule() {
  ShardingRule rule;
  auto dims = getDims(cast<RankedTensorType>(getInput().getType()));
  auto weight = getDims(cast<RankedTensorType>(getWeight().getType()));
  SmallVector<int> leading;
  for (AffineExpr size : ArrayRef(dims).drop_back()) {
    leading.push_back(rule.factors.size());
    rule.factors.push_back({size});
  }
  int n = rule.factors.size(), k = n + 1;
  rule.factors.push_back({weight[0]});
  rule.factors.push_back({weight[1], ShardingRule::Reduction::Sum});
  SmallVector<int> input = leading, result = leading;
  input.push_back(k);
  result.push_back(n);
  rule.operands = {input, {n, k}};
  rule.results = {result};
  return rule;
}

Cost MatmulOp::getCost() {
  Cost cost = getElementwiseCost(*this, 1);
  int64_t k = cast<RankedTensorType>(getWeight().getType()).getDimSize(1);
  cost.flops = cost.flops * (2 * k);
  return cost;
}
