#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/ToLinalg.h"
#include <cmath>
#include <limits>

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

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto weight = cast<RankedTensorType>(getWeight().getType());
  SmallVector<AffineExpr> x = getDims(input), w = getDims(weight);
  if (w.empty() || w.size() > x.size() || ArrayRef(x).take_back(w.size()) != ArrayRef(w))
    return emitOpError() << "weight must have the last sizes of the input, " << shapeToString(input)
                         << ", not " << shapeToString(weight);
  if (getBias() && getBias().getType() != getWeight().getType())
    return emitOpError() << "bias must have the weight's type, not " << getBias().getType();
  if (!(getEpsilon().convertToDouble() >= 0))
    return emitOpError() << "epsilon must not be negative";
  return success();
}

LogicalResult LayerNormOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                    SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  ArrayRef<double> weight = operands[1].tensor().floats(), bias;
  if (getBias())
    bias = operands[2].tensor().floats();
  int64_t size = weight.size();
  int64_t rows = size ? result->getNumElements() / size : 0;
  const double *x = operands[0].tensor().floats().data();
  double *y = result->mutableFloats().data();
  double epsilon = getEpsilon().convertToDouble();
  context.withAccumulator(result->getElementType(), [&](auto zero) {
    using Accumulator = decltype(zero);
    for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
      Accumulator sum = 0, squares = 0;
      for (int64_t i = 0; i < size; ++i)
        sum += Accumulator(x[i]);
      Accumulator mean = sum / Accumulator(size);
      for (int64_t i = 0; i < size; ++i)
        squares += (Accumulator(x[i]) - mean) * (Accumulator(x[i]) - mean);
      Accumulator scale = 1 / std::sqrt(squares / Accumulator(size) + Accumulator(epsilon));
      for (int64_t i = 0; i < size; ++i)
        y[i] = (Accumulator(x[i]) - mean) * scale * Accumulator(weight[i]) +
               (bias.empty() ? Accumulator(0) : Accumulator(bias[i]));
    }
  });
  results.push_back(std::move(*result));
  return success();
}

ShardingRule LayerNormOp::getShardingRule() {
  ShardingRule rule = getElementwiseRule(*this);
  // The normalised axes stay whole.
  size_t count = cast<RankedTensorType>(getWeight().getType()).getRank();
  size_t first = rule.factors.size() - count;
  rule.factors.truncate(first);
  for (size_t axis = first; axis < first + count; ++axis)
    rule.operands[0][axis] = rule.results[0][axis] = ShardingRule::kNone;
  for (size_t i = 1; i < rule.operands.size(); ++i)
    rule.operands[i].assign(count, ShardingRule::kNone);
  return rule;
}

Cost LayerNormOp::getCost() { return getElementwiseCost(*this, 8); }

FailureOr<SmallVector<Value>> LayerNormOp::decompose(OpBuilder &builder) {
  Decomposer d(builder, getLoc());
  Value x = d.toF32(getInput());
  auto type = cast<RankedTensorType>(x.getType());
  int64_t first = type.getRank() - cast<RankedTensorType>(getWeight().getType()).getRank();
  SmallVector<int64_t> leading = llvm::to_vector(llvm::seq<int64_t>(0, first));
  SmallVector<int64_t> trailing = llvm::to_vector(llvm::seq<int64_t>(first, type.getRank()));
  RankedTensorType rowType =
      getTensorType(ArrayRef(getDims(type)).take_front(first), type.getElementType());
  auto mean = [&](Value value) -> Value {
    return ReduceOp::create(builder, getLoc(), rowType, value, ReduceKind::Mean, trailing);
  };
  Value centred = d.sub(x, d.broadcast(mean(x), x, leading));
  Value variance = mean(d.mul(centred, centred));
  Value factor =
      d.unary<RsqrtOp>(d.add(variance, d.splat(variance, getEpsilon().convertToDouble())));
  Value scaled = d.mul(d.mul(centred, d.broadcast(factor, x, leading)),
                       d.broadcast(d.toF32(getWeight()), x, trailing));
  if (getBias())
    scaled = d.add(scaled, d.broadcast(d.toF32(getBias()), x, trailing));
  return SmallVector<Value>{d.cast(scaled, cast<RankedTensorType>(getType()).getElementType())};
}

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  int64_t axis = getAxis();
  if (axis < 0 || axis >= type.getRank())
    return emitOpError() << "along axis " << axis << " of a tensor of rank " << type.getRank();
  return success();
}

LogicalResult SoftmaxOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                  SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  int64_t axis = getAxis(), size = result->getDim(axis), outer = 1, inner = 1;
  for (auto [i, dim] : llvm::enumerate(result->getShape()))
    if (static_cast<int64_t>(i) != axis)
      (static_cast<int64_t>(i) < axis ? outer : inner) *= dim;
  ArrayRef<double> x = operands[0].tensor().floats();
  MutableArrayRef<double> y = result->mutableFloats();
  context.withAccumulator(result->getElementType(), [&](auto zero) {
    using Accumulator = decltype(zero);
    for (int64_t row = 0; row < outer * inner; ++row) {
      auto at = [&](int64_t i) { return (row / inner * size + i) * inner + row % inner; };
      double max = -std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < size; ++i)
        max = std::isnan(x[at(i)]) ? x[at(i)] : std::max(max, x[at(i)]);
      Accumulator sum = 0;
      for (int64_t i = 0; i < size; ++i)
        sum += y[at(i)] = std::exp(Accumulator(x[at(i)]) - Accumulator(max));
      for (int64_t i = 0; i < size; ++i)
        y[at(i)] = Accumulator(y[at(i)]) / sum;
    }
  });
  results.push_back(std::move(*result));
  return success();
}

ShardingRule SoftmaxOp::getShardingRule() {
  ShardingRule rule = getElementwiseRule(*this);
  // A sum over parts would need the maximum of all first.
  rule.operands[0][getAxis()] = rule.results[0][getAxis()] = ShardingRule::kNone;
  return rule;
}

Cost SoftmaxOp::getCost() { return getElementwiseCost(*this, 14); }

FailureOr<SmallVector<Value>> SoftmaxOp::decompose(OpBuilder &builder) {
  Decomposer d(builder, getLoc());
  Value x = d.toF32(getInput());
  auto type = cast<RankedTensorType>(x.getType());
  int64_t axis = getAxis();
  SmallVector<AffineExpr> dims = getDims(type);
  dims.erase(dims.begin() + axis);
  SmallVector<int64_t> others;
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (i != axis)
      others.push_back(i);
  auto reduce = [&](Value value, ReduceKind kind) {
    Value reduced = ReduceOp::create(builder, getLoc(), getTensorType(dims, type.getElementType()),
                                     value, kind, ArrayRef<int64_t>{axis});
    return d.broadcast(reduced, x, others);
  };
  Value power = d.unary<ExpOp>(d.sub(x, reduce(x, ReduceKind::Max)));
  Value result = DivOp::create(builder, getLoc(), power, reduce(power, ReduceKind::Sum));
  return SmallVector<Value>{d.cast(result, cast<RankedTensorType>(getType()).getElementType())};
}
