// Lowering to linalg of the operations of Shape.td.
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

using namespace mlir;
using namespace adapt;

using Lowered = FailureOr<SmallVector<Value>>;

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

SmallVector<utils::IteratorType> parallel(int64_t rank) {
  return SmallVector<utils::IteratorType>(rank, utils::IteratorType::parallel);
}

SmallVector<OpFoldResult> constants(OpBuilder &builder, ArrayRef<int64_t> values) {
  return getAsIndexOpFoldResult(builder.getContext(), values);
}

// Copies elements through a map from result axes to operand axes.
Lowered lowerCopy(OpBuilder &builder, Location loc, LinalgContext &context, Value operand,
                  RankedTensorType type, AffineMap map) {
  Value init = createEmpty(builder, loc, context, type);
  auto generic = linalg::GenericOp::create(
      builder, loc, TypeRange{init.getType()}, ValueRange{operand}, ValueRange{init},
      ArrayRef<AffineMap>{map, builder.getMultiDimIdentityMap(type.getRank())},
      parallel(type.getRank()), [](OpBuilder &b, Location loc, ValueRange args) {
        linalg::YieldOp::create(b, loc, args[0]);
      });
  return SmallVector<Value>{generic.getResult(0)};
}
} // namespace

Lowered ConstantOp::lowerToLinalg(OpBuilder &builder, LinalgContext &, ValueRange) {
  auto elements = dyn_cast<DenseElementsAttr>(getValue());
  if (!elements)
    return emitOpError("has no lowering to linalg: its data is not dense");
  Value constant = arith::ConstantOp::create(
      builder, getLoc(), elements.reshape(withoutEncoding(cast<RankedTensorType>(getType()))));
  return SmallVector<Value>{constant};
}

Lowered ReshapeOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context, ValueRange operands) {
  Value value = operands[0];
  RankedTensorType from = typeOf(value), to = withoutEncoding(getType());
  if (from == to)
    return SmallVector<Value>{value};
  SmallVector<OpFoldResult> sizes = getMixedSizes(builder, getLoc(), context, getType());
  // Directly if one side only merges or splits axes of the other; else by way of a vector.
  if (from.hasStaticShape() && to.hasStaticShape() && from.getRank() != to.getRank()) {
    if (auto groups = getReassociationIndicesForReshape(from, to)) {
      if (from.getRank() > to.getRank())
        value = tensor::CollapseShapeOp::create(builder, getLoc(), to, value, *groups);
      else
        value = tensor::ExpandShapeOp::create(builder, getLoc(), to, value, *groups, sizes);
      return SmallVector<Value>{value};
    }
  }
  auto all = [](int64_t rank) {
    SmallVector<ReassociationIndices> groups;
    if (rank > 0)
      groups.push_back(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
    return groups;
  };
  if (from.getRank() > 1)
    value = tensor::CollapseShapeOp::create(builder, getLoc(), value, all(from.getRank()));
  else if (from.getRank() == 0)
    value = tensor::ExpandShapeOp::create(
        builder, getLoc(), RankedTensorType::get({1}, from.getElementType()), value,
        ArrayRef<ReassociationIndices>{}, SmallVector<OpFoldResult>{builder.getIndexAttr(1)});
  if (to.getRank() > 1)
    value = tensor::ExpandShapeOp::create(builder, getLoc(), to, value, all(to.getRank()), sizes);
  else if (to.getRank() == 0)
    value = tensor::CollapseShapeOp::create(builder, getLoc(), to, value,
                                            ArrayRef<ReassociationIndices>{});
  return SmallVector<Value>{value};
}

Lowered TransposeOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context,
                                   ValueRange operands) {
  SmallVector<AffineExpr> exprs(getPermutation().size());
  for (auto [axis, from] : llvm::enumerate(getPermutation()))
    exprs[from] = builder.getAffineDimExpr(axis);
  auto map = AffineMap::get(exprs.size(), 0, exprs, getContext());
  return lowerCopy(builder, getLoc(), context, operands[0], getType(), map);
}

Lowered BroadcastOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context,
                                   ValueRange operands) {
  // Axes that grow from one vanish first, so that the map is a projection.
  RankedTensorType from = typeOf(operands[0]);
  SmallVector<AffineExpr> out = getDims(getType()), in = getDims(typeOf(getInput()));
  Value value = operands[0];
  SmallVector<AffineExpr> exprs;
  SmallVector<int64_t> kept;
  for (auto [axis, to] : llvm::enumerate(getDimensions())) {
    if (in[axis] != out[to])
      continue;
    kept.push_back(axis);
    exprs.push_back(builder.getAffineDimExpr(to));
  }
  if (static_cast<int64_t>(kept.size()) != from.getRank()) {
    SmallVector<OpFoldResult> sizes = getMixedSizes(builder, getLoc(), context, typeOf(getInput()));
    SmallVector<int64_t> shape, zeros(from.getRank(), 0), ones(from.getRank(), 1);
    for (int64_t axis : kept)
      shape.push_back(from.getDimSize(axis));
    value = tensor::ExtractSliceOp::create(
        builder, getLoc(), RankedTensorType::get(shape, from.getElementType()), value,
        constants(builder, zeros), sizes, constants(builder, ones));
  }
  auto map = AffineMap::get(out.size(), 0, exprs, getContext());
  return lowerCopy(builder, getLoc(), context, value, getType(), map);
}

Lowered SliceOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context, ValueRange operands) {
  Value slice = tensor::ExtractSliceOp::create(
      builder, getLoc(), withoutEncoding(getType()), operands[0], constants(builder, getOffsets()),
      getMixedSizes(builder, getLoc(), context, getType()), constants(builder, getStrides()));
  return SmallVector<Value>{slice};
}

Lowered ShardSliceOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context,
                                    ValueRange operands) {
  auto type = cast<RankedTensorType>(getType());
  SmallVector<OpFoldResult> offsets;
  for (AffineExpr offset : getOffsets().getExprs())
    if (auto constant = dyn_cast<AffineConstantExpr>(offset))
      offsets.push_back(builder.getIndexAttr(constant.getValue()));
    else
      offsets.push_back(context.getSize(builder, getLoc(), offset));
  SmallVector<int64_t> ones(type.getRank(), 1);
  Value slice = tensor::ExtractSliceOp::create(
      builder, getLoc(), withoutEncoding(type), operands[0], offsets,
      getMixedSizes(builder, getLoc(), context, type), constants(builder, ones));
  return SmallVector<Value>{slice};
}

Lowered ConcatOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context, ValueRange operands) {
  Value result = createEmpty(builder, getLoc(), context, getType());
  SmallVector<int64_t> ones(getType().getRank(), 1), zeros(getType().getRank(), 0);
  SmallVector<OpFoldResult> offsets = constants(builder, zeros);
  AffineExpr end = builder.getAffineConstantExpr(0);
  for (auto [original, operand] : llvm::zip_equal(getInputs(), operands)) {
    if (auto constant = dyn_cast<AffineConstantExpr>(end))
      offsets[getAxis()] = builder.getIndexAttr(constant.getValue());
    else
      offsets[getAxis()] = context.getSize(builder, getLoc(), end);
    result = tensor::InsertSliceOp::create(
        builder, getLoc(), operand, result, offsets,
        getMixedSizes(builder, getLoc(), context, typeOf(original)), constants(builder, ones));
    end = end + getDims(typeOf(original))[getAxis()];
  }
  return SmallVector<Value>{result};
}

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

namespace {
TypedAttr getIdentity(OpBuilder &builder, ReduceKind kind, Type type) {
  if (auto floating = dyn_cast<FloatType>(type)) {
    bool max = kind == ReduceKind::Max;
    if (max || kind == ReduceKind::Min)
      return builder.getFloatAttr(
          type, llvm::APFloat::getInf(floating.getFloatSemantics(), /*Negative=*/max));
    return builder.getFloatAttr(type, kind == ReduceKind::Prod ? 1.0 : 0.0);
  }
  unsigned width = type.getIntOrFloatBitWidth();
  if (kind == ReduceKind::Max)
    return builder.getIntegerAttr(type, llvm::APInt::getSignedMinValue(width));
  if (kind == ReduceKind::Min)
    return builder.getIntegerAttr(type, llvm::APInt::getSignedMaxValue(width));
  return builder.getIntegerAttr(type, kind == ReduceKind::Prod ? 1 : 0);
}

Value combine(OpBuilder &b, Location loc, ReduceKind kind, Value x, Value y) {
  bool floating = isa<FloatType>(x.getType());
  // Sums may be split over lanes: every work item splits them alike.
  auto fast = arith::FastMathFlags::reassoc;
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return floating ? arith::AddFOp::create(b, loc, x, y, fast).getResult()
                    : arith::AddIOp::create(b, loc, x, y).getResult();
  case ReduceKind::Prod:
    return floating ? arith::MulFOp::create(b, loc, x, y, fast).getResult()
                    : arith::MulIOp::create(b, loc, x, y).getResult();
  case ReduceKind::Max:
    return floating ? arith::MaximumFOp::create(b, loc, x, y).getResult()
                    : arith::MaxSIOp::create(b, loc, x, y).getResult();
  case ReduceKind::Min:
    return floating ? arith::MinimumFOp::create(b, loc, x, y).getResult()
                    : arith::MinSIOp::create(b, loc, x, y).getResult();
  }
  llvm_unreachable("all kinds are covered");
}
} // namespace

Lowered ReduceOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context, ValueRange operands) {
  Location loc = getLoc();
  RankedTensorType input = typeOf(getInput()), type = getType();
  Type element = type.getElementType();
  Type sumType = isa<FloatType>(element) && !element.isF64() ? builder.getF32Type() : element;

  SmallVector<AffineExpr> kept;
  SmallVector<utils::IteratorType> iterators;
  AffineExpr count = builder.getAffineConstantExpr(1);
  for (auto [axis, size] : llvm::enumerate(getDims(input))) {
    bool reduced = llvm::is_contained(getAxes(), static_cast<int64_t>(axis));
    iterators.push_back(reduced ? utils::IteratorType::reduction : utils::IteratorType::parallel);
    if (reduced)
      count = count * size;
    else
      kept.push_back(builder.getAffineDimExpr(axis));
  }
  auto outMap = AffineMap::get(input.getRank(), 0, kept, getContext());

  Value identity =
      arith::ConstantOp::create(builder, loc, getIdentity(builder, getKind(), sumType));
  Value init = createEmpty(builder, loc, context, withElementType(type, sumType));
  init = linalg::FillOp::create(builder, loc, identity, init).getResult(0);
  auto reduction = linalg::GenericOp::create(
      builder, loc, TypeRange{init.getType()}, operands, ValueRange{init},
      ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(input.getRank()), outMap}, iterators,
      [&](OpBuilder &b, Location loc, ValueRange args) {
        linalg::YieldOp::create(b, loc,
                                combine(b, loc, getKind(), args[1], widen(b, loc, args[0])));
      });
  Value result = reduction.getResult(0);
  if (getKind() != ReduceKind::Mean && sumType == element)
    return SmallVector<Value>{result};

  Value divisor;
  if (getKind() == ReduceKind::Mean) {
    if (auto constant = dyn_cast<AffineConstantExpr>(count)) {
      TypedAttr attr =
          isa<FloatType>(sumType)
              ? TypedAttr(builder.getFloatAttr(sumType, static_cast<double>(constant.getValue())))
              : TypedAttr(builder.getIntegerAttr(sumType, constant.getValue()));
      divisor = arith::ConstantOp::create(builder, loc, attr);
    } else {
      Value size = arith::IndexCastOp::create(builder, loc, builder.getI64Type(),
                                              context.getSize(builder, loc, count));
      divisor = isa<FloatType>(sumType)
                    ? arith::SIToFPOp::create(builder, loc, sumType, size).getResult()
                    : arith::TruncIOp::create(builder, loc, sumType, size).getResult();
    }
  }
  // A mean of the accumulator's type is divided where it lies.
  auto identityMap = builder.getMultiDimIdentityMap(type.getRank());
  Value out = sumType == element ? result : createEmpty(builder, loc, context, type);
  auto finish = linalg::GenericOp::create(
      builder, loc, TypeRange{out.getType()}, ValueRange{result}, ValueRange{out},
      ArrayRef<AffineMap>{identityMap, identityMap}, parallel(type.getRank()),
      [&](OpBuilder &b, Location loc, ValueRange args) {
        Value value = args[0];
        if (divisor)
          value = isa<FloatType>(sumType)
                      ? arith::DivFOp::create(b, loc, value, divisor).getResult()
                      : arith::DivSIOp::create(b, loc, value, divisor).getResult();
        linalg::YieldOp::create(b, loc, narrow(b, loc, value, element));
      });
  return SmallVector<Value>{finish.getResult(0)};
}

//===----------------------------------------------------------------------===//
// gather
//===----------------------------------------------------------------------===//

