// What ranks along one axis of the mesh have of values, and what operations make of it.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"

namespace adapt {

/// The axis that tensors are split over.
inline constexpr llvm::StringLiteral kTensorAxis = "tp";

/// Null: every rank has all of the value.
using Placement = PlacementAttr;

inline bool isSplit(Placement placement) {
  return placement && placement.getKind() == PlacementKind::Split;
}
inline bool isPending(Placement placement) {
  return placement && placement.getKind() != PlacementKind::Split;
}

/// From the attributes `adapt.placement` of operations and functions' arguments.
Placement getPlacement(mlir::Value value);
void setPlacement(mlir::Value value, Placement placement);
/// Drops them all.
void clearPlacements(mlir::Operation *root);

/// How an operation is computed in parts: which factor of its rule is split (-1: none), and what
/// its operands must be placed as for the results to be placed as here.
struct OpPlacement {
  int factor = -1;
  llvm::SmallVector<Placement> operands, results;
};

/// Decides from what the operands have. The split weight of an operation has the say, then any
/// split operand, if the ranks divide the factor; pending operands stay pending only where the
/// operation is linear and all are. Fails, with an error that names operation and function, where
/// there is no rule.
mlir::FailureOr<OpPlacement> placeOperation(mlir::Operation *op, llvm::ArrayRef<Placement> operands,
                                            int64_t ranks);

} // namespace adapt
