// What the compiler asks of an operation: the C++ side of AdaptInterfaces.td.
#pragma once

#include "adapt/Interpreter/Value.h"
#include "dialects/Adapt/Dims.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/StringMap.h"
#include <string>

namespace adapt::schema {
class RecipeNode;
} // namespace adapt::schema

namespace adapt::interp {
struct EvalContext;
} // namespace adapt::interp

namespace adapt {

/// Where a lowering to linalg finds the sizes that only types name.
class LinalgContext {
public:
  virtual ~LinalgContext() = default;
  /// The value (of type index) of a size expression, valid at the builder's insertion point.
  virtual mlir::Value getSize(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::AffineExpr size) = 0;
};

/// Einsum-like factors of an operation. Each dimension of each operand and result is one factor, or
/// kNone where it cannot be split. A factor that stands in operands but in no result is reduced.
///   matmul x[T,K] w[N,K] -> [T,N]: factors T, N, K; operands {0,2} {1,2}; result {0,1}.
struct ShardingRule {
  static constexpr int kNone = -1;
  /// What becomes of values computed on parts of a factor that no result has.
  enum class Reduction { None, Sum, Max, Min };
  struct Factor {
    mlir::AffineExpr size;
    Reduction reduction = Reduction::None;
    /// Splits must fall on multiples of this (a head, a quantisation group).
    int64_t granularity = 1;
  };
  llvm::SmallVector<Factor> factors;
  /// The factor of each dimension; of a state the factor of its planes' leading axis.
  llvm::SmallVector<llvm::SmallVector<int>> operands;
  llvm::SmallVector<llvm::SmallVector<int>> results;
  /// f(a1 + a2, b1 + b2) = f(a1, b1) + f(a2, b2): if all operands are pending sums, so is the
  /// result.
  bool isLinear = false;
  /// The operand that a state's planes have the leading size of (keys), or -1.
  int stateLike = -1;
};

/// What an operation costs, as expressions over symbolic sizes.
struct Cost {
  mlir::AffineExpr flops;        ///< a multiply-add counts two
  mlir::AffineExpr bytesRead;    ///< operands, each once
  mlir::AffineExpr bytesWritten; ///< results
};

/// Bytes of operands and results and `flopsPerElement` operations per result element.
Cost getElementwiseCost(mlir::Operation *op, int64_t flopsPerElement);
/// The rule of an operation whose operands and results all have the same shape.
ShardingRule getElementwiseRule(mlir::Operation *op);

} // namespace adapt

#include "dialects/Adapt/AdaptInterfaces.h.inc"
