// What handlers build results with.
#include "GraphImporter.h"
#include "llvm/ADT/APSInt.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

AffineExpr Node::size(int64_t value) { return builder().getAffineConstantExpr(value); }

Value Node::scalar(Type element, double value) {
  auto type = RankedTensorType::get({}, element);
  if (isa<FloatType>(element)) {
    APFloat number(value);
    bool loses;
    number.convert(llvm::cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &loses);
    return create<ConstantOp>(DenseElementsAttr::get(type, number));
  }
  // What an integer type cannot hold becomes its nearest number; of i1 only the bit counts.
  unsigned width = element.getIntOrFloatBitWidth();
  llvm::APSInt number(width == 1 ? 64 : width, /*isUnsigned=*/false);
  bool isExact;
  (void)APFloat(value).convertToInteger(number, APFloat::rmTowardZero, &isExact);
  return create<ConstantOp>(DenseElementsAttr::get(type, number.trunc(width)));
}

Value Node::splatOf(ArrayRef<AffineExpr> dims, Type element, double value) {
  return broadcast(scalar(element, value), dims);
}

Value Node::splat(Value like, double value, Type element) {
  return splatOf(getDims(typeOf(like)), element ? element : typeOf(like).getElementType(), value);
}

Value Node::splatSize(Value like, AffineExpr size) {
  Type element = typeOf(like).getElementType();
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return splat(like, static_cast<double>(constant.getValue()));
  Value one = create<IotaOp>(RankedTensorType::get({1}, element), DimsAttr::get(context(), size),
                             int64_t(1));
  return broadcast(reshape(one, {}), getDims(typeOf(like)));
}

Value Node::cast(Value value, Type element) {
  if (typeOf(value).getElementType() == element)
    return value;
  return create<CastOp>(withElementType(typeOf(value), element), value);
}

Value Node::reshape(Value value, ArrayRef<AffineExpr> dims) {
  RankedTensorType type = getTensorType(dims, typeOf(value).getElementType());
  return type == typeOf(value) ? value : create<ReshapeOp>(type, value);
}

Value Node::transpose(Value value, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return value;
  SmallVector<AffineExpr> dims = getDims(typeOf(value)), result;
  for (int64_t axis : permutation)
    result.push_back(dims[axis]);
  return create<TransposeOp>(getTensorType(result, typeOf(value).getElementType()), value,
                             permutation);
}

Value Node::broadcast(Value value, ArrayRef<AffineExpr> dims) {
  RankedTensorType from = typeOf(value), to = getTensorType(dims, from.getElementType());
  if (from == to)
    return value;
  int64_t shift = dims.size() - from.getRank();
  if (shift < 0) {
    fail("a tensor of rank " + Twine(from.getRank()) + " cannot become one of rank " +
         Twine(dims.size()));
    return value;
  }
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(shift, dims.size()));
  for (auto [axis, size] : llvm::enumerate(getDims(from)))
    if (size != dims[shift + axis] && size != this->size(1)) {
      fail("size " + toString(size) + " does not broadcast to " + toString(dims[shift + axis]));
      return value;
    }
  return create<BroadcastOp>(to, value, axes);
}

SmallVector<AffineExpr> Node::commonDims(ArrayRef<AffineExpr> a, ArrayRef<AffineExpr> b) {
  SmallVector<AffineExpr> result(std::max(a.size(), b.size()), size(1));
  for (ArrayRef<AffineExpr> dims : {a, b})
    for (auto [size, out] : llvm::zip(dims, MutableArrayRef(result).take_back(dims.size()))) {
      if (out == this->size(1))
        out = size;
      else if (size != out && size != this->size(1))
        fail("sizes " + toString(out) + " and " + toString(size) +
             " do not broadcast to each other");
    }
  return result;
}

SmallVector<Value> Node::broadcastAll(ArrayRef<Value> values) {
  SmallVector<AffineExpr> dims;
  for (Value value : values)
    dims = commonDims(dims, getDims(typeOf(value)));
  SmallVector<Value> result;
  for (Value value : values)
    result.push_back(failed() ? value : broadcast(value, dims));
  return result;
}

Value Node::iotaAlong(ArrayRef<AffineExpr> dims, int64_t axis, Type element, AffineExpr start,
                      int64_t step) {
  Value numbers =
      create<IotaOp>(getTensorType({dims[axis]}, element), DimsAttr::get(context(), start), step);
  RankedTensorType type = getTensorType(dims, element);
  if (typeOf(numbers) == type)
    return numbers;
  return create<BroadcastOp>(type, numbers, ArrayRef<int64_t>{axis});
}

Value Node::reduce(Value value, ReduceKind kind, ArrayRef<int64_t> axes, bool keepAxes) {
  SmallVector<AffineExpr> kept, dims = getDims(typeOf(value));
  for (auto [axis, size] : llvm::enumerate(dims))
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
      kept.push_back(size);
  Value result = value;
  if (!axes.empty())
    result =
        create<ReduceOp>(getTensorType(kept, typeOf(value).getElementType()), value, kind, axes);
  if (!keepAxes)
    return result;
  for (int64_t axis : axes)
    dims[axis] = size(1);
  return reshape(result, dims);
}

Value Node::compare(Predicate predicate, Value a, Value b) {
  return create<CompareOp>(withElementType(typeOf(a), builder().getI1Type()), predicate, a, b);
}

Value Node::select(Value condition, Value a, Value b) {
  return create<SelectOp>(a.getType(), condition, a, b);
}

Value Node::normalizeIndices(Value indices, AffineExpr size) {
  Value rows = splatSize(indices, size);
  Value zero = splat(indices, 0);
  Value fromEnd = binary<AddOp>(indices, rows);
  Value index = select(compare(Predicate::Less, indices, zero), fromEnd, indices);
  Value last = binary<SubOp>(rows, splat(indices, 1));
  return binary<MaximumOp>(binary<MinimumOp>(index, last), zero);
}
