#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

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

FailureOr<SmallVector<Value>> MatmulOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context,
                                                      ValueRange operands) {
  Location loc = getLoc();
  auto type = cast<RankedTensorType>(getType());
  auto packed =
      dyn_cast_or_null<PackedAttr>(cast<RankedTensorType>(getWeight().getType()).getEncoding());
  bool wide = type.getElementType().isF64();
  Type sumType = wide ? builder.getF64Type() : builder.getF32Type();

  // (leading…, n, k); the weight is read through its layout.
  int64_t rank = type.getRank(), n = rank - 1, k = rank;
  SmallVector<AffineExpr> in, out;
  for (int64_t axis = 0; axis < rank; ++axis)
    out.push_back(builder.getAffineDimExpr(axis));
  in = out;
  in.back() = builder.getAffineDimExpr(k);
  SmallVector<utils::IteratorType> iterators(rank + 1, utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  SmallVector<Value> inputs = {operands[0]};
  SmallVector<AffineMap> maps = {AffineMap::get(rank + 1, 0, in, getContext())};
  if (!packed) {
    inputs.push_back(operands[1]);
    maps.push_back(AffineMap::get(
        rank + 1, 0, {builder.getAffineDimExpr(n), builder.getAffineDimExpr(k)}, getContext()));
  }
  maps.push_back(AffineMap::get(rank + 1, 0, out, getContext()));

  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(sumType));
  Value init = createEmpty(builder, loc, context, withElementType(type, sumType));
  init = linalg::FillOp::create(builder, loc, zero, init).getResult(0);
  auto product = linalg::GenericOp::create(
      builder, loc, TypeRange{init.getType()}, inputs, ValueRange{init}, maps, iterators,
      [&](OpBuilder &b, Location loc, ValueRange args) {
        Value weight;
        if (packed) {
          Value at[] = {linalg::IndexOp::create(b, loc, n), linalg::IndexOp::create(b, loc, k)};
          Value size[] = {arith::ConstantIndexOp::create(b, loc, packed.getN()),
                          arith::ConstantIndexOp::create(b, loc, packed.getK())};
          SmallVector<Value> place = {arith::DivUIOp::create(b, loc, at[0], size[0]),
                                      arith::DivUIOp::create(b, loc, at[1], size[1]),
                                      arith::RemUIOp::create(b, loc, at[0], size[0]),
                                      arith::RemUIOp::create(b, loc, at[1], size[1])};
          weight = tensor::ExtractOp::create(b, loc, operands[1], place);
        } else {
          weight = args[1];
        }
        auto toSum = [&](Value value) -> Value {
          if (value.getType() == sumType)
            return value;
          if (value.getType().getIntOrFloatBitWidth() > sumType.getIntOrFloatBitWidth())
            return arith::TruncFOp::create(b, loc, sumType, value);
          return arith::ExtFOp::create(b, loc, sumType, value);
        };
        Value term = arith::MulFOp::create(b, loc, toSum(args[0]), toSum(weight));
        Value sum = arith::AddFOp::create(b, loc, args.back(), term, arith::FastMathFlags::reassoc);
        linalg::YieldOp::create(b, loc, sum);
      });
  Value result = product.getResult(0);
  if (type.getElementType() == sumType)
    return SmallVector<Value>{result};

  Value rounded = createEmpty(builder, loc, context, type);
  SmallVector<AffineMap> identity(2, builder.getMultiDimIdentityMap(rank));
  auto generic = linalg::GenericOp::create(
      builder, loc, TypeRange{rounded.getType()}, ValueRange{result}, ValueRange{rounded}, identity,
      SmallVector<utils::IteratorType>(rank, utils::IteratorType::parallel),
      [&](OpBuilder &b, Location loc, ValueRange args) {
        linalg::YieldOp::create(b, loc, narrow(b, loc, args[0], type.getElementType()));
      });
  return SmallVector<Value>{generic.getResult(0)};
}
