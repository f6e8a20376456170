#ifndef ADAPT_DIALECT_TD
#define ADAPT_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/OpBase.td"

def Adapt_Dialect : Dialect {
  let name = "adapt";
  let cppNamespace = "::adapt";
  let summary = "models as layer functions over tensors with named sizes";
  let description = [{
    Base operations (elementwise, matmul, gather, shape, reductions), which every target with a code
    generator runs; composite operations (norms, rope, attention), which mean what their
    decomposition means; weights as expressions over a checkpoint's tensors (`adapt.param`); and the
    structure of a model (`adapt.call`) and of its kernels (`adapt.dispatch`, `adapt.kernel`,
    `adapt.launch`).

    **Named sizes.** A tensor with dynamic dimensions carries `#adapt.dims`; two `?` are the same
    size only if their expressions are equal. The symbols are declared on the enclosing function:
    `adapt.symbols = ["T", "S"]`. A call passes symbols by name.

    **Indices.** A layer function declares `adapt.indices = ["layer"]`; `adapt.call` binds them, and
    templates of source tensors in its params use them: `model.layers.{layer}.mlp.up_proj.weight`.

    **Rounding.** An operation accumulates in f32 and rounds once, to its result's type. A composite
    rounds only at its results.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    /// The number of a symbolic size's name in this context; `getSymbolName` is its inverse. An
    /// AffineSymbolExpr with this number stands for the size.
    unsigned internSymbol(::llvm::StringRef name);
    ::llvm::StringRef getSymbolName(unsigned number);

    static constexpr ::llvm::StringLiteral kSymbols = "adapt.symbols";
    static constexpr ::llvm::StringLiteral kIndices = "adapt.indices";
    /// Of a module: the mesh of ranks, {pp = 2, tp = 4}.
    static constexpr ::llvm::StringLiteral kMesh = "adapt.mesh";
    /// Of an operation in the phase shard: per result a dictionary of mesh axis to #adapt.placement
    /// (absent: replicated). Of a function's argument: one dictionary.
    static constexpr ::llvm::StringLiteral kPlacement = "adapt.placement";
    /// Of an adapt.param: how it is split over tensor-parallel ranks, #adapt.shard.
    static constexpr ::llvm::StringLiteral kShard = "adapt.shard";
    /// Of a module: what was padded or copied for its ranks, in sentences.
    static constexpr ::llvm::StringLiteral kPadding = "adapt.padding";
    /// The symbolic size that is a rank's coordinate on a mesh axis: "tp_rank".
    static std::string getCoordinate(::llvm::StringRef meshAxis) {
      return (meshAxis + "_rank").str();
    }

  private:
    struct SymbolTable;
    std::shared_ptr<SymbolTable> symbolTable;
    void registerAttributes();
    void registerTypes();

  public:
  }];
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Adapt_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Adapt_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Adapt_DimsAttr : Adapt_Attr<"Dims", "dims",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "the sizes of a tensor, by name";
  let description = [{
    One entry per dimension: `#adapt.dims<[T, 576]>`. An entry is an integer or an expression over
    symbols with `+ - *`, `floordiv`, `ceildiv` and `mod`. It is a tensor's encoding: static
    dimensions repeat the type's size, dynamic ones must not be constant.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::AffineExpr">:$exprs);
  let hasCustomAssemblyFormat = 1;
}

def Adapt_PackedAttr : Adapt_Attr<"Packed", "packed",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "panel storage of a weight matrix";
  let description = [{
    The logical [N, K] matrix is stored as [ceil(N/n)][ceil(K/k)][n][k], padded with zeros:
    `tensor<960x576xbf16, #adapt.packed<16, 2>>`. Only storage differs; operations mean the same.
  }];
  let parameters = (ins "int64_t":$n, "int64_t":$k);
  let assemblyFormat = "`<` $n `,` $k `>`";
}

def Adapt_PlacementKindAttr : I32EnumAttr<"PlacementKind", "what ranks have of a value", [
    I32EnumAttrCase<"Split", 0, "split">, I32EnumAttrCase<"Sum", 1, "sum">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">]> {
  let cppNamespace = "::adapt";
  let genSpecializedAttr = 0;
}
def Adapt_PlacementKind : EnumAttr<Adapt_Dialect, Adapt_PlacementKindAttr, "placement_kind">;

def Adapt_PlacementAttr : Adapt_Attr<"Placement", "placement"> {
  let summary = "what the ranks along one mesh axis have of a value";
  let description = [{
    `#adapt.placement<split, 1>`: equal parts along axis 1, in the order of the ranks.
    `#adapt.placement<sum>`: the value is the sum of what the ranks have; likewise max and min.
  }];
  let parameters = (ins EnumParameter<Adapt_PlacementKindAttr>:$kind,
                        DefaultValuedParameter<"int64_t", "0">:$axis);
  let assemblyFormat = "`<` $kind (`,` $axis^)? `>`";
}

def Adapt_ShardAttr : Adapt_Attr<"Shard", "shard"> {
  let summary = "how a weight is split over tensor-parallel ranks";
  let description = [{
    `#adapt.shard<axis = 0>`: by elements of the axis. `heads = 3`: the axis is 3 key/value heads of
    equal size, which stay whole; with `queries = 3` it is 3 query heads for each of these.
  }];
  let parameters = (ins "int64_t":$axis, DefaultValuedParameter<"int64_t", "0">:$heads,
                        DefaultValuedParameter<"int64_t", "0">:$queries);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Adapt_ReduceKindAttr : I32EnumAttr<"ReduceKind", "how a reduction combines", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">,
    I32EnumAttrCase<"Prod", 4, "prod">]> {
  let cppNamespace = "::adapt";
  let genSpecializedAttr = 0;
}
def Adapt_ReduceKind : EnumAttr<Adapt_Dialect, Adapt_ReduceKindAttr, "reduce_kind"> {
  let assemblyFormat = "$value";
}

def Adapt_ActivationAttr : I32EnumAttr<"Activation", "the nonlinearity of a gated activation", [
    I32EnumAttrCase<"Silu", 0, "silu">, I32EnumAttrCase<"GeluErf", 1, "gelu_erf">,
    I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">]> {
  let cppNamespace = "::adapt";
  let genSpecializedAttr = 0;
}
def Adapt_Activation : EnumAttr<Adapt_Dialect, Adapt_ActivationAttr, "activation"> {
  let assemblyFormat = "$value";
}

def Adapt_PredicateAttr : I32EnumAttr<"Predicate", "a comparison", [
    I32EnumAttrCase<"Equal", 0, "eq">, I32EnumAttrCase<"NotEqual", 1, "ne">,
    I32EnumAttrCase<"Less", 2, "lt">, I32EnumAttrCase<"LessEqual", 3, "le">,
    I32EnumAttrCase<"Greater", 4, "gt">, I32EnumAttrCase<"GreaterEqual", 5, "ge">]> {
  let cppNamespace = "::adapt";
  let genSpecializedAttr = 0;
}
def Adapt_Predicate : EnumAttr<Adapt_Dialect, Adapt_PredicateAttr, "predicate"> {
  let assemblyFormat = "$value";
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Adapt_PagedType : TypeDef<Adapt_Dialect, "Paged"> {
  let mnemonic = "paged";
  let summary = "a layer's state per token, in fixed blocks";
  let description = [{
    One tensor type per plane, for one token: `!adapt.paged<tensor<3x64xbf16>, tensor<3x64xbf16>>`
    (keys and values of 3 heads). All states of a model share one block table. The value is linear:
    an operation that updates it consumes it and returns the new one.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::RankedTensorType">:$planes);
  let assemblyFormat = "`<` $planes `>`";
  let genVerifyDecl = 1;
}

// Every dynamic size of an operand or result has a name.
class Adapt_NamedTensorOf<list<Type> elements> : Type<
    And<[RankedTensorOf<elements>.predicate, CPred<"::adapt::hasNamedSizes($_self)">]>,
    RankedTensorOf<elements>.summary # " with sizes that are static or named by #adapt.dims",
    "::mlir::RankedTensorType">;
def Adapt_Tensor : Adapt_NamedTensorOf<[AnyType]>;
def Adapt_FloatTensor : Adapt_NamedTensorOf<[F64, F32, F16, BF16]>;
def Adapt_IntegerTensor : Adapt_NamedTensorOf<[AnySignlessInteger]>;
def Adapt_BoolTensor : Adapt_NamedTensorOf<[I1]>;
def Adapt_F32Tensor : Adapt_NamedTensorOf<[F32]>;
def Adapt_IndexTensor : Adapt_NamedTensorOf<[I32, I64]>;
def Adapt_I32Tensor : Adapt_NamedTensorOf<[I32]>;
def Adapt_Value : AnyTypeOf<[Adapt_Tensor, Adapt_PagedType]>;

#endif
