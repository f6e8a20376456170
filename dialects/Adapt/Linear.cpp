#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
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

//===----------------------------------------------------------------------===//
// What products share
//===----------------------------------------------------------------------===//

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The type in which a product of this result type is accumulated.
Type getSumType(RankedTensorType type) {
  return type.getElementType().isF64() ? type.getElementType()
                                       : Float32Type::get(type.getContext());
}

Value toType(OpBuilder &b, Location loc, Value value, Type type) {
  unsigned from = value.getType().getIntOrFloatBitWidth(), to = type.getIntOrFloatBitWidth();
  if (from == to)
    return value;
  if (from > to)
    return arith::TruncFOp::create(b, loc, type, value);
  return arith::ExtFOp::create(b, loc, type, value);
}

/// sum + a * b in the sum's type.
Value multiplyAdd(OpBuilder &b, Location loc, Value x, Value y, Value sum) {
  Value term = arith::MulFOp::create(b, loc, toType(b, loc, x, sum.getType()),
                                     toType(b, loc, y, sum.getType()));
  return arith::AddFOp::create(b, loc, sum, term, arith::FastMathFlags::reassoc);
}

Value createZeros(OpBuilder &builder, Location loc, LinalgContext &context, RankedTensorType type) {
  Type sumType = getSumType(type);
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(sumType));
  Value init = createEmpty(builder, loc, context, withElementType(type, sumType));
  return linalg::FillOp::create(builder, loc, zero, init).getResult(0);
}

/// A sum rounded to the result's type.
Value roundTo(OpBuilder &builder, Location loc, LinalgContext &context, Value sum,
              RankedTensorType type) {
  if (type.getElementType() == typeOf(sum).getElementType())
    return sum;
  Value rounded = createEmpty(builder, loc, context, type);
  SmallVector<AffineMap> identity(2, builder.getMultiDimIdentityMap(type.getRank()));
  auto generic = linalg::GenericOp::create(
      builder, loc, TypeRange{rounded.getType()}, ValueRange{sum}, ValueRange{rounded}, identity,
      SmallVector<utils::IteratorType>(type.getRank(), utils::IteratorType::parallel),
      [&](OpBuilder &b, Location loc, ValueRange args) {
        linalg::YieldOp::create(b, loc, narrow(b, loc, args[0], type.getElementType()));
      });
  return generic.getResult(0);
}
} // namespace

//===----------------------------------------------------------------------===//
// batch_matmul
//===----------------------------------------------------------------------===//

LogicalResult BatchMatmulOp::verify() {
  RankedTensorType lhs = typeOf(getLhs()), rhs = typeOf(getRhs()), type = typeOf(getResult());
  if (lhs.getRank() < 2 || lhs.getRank() != rhs.getRank() || lhs.getRank() != type.getRank())
    return emitOpError() << "needs operands and a result of one rank, at least 2, not "
                         << lhs.getRank() << ", " << rhs.getRank() << " and " << type.getRank();
  SmallVector<AffineExpr> a = getDims(lhs), b = getDims(rhs), expected = a;
  if (!areEqualSizes(a.back(), b[b.size() - 2]))
    return emitOpError() << "lhs has " << toString(a.back()) << " columns, rhs "
                         << toString(b[b.size() - 2]) << " rows";
  expected.back() = b.back();
  auto batch = [](ArrayRef<AffineExpr> dims) { return dims.drop_back(2); };
  auto same = [](auto pair) { return areEqualSizes(std::get<0>(pair), std::get<1>(pair)); };
  if (!llvm::all_of(llvm::zip(batch(a), batch(b)), same) ||
      !llvm::all_of(llvm::zip(expected, getDims(type)), same))
    return emitOpError() << "sizes differ: " << shapeToString(lhs) << " times "
                         << shapeToString(rhs) << " gives " << shapeToString(type);
  return success();
}

LogicalResult BatchMatmulOp::evaluate(interp::EvalContext &context,
                                      ArrayRef<interp::Value> operands,
                                      SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  const interp::Tensor &lhs = operands[0].tensor(), &rhs = operands[1].tensor();
  int64_t rank = lhs.getRank(), m = lhs.getDim(rank - 2), k = lhs.getDim(rank - 1);
  int64_t n = rhs.getDim(rank - 1), size = m * n;
  int64_t count = size ? result->getNumElements() / size : 0;
  const double *x = lhs.floats().data(), *y = rhs.floats().data();
  MutableArrayRef<double> out = result->mutableFloats();
  context.withAccumulator(result->getElementType(), [&](auto zero) {
    for (int64_t batch = 0; batch < count; ++batch)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          auto sum = zero;
          for (int64_t at = 0; at < k; ++at)
            sum += decltype(zero)(x[(batch * m + i) * k + at]) *
                   decltype(zero)(y[(batch * k + at) * n + j]);
          out[(batch * m + i) * n + j] = sum;
        }
  });
  results.push_back(std::move(*result));
  return success();
}

ShardingRule BatchMatmulOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<AffineExpr> lhs = getDims(typeOf(getLhs())), rhs = getDims(typeOf(getRhs()));
  SmallVector<int> batch;
  for (AffineExpr size : ArrayRef(lhs).drop_back(2)) {
    batch.push_back(rule.factors.size());
    rule.factors.push_back({size});
  }
  int m = rule.factors.size(), n = m + 1, k = m + 2;
  rule.factors.push_back({lhs[lhs.size() - 2]});
  rule.factors.push_back({rhs.back()});
  rule.factors.push_back({lhs.back(), ShardingRule::Reduction::Sum});
  auto with = [&](int row, int column) {
    SmallVector<int> axes = batch;
    axes.append({row, column});
    return axes;
  };
  rule.operands = {with(m, k), with(k, n)};
  rule.results = {with(m, n)};
  return rule;
}

Cost BatchMatmulOp::getCost() {
  Cost cost = getElementwiseCost(*this, 2);
  cost.flops = cost.flops * getDims(typeOf(getLhs())).back();
  return cost;
}

// Over (b…, m, k, n): the innermost loop runs along rows of rhs and of the result.
FailureOr<SmallVector<Value>>
BatchMatmulOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context, ValueRange operands) {
  Location loc = getLoc();
  auto type = cast<RankedTensorType>(getType());
  int64_t rank = type.getRank(), loops = rank + 1, m = rank - 2, k = rank - 1, n = rank;
  auto map = [&](int64_t row, int64_t column) {
    SmallVector<AffineExpr> exprs;
    for (int64_t axis = 0; axis < rank - 2; ++axis)
      exprs.push_back(builder.getAffineDimExpr(axis));
    exprs.push_back(builder.getAffineDimExpr(row));
    exprs.push_back(builder.getAffineDimExpr(column));
    return AffineMap::get(loops, 0, exprs, getContext());
  };
  SmallVector<utils::IteratorType> iterators(loops, utils::IteratorType::parallel);
  iterators[k] = utils::IteratorType::reduction;
  Value init = createZeros(builder, loc, context, type);
  auto product = linalg::GenericOp::create(
      builder, loc, TypeRange{init.getType()}, operands, ValueRange{init},
      ArrayRef<AffineMap>{map(m, k), map(k, n), map(m, n)}, iterators,
      [&](OpBuilder &b, Location loc, ValueRange args) {
        linalg::YieldOp::create(b, loc, multiplyAdd(b, loc, args[0], args[1], args[2]));
      });
  return SmallVector<Value>{roundTo(builder, loc, context, product.getResult(0), type)};
}

//===----------------------------------------------------------------------===//
// conv
//===----------------------------------------------------------------------===//

LogicalResult ConvOp::verify() {
  RankedTensorType input = typeOf(getInput()), weight = typeOf(getWeight());
  RankedTensorType type = typeOf(getResult());
  int64_t rank = input.getRank(), spatial = rank - 2;
  if (rank < 3 || weight.getRank() != rank || type.getRank() != rank)
    return emitOpError() << "needs input, weight and result of one rank, at least 3, not " << rank
                         << ", " << weight.getRank() << " and " << type.getRank();
  size_t count = spatial;
  if (getStrides().size() != count || getDilations().size() != count ||
      getPads().size() != 2 * count)
    return emitOpError() << "over " << spatial << " axes needs as many strides and dilations and "
                         << 2 * spatial << " pads";
  int64_t groups = getGroups();
  auto positive = [](int64_t value) { return value > 0; };
  if (!llvm::all_of(getStrides(), positive) || !llvm::all_of(getDilations(), positive) ||
      llvm::any_of(getPads(), [](int64_t pad) { return pad < 0; }) || groups < 1)
    return emitOpError("needs positive strides, dilations and groups, and pads of at least 0");
  SmallVector<AffineExpr> x = getDims(input), w = getDims(weight), y = getDims(type);
  if (!weight.hasStaticShape() || weight.getDimSize(0) % groups != 0 ||
      !areEqualSizes(x[1], w[1] * groups))
    return emitOpError() << "with " << groups << " groups: weight " << shapeToString(weight)
                         << " does not fit " << toString(x[1]) << " channels";
  LogicalResult result = success();
  auto check = [&](int64_t axis, AffineExpr expected) {
    if (!areEqualSizes(expected, y[axis]))
      result = emitOpError() << "result's axis " << axis << " must be " << toString(expected)
                             << ", not " << toString(y[axis]);
  };
  check(0, x[0]);
  check(1, w[0]);
  for (int64_t i = 0; i < spatial; ++i) {
    AffineExpr reach = (w[i + 2] - 1) * getDilations()[i] + 1;
    AffineExpr room = x[i + 2] + (getPads()[i] + getPads()[i + spatial]) - reach;
    check(i + 2, canonicalizeSize(room).floorDiv(getStrides()[i]) + 1);
  }
  return result;
}

LogicalResult ConvOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                               SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  const interp::Tensor &input = operands[0].tensor(), &weight = operands[1].tensor();
  int64_t spatial = input.getRank() - 2, channels = weight.getDim(1);
  int64_t perGroup = weight.getDim(0) / static_cast<int64_t>(getGroups());
  SmallVector<int64_t> xStrides = interp::getStrides(input.getShape());
  SmallVector<int64_t> wStrides = interp::getStrides(weight.getShape());
  auto unravel = [](int64_t index, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> place(shape.size());
    for (int64_t axis = shape.size() - 1; axis >= 0; --axis) {
      place[axis] = index % shape[axis];
      index /= shape[axis];
    }
    return place;
  };
  ArrayRef<int64_t> kernel = weight.getShape().drop_front(2);
  int64_t taps = 1;
  for (int64_t size : kernel)
    taps *= size;
  ArrayRef<double> x = input.floats(), w = weight.floats();
  context.withAccumulator(result->getElementType(), [&](auto zero) {
    for (auto [i, y] : llvm::enumerate(result->mutableFloats())) {
      SmallVector<int64_t> at = unravel(i, result->getShape());
      auto sum = zero;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t tap = 0; tap < taps; ++tap) {
          SmallVector<int64_t> k = unravel(tap, kernel);
          int64_t from = at[0] * xStrides[0] + (at[1] / perGroup * channels + c) * xStrides[1];
          int64_t weightAt = at[1] * wStrides[0] + c * wStrides[1];
          bool inside = true;
          for (int64_t axis = 0; axis < spatial; ++axis) {
            int64_t place = at[axis + 2] * getStrides()[axis] + k[axis] * getDilations()[axis] -
                            getPads()[axis];
            inside &= place >= 0 && place < input.getDim(axis + 2);
            from += place * xStrides[axis + 2];
            weightAt += k[axis] * wStrides[axis + 2];
          }
          if (inside)
            sum += decltype(zero)(x[from]) * decltype(zero)(w[weightAt]);
        }
      y = sum;
    }
  });
  results.push_back(std::move(*result));
  return success();
}

// Batches and, without groups, the weight's rows.
ShardingRule ConvOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<AffineExpr> x = getDims(typeOf(getInput())), w = getDims(typeOf(getWeight()));
  size_t rank = x.size();
  SmallVector<int> none(rank, ShardingRule::kNone), input = none, weight = none, result = none;
  rule.factors.push_back({x[0]});
  input[0] = result[0] = 0;
  if (getGroups() == 1) {
    rule.factors.push_back({w[0]});
    rule.factors.push_back({x[1], ShardingRule::Reduction::Sum});
    weight[0] = result[1] = 1;
    input[1] = weight[1] = 2;
  }
  rule.operands = {input, weight};
  rule.results = {result};
  return rule;
}

