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

def Adapt_BatchMatmulOp : Adapt_BaseOp<"batch_matmul"> {
  let summary = "matrices times matrices";
  let description = [{
    result[b…, m, n] = sum over k of lhs[b…, m, k] * rhs[b…, k, n], accumulated in f32 and rounded
    once to the result's type.
  }];
  let arguments = (ins Adapt_FloatTensor:$lhs, Adapt_FloatTensor:$rhs);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasVerifier = 1;
}

def Adapt_ConvOp : Adapt_BaseOp<"conv"> {
  let summary = "convolution over any number of spatial axes";
  let description = [{
    input[N, C, x…], weight[M, C / groups, k…] -> [N, M, y…], accumulated in f32. The input is taken
    as padded with zeros: `pads` gives how many before each axis, then after each. No bias.
  }];
  let arguments = (ins Adapt_FloatTensor:$input, Adapt_FloatTensor:$weight,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$pads, I64Attr:$groups);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight `strides` `=` $strides `dilations` `=` $dilations `pads` `=` $pads
    `groups` `=` $groups attr-dict `:` type($input) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif
