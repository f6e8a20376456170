#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/ToLinalg.h"
#include <cmath>

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

LogicalResult RmsNormOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                  SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  ArrayRef<double> weight = operands[1].tensor().floats();
  int64_t size = weight.size();
  int64_t rows = size ? result->getNumElements() / size : 0;
  const double *x = operands[0].tensor().floats().data();
  double *y = result->mutableFloats().data();
  double epsilon = getEpsilon().convertToDouble();
  context.withAccumulator(result->getElementType(), [&](auto zero) {
    using Accumulator = decltype(zero);
    for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
      Accumulator mean = interp::dot<Accumulator>(x, x, size) / Accumulator(size);
      Accumulator scale = 1 / std::sqrt(mean + Accumulator(epsilon));
      for (int64_t i = 0; i < size; ++i)
        y[i] = Accumulator(x[i]) * scale * Accumulator(weight[i]);
    }
  });
  results.push_back(std::move(*result));
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

FailureOr<SmallVector<Value>> RmsNormOp::decompose(OpBuilder &builder) {
  Decomposer d(builder, getLoc());
  Value x = d.toF32(getInput());
  auto type = cast<RankedTensorType>(x.getType());
  int64_t last = type.getRank() - 1;
  RankedTensorType rowType =
      getTensorType(ArrayRef(getDims(type)).drop_back(), type.getElementType());
  Value mean = ReduceOp::create(builder, getLoc(), rowType, d.mul(x, x), ReduceKind::Mean,
                                ArrayRef<int64_t>{last});
  Value factor = d.unary<RsqrtOp>(d.add(mean, d.splat(mean, getEpsilon().convertToDouble())));
  SmallVector<int64_t> leading = llvm::to_vector(llvm::seq<int64_t>(0, last));
  Value scaled = d.mul(d.mul(x, d.broadcast(factor, x, leading)),
                       d.broadcast(d.toF32(getWeight()), x, {last}));
  return SmallVector<Value>{d.cast(scaled, cast<RankedTensorType>(getType()).getElementType())};
}