Cost ConvOp::getCost() {
  Cost cost = getElementwiseCost(*this, 2);
  SmallVector<AffineExpr> weight = getDims(typeOf(getWeight()));
  for (AffineExpr size : ArrayRef(weight).drop_front())
    cost.flops = cost.flops * size;
  return cost;
}

// Over (n, m, y…, c, k…): what lies outside of the input counts as zero, so that nothing is padded.
FailureOr<SmallVector<Value>> ConvOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context,
                                                    ValueRange operands) {
  Location loc = getLoc();
  auto type = cast<RankedTensorType>(getType());
  int64_t rank = type.getRank(), spatial = rank - 2, c = rank, loops = 2 * rank - 1;
  SmallVector<AffineExpr> weightDims = {builder.getAffineDimExpr(1), builder.getAffineDimExpr(c)};
  for (int64_t axis = 0; axis < spatial; ++axis)
    weightDims.push_back(builder.getAffineDimExpr(c + 1 + axis));
  SmallVector<utils::IteratorType> iterators(loops, utils::IteratorType::parallel);
  for (int64_t loop = rank; loop < loops; ++loop)
    iterators[loop] = utils::IteratorType::reduction;
  int64_t channels = typeOf(getWeight()).getDimSize(1);
  int64_t perGroup = typeOf(getWeight()).getDimSize(0) / static_cast<int64_t>(getGroups());
  SmallVector<OpFoldResult> sizes = getMixedSizes(builder, loc, context, typeOf(getInput()));
  SmallVector<Value> bounds;
  for (int64_t axis = 0; axis < spatial; ++axis)
    bounds.push_back(getValueOrCreateConstantIndexOp(builder, loc, sizes[axis + 2]));
  Value init = createZeros(builder, loc, context, type);
  auto product = linalg::GenericOp::create(
      builder, loc, TypeRange{init.getType()}, ValueRange{operands[1]}, ValueRange{init},
      ArrayRef<AffineMap>{
          AffineMap::get(loops, 0, weightDims, getContext()),
          AffineMap::getMultiDimIdentityMap(loops, getContext()).getMajorSubMap(rank)},
      iterators, [&](OpBuilder &b, Location loc, ValueRange args) {
        auto index = [&](int64_t loop) -> Value { return linalg::IndexOp::create(b, loc, loop); };
        auto constant = [&](int64_t value) -> Value {
          return arith::ConstantIndexOp::create(b, loc, value);
        };
        auto scaled = [&](Value value, int64_t by) -> Value {
          return by == 1 ? value : arith::MulIOp::create(b, loc, value, constant(by)).getResult();
        };
        Value channel = index(c);
        if (getGroups() > 1) {
          Value group = arith::DivUIOp::create(b, loc, index(1), constant(perGroup));
          channel = arith::AddIOp::create(b, loc, scaled(group, channels), channel);
        }
        SmallVector<Value> at = {index(0), channel};
        Value inside;
        for (int64_t axis = 0; axis < spatial; ++axis) {
          Value place = arith::AddIOp::create(b, loc, scaled(index(axis + 2), getStrides()[axis]),
                                              scaled(index(c + 1 + axis), getDilations()[axis]));
          if (getPads()[axis] || getPads()[axis + spatial]) {
            place = arith::SubIOp::create(b, loc, place, constant(getPads()[axis]));
            // Negative places are large as unsigned ones.
            Value here =
                arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, place, bounds[axis]);
            place = arith::SelectOp::create(b, loc, here, place, constant(0));
            inside = inside ? arith::AndIOp::create(b, loc, inside, here).getResult() : here;
          }
          at.push_back(place);
        }
        Value x = tensor::ExtractOp::create(b, loc, operands[0], at);
        if (inside) {
          Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(x.getType()));
          x = arith::SelectOp::create(b, loc, inside, x, zero);
        }
        linalg::YieldOp::create(b, loc, multiplyAdd(b, loc, x, args[0], args[1]));
      });
  return SmallVector<Value>{roundTo(builder, loc, context, product.getResult(0), type)};
}
