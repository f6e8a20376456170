#ifndef PROGRAM_OPS_TD
#define PROGRAM_OPS_TD

include "dialects/Adapt/AdaptDialect.td"
include "dialects/Program/ProgramEnums.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Program_Dialect : Dialect {
  let name = "program";
  let cppNamespace = "::adapt::program";
  let summary = "what the runtime executes: steps over planned buffers";
  let description = [{
    The form of `runtime/schema/program.proto` in the compiler. A `program.module` stands beside the
    `adapt.kernel`s that it launches. A function first lists its buffers, then its steps, which run
    in order. Sizes are expressions over the program's symbols (`#adapt.dims`).

    ```mlir
    program.module arena 4096 {
      program.symbol "T" from 1 to 16
      program.kernel @norm sizes ["s0"] {
        program.variant "norm_0" grid <[s0]> scratch 0
      }
      program.state @kv.0.k : tensor<2x16xf32> block 2048
      program.function @main indices [] arguments 0 arena 4096 {
        %x = program.arena "x" at 0 bytes 1024 : tensor<?x16xf32, #adapt.dims<[T, 16]>>
        %w = program.weight "norm" : tensor<16xf32>
        program.launch @norm(%x, %w, %x) sizes <[T]>
      }
      program.entry "main" calls @main kind "graph" inputs (x = 0) outputs (x = 0) block_tokens 16
    }
    ```
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::adapt::AdaptDialect"];
}

class Program_Op<string mnemonic, list<Trait> traits = []> : Op<Program_Dialect, mnemonic, traits>;

def Program_BufferType : TypeDef<Program_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "memory of a program";
}
def Program_Buffer : Type<CPred<"::llvm::isa<::adapt::program::BufferType>($_self)">, "a buffer",
                          "::adapt::program::BufferType">,
    BuildableType<"::adapt::program::BufferType::get($_builder.getContext())">;

def Program_Count : ConfinedAttr<I64Attr, [IntNonNegative]>;

def Program_GuardAttr : AttrDef<Program_Dialect, "Guard"> {
  let mnemonic = "guard";
  let summary = "a kernel's size lies in a range, bounds included";
  let parameters = (ins "::mlir::StringAttr":$size, "int64_t":$min, "int64_t":$max);
  let assemblyFormat = "`<` $size `from` $min `to` $max `>`";
}

//===----------------------------------------------------------------------===//
// The program and what it declares
//===----------------------------------------------------------------------===//

