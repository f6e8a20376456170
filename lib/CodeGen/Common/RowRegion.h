// Kernels without state, by way of linalg.
//
// Composites are decomposed. Where the rows of the results (dialects/Adapt/Rows.h) need nothing of
// each other, the kernel is specialised for one row: row axes are of size 1 in all types, so that
// as many shapes as possible are static.
#pragma once

#include "CodeGen/Common/KernelBuilder.h"
#include "dialects/Adapt/Rows.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>

namespace adapt::codegen {

/// A memref at a pointer: its descriptor, as the conversion to LLVM lays it out.
mlir::Value createMemRef(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value pointer,
                         mlir::MemRefType type, llvm::ArrayRef<mlir::Value> sizes,
                         llvm::ArrayRef<mlir::Value> strides);

class RowRegion {
public:
  /// Null where some operation has no form in linalg. The kernel must outlive the region.
  static std::unique_ptr<RowRegion> create(KernelOp kernel);

  /// Whether rows are independent; else the whole is one row.
  bool isSplit() const { return rows.count() != 0; }
  /// The number of rows; 1 if they are not independent.
  mlir::AffineExpr getCount() const;
  /// Elements of the largest value of a row; symbolic sizes count as some.
  int64_t getRowElements() const { return elements; }

  /// A function of pointers to the row of each tensor argument and result, and of the sizes: linalg
  /// on memrefs. `noAlias`: buffers are read only where this row wrote them.
  mlir::FailureOr<mlir::func::FuncOp> emitRow(KernelBuilder &b, bool noAlias) const;
  /// What to call it with for a row, which is numbered among all; null: the only one.
  llvm::SmallVector<mlir::Value> getOperands(KernelBuilder &b, mlir::Value row) const;

private:
  void findRows();
  void repeatCheapOperations();
  mlir::FailureOr<mlir::func::FuncOp> emitRow(KernelBuilder &b, KernelOp row, bool noAlias) const;

  mutable KernelOp kernel;                  ///< its accessors are not const
  mutable mlir::OwningOpRef<KernelOp> base; ///< decomposed
  Rows rows;
  int64_t elements = 1;
};

} // namespace adapt::codegen
