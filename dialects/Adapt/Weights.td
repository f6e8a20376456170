#ifndef ADAPT_WEIGHTS_TD
#define ADAPT_WEIGHTS_TD

include "dialects/Adapt/AdaptOpBase.td"

def Adapt_ParamOp : Adapt_Op<"param", [Pure, SingleBlock, NoRegionArguments, IsolatedFromAbove]> {
  let summary = "a weight, as an expression over the checkpoint's tensors";
  let description = [{
    ```mlir
    %w = adapt.param "layers.{layer}.q" : tensor<576x576xbf16> {
      %0 = adapt.source "model.layers.{layer}.self_attn.q_proj.weight" : tensor<576x576xbf16>
      adapt.yield %0 : tensor<576x576xbf16>
    }
    ```
    The name is unique in the function; its placeholders and those of the sources are among the
    function's `adapt.indices`. The region holds operations that answer RecipeOpInterface; its bytes
    are read once, at emission.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyStaticShapeTensor:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name `:` type($result) $body attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The yielded value.
    ::mlir::Value getYielded();
  }];
}

class Adapt_RecipeLeaf<string mnemonic> : Adapt_Op<mnemonic, [Pure, Adapt_Recipe, Adapt_Evaluate]>;

def Adapt_SourceOp : Adapt_RecipeLeaf<"source"> {
  let summary = "a tensor of the checkpoint, by template";
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Adapt_SplatOp : Adapt_RecipeLeaf<"splat"> {
  let summary = "one value in every place; stands in for absent data";
  let arguments = (ins F64Attr:$value);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def Adapt_PackOp : Adapt_Op<"pack", [Pure, Adapt_Recipe, Adapt_Evaluate]> {
  let summary = "row-major matrix to panels";
  let description = [{The value stays; the storage becomes that of the result's `#adapt.packed`.}];
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif
