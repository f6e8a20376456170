#ifndef ADAPT_SIMPLIFY_PASSES
#define ADAPT_SIMPLIFY_PASSES

include "mlir/Pass/PassBase.td"

// What changes the module in this phase are MLIR's canonicalize, cse and symbol-dce, with the folds
// and patterns of the dialect.

def VerifySimplify : Pass<"adapt-verify-simplify", "::mlir::ModuleOp"> {
  let summary = "checks what holds at the end of the phase simplify";
  let description = [{
    No operation computes what nobody uses, each private function is called, and nothing depends on
    constants alone that could be one constant.
  }];
}

#endif
