#ifndef ADAPT_FUSE_PASSES
#define ADAPT_FUSE_PASSES

include "mlir/Pass/PassBase.td"

def DedupeParams : Pass<"adapt-dedupe-params", "::mlir::ModuleOp"> {
  let summary = "stores equal weights once";
  let description = [{
    Params of one function whose recipes are equal become one (a tied embedding); equal params of
    several functions get one name, so that the bundle holds them once.
  }];
}

def MergeMatmuls : Pass<"adapt-merge-matmuls", "::mlir::func::FuncOp"> {
  let summary = "one matmul for all that read the same input";
  let description = [{
    Matmuls of one input and one type whose weights are params used nowhere else (q, k and v) become
    one: the weights are concatenated in the recipe, the results sliced from the common one. Those
    that meet in one elementwise operation (gate and up in a gated activation) stay: they become one
    kernel with it.
  }];
  let dependentDialects = ["::adapt::AdaptDialect"];
  let statistics = [Statistic<"numMerged", "merged", "matmuls merged away">];
}

def PackWeights : Pass<"adapt-pack-weights", "::mlir::ModuleOp"> {
  let summary = "weights of matmuls get the target's storage";
  let description = [{
    A param that is the weight of a matmul is packed, in its recipe, as the target's
    `weight_layouts` says for its element type; a gather from it reads the same storage. Where
    another operation needs the rows as they are, matmuls get a packed param of their own.
  }];
  let dependentDialects = ["::adapt::AdaptDialect"];
}

def FormDispatches : Pass<"adapt-form-dispatches", "::mlir::func::FuncOp"> {
  let summary = "puts operations that become one kernel into one region";
  let description = [{
    A matmul takes the elementwise operations and casts that follow it as long as nobody else needs
    what is between them; matmuls that meet in one of them share its dispatch, and a bias's broadcast
    joins it. Other operations form trees the same way where each row (of the leading
    axis) of one needs one row of the other, as their sharding rules say: slices, reshapes, norms,
    rope, gated activation, elementwise. Trees that read the same value and whose results have the
    same leading size share a dispatch with several results. Operations on state stand alone. A value
    with another user, or that is a result, stays a result. A reshape between kernels stays outside:
    it is the same memory.
  }];
  let dependentDialects = ["::adapt::AdaptDialect"];
}

def OutlineKernels : Pass<"adapt-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "dispatches become kernels and launches, equal ones the same kernel";
  let description = [{
    A kernel's sizes are named s0, s1, … in the order in which its types mention them; two dispatches
    are equal if their kernels then read the same. Names say where a kernel was first found and what
    it does: `layer_matmul_add_576x1536`.
  }];
  let dependentDialects = ["::adapt::AdaptDialect"];
  let statistics = [Statistic<"numKernels", "kernels", "kernels outlined">,
                    Statistic<"numLaunches", "launches", "launches of them">];
}

def VerifyFuse : Pass<"adapt-verify-fuse", "::mlir::ModuleOp"> {
  let summary = "checks what holds at the end of the phase fuse";
  let description = [{
    Functions hold params, launches, calls, reshapes and a return only; each kernel is launched, no two are
    equal; weights of matmuls have the target's storage; a name means one weight.
  }];
}

#endif
