// Rows: parts of a computation that need nothing of each other, so that they are work items.
//
// The leading axes of a group's results are its row axes. Going back from the results by the
// operations' sharding rules, each value has at most one axis that follows a given row axis; a
// value without one is the same for all rows.
#pragma once

#include "dialects/Adapt/Interfaces.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace adapt {

struct Rows {
  /// For each row axis the value's axis that follows it, or -1.
  using Axes = llvm::SmallVector<int64_t, 4>;

  llvm::SmallVector<mlir::AffineExpr> sizes; ///< of the row axes
  llvm::DenseMap<mlir::Value, Axes> axes;    ///< of all values that the results need

  size_t count() const { return sizes.size(); }
  /// The type that one row of a value has: its row axes are of size 1.
  mlir::RankedTensorType getRowType(mlir::Value value) const;
  /// Whether each row has a part of its own.
  bool isSplitInAll(mlir::Value value) const;

  /// As many leading axes of the results as can be row axes, at most `wanted`. `ops` are in order.
  static Rows compute(llvm::ArrayRef<mlir::Operation *> ops, mlir::ValueRange results,
                      size_t wanted);
  /// How many row axes suit a result: all axes of symbolic size but the last axis, which loops run
  /// along; of a vector that axis.
  static size_t getWanted(mlir::ValueRange results);
};

} // namespace adapt
