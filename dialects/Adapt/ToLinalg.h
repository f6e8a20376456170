// What lowerToLinalg and decompose bodies share.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"

namespace adapt {

/// A float narrower than f32 (or a vector or tensor of it) widened to f32; others as they are.
mlir::Value widen(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);
/// The inverse of `widen`: rounds a float to `element` if it is narrower than the value's.
mlir::Value narrow(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                   mlir::Type element);

/// The sizes of a tensor type, constants where static.
llvm::SmallVector<mlir::OpFoldResult> getMixedSizes(mlir::OpBuilder &builder, mlir::Location loc,
                                                    LinalgContext &context,
                                                    mlir::RankedTensorType type);
/// An uninitialised tensor of this type, without its encoding.
mlir::Value createEmpty(mlir::OpBuilder &builder, mlir::Location loc, LinalgContext &context,
                        mlir::RankedTensorType type);

/// The type that a tensor operand has after conversion: without `#adapt.dims`, and a packed matrix
/// as its storage [ceil(N/n)][ceil(K/k)][n][k].
mlir::RankedTensorType getStorageType(mlir::RankedTensorType type);

/// linalg.generic for an operation that answers ElementwiseOpInterface.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> lowerElementwise(mlir::Operation *op,
                                                                 mlir::OpBuilder &builder,
                                                                 LinalgContext &context,
                                                                 mlir::ValueRange operands);

/// Builds the elementary operations of decompositions, all in f32.
class Decomposer {
public:
  Decomposer(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::Value cast(mlir::Value value, mlir::Type element);
  mlir::Value toF32(mlir::Value value) { return cast(value, builder.getF32Type()); }
  /// A constant of the same type as `like` (f32).
  mlir::Value splat(mlir::Value like, double value);
  /// Repeats `value`, whose axes become `axes` of a tensor of the same sizes as `like`.
  mlir::Value broadcast(mlir::Value value, mlir::Value like, llvm::ArrayRef<int64_t> axes);
  /// Part of the last axis.
  mlir::Value sliceLast(mlir::Value value, int64_t offset, int64_t size, int64_t stride = 1);
  mlir::Value concatLast(mlir::ValueRange values);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> dims);

  mlir::Value add(mlir::Value a, mlir::Value b) { return AddOp::create(builder, loc, a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return SubOp::create(builder, loc, a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return MulOp::create(builder, loc, a, b); }
  template <typename Op> mlir::Value unary(mlir::Value value) {
    return Op::create(builder, loc, value);
  }

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace adapt
