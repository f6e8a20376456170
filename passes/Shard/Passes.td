#ifndef ADAPT_SHARD_PASSES
#define ADAPT_SHARD_PASSES

include "mlir/Pass/PassBase.td"

// They do nothing where the module's `adapt.mesh` has one rank along their axis.

def SplitStages : Pass<"adapt-split-stages", "::mlir::ModuleOp"> {
  let summary = "an entry point becomes one function per pipeline stage";
  let description = [{
    The calls of layers are cut into runs such that the dearest costs as little as it can, by the bytes
    that the operations move for one token. What depends on no call is computed where it is needed;
    what depends on one, in the latest stage it depends on.
    The entry calls the stages, `@main.stage0` and so on; values pass between them by
    `adapt.transfer` only. Each stage takes all of the entry's inputs and its own layers' states.
  }];
  let dependentDialects = ["::adapt::AdaptDialect"];
}

def PadShards : Pass<"adapt-pad-shards", "::mlir::ModuleOp"> {
  let summary = "sizes that the ranks do not divide become multiples, by zeros in the weights";
  let description = [{
    As the weights' `adapt.shard` says: elements are padded to a multiple of the ranks; key/value
    heads too, or, where there are fewer than ranks, to the least divisor of the ranks, each copied;
    queries of a head to a multiple of its copies. Padded heads have zero weights, and the padding of
    a result is sliced off. Says what it did in remarks; with `no-padding` refuses.
  }];
  let options = [Option<"noPadding", "no-padding", "bool", "false",
                        "refuse, with the numbers and what --tp would work">];
  let dependentDialects = ["::adapt::AdaptDialect"];
}

def PlaceShards : Pass<"adapt-place-shards", "::mlir::ModuleOp"> {
  let summary = "what each rank has of each value";
  let description = [{
    Weights are split as their `adapt.shard` says, values follow by the factors of the operations'
    sharding rules, and get the attribute `adapt.placement`. An operation without a rule is an error.
  }];
  let dependentDialects = ["::adapt::AdaptDialect"];
}

def ReshardValues : Pass<"adapt-reshard-values", "::mlir::ModuleOp"> {
  let summary = "collectives where a value is not placed as it is needed";
  let description = [{
    A pending sum is kept through linear operations and combined once, where something else needs it.
    A sum of products is pending in f32 and rounded after it is combined.
  }];
  let dependentDialects = ["::adapt::AdaptDialect"];
}

def LocalizeShards : Pass<"adapt-localize-shards", "::mlir::ModuleOp"> {
  let summary = "types become those of a rank's part, recipes slices over mesh coordinates";
  let dependentDialects = ["::adapt::AdaptDialect"];
}

def VerifyShard : Pass<"adapt-verify-shard", "::mlir::ModuleOp"> {
  let summary = "checks what holds at the end of the phase shard";
  let description = [{
    No `adapt.placement` and no `adapt.shard` remains; the ranks' parts of each weight add up to the
    whole; collectives go over axes of the mesh and all their ranks; state is linear.
  }];
}

#endif
