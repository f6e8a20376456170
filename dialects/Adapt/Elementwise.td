#ifndef ADAPT_ELEMENTWISE_TD
#define ADAPT_ELEMENTWISE_TD

include "dialects/Adapt/AdaptOpBase.td"

def Adapt_Elementwise : DeclareOpInterfaceMethods<ElementwiseOpInterface>;

class Adapt_BinaryOp<string mnemonic, string what, list<Trait> traits = []>
    : Adapt_BaseOp<mnemonic, [SameOperandsAndResultType, Adapt_Elementwise] # traits> {
  let summary = what;
  let arguments = (ins Adapt_Tensor:$lhs, Adapt_Tensor:$rhs);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

class Adapt_UnaryOp<string mnemonic, string what, list<Trait> traits = []>
    : Adapt_BaseOp<mnemonic, [SameOperandsAndResultType, Adapt_Elementwise] # traits> {
  let summary = what;
  let arguments = (ins Adapt_FloatTensor:$input);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Adapt_AddOp : Adapt_BinaryOp<"add", "lhs + rhs", [Commutative]>;
def Adapt_SubOp : Adapt_BinaryOp<"sub", "lhs - rhs">;
def Adapt_MulOp : Adapt_BinaryOp<"mul", "lhs * rhs", [Commutative]>;
def Adapt_DivOp : Adapt_BinaryOp<"div", "lhs / rhs; integers truncate toward zero, divided by zero they give any number">;
def Adapt_RemOp : Adapt_BinaryOp<"rem",
    "what lhs / rhs, truncated, leaves: the sign is that of lhs; of a division by zero any number">;
def Adapt_PowOp : Adapt_BinaryOp<"pow", "lhs to the power of rhs, floating point only">;
def Adapt_MaximumOp : Adapt_BinaryOp<"maximum", "the larger; NaN if either is", [Commutative]>;
def Adapt_MinimumOp : Adapt_BinaryOp<"minimum", "the smaller; NaN if either is", [Commutative]>;

class Adapt_IntegerOp<string mnemonic, string what>
    : Adapt_BaseOp<mnemonic, [SameOperandsAndResultType, Adapt_Elementwise, Commutative]> {
  let summary = what;
  let arguments = (ins Adapt_IntegerTensor:$lhs, Adapt_IntegerTensor:$rhs);
  let results = (outs Adapt_IntegerTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}
def Adapt_AndOp : Adapt_IntegerOp<"and", "bits that both have">;
def Adapt_OrOp : Adapt_IntegerOp<"or", "bits that one has">;
def Adapt_XorOp : Adapt_IntegerOp<"xor", "bits that one alone has">;

def Adapt_CompareOp : Adapt_BaseOp<"compare", [AllTypesMatch<["lhs", "rhs"]>, Adapt_Elementwise]> {
  let summary = "whether lhs is in this relation to rhs";
  let description = [{A NaN equals nothing, is not equal to anything, and is in no other relation.
    Integers are signed.}];
  let arguments = (ins Adapt_Predicate:$predicate, Adapt_Tensor:$lhs, Adapt_Tensor:$rhs);
  let results = (outs Adapt_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasVerifier = 1;
}

def Adapt_SelectOp : Adapt_BaseOp<"select", [AllTypesMatch<["on_true", "on_false", "result"]>,
                                             Adapt_Elementwise]> {
  let summary = "on_true where the condition holds, else on_false";
  let arguments = (ins Adapt_BoolTensor:$condition, Adapt_Tensor:$on_true, Adapt_Tensor:$on_false);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = [{
    $condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($result)
  }];
  let hasVerifier = 1;
}

def Adapt_NegOp : Adapt_UnaryOp<"neg", "-x">;
def Adapt_ExpOp : Adapt_UnaryOp<"exp", "e^x">;
def Adapt_LogOp : Adapt_UnaryOp<"log", "the natural logarithm">;
def Adapt_AbsOp : Adapt_UnaryOp<"abs", "|x|">;
def Adapt_FloorOp : Adapt_UnaryOp<"floor", "the integer below">;
def Adapt_CeilOp : Adapt_UnaryOp<"ceil", "the integer above">;
def Adapt_RoundOp : Adapt_UnaryOp<"round", "the nearest integer; halves to even">;
def Adapt_SqrtOp : Adapt_UnaryOp<"sqrt", "the square root">;
def Adapt_RsqrtOp : Adapt_UnaryOp<"rsqrt", "1 / sqrt(x)">;
def Adapt_TanhOp : Adapt_UnaryOp<"tanh", "the hyperbolic tangent">;
def Adapt_ErfOp : Adapt_UnaryOp<"erf", "the error function">;
def Adapt_SinOp : Adapt_UnaryOp<"sin", "the sine">;
def Adapt_CosOp : Adapt_UnaryOp<"cos", "the cosine">;
def Adapt_SigmoidOp : Adapt_UnaryOp<"sigmoid", "1 / (1 + e^-x)">;

def Adapt_CastOp : Adapt_BaseOp<"cast", [Adapt_Elementwise, Adapt_Recipe]> {
  let summary = "to another element type";
  let description = [{
    Float to float rounds to nearest even; float to integer truncates; integer to a narrower integer
    keeps the low bits; to i1: not zero.
  }];
  let arguments = (ins Adapt_Tensor:$input);
  let results = (outs Adapt_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Adapt_GeluOp : Adapt_CompositeOp<"gelu", [SameOperandsAndResultType]> {
  let summary = "x/2 (1 + erf(x / sqrt 2)), rounded once";
  let description = [{
    Hendrycks and Gimpel 2016, arXiv:1606.08415; `tanh_form` is the approximation by tanh.
  }];
  let arguments = (ins Adapt_FloatTensor:$input, UnitAttr:$tanh_form);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = "(`tanh` $tanh_form^)? $input attr-dict `:` type($result)";
}

def Adapt_GatedActivationOp : Adapt_CompositeOp<"gated_activation", [SameOperandsAndResultType,
                                                              Adapt_Elementwise]> {
  let summary = "activation(gate) * up, rounded once";
  let description = [{
    GLU variants: Shazeer 2020, arXiv:2002.05202. `gelu_erf` is x/2 (1 + erf(x/sqrt 2)), `gelu_tanh`
    its tanh approximation, `silu` x sigmoid(x).
  }];
  let arguments = (ins Adapt_FloatTensor:$gate, Adapt_FloatTensor:$up, Adapt_Activation:$activation);
  let results = (outs Adapt_FloatTensor:$result);
  let assemblyFormat = "$activation $gate `,` $up attr-dict `:` type($result)";
}

#endif
