#ifndef ADAPT_SHAPE_TD
#define ADAPT_SHAPE_TD

include "dialects/Adapt/AdaptOpBase.td"

def Adapt_ConstantOp : Adapt_BaseOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a constant tensor";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value),
      [{ build($_builder, $_state, value.getShapedType(), value); }]>];
}

def Adapt_ReshapeOp : Adapt_BaseOp<"reshape", [Adapt_Recipe]> {
  let summary = "the same elements in row-major order under other sizes";
  let arguments = (ins Adapt_Tensor:$input);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Adapt_TransposeOp : Adapt_BaseOp<"transpose", [Adapt_Recipe]> {
  let summary = "permutes axes: result axis i is input axis permutation[i]";
  let arguments = (ins Adapt_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Adapt_BroadcastOp : Adapt_BaseOp<"broadcast"> {
  let summary = "repeats along new or unit axes";
  let description = [{
    Input axis i becomes result axis `dimensions[i]` (increasing); its size is that axis's size or 1.
  }];
  let arguments = (ins Adapt_Tensor:$input, DenseI64ArrayAttr:$dimensions);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dimensions attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Adapt_SliceOp : Adapt_BaseOp<"slice", [Adapt_Recipe]> {
  let summary = "every strides[i]-th element from offsets[i]";
  let description = [{
    The result's type gives the sizes. Where they are symbolic and do not differ by a constant, it is
    the caller who knows that the elements exist.
  }];
  let arguments = (ins Adapt_Tensor:$input, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = [{
    $input `offsets` `=` $offsets `strides` `=` $strides attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Adapt_ConcatOp : Adapt_BaseOp<"concat", [Adapt_Recipe]> {
  let summary = "one after the other along an axis";
  let arguments = (ins Variadic<Adapt_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "`axis` $axis `(` $inputs `)` attr-dict `:` functional-type($inputs, $result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Adapt_ReduceOp : Adapt_BaseOp<"reduce"> {
  let summary = "combines all elements along axes; the axes vanish";
  let description = [{Floating point accumulates in f32 (f64 for f64).}];
  let arguments = (ins Adapt_Tensor:$input, Adapt_ReduceKind:$kind, DenseI64ArrayAttr:$axes);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "$kind $input `axes` `=` $axes attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Adapt_IotaOp : Adapt_BaseOp<"iota"> {
  let summary = "start, start + step, … : as many as the result has places";
  let description = [{
    `start` is one size: `adapt.iota start = <[T - 1]> step = -1 : tensor<?xi64, …>` counts down from
    T - 1. It is how a size becomes a number.
  }];
  let arguments = (ins Adapt_DimsAttr:$start, I64Attr:$step);
  let results = (outs Adapt_IndexTensor:$result);
  let assemblyFormat = "`start` `=` $start `step` `=` $step attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Adapt_PadOp : Adapt_BaseOp<"pad"> {
  let summary = "the input with `low` elements before it and others after it, all of one value";
  let description = [{The result's type gives the sizes; `value` is a scalar.}];
  let arguments = (ins Adapt_Tensor:$input, Adapt_Tensor:$value, DenseI64ArrayAttr:$low);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $value `low` `=` $low attr-dict `:` type($input) `,` type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Adapt_GatherOp : Adapt_BaseOp<"gather",
    [DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["setPart"]>]> {
  let summary = "rows of a table, by index";
  let description = [{
    result[l…, i…, d…] = table[l…, indices[i…], d…], where l… are the axes before `axis`. Indices must
    lie in [0, rows): the runtime's inputs are checked before a program runs, importers clamp. The
    table may be packed (a tied embedding), along axis 0.

    With `first_row` (one size) the table is a part of a larger one and begins with that row; rows
    that it does not hold are zeros.
  }];
  let arguments = (ins Adapt_Tensor:$table, Adapt_IndexTensor:$indices,
                       DefaultValuedAttr<I64Attr, "0">:$axis,
                       OptionalAttr<Adapt_DimsAttr>:$first_row);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = [{
    $table `[` $indices `]` (`first_row` $first_row^)? attr-dict
    `:` type($table) `,` type($indices) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$table,
                                 "::mlir::Value":$indices,
                                 CArg<"int64_t", "0">:$axis), [{
    build($_builder, $_state, type, table, indices, axis, /*first_row=*/nullptr);
  }]>];
  let hasVerifier = 1;
}

#endif