def Program_ModuleOp : Program_Op<"module", [SymbolTable, IsolatedFromAbove, NoTerminator,
                                             SingleBlock, NoRegionArguments]> {
  let summary = "a program";
  let description = [{
    `arena` is the largest need of an entry point, in bytes. Of several pipeline stages each has a
    program of its own, which all its ranks run; the programs stand in the order of the stages.
  }];
  let arguments = (ins OptionalAttr<Program_Count>:$stage, Program_Count:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`stage` $stage^)? `arena` $arena_bytes attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

class Program_Declaration<string mnemonic, list<Trait> traits = []>
    : Program_Op<mnemonic, [HasParent<"::adapt::program::ModuleOp">] # traits>;

def Program_SymbolOp : Program_Declaration<"symbol"> {
  let summary = "a named size and the bounds that the plan was made for";
  let arguments = (ins StrAttr:$name, Program_Count:$min, Program_Count:$max);
  let assemblyFormat = "$name `from` $min `to` $max attr-dict";
  let hasVerifier = 1;
}

def Program_KernelOp : Program_Declaration<"kernel", [Symbol, NoTerminator, SingleBlock,
                                                      NoRegionArguments]> {
  let summary = "a kernel and its variants";
  let description = [{
    The `adapt.kernel` of the same name. The first variant whose guards hold is launched; the last
    has none.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$sizes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `sizes` $sizes attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Program_VariantOp : Program_Op<"variant", [HasParent<"::adapt::program::KernelOp">]> {
  let summary = "one compiled form of a kernel";
  let description = [{
    `grid` has one to three extents over the kernel's sizes; `scratch` bytes per work item. On a
    GPU a work item is a block of `threads`, which share `shared` bytes of static memory.
  }];
  let arguments = (ins StrAttr:$symbol,
                       OptionalAttr<TypedArrayAttrBase<Program_GuardAttr, "guards">>:$guards,
                       Adapt_DimsAttr:$grid, Program_Count:$scratch_bytes,
                       OptionalAttr<Program_Count>:$threads,
                       OptionalAttr<Program_Count>:$shared_bytes);
  let assemblyFormat = [{
    $symbol (`when` $guards^)? `grid` `` $grid `scratch` $scratch_bytes
    (`threads` $threads^ `shared` $shared_bytes)? attr-dict
  }];
  let hasVerifier = 1;
}

def Program_StateOp : Program_Declaration<"state", [Symbol]> {
  let summary = "a plane of state in fixed blocks";
  let description = [{The type is one token's.}];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyStaticShapeTensor>:$type,
                       Program_Count:$bytes_per_block);
  let assemblyFormat = "$sym_name `:` $type `block` $bytes_per_block attr-dict";
  let hasVerifier = 1;
}

def Program_FunctionOp : Program_Declaration<"function", [Symbol, NoTerminator, SingleBlock,
                                                          NoRegionArguments]> {
  let summary = "buffers, then steps";
  let description = [{
    `arena` counts its own buffers and the parts of what it calls.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$indices, Program_Count:$num_arguments,
                       Program_Count:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `indices` $indices `arguments` $num_arguments `arena` $arena_bytes
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The results of the buffer operations; a buffer's place here is its index in the schema.
    ::llvm::SmallVector<::mlir::Value> getBuffers();
  }];
}

def Program_EntryOp : Program_Declaration<"entry"> {
  let summary = "an entry point";
  let description = [{
    `kind` is "language_model" or "graph" (see program.proto). Inputs and outputs name buffers of the
    function by their index.
  }];
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$function, StrAttr:$kind,
                       StrArrayAttr:$input_names, DenseI64ArrayAttr:$inputs,
                       StrArrayAttr:$output_names, DenseI64ArrayAttr:$outputs,
                       Program_Count:$block_tokens);
  let assemblyFormat = [{
    $name `calls` $function `kind` $kind `inputs` custom<Ports>($input_names, $inputs)
    `outputs` custom<Ports>($output_names, $outputs) `block_tokens` $block_tokens attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def Program_BufferOpInterface : OpInterface<"BufferOpInterface"> {
  let cppNamespace = "::adapt::program";
  let description = [{An operation that declares a buffer of a function.}];
  let methods = [
    InterfaceMethod<"Its name, for messages.", "::llvm::StringRef", "getBufferName", (ins)>,
    InterfaceMethod<"What it holds.", "::mlir::RankedTensorType", "getBufferType", (ins), "",
                    [{ return ::llvm::cast<::mlir::RankedTensorType>($_op.getType()); }]>,
    InterfaceMethod<"Upper bound of its bytes; 0 for weights and state.", "int64_t",
                    "getBufferBytes", (ins), "", [{ return 0; }]>];
}

class Program_BufferOp<string mnemonic, list<string> methods = []>
    : Program_Op<mnemonic, [HasParent<"::adapt::program::FunctionOp">,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
        DeclareOpInterfaceMethods<Program_BufferOpInterface, methods>]> {
  let results = (outs Program_Buffer:$buffer);
}

def Program_ArgumentOp : Program_BufferOp<"argument", ["getBufferBytes"]> {
  let summary = "bound by the call";
  let description = [{A plane of state has the type of one token's and 0 bytes.}];
  let arguments = (ins Program_Count:$number, StrAttr:$name, Program_Count:$bytes,
                       TypeAttrOf<RankedTensorOf<[AnyType]>>:$type);
  let assemblyFormat = "$number $name `bytes` $bytes `:` $type attr-dict";
}

def Program_ArenaOp : Program_BufferOp<"arena", ["getBufferBytes"]> {
  let summary = "in the function's part of the arena";
  let arguments = (ins StrAttr:$name, Program_Count:$offset, Program_Count:$bytes,
                       TypeAttrOf<RankedTensorOf<[AnyType]>>:$type);
  let assemblyFormat = "$name `at` $offset `bytes` $bytes `:` $type attr-dict";
}

def Program_WeightOp : Program_BufferOp<"weight"> {
  let summary = "a weight; the call's indices fill its name's placeholders";
  let arguments = (ins StrAttr:$name, TypeAttrOf<AnyStaticShapeTensor>:$type);
  let assemblyFormat = "$name `:` $type attr-dict";
}

def Program_PlaneOp : Program_BufferOp<"plane"> {
  let summary = "a plane of the session's state";
  let arguments = (ins FlatSymbolRefAttr:$state, TypeAttrOf<AnyStaticShapeTensor>:$type);
  let assemblyFormat = "$state `:` $type attr-dict";
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

def Program_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::adapt::program";
  let description = [{An operation that the runtime executes.}];
  let methods = [
    InterfaceMethod<[{How many of its buffers, from the first on, it reads; the others it writes.
      nullopt: that is the kernel's or the function's business.}], "::std::optional<unsigned>",
      "getNumRead", (ins), "", [{ return ::std::nullopt; }]>,
    InterfaceMethod<"The sizes that it names, for messages and checks.",
      "::llvm::ArrayRef<::mlir::AffineExpr>", "getStepSizes", (ins), "", [{ return {}; }]>];
}

class Program_Step<string mnemonic, list<string> methods = []>
    : Program_Op<mnemonic, [HasParent<"::adapt::program::FunctionOp">,
        DeclareOpInterfaceMethods<Program_StepOpInterface, methods>]>;

def Program_LaunchOp : Program_Step<"launch", ["getStepSizes"]> {
  let summary = "runs a kernel";
  let description = [{Buffers are the kernel's inputs, then its outputs.}];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Program_Buffer>:$buffers,
                       Adapt_DimsAttr:$sizes);
  let assemblyFormat = "$kernel `(` $buffers `)` `sizes` `` $sizes attr-dict";
}

def Program_CallOp : Program_Step<"call"> {
  let summary = "runs a function with bound indices";
  let description = [{The callee's part of the arena begins at `arena` of the caller's.}];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Program_Buffer>:$buffers,
                       DictionaryAttr:$indices, Program_Count:$arena_offset);
  let assemblyFormat = "$callee `(` $buffers `)` $indices `arena` $arena_offset attr-dict";
}

def Program_CopyOp : Program_Step<"copy", ["getNumRead", "getStepSizes"]> {
  let summary = "copies the first bytes of a buffer";
  let arguments = (ins Program_Buffer:$from, Program_Buffer:$to, Adapt_DimsAttr:$bytes);
  let assemblyFormat = "$from `to` $to `bytes` `` $bytes attr-dict";
  let hasVerifier = 1;
}

def Program_CollectiveKindAttr : EnumAttr<Program_Dialect, Program_CollectiveKind, "kind">;

def Program_CollectiveOp : Program_Step<"collective", ["getNumRead", "getStepSizes"]> {
  let summary = "sums or collects what the ranks along an axis of the mesh have";
  let description = [{
    All ranks that differ in their coordinate along `axis` alone run it, in the same order; there are
    max + 1 of them, of the program's symbol `AXIS_rank`. `sizes` are [outer, inner], the same on all
    ranks: `all_gather` makes [outer, ranks, inner] of each rank's [outer, inner], `reduce_scatter`
    the reverse of sums, `all_reduce` sums outer * inner elements (`from` and `to` may be one
    buffer). Sums are in f32 in the order of the ranks, and rounded once.
  }];
  let arguments = (ins Program_CollectiveKindAttr:$kind, StrAttr:$axis, Program_Buffer:$from,
                       Program_Buffer:$to, Adapt_DimsAttr:$sizes);
  let assemblyFormat = "$kind `over` $axis $from `to` $to `sizes` `` $sizes attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes of the whole: what is summed, or gathered, or scattered.
    ::mlir::AffineExpr getPayloadBytes(int64_t ranks);
    /// What all ranks of one group together send in a ring.
    ::mlir::AffineExpr getWireBytes(int64_t ranks);
  }];
}

class Program_TransferOp<string mnemonic> : Program_Step<mnemonic, ["getNumRead", "getStepSizes"]> {
  let description = [{
    The other end is the rank of stage `peer` with the same other coordinates; both ends have the
    same tag and number of bytes.
  }];
  let arguments = (ins Program_Buffer:$buffer, Adapt_DimsAttr:$bytes, Program_Count:$peer,
                       Program_Count:$tag);
  let hasVerifier = 1;
}

def Program_SendOp : Program_TransferOp<"send"> {
  let summary = "the first bytes of a buffer go to another stage";
  let assemblyFormat = "$buffer `bytes` `` $bytes `to` $peer `tag` $tag attr-dict";
}

def Program_ReceiveOp : Program_TransferOp<"receive"> {
  let summary = "the first bytes of a buffer come from another stage";
  let assemblyFormat = "$buffer `bytes` `` $bytes `from` $peer `tag` $tag attr-dict";
}

#endif
