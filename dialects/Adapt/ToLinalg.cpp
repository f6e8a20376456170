#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace adapt;

namespace {
Type likeWith(Type type, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.clone(element);
  return element;
}

bool isNarrowFloat(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
}
} // namespace

Value adapt::widen(OpBuilder &builder, Location loc, Value value) {
  if (!isNarrowFloat(getElementTypeOrSelf(value.getType())))
    return value;
  return arith::ExtFOp::create(builder, loc, likeWith(value.getType(), builder.getF32Type()),
                               value);
}

Value adapt::narrow(OpBuilder &builder, Location loc, Value value, Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element || !isNarrowFloat(element))
    return value;
  return arith::TruncFOp::create(builder, loc, likeWith(value.getType(), element), value);
}

SmallVector<OpFoldResult> adapt::getMixedSizes(OpBuilder &builder, Location loc,
                                               LinalgContext &context, RankedTensorType type) {
  SmallVector<OpFoldResult> sizes;
  for (AffineExpr size : getDims(type)) {
    if (auto constant = dyn_cast<AffineConstantExpr>(size))
      sizes.push_back(builder.getIndexAttr(constant.getValue()));
    else
      sizes.push_back(context.getSize(builder, loc, size));
  }
  return sizes;
}

Value adapt::createEmpty(OpBuilder &builder, Location loc, LinalgContext &context,
                         RankedTensorType type) {
  return tensor::EmptyOp::create(builder, loc, getMixedSizes(builder, loc, context, type),
                                 type.getElementType());
}

RankedTensorType adapt::getStorageType(RankedTensorType type) {
  auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding());
  if (!packed)
    return withoutEncoding(type);
  int64_t n = packed.getN(), k = packed.getK();
  return RankedTensorType::get({llvm::divideCeilSigned(type.getDimSize(0), n),
                                llvm::divideCeilSigned(type.getDimSize(1), k), n, k},
                               type.getElementType());
}

FailureOr<SmallVector<Value>> adapt::lowerElementwise(Operation *op, OpBuilder &builder,
                                                      LinalgContext &context, ValueRange operands) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Location loc = op->getLoc();
  Value init = createEmpty(builder, loc, context, type);
  SmallVector<AffineMap> maps(operands.size() + 1, builder.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> iterators(type.getRank(), utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      builder, loc, TypeRange{init.getType()}, operands, ValueRange{init}, maps, iterators,
      [&](OpBuilder &b, Location loc, ValueRange args) {
        SmallVector<Value> wide;
        for (Value arg : args.drop_back())
          wide.push_back(widen(b, loc, arg));
        Value result = cast<ElementwiseOpInterface>(op).emitScalar(b, loc, wide);
        linalg::YieldOp::create(b, loc, narrow(b, loc, result, type.getElementType()));
      });
  return SmallVector<Value>{generic.getResult(0)};
}

//===----------------------------------------------------------------------===//
// Decomposer
//===----------------------------------------------------------------------===//

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
} // namespace

Value Decomposer::cast(Value value, Type element) {
  if (typeOf(value).getElementType() == element)
    return value;
  return CastOp::create(builder, loc, withElementType(typeOf(value), element), value);
}

Value Decomposer::splat(Value like, double value) {
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  Value constant =
      ConstantOp::create(builder, loc, DenseElementsAttr::get(scalar, static_cast<float>(value)));
  return broadcast(constant, like, {});
}

Value Decomposer::broadcast(Value value, Value like, ArrayRef<int64_t> axes) {
  auto type = withElementType(typeOf(like), typeOf(value).getElementType());
  if (value.getType() == type)
    return value;
  return BroadcastOp::create(builder, loc, type, value, axes);
}

Value Decomposer::sliceLast(Value value, int64_t offset, int64_t size, int64_t stride) {
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  dims.back() = builder.getAffineConstantExpr(size);
  SmallVector<int64_t> offsets(dims.size(), 0), strides(dims.size(), 1);
  offsets.back() = offset;
  strides.back() = stride;
  return SliceOp::create(builder, loc, getTensorType(dims, typeOf(value).getElementType()), value,
                         offsets, strides);
}

Value Decomposer::concatLast(ValueRange values) {
  if (values.size() == 1)
    return values[0];
  SmallVector<AffineExpr> dims = getDims(typeOf(values[0]));
  for (Value value : values.drop_front())
    dims.back() = dims.back() + getDims(typeOf(value)).back();
  return ConcatOp::create(builder, loc, getTensorType(dims, typeOf(values[0]).getElementType()),
                          values, dims.size() - 1);
}

Value Decomposer::reshape(Value value, ArrayRef<AffineExpr> dims) {
  return ReshapeOp::create(builder, loc, getTensorType(dims, typeOf(value).getElementType()),
                           value);
}
