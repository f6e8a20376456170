#ifndef ADAPT_STRUCTURE_TD
#define ADAPT_STRUCTURE_TD

include "dialects/Adapt/AdaptOpBase.td"

def Adapt_CallOp : Adapt_Op<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                     DeclareOpInterfaceMethods<StateOpInterface>]> {
  let summary = "calls a layer function with bound indices";
  let description = [{
    ```mlir
    %y, %kv1 = adapt.call @layer(%x, %kv0) {layer = 7} : (tensor<?x64xf32, #adapt.dims<[T, 64]>>,
        !adapt.paged<tensor<2x16xf32>>) -> (…)
    ```
    The indices are the callee's `adapt.indices`; symbols of the same name are the same size. State
    results follow the state operands in order.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Adapt_Value>:$operands,
                       DictionaryAttr:$indices);
  let results = (outs Variadic<Adapt_Value>);
  let assemblyFormat = [{
    $callee `(` $operands `)` $indices attr-dict `:` functional-type($operands, results)
  }];
}

def Adapt_DispatchOp : Adapt_Op<"dispatch", [SingleBlock, NoRegionArguments,
    DeclareOpInterfaceMethods<StateOpInterface>]> {
  let summary = "operations that become one kernel";
  let description = [{
    Uses values from above; its results are those of the region's `adapt.yield`. Outlining turns it
    into an `adapt.kernel` and an `adapt.launch`.
  }];
  let results = (outs Variadic<Adapt_Value>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`->` type($outputs)^)? $body attr-dict";
  let hasVerifier = 1;
}

def Adapt_KernelOp : Adapt_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove, SingleBlock,
                                         HasParent<"::mlir::ModuleOp">]> {
  let summary = "one kernel of the program, in adapt operations";
  let description = [{
    Compiled once, launched by `adapt.launch`. `adapt.symbols` lists its sizes, in the order in
    which a launch passes them. A state result is one of its state arguments, updated in place.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type,
                                 "::llvm::ArrayRef<::llvm::StringRef>":$symbols)>];
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// The names of the sizes, in the order of a launch's sizes.
    ::llvm::SmallVector<::llvm::StringRef> getSymbols();
    /// The argument that a state result is.
    ::mlir::BlockArgument getTiedArgument(unsigned result);
  }];
}

def Adapt_LaunchOp : Adapt_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                                         DeclareOpInterfaceMethods<StateOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    `sizes` gives the value of each of the kernel's symbols, as a size over the caller's symbols:
    ```mlir
    %y = adapt.launch @matmul_0(%x, %w) sizes <[L]> : (…) -> …
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Adapt_Value>:$operands,
                       Adapt_DimsAttr:$sizes);
  let results = (outs Variadic<Adapt_Value>);
  let assemblyFormat = [{
    $kernel `(` $operands `)` `sizes` `` $sizes attr-dict `:` functional-type($operands, results)
  }];
}

def Adapt_YieldOp : Adapt_Op<"yield", [Pure, Terminator, ReturnLike,
    ParentOneOf<["DispatchOp", "KernelOp", "ParamOp"]>]> {
  let summary = "ends a region of the dialect";
  let arguments = (ins Variadic<Adapt_Value>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

#endif
