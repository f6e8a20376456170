#ifndef ADAPT_MAP_PASSES
#define ADAPT_MAP_PASSES

include "mlir/Pass/PassBase.td"

def DecomposeComposites : Pass<"adapt-decompose-composites", "::mlir::ModuleOp"> {
  let summary = "replaces composites that the target does not keep by what they mean";
  let description = [{
    Each operation with a decomposition that is not in the target's `keeps` is replaced by it,
    recursively. `adapt.paged_attention` becomes append and attend this way.
  }];
  let dependentDialects = ["::adapt::AdaptDialect"];
  let statistics = [Statistic<"numDecomposed", "decomposed", "operations decomposed">];
}

def AssignImplementations : Pass<"adapt-assign-implementations", "::mlir::ModuleOp"> {
  let summary = "says what runs each operation, or why nothing does";
  let description = [{
    Sets `adapt.impl` on each computing operation of the functions: "generated" where the target's
    code generator does it. All operations that nothing runs are listed in one error, by operation
    and function, with counts and the reason.
  }];
}

def VerifyMap : Pass<"adapt-verify-map", "::mlir::ModuleOp"> {
  let summary = "checks what holds at the end of the phase map";
  let description = [{
    Each computing operation has an implementation; no composite is left that the target does not
    keep.
  }];
}

#endif
