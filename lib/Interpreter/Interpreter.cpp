#include "adapt/Interpreter/Interpreter.h"

#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace adapt::interp {

/// Calls nest this deep at most; a recursive module would not end.
static constexpr unsigned kMaxDepth = 64;

/// A running function: its context and what its values are so far.
struct Interpreter::Frame {
  EvalContext context;
  using Values = DenseMap<mlir::Value, Value>;
  Values values;
};

Interpreter::Interpreter(ModuleOp module, Options options)
    : module(module), options(std::move(options)) {}

FunctionOpInterface Interpreter::lookup(StringRef name) {
  return dyn_cast_or_null<FunctionOpInterface>(
      symbolTables.lookupSymbolIn(module, StringAttr::get(module.getContext(), name)));
}

EvalContext Interpreter::makeContext(Bindings symbols, const Bindings &indices) const {
  EvalContext context;
  context.mode = options.mode;
  context.blockTokens = options.blockTokens;
  context.maxElements = options.maxElements;
  context.symbols = std::move(symbols);
  context.indices = indices;
  context.readSource = options.readSource;
  return context;
}

FailureOr<State> Interpreter::makeState(Operation *op, Type type, int64_t blocks) {
  State state;
  for (RankedTensorType plane : cast<PagedType>(type).getPlanes()) {
    int64_t elements = 0;
    if (llvm::MulOverflow(blocks, options.blockTokens, elements))
      return op->emitOpError("needs a state of ")
             << blocks << " blocks of " << options.blockTokens << " tokens, which is too large";
    SmallVector<int64_t> shape{elements};
    for (int64_t size : plane.getShape()) {
      shape.push_back(size);
      if (size < 0 || elements > options.maxElements / std::max<int64_t>(size, 1))
        return op->emitOpError("needs a state of ")
               << blocks << " blocks of " << type << ", which is more than " << options.maxElements
               << " elements";
      elements *= size;
    }
    state.planes.push_back(Tensor(plane.getElementType(), shape));
  }
  return state;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> Interpreter::run(FunctionOpInterface function,
                                               ArrayRef<Value> arguments, const Bindings &indices,
                                               const Bindings &symbols) {
  if (function.isExternal())
    return function.emitOpError("cannot be run: it has no body");
  for (StringRef index : getNames(function, AdaptDialect::kIndices))
    if (!indices.count(index))
      return function.emitOpError("cannot be run: its index '") << index << "' is not bound";
  EvalContext context = makeContext(symbols, indices);
  if (failed(bindSymbols(function, function.getArgumentTypes(), arguments, context)))
    return failure();
  SmallVector<Value> results;
  if (failed(runBody(function, std::move(context.symbols), indices, arguments, results)))
    return failure();
  return results;
}

LogicalResult Interpreter::runBody(FunctionOpInterface function, Bindings symbols,
                                   const Bindings &indices, ArrayRef<Value> arguments,
                                   SmallVectorImpl<Value> &results) {
  if (depth == kMaxDepth)
    return function.emitOpError("cannot be run: calls nest more than ") << kMaxDepth << " deep";
  if (!llvm::hasSingleElement(function.getFunctionBody()))
    return function.emitOpError("cannot be run: it must have one block");
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  Frame frame{makeContext(std::move(symbols), indices), Frame::Values()};
  Block &block = function.getFunctionBody().front();
  for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
    frame.values[argument] = value;
  return runBlock(block, frame, results);
}

LogicalResult Interpreter::runBlock(Block &block, Frame &frame, SmallVectorImpl<Value> &results) {
  for (Operation &op : block.without_terminator()) {
    SmallVector<Value> values;
    if (failed(runOp(op, frame, values)))
      return failure();
    for (auto [result, value] : llvm::zip_equal(op.getResults(), values))
      frame.values[result] = std::move(value);
  }
  for (mlir::Value operand : block.getTerminator()->getOperands())
    results.push_back(frame.values.lookup(operand));
  return success();
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Rounds a result to its type and checks that it has its type's shape; if not, the evaluation is
/// wrong, not the input.
static LogicalResult finish(Operation *op, const EvalContext &context, Type type, Value &value) {
  if (value.isState() || isa<PagedType>(type)) {
    if (value.isState() && isa<PagedType>(type))
      return success();
    return op->emitOpError("was evaluated to a state where its type is none, or the reverse");
  }
  Tensor &tensor = value.tensor();
  FailureOr<SmallVector<int64_t>> shape = context.getShape(op, type);
  if (failed(shape))
    return failure();
  Type element = cast<RankedTensorType>(type).getElementType();
  if (tensor.getShape() != ArrayRef(*shape) || tensor.isFloat() != isa<FloatType>(element))
    return op->emitOpError("was evaluated to another shape or kind than its type ") << type;
  if (tensor.getElementType() != element)
    tensor = tensor.withElementType(element);
  if (context.mode == Mode::Typed || !tensor.isFloat())
    tensor.roundToElementType();
  return success();
}

LogicalResult Interpreter::runOp(Operation &op, Frame &frame, SmallVectorImpl<Value> &results) {
  SmallVector<Value> operands;
  for (mlir::Value operand : op.getOperands())
    operands.push_back(frame.values.lookup(operand));

  // The structure of a module; whatever computes answers EvaluateOpInterface.
  if (auto param = dyn_cast<ParamOp>(op)) {
    FailureOr<Value> value = evaluateParam(param, frame.context.indices);
    if (failed(value))
      return failure();
    results.push_back(std::move(*value));
    return success();
  }
  if (auto dispatch = dyn_cast<DispatchOp>(op))
    return runBlock(dispatch.getBody().front(), frame, results);
  if (auto call = dyn_cast<CallOp>(op)) {
    auto callee =
        symbolTables.lookupNearestSymbolFrom<FunctionOpInterface>(&op, call.getCalleeAttr());
    Bindings indices;
    for (NamedAttribute index : call.getIndices())
      indices[index.getName().getValue()] = cast<IntegerAttr>(index.getValue()).getInt();
    if (callee.isExternal())
      return op.emitOpError("calls @") << call.getCallee() << ", which has no body";
    // Symbols of the same name are the same size.
    Bindings symbols;
    for (StringRef name : getNames(callee, AdaptDialect::kSymbols))
      if (auto it = frame.context.symbols.find(name); it != frame.context.symbols.end())
        symbols[name] = it->second;
    return runBody(callee, std::move(symbols), indices, operands, results);
  }
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    auto kernel = symbolTables.lookupNearestSymbolFrom<KernelOp>(&op, launch.getKernelAttr());
    Bindings symbols;
    for (auto [name, size] : llvm::zip_equal(kernel.getSymbols(), launch.getSizes().getExprs())) {
      std::optional<int64_t> value = frame.context.getSize(size);
      if (!value)
        return op.emitOpError("cannot be run: size ")
               << toString(size) << " for '" << name << "' is not known";
      symbols[name] = *value;
    }
    return runBody(kernel, std::move(symbols), {}, operands, results);
  }

  auto evaluate = dyn_cast<EvaluateOpInterface>(op);
  if (!evaluate)
    return op.emitOpError("cannot be interpreted");
  if (failed(evaluate.evaluate(frame.context, operands, results)))
    return failure();
  if (results.size() != op.getNumResults())
    return op.emitOpError("was evaluated to ") << results.size() << " results";
  for (auto [result, value] : llvm::zip_equal(op.getResults(), results))
    if (failed(finish(&op, frame.context, result.getType(), value)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

FailureOr<Value> Interpreter::evaluateParam(Operation *op, const Bindings &indices) {
  auto param = cast<ParamOp>(op);
  std::optional<std::string> name = fillTemplate(param.getName(), indices);
  if (!name)
    return param.emitOpError("cannot be evaluated: an index of \"")
           << param.getName() << "\" is not bound";
  llvm::StringMap<Value> &known = params[op];
  if (auto it = known.find(*name); it != known.end())
    return it->second;
  Frame frame{makeContext({}, indices), Frame::Values()};
  SmallVector<Value> results;
  if (failed(runBlock(param.getBody().front(), frame, results)))
    return failure();
  return known[*name] = std::move(results.front());
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

/// Solves `expr` = `size` for the one unknown symbol of S, S + c.
static void bindFrom(AffineExpr expr, int64_t size, Bindings &symbols) {
  if (auto sum = dyn_cast<AffineBinaryOpExpr>(expr); sum && expr.getKind() == AffineExprKind::Add)
    if (auto constant = dyn_cast<AffineConstantExpr>(sum.getRHS())) {
      int64_t rest;
      if (!llvm::SubOverflow(size, constant.getValue(), rest) && rest >= 0)
        bindFrom(sum.getLHS(), rest, symbols);
      return;
    }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    symbols.try_emplace(getSymbolName(symbol), size);
}

LogicalResult bindSymbols(Operation *op, TypeRange types, ArrayRef<Value> arguments,
                          EvalContext &context) {
  if (types.size() != arguments.size())
    return op->emitOpError("takes ") << types.size() << " arguments, not " << arguments.size();
  for (auto [i, type, value] : llvm::enumerate(types, arguments)) {
    if (!isa<PagedType, RankedTensorType>(type))
      return op->emitOpError("argument ")
             << i << " has type " << type << ", which is neither a tensor nor a state";
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || value.isState()) {
      if (bool(tensor) == value.isState())
        return op->emitOpError("argument ")
               << i << " has type " << type << (tensor ? ", not a state" : ", not a tensor");
      continue;
    }
    const Tensor &given = value.tensor();
    if (given.getRank() != tensor.getRank() || given.getElementType() != tensor.getElementType())
      return op->emitOpError("argument ") << i << " has type " << type << ", not rank "
                                          << given.getRank() << " of " << given.getElementType();
    for (auto [dim, size] : llvm::zip_equal(getDims(tensor), given.getShape()))
      if (dim)
        bindFrom(dim, size, context.symbols);
  }
  for (auto [i, type, value] : llvm::enumerate(types, arguments)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      continue;
    for (auto [axis, dim, size] : llvm::enumerate(getDims(tensor), value.tensor().getShape())) {
      std::optional<int64_t> expected = dim ? context.getSize(dim) : std::nullopt;
      if (expected != size)
        return op->emitOpError("argument ")
               << i << " of type " << type << " has " << size << " elements on axis " << axis
               << ", not " << (expected ? std::to_string(*expected) : std::string("a known size"));
    }
  }
  return success();
}

} // namespace adapt::interp
