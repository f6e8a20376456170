#ifndef ADAPT_NORMALIZATION_TD
#define ADAPT_NORMALIZATION_TD

include "dialects/Adapt/AdaptOpBase.td"

def Adapt_RmsNormOp : Adapt_CompositeOp<"rms_norm", [AllTypesMatch<["input", "result"]>]> {
  let summary = "x / sqrt(mean(x^2) + epsilon) * weight over the last axis";
  let description = [{
    Zhang and Sennrich 2019, arXiv:1910.07467. Computed in f32, rounded once.
  }];
  let arguments = (ins Adapt_FloatTensor:$input, Adapt_FloatTensor:$weight, F64Attr:$epsilon);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight `epsilon` `=` $epsilon attr-dict `:` type($input) `,` type($weight)
  }];
  let hasVerifier = 1;
}

def Adapt_LayerNormOp : Adapt_CompositeOp<"layer_norm", [AllTypesMatch<["input", "result"]>]> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axes";
  let description = [{
    Ba, Kiros and Hinton 2016, arXiv:1607.06450. The axes are as many as the weight has, whose sizes
    are theirs; the bias, if there is one, has the weight's type. Computed in f32, rounded once.
  }];
  let arguments = (ins Adapt_FloatTensor:$input, Adapt_FloatTensor:$weight,
                       Optional<Adapt_FloatTensor>:$bias, F64Attr:$epsilon);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`,` $bias^)? `epsilon` `=` $epsilon attr-dict
    `:` type($input) `,` type($weight) (`,` type($bias)^)?
  }];
  let hasVerifier = 1;
}

def Adapt_SoftmaxOp : Adapt_CompositeOp<"softmax", [AllTypesMatch<["input", "result"]>]> {
  let summary = "e^(x - max) / sum of e^(x - max) along an axis";
  let description = [{Computed in f32, rounded once.}];
  let arguments = (ins Adapt_FloatTensor:$input, I64Attr:$axis);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = "$input `axis` `=` $axis attr-dict `:` type($input)";
  let hasVerifier = 1;
}

#endif