Lowered GatherOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context, ValueRange operands) {
  Value table = operands[0];
  int64_t indexRank = typeOf(operands[1]).getRank(), rank = getType().getRank(), axis = getAxis();
  auto packed = dyn_cast_or_null<PackedAttr>(typeOf(getTable()).getEncoding());
  Value first;
  if (std::optional<DimsAttr> firstRow = getFirstRow()) {
    if (typeOf(getTable()).isDynamicDim(axis))
      return emitOpError("with first_row has no lowering for a table of symbolic size"), failure();
    first = context.getSize(builder, getLoc(), firstRow->getExprs()[0]);
  }
  Value init = createEmpty(builder, getLoc(), context, getType());
  SmallVector<AffineExpr> indexDims;
  for (int64_t i = 0; i < indexRank; ++i)
    indexDims.push_back(builder.getAffineDimExpr(axis + i));
  auto indexMap = AffineMap::get(rank, 0, indexDims, getContext());
  auto generic = linalg::GenericOp::create(
      builder, getLoc(), TypeRange{init.getType()}, ValueRange{operands[1]}, ValueRange{init},
      ArrayRef<AffineMap>{indexMap, builder.getMultiDimIdentityMap(rank)}, parallel(rank),
      [&](OpBuilder &b, Location loc, ValueRange args) {
        Value row = arith::IndexCastOp::create(b, loc, b.getIndexType(), args[0]), isHeld;
        if (first) {
          // Unsigned: rows before the first are beyond the last, too. Some row is read anyhow.
          row = arith::SubIOp::create(b, loc, row, first);
          Value rows = arith::ConstantIndexOp::create(b, loc, typeOf(getTable()).getDimSize(axis));
          isHeld = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, row, rows);
          Value zero = arith::ConstantIndexOp::create(b, loc, 0);
          row = arith::SelectOp::create(b, loc, isHeld, row, zero);
        }
        SmallVector<Value> at;
        for (int64_t i = 0; i < axis; ++i)
          at.push_back(linalg::IndexOp::create(b, loc, i));
        at.push_back(row);
        for (int64_t i = axis + indexRank; i < rank; ++i)
          at.push_back(linalg::IndexOp::create(b, loc, i));
        if (packed) {
          Value n = arith::ConstantIndexOp::create(b, loc, packed.getN());
          Value k = arith::ConstantIndexOp::create(b, loc, packed.getK());
          at = {arith::DivUIOp::create(b, loc, at[0], n), arith::DivUIOp::create(b, loc, at[1], k),
                arith::RemUIOp::create(b, loc, at[0], n), arith::RemUIOp::create(b, loc, at[1], k)};
        }
        Value element = tensor::ExtractOp::create(b, loc, table, at);
        if (isHeld) {
          Type type = element.getType();
          Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
          element = arith::SelectOp::create(b, loc, isHeld, element, zero);
        }
        linalg::YieldOp::create(b, loc, element);
      });
  return SmallVector<Value>{generic.getResult(0)};
}

//===----------------------------------------------------------------------===//
// iota and pad
//===----------------------------------------------------------------------===//

Lowered IotaOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context, ValueRange) {
  Location loc = getLoc();
  auto type = cast<RankedTensorType>(getResult().getType());
  AffineExpr size = getStart().getExprs().front();
  Value start;
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    start = arith::ConstantIndexOp::create(builder, loc, constant.getValue());
  else
    start = context.getSize(builder, loc, size);
  Value step = arith::ConstantIndexOp::create(builder, loc, getStep());
  Value init = createEmpty(builder, loc, context, type);
  auto generic = linalg::GenericOp::create(
      builder, loc, TypeRange{init.getType()}, ValueRange{}, ValueRange{init},
      ArrayRef<AffineMap>{builder.getMultiDimIdentityMap(1)}, parallel(1),
      [&](OpBuilder &b, Location loc, ValueRange) {
        Value index = linalg::IndexOp::create(b, loc, 0);
        Value value =
            arith::AddIOp::create(b, loc, start, arith::MulIOp::create(b, loc, index, step));
        linalg::YieldOp::create(
            b, loc, arith::IndexCastOp::create(b, loc, type.getElementType(), value).getResult());
      });
  return SmallVector<Value>{generic.getResult(0)};
}

Lowered PadOp::lowerToLinalg(OpBuilder &builder, LinalgContext &context, ValueRange operands) {
  Location loc = getLoc();
  Value init = createEmpty(builder, loc, context, getType());
  Value filler = tensor::ExtractOp::create(builder, loc, operands[1], ValueRange{});
  init = linalg::FillOp::create(builder, loc, filler, init).getResult(0);
  SmallVector<int64_t> ones(getType().getRank(), 1);
  Value result = tensor::InsertSliceOp::create(
      builder, loc, operands[0], init, constants(builder, getLow()),
      getMixedSizes(builder, loc, context, typeOf(getInput())), constants(builder, ones));
  return SmallVector<Value>{result};
}
