#ifndef ADAPT_INTERFACES_TD
#define ADAPT_INTERFACES_TD

include "mlir/IR/OpBase.td"

// What the compiler asks of an operation. Each default answer is a refusal that names the operation.

def EvaluateOpInterface : OpInterface<"EvaluateOpInterface"> {
  let cppNamespace = "::adapt";
  let description = [{The reference meaning, as the interpreter runs it.}];
  let methods = [InterfaceMethod<
    [{Computes `results` from `operands` (both in order). Sizes that only types name are in
      `context.symbols`. Rounding to the results' types is the interpreter's business. On failure
      an error was emitted.}],
    "::llvm::LogicalResult", "evaluate",
    (ins "::adapt::interp::EvalContext &":$context,
         "::llvm::ArrayRef<::adapt::interp::Value>":$operands,
         "::llvm::SmallVectorImpl<::adapt::interp::Value> &":$results), "",
    [{ return $_op.emitOpError("has no evaluation"); }]>];
}

def DecomposeOpInterface : OpInterface<"DecomposeOpInterface"> {
  let cppNamespace = "::adapt";
  let description = [{A composite, which means what its decomposition means.}];
  let methods = [InterfaceMethod<
    [{Builds the equivalent of simpler operations at the builder's insertion point and returns a
      value per result, each of the result's type.}],
    "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "decompose",
    (ins "::mlir::OpBuilder &":$builder)>];
}

def LinalgOpLoweringInterface : OpInterface<"LinalgOpLoweringInterface"> {
  let cppNamespace = "::adapt";
  let description = [{A base operation's one lowering to linalg and tensor.}];
  let methods = [InterfaceMethod<
    [{Builds linalg/tensor/arith for this operation at the builder's insertion point. `operands` are
      the converted operands, without encodings (a packed matrix as its storage
      [ceil(N/n)][ceil(K/k)][n][k]); symbolic sizes come from `context`. Returns a value
      per result. On failure an error was emitted.}],
    "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "lowerToLinalg",
    (ins "::mlir::OpBuilder &":$builder, "::adapt::LinalgContext &":$context,
         "::mlir::ValueRange":$operands), "",
    [{ return $_op.emitOpError("has no lowering to linalg"); }]>];
}

def ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::adapt";
  let description = [{An operation that computes each element of its result from the elements at the
    same place in its operands.}];
  let methods = [
    InterfaceMethod<[{The computation on scalars or vectors. Floating-point operands narrower than
      f32 come as f32, and so goes the result; the caller rounds.}],
      "::mlir::Value", "emitScalar",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$args)>,
    InterfaceMethod<[{The same in double precision (integers up to 2^53 included).}],
      "double", "evaluateScalar", (ins "::llvm::ArrayRef<double>":$args)>];
}

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::adapt";
  let description = [{How an operation's dimensions may be split over ranks, as einsum-like factors.}];
  let methods = [
    InterfaceMethod<[{The rule; see dialects/Adapt/Interfaces.h.}],
      "::adapt::ShardingRule", "getShardingRule", (ins)>,
    InterfaceMethod<[{Called once an operation has its local types: it computes the part of `factor`
        that begins at `offset`, an expression over mesh coordinates. For operations that mean
        something else on another part.}],
      "void", "setPart", (ins "int":$factor, "::mlir::AffineExpr":$offset), "",
      [{ (void)factor, (void)offset; }]>];
}

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::adapt";
  let description = [{What the ranks along one axis of the mesh do together.}];
  let methods = [
    InterfaceMethod<[{"tp", "pp".}], "::llvm::StringRef", "getMeshAxisName", (ins)>,
    InterfaceMethod<[{The bytes that all ranks of one group together send in a ring.}],
      "::mlir::AffineExpr", "getWireBytes", (ins)>,
    InterfaceMethod<[{The reference meaning: operands and results of all ranks of the group, in the
        order of their coordinates. On failure an error was emitted.}],
      "::llvm::LogicalResult", "evaluateRanks",
      (ins "::llvm::ArrayRef<::adapt::interp::EvalContext *>":$contexts,
           "::llvm::ArrayRef<::llvm::SmallVector<::adapt::interp::Value>>":$operands,
           "::llvm::MutableArrayRef<::llvm::SmallVector<::adapt::interp::Value>>":$results)>];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::adapt";
  let description = [{What an operation costs, as expressions over its sizes.}];
  let methods = [InterfaceMethod<[{Operations and bytes of operands and results; state excluded
      where its traffic depends on data.}],
    "::adapt::Cost", "getCost", (ins)>];
}

def RecipeOpInterface : OpInterface<"RecipeOpInterface"> {
  let cppNamespace = "::adapt";
  let description = [{An operation that may stand in the region of an `adapt.param`.}];
  let methods = [InterfaceMethod<[{Fills `node.op`; type and operands are the caller's business. On
      failure an error was emitted.}],
    "::llvm::LogicalResult", "toRecipe", (ins "::adapt::schema::RecipeNode &":$node)>];
}

def StateOpInterface : OpInterface<"StateOpInterface"> {
  let cppNamespace = "::adapt";
  let description = [{An operation that consumes state and returns it.}];
  let methods = [InterfaceMethod<[{The operand that becomes the given result (a state).}],
    "::mlir::OpOperand &", "getTiedOperand", (ins "::mlir::OpResult":$result)>];
}

#endif
