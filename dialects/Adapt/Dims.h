// Named sizes: expressions over symbols in tensor types.
//
// A size is an mlir::AffineExpr whose symbols are numbers interned by the dialect
// (AdaptDialect::internSymbol); products of symbols are allowed. Sizes with the same meaning after
// MLIR's simplification are the same object.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>

namespace adapt {

/// The size with this name.
mlir::AffineExpr getSymbolExpr(mlir::MLIRContext *context, llvm::StringRef name);
/// The name of a symbol expression.
llvm::StringRef getSymbolName(mlir::AffineSymbolExpr symbol);

/// The sizes of a tensor: constants for static dimensions, expressions of its `#adapt.dims` for
/// dynamic ones. A dynamic dimension without a name gives a null expression.
llvm::SmallVector<mlir::AffineExpr> getDims(mlir::RankedTensorType type);
/// False for a ranked tensor with a dynamic dimension that `#adapt.dims` does not name.
bool hasNamedSizes(mlir::Type type);
/// A tensor type of these sizes; `#adapt.dims` is attached where one is not constant.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::Type element);
/// The same type with another element type.
mlir::RankedTensorType withElementType(mlir::RankedTensorType type, mlir::Type element);
/// The same type without its encoding, as linalg sees it.
mlir::RankedTensorType withoutEncoding(mlir::RankedTensorType type);

/// The expression as a sum of products in one order, so that sizes equal by the laws of addition
/// and multiplication are the same object: `S * T + T` of `T * (S + 1)`. Sizes of divisions are
/// taken as they are.
mlir::AffineExpr canonicalizeSize(mlir::AffineExpr expr);
/// Whether two sizes are equal by those laws.
bool areEqualSizes(mlir::AffineExpr a, mlir::AffineExpr b);

/// The product of a tensor's sizes, canonical.
mlir::AffineExpr getNumElements(mlir::RankedTensorType type);
/// Bytes of a dense tensor, or of its packed storage (padding included).
mlir::AffineExpr getNumBytes(mlir::RankedTensorType type);

/// Adds the names in an expression (or in the types' dims) to `symbols`, in order of appearance.
void collectSymbols(mlir::AffineExpr expr, llvm::SetVector<llvm::StringRef> &symbols);
void collectSymbols(mlir::Type type, llvm::SetVector<llvm::StringRef> &symbols);

/// The value of an expression; nullopt where `lookup` has none for a symbol or a divisor is zero.
std::optional<int64_t>
evaluateSize(mlir::AffineExpr expr,
             llvm::function_ref<std::optional<int64_t>(llvm::StringRef)> lookup);

/// Prints `T * 2 + 1`, with names.
void printSize(llvm::raw_ostream &os, mlir::AffineExpr expr);
std::string toString(mlir::AffineExpr expr);

} // namespace adapt
