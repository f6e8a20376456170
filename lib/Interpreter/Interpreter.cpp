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

/// A running function: each rank's context, and what its values are so far.
struct Interpreter::Frame {
  std::vector<EvalContext> contexts;
  DenseMap<mlir::Value, RankValues> values;
};

Interpreter::Interpreter(ModuleOp module, Options options)
    : module(module), options(std::move(options)), numRanks(unsigned(getMeshSize(module, "tp"))),
      params(numRanks) {}

FunctionOpInterface Interpreter::lookup(StringRef name) {
  return dyn_cast_or_null<FunctionOpInterface>(
      symbolTables.lookupSymbolIn(module, StringAttr::get(module.getContext(), name)));
}

EvalContext Interpreter::makeContext(Bindings symbols, const Bindings &indices,
                                     unsigned rank) const {
  EvalContext context;
  context.mode = options.mode;
  context.blockTokens = options.blockTokens;
  context.maxElements = options.maxElements;
  context.symbols = std::move(symbols);
  if (numRanks > 1)
    context.symbols[AdaptDialect::getCoordinate("tp")] = rank;
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

bool haveSameElements(const Tensor &a, const Tensor &b) {
  if (a.getShape() != b.getShape() || a.isFloat() != b.isFloat())
    return false;
  auto same = [](double x, double y) { return x == y || (x != x && y != y); };
  return a.isFloat() ? llvm::equal(a.floats(), b.floats(), same) : a.ints() == b.ints();
}

FailureOr<SmallVector<Value>> Interpreter::run(FunctionOpInterface function,
                                               ArrayRef<Value> arguments, const Bindings &indices,
                                               const Bindings &symbols) {
  std::vector<SmallVector<Value>> each(numRanks, SmallVector<Value>(arguments));
  auto results = runRanks(function, each, indices, std::vector<Bindings>(numRanks, symbols));
  if (failed(results))
    return failure();
  for (unsigned rank = 1; rank < numRanks; ++rank)
    for (auto [i, first, other] : llvm::enumerate((*results)[0], (*results)[rank]))
      if (!first.isState() && !haveSameElements(first.tensor(), other.tensor()))
        return function.emitOpError("result ")
               << i << " on rank " << rank << " is another than on rank 0";
  return std::move((*results)[0]);
}

FailureOr<std::vector<SmallVector<Value>>>
Interpreter::runRanks(FunctionOpInterface function, ArrayRef<SmallVector<Value>> arguments,
                      const Bindings &indices, ArrayRef<Bindings> symbols) {
  if (function.isExternal())
    return function.emitOpError("cannot be run: it has no body");
  for (StringRef index : getNames(function, AdaptDialect::kIndices))
    if (!indices.count(index))
      return function.emitOpError("cannot be run: its index '") << index << "' is not bound";
  std::vector<Bindings> rankSymbols;
  for (unsigned rank = 0; rank < numRanks; ++rank) {
    EvalContext context = makeContext(symbols.empty() ? Bindings() : symbols[rank], indices, rank);
    if (failed(bindSymbols(function, function.getArgumentTypes(), arguments[rank], context)))
      return failure();
    rankSymbols.push_back(std::move(context.symbols));
  }
  SmallVector<RankValues> byArgument(function.getNumArguments()), results;
  for (const SmallVector<Value> &ofRank : arguments)
    for (auto [values, value] : llvm::zip_equal(byArgument, ofRank))
      values.push_back(value);
  if (failed(runBody(function, std::move(rankSymbols), indices, byArgument, results)))
    return failure();
  std::vector<SmallVector<Value>> byRank(numRanks);
  for (RankValues &values : results)
    for (auto [ofRank, value] : llvm::zip_equal(byRank, values))
      ofRank.push_back(std::move(value));
  return byRank;
}

LogicalResult Interpreter::runBody(FunctionOpInterface function, std::vector<Bindings> symbols,
                                   const Bindings &indices, ArrayRef<RankValues> arguments,
                                   SmallVectorImpl<RankValues> &results) {
  if (depth == kMaxDepth)
    return function.emitOpError("cannot be run: calls nest more than ") << kMaxDepth << " deep";
  if (!llvm::hasSingleElement(function.getFunctionBody()))
    return function.emitOpError("cannot be run: it must have one block");
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  Frame frame;
  for (auto [rank, ofRank] : llvm::enumerate(symbols))
    frame.contexts.push_back(makeContext(std::move(ofRank), indices, rank));
  Block &block = function.getFunctionBody().front();
  for (auto [argument, values] : llvm::zip_equal(block.getArguments(), arguments))
    frame.values[argument] = values;
  return runBlock(block, frame, results);
}

LogicalResult Interpreter::runBlock(Block &block, Frame &frame,
                                    SmallVectorImpl<RankValues> &results) {
  for (Operation &op : block.without_terminator()) {
    SmallVector<RankValues> values;
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

LogicalResult Interpreter::runOp(Operation &op, Frame &frame,
                                 SmallVectorImpl<RankValues> &results) {
  SmallVector<RankValues> operands;
  for (mlir::Value operand : op.getOperands())
    operands.push_back(frame.values.lookup(operand));

  // The structure of a module; whatever computes answers EvaluateOpInterface.
  if (auto param = dyn_cast<ParamOp>(op)) {
    RankValues &values = results.emplace_back();
    for (auto [rank, context] : llvm::enumerate(frame.contexts)) {
      FailureOr<Value> value = evaluateParam(param, context.indices, rank);
      if (failed(value))
        return failure();
      values.push_back(std::move(*value));
    }
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
    std::vector<Bindings> symbols(frame.contexts.size());
    for (auto [context, mine] : llvm::zip_equal(frame.contexts, symbols))
      for (StringRef name : getNames(callee, AdaptDialect::kSymbols))
        if (auto it = context.symbols.find(name); it != context.symbols.end())
          mine[name] = it->second;
    return runBody(callee, std::move(symbols), indices, operands, results);
  }
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    auto kernel = symbolTables.lookupNearestSymbolFrom<KernelOp>(&op, launch.getKernelAttr());
    std::vector<Bindings> symbols(frame.contexts.size());
    for (auto [context, mine] : llvm::zip_equal(frame.contexts, symbols))
      for (auto [name, size] : llvm::zip_equal(kernel.getSymbols(), launch.getSizes().getExprs())) {
        std::optional<int64_t> value = context.getSize(size);
        if (!value)
          return op.emitOpError("cannot be run: size ")
                 << toString(size) << " for '" << name << "' is not known";
        mine[name] = *value;
      }
    return runBody(kernel, std::move(symbols), {}, operands, results);
  }
  return evaluate(op, frame, operands, results);
}

LogicalResult Interpreter::evaluate(Operation &op, Frame &frame, ArrayRef<RankValues> operands,
                                    SmallVectorImpl<RankValues> &results) {
  size_t ranks = frame.contexts.size();
  std::vector<SmallVector<Value>> in(ranks), out(ranks);
  for (const RankValues &values : operands)
    for (auto [ofRank, value] : llvm::zip_equal(in, values))
      ofRank.push_back(value);
  if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    SmallVector<EvalContext *> contexts;
    for (EvalContext &context : frame.contexts)
      contexts.push_back(&context);
    if (failed(collective.evaluateRanks(contexts, in, out)))
      return failure();
  } else {
    auto evaluate = dyn_cast<EvaluateOpInterface>(op);
    if (!evaluate)
      return op.emitOpError("cannot be interpreted");
    for (size_t rank = 0; rank < ranks; ++rank)
      if (failed(evaluate.evaluate(frame.contexts[rank], in[rank], out[rank])))
        return failure();
  }
  results.resize(op.getNumResults());
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (out[rank].size() != op.getNumResults())
      return op.emitOpError("was evaluated to ") << out[rank].size() << " results";
    for (auto [result, value, values] : llvm::zip_equal(op.getResults(), out[rank], results)) {
      if (failed(finish(&op, frame.contexts[rank], result.getType(), value)))
        return failure();
      values.push_back(std::move(value));
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

FailureOr<Value> Interpreter::evaluateParam(Operation *op, const Bindings &indices, unsigned rank) {
  auto param = cast<ParamOp>(op);
  std::optional<std::string> name = fillTemplate(param.getName(), indices);
  if (!name)
    return param.emitOpError("cannot be evaluated: an index of \"")
           << param.getName() << "\" is not bound";
  llvm::StringMap<Value> &known = params[rank][op];
  if (auto it = known.find(*name); it != known.end())
    return it->second;
  Frame frame;
  frame.contexts.push_back(makeContext({}, indices, rank));
  SmallVector<RankValues> results;
  if (failed(runBlock(param.getBody().front(), frame, results)))
    return failure();
  return known[*name] = std::move(results.front().front());
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
