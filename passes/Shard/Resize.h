// Other sizes for weights, and for all that follows from them.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace adapt {

/// Finds the types that values get where weights get other sizes: a size grows or shrinks along a
/// factor of the operations' sharding rules as it does in the first operand that has the factor.
/// Nothing changes until `commit`.
class Resizer {
public:
  explicit Resizer(mlir::ModuleOp module) : module(module) {}

  void setType(mlir::Value value, mlir::Type type) { types[value] = type; }
  mlir::Type getType(mlir::Value value) const;

  /// Follows the types through all functions, callees first. Errors name the operation.
  mlir::LogicalResult run();
  /// Sets the types of values and functions. What a function returns must be as before; where it is
  /// not, `fix` makes a value of the type that was.
  mlir::LogicalResult commit(
      llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Value, mlir::RankedTensorType)> fix);

private:
  mlir::LogicalResult visit(mlir::Operation *op);
  mlir::LogicalResult visitCall(CallOp call);
  /// A state gets this type from where it enters the function on.
  void setStateType(mlir::Value state, mlir::Type type);

  mlir::ModuleOp module;
  llvm::MapVector<mlir::Value, mlir::Type> types;
};

} // namespace adapt
