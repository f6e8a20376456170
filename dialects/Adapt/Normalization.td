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

#endif
