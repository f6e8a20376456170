// The serialised form of an `adapt.param`.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "recipe.pb.h"

namespace adapt {

/// Writes the param's region as a recipe: nodes in topological order, the yielded value last. On
/// failure an error was emitted: an operation that is no part of recipes, or an element type that
/// recipes do not have.
mlir::LogicalResult toRecipe(ParamOp param, schema::Recipe &recipe);

/// An element type, or a ranked tensor type with its `#adapt.packed` layout, in the schema's terms.
mlir::FailureOr<schema::ElementType> toElementType(mlir::Type type);
mlir::LogicalResult toTensorType(mlir::RankedTensorType type, schema::TensorType &result);

} // namespace adapt
