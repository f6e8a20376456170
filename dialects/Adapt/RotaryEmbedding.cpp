#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/ToLinalg.h"
#include <cmath>

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

LogicalResult RopeTableOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                    SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> cosines = context.makeTensor(*this, getCosines().getType());
  FailureOr<interp::Tensor> sines = context.makeTensor(*this, getSines().getType());
  // Its size is bounded by that of the results.
  if (failed(cosines) || failed(sines))
    return failure();
  std::optional<interp::Tensor> frequencies = interp::getConstant(getInverseFrequencies());
  if (!frequencies)
    return emitOpError("cannot be evaluated: the inverse frequencies cannot be read");
  ArrayRef<int64_t> positions = operands[0].tensor().ints();
  ArrayRef<double> rates = frequencies->floats();
  MutableArrayRef<double> cosine = cosines->mutableFloats(), sine = sines->mutableFloats();
  double scale = getScale().convertToDouble();
  context.withAccumulator(cosines->getElementType(), [&](auto zero) {
    using Accumulator = decltype(zero);
    for (auto [t, position] : llvm::enumerate(positions))
      for (auto [i, rate] : llvm::enumerate(rates)) {
        double angle = Accumulator(position) * Accumulator(rate);
        cosine[t * rates.size() + i] = scale * std::cos(angle);
        sine[t * rates.size() + i] = scale * std::sin(angle);
      }
  });
  results.push_back(std::move(*cosines));
  results.push_back(std::move(*sines));
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

LogicalResult RopeOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                               SmallVectorImpl<interp::Value> &results) {
  interp::Tensor result = operands[0].tensor();
  int64_t heads = result.getDim(1), size = result.getDim(2);
  const interp::Tensor &cosines = operands[1].tensor(), &sines = operands[2].tensor();
  int64_t pairs = cosines.getDim(1);
  // Pair i is (i * step, i * step + distance).
  int64_t step = getInterleaved() ? 2 : 1, distance = getInterleaved() ? 1 : pairs;
  MutableArrayRef<double> elements = result.mutableFloats();
  context.withAccumulator(result.getElementType(), [&](auto zero) {
    using Accumulator = decltype(zero);
    for (int64_t t = 0; t < result.getDim(0); ++t)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t i = 0; i < pairs; ++i) {
          double &a = elements[(t * heads + head) * size + i * step];
          double &b = (&a)[distance];
          Accumulator x = a, y = b;
          Accumulator c = cosines.floats()[t * pairs + i], s = sines.floats()[t * pairs + i];
          a = x * c - y * s;
          b = y * c + x * s;
        }
  });
  results.push_back(std::move(result));
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
