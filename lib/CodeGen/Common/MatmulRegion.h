// A kernel of matmuls and of what follows them element by element.
#pragma once

#include "CodeGen/Common/KernelBuilder.h"
#include <optional>

namespace adapt::codegen {

/// Matmuls whose results have one shape, and an epilogue in which every value has that shape, or is
/// a vector over its columns or a constant of equal elements. How products come about is the
/// target's; what becomes of them is the same everywhere.
class MatmulRegion {
public:
  struct Root {
    MatmulOp op;
    unsigned input, weight; ///< arguments of the kernel
    int64_t k;
  };

  /// Null where the kernel is none, or `accepts` refuses a matmul.
  static std::optional<MatmulRegion> match(KernelOp kernel,
                                           llvm::function_ref<bool(MatmulOp)> accepts);

  llvm::ArrayRef<Root> getRoots() const { return roots; }
  /// Of the results: all leading sizes, and the last.
  mlir::AffineExpr getRows() const { return rows; }
  int64_t getN() const { return n; }

  /// Some columns of a row.
  struct Place {
    mlir::Value row, column;
    int64_t lanes;         ///< that many columns, as vectors; 0: one, as scalars
    mlir::Value valid;     ///< columns that exist, or null: all
    int64_t alignment = 0; ///< that accesses to memory may assume, in elements; 0: one
  };
  /// Rounds the products of each root (f32) and stores the kernel's results.
  void finish(KernelBuilder &b, const Place &place, llvm::ArrayRef<mlir::Value> products) const;

private:
  class Finish;
  bool isEpilogue(mlir::Operation &op) const;

  mutable KernelOp kernel; ///< its accessors are not const
  llvm::SmallVector<Root> roots;
  llvm::SmallVector<mlir::Operation *> epilogue;
  mlir::AffineExpr rows;
  int64_t n = 0;
};

} // namespace adapt::codegen
