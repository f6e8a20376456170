// Pipeline stages: what each runs, and what passes between them.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace adapt {

/// One stage of an entry point: a function of its own.
struct Stage {
  /// A value that comes from or goes to another stage.
  struct Port {
    unsigned place; ///< of the function's argument or result
    int64_t peer;   ///< the other stage
    int64_t tag;    ///< the same at both ends
  };

  mlir::func::FuncOp function;
  int64_t number = 0;
  llvm::SmallVector<Port> received, sent;
  llvm::BitVector outputs; ///< results that the entry point returns
};

/// The stages of an entry point that `adapt-split-stages` has cut: calls of the stages' functions
/// and transfers between them. Functions are of one block. An entry point without transfers is one
/// stage. On failure (other operations stand between the stages) an error was emitted.
mlir::FailureOr<llvm::SmallVector<Stage>> getStages(mlir::func::FuncOp entry);

} // namespace adapt
