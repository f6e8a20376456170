#include "adapt/Interpreter/Evaluation.h"
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

LogicalResult MatmulOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                 SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  const interp::Tensor &weight = operands[1].tensor();
  int64_t columns = weight.getDim(0), k = weight.getDim(1);
  int64_t rows = columns ? result->getNumElements() / columns : 0;
  const double *x = operands[0].tensor().floats().data(), *w = weight.floats().data();
  double *y = result->mutableFloats().data();
  // Each row of the weight meets all rows of the input while it is in the cache.
  context.withAccumulator(result->getElementType(), [&](auto zero) {
    for (int64_t n = 0; n < columns; ++n)
      for (int64_t m = 0; m < rows; ++m)
        y[m * columns + n] = interp::dot<decltype(zero)>(x + m * k, w + n * k, k);
  });
  results.push_back(std::move(*result));
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
