#ifndef ADAPT_ATTENTION_TD
#define ADAPT_ATTENTION_TD

include "dialects/Adapt/AdaptOpBase.td"

// One step of T tokens of S sequences, concatenated: sequence s owns tokens seq_starts[s] …
// seq_starts[s+1]-1; kv_lens[s] counts its tokens in the state after the step; block_table[s, j] is
// the block that holds its tokens from j * block size on.

def Adapt_PagedAttentionOp : Adapt_CompositeOp<"paged_attention", [Adapt_State]> {
  let summary = "appends keys and values to the state and attends over it";
  let description = [{
    query[T, H, D], key[T, G, D], value[T, G, E], H a multiple of G: query head h reads group
    h / (H / G). Token t at position p of its sequence sees positions ≤ p, of these the last
    `window` if given (0 or absent: all). Softmax of scale * q·k in f32. result[T, H, E]. The state
    has planes [G, D] and [G, E] in the type in which keys and values are kept.
  }];
  let arguments = (ins Adapt_FloatTensor:$query, Adapt_FloatTensor:$key, Adapt_FloatTensor:$value,
                       Adapt_PagedType:$state, Adapt_I32Tensor:$seq_starts,
                       Adapt_I32Tensor:$kv_lens, Adapt_I32Tensor:$block_table,
                       F64Attr:$scale, OptionalAttr<I64Attr>:$window);
  let results = (outs Adapt_FloatTensor:$result, Adapt_PagedType:$new_state);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $state `at` $seq_starts `,` $kv_lens `,` $block_table
    `scale` `=` $scale (`window` `=` $window^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Adapt_PagedAppendOp : Adapt_Op<"paged_append", [Pure, Adapt_Evaluate, Adapt_State,
                                                    Adapt_Sharding, Adapt_Cost]> {
  let summary = "writes a step's keys and values into the state";
  let description = [{Values are converted to the planes' types.}];
  let arguments = (ins Adapt_FloatTensor:$key, Adapt_FloatTensor:$value, Adapt_PagedType:$state,
                       Adapt_I32Tensor:$seq_starts, Adapt_I32Tensor:$kv_lens,
                       Adapt_I32Tensor:$block_table);
  let results = (outs Adapt_PagedType:$new_state);
  let assemblyFormat = [{
    $key `,` $value `,` $state `at` $seq_starts `,` $kv_lens `,` $block_table
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Adapt_PagedAttendOp : Adapt_Op<"paged_attend", [Pure, Adapt_Evaluate, Adapt_State,
                                                    Adapt_Sharding, Adapt_Cost]> {
  let summary = "attends over a state that already holds the step's keys and values";
  let description = [{As `adapt.paged_attention`; the state is returned unchanged.}];
  let arguments = (ins Adapt_FloatTensor:$query, Adapt_PagedType:$state,
                       Adapt_I32Tensor:$seq_starts, Adapt_I32Tensor:$kv_lens,
                       Adapt_I32Tensor:$block_table, F64Attr:$scale,
                       OptionalAttr<I64Attr>:$window);
  let results = (outs Adapt_FloatTensor:$result, Adapt_PagedType:$new_state);
  let assemblyFormat = [{
    $query `,` $state `at` $seq_starts `,` $kv_lens `,` $block_table
    `scale` `=` $scale (`window` `=` $window^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif
