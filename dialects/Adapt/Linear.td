#ifndef ADAPT_LINEAR_TD
#define ADAPT_LINEAR_TD

include "dialects/Adapt/AdaptOpBase.td"

def Adapt_MatmulOp : Adapt_BaseOp<"matmul"> {
  let summary = "input times the transpose of a weight matrix";
  let description = [{
    result[…, n] = sum over k of input[…, k] * weight[n, k], accumulated in f32 and rounded once to
    the result's type. The weight may be `#adapt.packed`.
  }];
  let arguments = (ins Adapt_FloatTensor:$input, Adapt_FloatTensor:$weight);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight attr-dict `:` type($input) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif
