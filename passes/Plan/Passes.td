#ifndef ADAPT_PLAN_PASSES
#define ADAPT_PLAN_PASSES

include "mlir/Pass/PassBase.td"

def PlanProgram : Pass<"adapt-plan-program", "::mlir::ModuleOp"> {
  let summary = "builds the program beside the kernels";
  let description = [{
    Each function becomes a list of buffers and steps. Buffers are as large as `adapt.limits` lets
    them get and share the function's part of the arena where they do not live at the same time;
    a call's part lies among the caller's buffers as one more buffer that lives during the call.
    Inputs and outputs of an entry point live all the time. The planes of the entry's states become
    the program's states, `kv.LAYER.k` and `kv.LAYER.v`.
  }];
  let dependentDialects = ["::adapt::program::ProgramDialect"];
}

def VerifyPlan : Pass<"adapt-verify-plan", "::mlir::ModuleOp"> {
  let summary = "checks what holds at the end of the phase plan";
  let description = [{
    Buffers that live at the same time do not overlap, each is as large as the bounds ask, nothing
    is read before it is written, and launches pass what their kernels expect.
  }];
}

#endif
