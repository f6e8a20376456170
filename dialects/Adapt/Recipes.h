// The dialect and the schema of recipes. Apart from the dialect's header, because Protobuf's
// headers are slow to compile.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "recipe.pb.h"

namespace adapt {

/// The serialised form of an `adapt.param`: nodes in topological order, the yielded value last. On
/// failure an error was emitted: an operation that is no part of recipes, or an element type that
/// recipes do not have.
mlir::LogicalResult toRecipe(ParamOp param, schema::Recipe &recipe);

/// An element type, or a ranked tensor type with its `#adapt.packed` layout, in the schema's terms.
/// Fails silently where the schema has no such type.
mlir::FailureOr<schema::ElementType> toElementType(mlir::Type type);
mlir::LogicalResult toTensorType(mlir::RankedTensorType type, schema::TensorType &result);

/// A size as the runtime reads it.
void exportExpr(mlir::AffineExpr expr, schema::Expr &out);

} // namespace adapt
