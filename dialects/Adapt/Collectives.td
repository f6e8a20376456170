#ifndef ADAPT_COLLECTIVES_TD
#define ADAPT_COLLECTIVES_TD

include "dialects/Adapt/AdaptOpBase.td"

// What ranks do together. The operations are ordered: they are not pure, so that nothing removes,
// repeats or reorders them, and all ranks meet in the same order.
class Adapt_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : Adapt_Op<mnemonic, [Adapt_Collective] # traits>;

def Adapt_AllReduceOp : Adapt_CollectiveOp<"all_reduce", [SameOperandsAndResultType]> {
  let summary = "combines the tensors of all ranks; each gets the result";
  let description = [{
    Elements are combined in the order of the ranks, accumulated in f32 and rounded once:
    all ranks get the same bits.
    ```mlir
    %y = adapt.all_reduce sum %x over "tp" of 2 : tensor<?x64xf32, #adapt.dims<[T, 64]>>
    ```
  }];
  let arguments = (ins Adapt_Tensor:$input, Adapt_ReduceKind:$kind, StrAttr:$mesh_axis,
                       I64Attr:$ranks);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = [{
    $kind $input `over` $mesh_axis `of` $ranks attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Adapt_AllGatherOp : Adapt_CollectiveOp<"all_gather"> {
  let summary = "puts the ranks' parts one after the other along an axis; each rank gets the whole";
  let description = [{
    Before local shapes (`adapt.placement` is there) input and result both have the whole type.
  }];
  let arguments = (ins Adapt_Tensor:$input, I64Attr:$axis, StrAttr:$mesh_axis, I64Attr:$ranks);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = [{
    $input `axis` $axis `over` $mesh_axis `of` $ranks attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Adapt_TransferOp : Adapt_CollectiveOp<"transfer", [SameOperandsAndResultType]> {
  let summary = "carries a value from one stage to another";
  let description = [{
    Each rank of stage `from` gives it to the rank of stage `to` that has its other coordinates.
  }];
  let arguments = (ins Adapt_Tensor:$input, I64Attr:$from, I64Attr:$to);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "$input `from` $from `to` $to attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Adapt_ShardSliceOp : Adapt_BaseOp<"shard_slice", [Adapt_Recipe]> {
  let summary = "a rank's part of a tensor";
  let description = [{
    A slice whose offsets are expressions over mesh coordinates (`tp_rank`); the result's type gives
    its sizes. In weights it costs nothing; of an activation that all ranks have it is a copy.
    ```mlir
    %1 = adapt.shard_slice %0 offsets <[tp_rank * 32, 0]> : tensor<64x64xf32> -> tensor<32x64xf32>
    ```
  }];
  let arguments = (ins Adapt_Tensor:$input, Adapt_DimsAttr:$offsets);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "$input `offsets` $offsets attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif
