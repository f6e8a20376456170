// Other sizes for weights, and for all that follows from them.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

namespace adapt {

/// Finds the types that values get where weights get other sizes: a size grows or shrinks along a
/// factor of the operations' sharding rules as it does in the operands that have the factor.
/// Nothing changes until `commit`.
class Resizer {
public:
  enum class Mode {
    Parts,  ///< values become a rank's parts of them
    Padding ///< weights get zeros, and what follows from them any finite numbers
  };
  Resizer(mlir::ModuleOp module, Mode mode) : module(module), mode(mode) {}

  /// Of a weight (Padding: by zeros), or of a part that is taken.
  void setType(mlir::Value value, mlir::Type type);
  mlir::Type getType(mlir::Value value) const;

  /// Follows the types through all functions, callees first. Errors name the operation. Padding
  /// ends before what would let it into a result: an axis that an operation needs as a whole, a
  /// reduction (but over products with zeros, and sums of zeros), another operand without it.
  mlir::LogicalResult run();
  /// Sets the types of values and functions. Where padding ends, and where a function returns what
  /// has another size now, `fix` makes a value of the type that was.
  mlir::LogicalResult commit(
      llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Value, mlir::RankedTensorType)> fix);

private:
  mlir::LogicalResult visit(mlir::Operation *op);
  mlir::LogicalResult visitCall(CallOp call);
  /// Operands that an operation needs as they were.
  llvm::BitVector getKept(mlir::Operation *op, const ShardingRule &rule);
  /// A state gets this type from where it enters the function on.
  void setStateType(mlir::Value state, mlir::Type type);

  mlir::ModuleOp module;
  Mode mode;
  llvm::MapVector<mlir::Value, mlir::Type> types;
  llvm::DenseSet<mlir::Value> zeros;         ///< values whose padding is zero
  llvm::SmallVector<mlir::OpOperand *> ends; ///< of padding
};

} // namespace adapt
