#ifndef ADAPT_ROTARY_EMBEDDING_TD
#define ADAPT_ROTARY_EMBEDDING_TD

include "dialects/Adapt/AdaptOpBase.td"

def Adapt_RopeTableOp : Adapt_CompositeOp<"rope_table", [AllTypesMatch<["cosines", "sines"]>]> {
  let summary = "cosines and sines of position times inverse frequency";
  let description = [{
    cosines[t, i] = scale * cos(positions[t] * inverse_frequencies[i]), likewise the sines; f32
    [T, R]. Computed once a step and shared by all layers.
  }];
  let arguments = (ins Adapt_IndexTensor:$positions, ElementsAttr:$inverse_frequencies,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs Adapt_F32Tensor:$cosines, Adapt_F32Tensor:$sines);
  let assemblyFormat = [{
    $positions `inverse_frequencies` `=` $inverse_frequencies attr-dict
    `:` type($positions) `->` type($cosines)
  }];
  let hasVerifier = 1;
}

def Adapt_RopeOp : Adapt_CompositeOp<"rope", [AllTypesMatch<["input", "result"]>,
    AllTypesMatch<["cosines", "sines"]>]> {
  let summary = "rotates pairs of each head by the position's angles";
  let description = [{
    Su et al. 2021, arXiv:2104.09864. input[T, heads, D], tables [T, R], 2R ≤ D: the first 2R
    elements rotate, the rest pass. Pairs are (i, i + R), or (2i, 2i + 1) if `interleaved`.
    Computed in f32, rounded once.
  }];
  let arguments = (ins Adapt_FloatTensor:$input, Adapt_F32Tensor:$cosines,
                       Adapt_F32Tensor:$sines, UnitAttr:$interleaved);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $cosines `,` $sines (`interleaved` $interleaved^)? attr-dict
    `:` type($input) `,` type($cosines)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Value":$cosines,
                                 "::mlir::Value":$sines), [{
    build($_builder, $_state, input.getType(), input, cosines, sines, /*interleaved=*/nullptr);
  }]>];
}

#endif
