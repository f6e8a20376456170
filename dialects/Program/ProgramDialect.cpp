#include "dialects/Program/ProgramDialect.h"
#include "dialects/Program/Export.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::program;

//===----------------------------------------------------------------------===//
// `(token_ids = 0, positions = 1)`
//===----------------------------------------------------------------------===//

static ParseResult parsePorts(OpAsmParser &parser, ArrayAttr &names, DenseI64ArrayAttr &buffers) {
  SmallVector<Attribute> parsedNames;
  SmallVector<int64_t> parsedBuffers;
  Builder &builder = parser.getBuilder();
  auto parsePort = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseInteger(parsedBuffers.emplace_back()))
      return failure();
    parsedNames.push_back(builder.getStringAttr(name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parsePort))
    return failure();
  names = builder.getArrayAttr(parsedNames);
  buffers = builder.getDenseI64ArrayAttr(parsedBuffers);
  return success();
}

static void printPorts(OpAsmPrinter &printer, Operation *, ArrayAttr names,
                       DenseI64ArrayAttr buffers) {
  printer << '(';
  llvm::interleaveComma(llvm::zip(names.getAsRange<StringAttr>(), buffers.asArrayRef()), printer,
                        [&](auto port) {
                          printer.printKeywordOrString(std::get<0>(port).getValue());
                          printer << " = " << std::get<1>(port);
                        });
  printer << ')';
}

//===----------------------------------------------------------------------===//
// The dialect
//===----------------------------------------------------------------------===//

#include "dialects/Program/ProgramDialect.cpp.inc"
#include "dialects/Program/ProgramEnums.cpp.inc"
#include "dialects/Program/ProgramInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Program/ProgramAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Program/ProgramTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Program/ProgramOps.cpp.inc"

void ProgramDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Program/ProgramAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Program/ProgramTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Program/ProgramOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

StringRef ArgumentOp::getBufferName() { return getName(); }
int64_t ArgumentOp::getBufferBytes() { return getBytes(); }
StringRef ArenaOp::getBufferName() { return getName(); }
int64_t ArenaOp::getBufferBytes() { return getBytes(); }
StringRef WeightOp::getBufferName() { return getName(); }
StringRef PlaneOp::getBufferName() { return getState(); }

void ArgumentOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getBuffer(), getName()); }
void ArenaOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getBuffer(), getName()); }
// "q" of "layers.{layer}.q.weight".
void WeightOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  StringRef name = getName();
  name.consume_back(".weight");
  size_t dot = name.rfind('.');
  setName(getBuffer(), dot == StringRef::npos ? name : name.drop_front(dot + 1));
}
void PlaneOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getBuffer(), getState()); }

SmallVector<Value> FunctionOp::getBuffers() {
  SmallVector<Value> buffers;
  for (auto op : getBody().getOps<BufferOpInterface>())
    buffers.push_back(op->getResult(0));
  return buffers;
}

static BufferOpInterface getDeclaration(Value buffer) {
  return cast<BufferOpInterface>(buffer.getDefiningOp());
}

//===----------------------------------------------------------------------===//
// Verifiers of one operation
//===----------------------------------------------------------------------===//

/// Names in `exprs` must be among `known`.
static LogicalResult verifyNames(Operation *op, ArrayRef<AffineExpr> exprs,
                                 function_ref<bool(StringRef)> known, const Twine &what) {
  llvm::SetVector<StringRef> used;
  for (AffineExpr expr : exprs)
    collectSymbols(expr, used);
  LogicalResult result = success();
  for (StringRef name : used)
    if (!known(name))
      result = op->emitOpError() << what << " uses the unknown size '" << name << "'";
  return result;
}

LogicalResult SymbolOp::verify() {
  if (getMin() > getMax())
    return emitOpError() << "'" << getName() << "' from " << getMin() << " to " << getMax()
                         << " is not a range of sizes";
  return success();
}

LogicalResult VariantOp::verify() {
  if (getSymbol().empty())
    return emitOpError() << "has no symbol";
  if (getGrid().getExprs().empty() || getGrid().getExprs().size() > 3)
    return emitOpError() << "has a grid of " << getGrid().getExprs().size()
                         << " extents, one to three are possible";
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  auto known = [&](StringRef name) {
    return llvm::is_contained(kernel.getSizes().getAsValueRange<StringAttr>(), name);
  };
  LogicalResult result = verifyNames(*this, getGrid().getExprs(), known, "grid");
  if (getGuards())
    for (auto guard : getGuards()->getAsRange<GuardAttr>()) {
      if (!known(guard.getSize()))
        result = emitOpError() << "guards the unknown size " << guard.getSize();
      if (guard.getMin() > guard.getMax())
        result = emitOpError() << "has a guard that never holds: " << guard.getSize() << " from "
                               << guard.getMin() << " to " << guard.getMax();
    }
  return result;
}

LogicalResult program::KernelOp::verify() {
  llvm::StringSet<> sizes;
  for (StringRef size : getSizes().getAsValueRange<StringAttr>())
    if (!sizes.insert(size).second)
      return emitOpError() << "names the size '" << size << "' twice";
  VariantOp last;
  for (Operation &op : getBody().front()) {
    last = dyn_cast<VariantOp>(op);
    if (!last)
      return op.emitOpError() << "stands in a program.kernel, which holds variants only";
  }
  if (!last)
    return emitOpError() << "has no variant";
  if (last.getGuards() && !last.getGuards()->empty())
    return last.emitOpError() << "is the last but has guards, so that no variant may fit";
  return success();
}

LogicalResult StateOp::verify() {
  if (getBytesPerBlock() == 0 || getBytesPerBlock() % kAlignment)
    return emitOpError() << "has " << getBytesPerBlock()
                         << " bytes a block, not a positive multiple of " << kAlignment;
  return success();
}

LogicalResult FunctionOp::verify() {
  LogicalResult result = success();
  llvm::SmallSet<int64_t, 16> arguments;
  bool inSteps = false;
  for (Operation &op : getBody().front()) {
    if (!isa<BufferOpInterface>(op)) {
      inSteps = true;
      if (!isa<StepOpInterface>(op))
        result = op.emitOpError() << "is neither a buffer nor a step";
      continue;
    }
    if (inSteps)
      result = op.emitOpError() << "comes after steps: buffers come first";
    if (auto argument = dyn_cast<ArgumentOp>(op)) {
      if (argument.getNumber() >= getNumArguments())
        result = op.emitOpError() << "is argument " << argument.getNumber() << " of "
                                  << getNumArguments();
      else if (!arguments.insert(argument.getNumber()).second)
        result = op.emitOpError() << "is argument " << argument.getNumber() << " a second time";
    }
    if (auto arena = dyn_cast<ArenaOp>(op)) {
      int64_t end;
      if (arena.getOffset() % kAlignment)
        result = op.emitOpError() << "'" << arena.getName() << "' lies at " << arena.getOffset()
                                  << ", not a multiple of " << kAlignment;
      else if (llvm::AddOverflow<int64_t>(arena.getOffset(), arena.getBytes(), end) ||
               end > static_cast<int64_t>(getArenaBytes()))
        result = op.emitOpError() << "'" << arena.getName() << "': bytes " << arena.getOffset()
                                  << " + " << arena.getBytes() << " leave the function's arena of "
                                  << getArenaBytes();
    }
  }
  if (static_cast<int64_t>(arguments.size()) != static_cast<int64_t>(getNumArguments()))
    result = emitOpError() << "declares " << arguments.size() << " of its " << getNumArguments()
                           << " arguments";
  return result;
}

LogicalResult EntryOp::verify() {
  if (getKind() != "language_model" && getKind() != "graph")
    return emitOpError() << "has kind '" << getKind()
                         << "', neither \"language_model\" nor \"graph\"";
  if (getInputNames().size() != getInputs().size() ||
      getOutputNames().size() != getOutputs().size())
    return emitOpError() << "has ports without a name or without a buffer";
  if (getBlockTokens() == 0)
    return emitOpError() << "has " << getBlockTokens() << " tokens a block";
  return success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static LogicalResult verifyOneSize(Operation *op, DimsAttr bytes) {
  if (bytes.getExprs().size() != 1)
    return op->emitOpError() << "has " << bytes.getExprs().size() << " sizes instead of one";
  return success();
}

ArrayRef<AffineExpr> program::LaunchOp::getStepSizes() { return getSizes().getExprs(); }

LogicalResult CopyOp::verify() { return verifyOneSize(*this, getBytes()); }
std::optional<unsigned> CopyOp::getNumRead() { return 1; }
ArrayRef<AffineExpr> CopyOp::getStepSizes() { return getBytes().getExprs(); }

LogicalResult SendOp::verify() { return verifyOneSize(*this, getBytes()); }
std::optional<unsigned> SendOp::getNumRead() { return 1; }
ArrayRef<AffineExpr> SendOp::getStepSizes() { return getBytes().getExprs(); }

LogicalResult ReceiveOp::verify() { return verifyOneSize(*this, getBytes()); }
std::optional<unsigned> ReceiveOp::getNumRead() { return 0; }
ArrayRef<AffineExpr> ReceiveOp::getStepSizes() { return getBytes().getExprs(); }

LogicalResult CollectiveOp::verify() {
  if (getSizes().getExprs().size() != 2)
    return emitOpError() << "has " << getSizes().getExprs().size()
                         << " sizes instead of two, [outer, inner]";
  return success();
}
// One buffer for both ends is read and written.
std::optional<unsigned> CollectiveOp::getNumRead() { return 1; }
ArrayRef<AffineExpr> CollectiveOp::getStepSizes() { return getSizes().getExprs(); }

AffineExpr CollectiveOp::getPayloadBytes(int64_t ranks) {
  Type element = getDeclaration(getFrom()).getBufferType().getElementType();
  AffineExpr part = getSizes().getExprs()[0] * getSizes().getExprs()[1] *
                    int64_t(llvm::divideCeil(element.getIntOrFloatBitWidth(), 8));
  return getKind() == CollectiveKind::AllReduce ? part : part * ranks;
}

// In a ring all but one part passes each rank; of a sum twice, to be summed and to be known.
AffineExpr CollectiveOp::getWireBytes(int64_t ranks) {
  int64_t rounds = getKind() == CollectiveKind::AllReduce ? 2 : 1;
  return getPayloadBytes(ranks) * (rounds * (ranks - 1));
}

//===----------------------------------------------------------------------===//
// The whole program: what one operation says of another
//===----------------------------------------------------------------------===//

namespace {
class ModuleVerifier {
public:
  explicit ModuleVerifier(program::ModuleOp module) : module(module), table(module) {}

  LogicalResult run() {
    for (Operation &op : module.getBody().front()) {
      if (auto symbol = dyn_cast<SymbolOp>(op)) {
        if (!symbols.insert(symbol.getName()).second)
          fail(&op) << "declares '" << symbol.getName() << "' twice";
      } else if (!isa<program::KernelOp, StateOp, FunctionOp, EntryOp>(op)) {
        fail(&op) << "has no place in a program.module";
      }
    }
    for (auto function : module.getBody().getOps<FunctionOp>())
      for (Operation &op : function.getBody().front())
        check(function, op);
    for (auto entry : module.getBody().getOps<EntryOp>())
      check(entry);
    for (auto function : module.getBody().getOps<FunctionOp>())
      (void)measure(function);
    return result;
  }

private:
  InFlightDiagnostic fail(Operation *op) {
    result = failure();
    return op->emitOpError();
  }

  void checkSizes(Operation *op, ArrayRef<AffineExpr> exprs, const Twine &what) {
    if (failed(
            verifyNames(op, exprs, [&](StringRef name) { return symbols.contains(name); }, what)))
      result = failure();
  }

  void check(FunctionOp function, Operation &op) {
    if (auto buffer = dyn_cast<BufferOpInterface>(op)) {
      checkSizes(&op, getDims(buffer.getBufferType()), "type");
      if (auto plane = dyn_cast<PlaneOp>(op))
        if (!table.lookup<StateOp>(plane.getState()))
          fail(&op) << "names the unknown state @" << plane.getState();
      return;
    }
    if (auto step = dyn_cast<StepOpInterface>(op))
      checkSizes(&op, step.getStepSizes(), op.getName().stripDialect());
    if (auto launch = dyn_cast<program::LaunchOp>(op)) {
      auto kernel = table.lookup<program::KernelOp>(launch.getKernel());
      if (!kernel)
        fail(&op) << "launches the unknown kernel @" << launch.getKernel();
      else if (kernel.getSizes().size() != launch.getSizes().getExprs().size())
        fail(&op) << "passes " << launch.getSizes().getExprs().size() << " sizes, @"
                  << launch.getKernel() << " has " << kernel.getSizes().size();
    } else if (auto call = dyn_cast<program::CallOp>(op)) {
      check(function, call);
    } else if (auto collective = dyn_cast<CollectiveOp>(op)) {
      check(collective);
    } else if (isa<SendOp, ReceiveOp>(op)) {
      checkExchanged(&op);
    }
  }

  /// What goes to other ranks is an activation.
  void checkExchanged(Operation *op) {
    llvm::SmallSetVector<Value, 2> buffers(op->operand_begin(), op->operand_end());
    for (Value buffer : buffers)
      if (BufferOpInterface declared = getDeclaration(buffer); !isa<ArenaOp, ArgumentOp>(declared))
        fail(op) << "exchanges '" << declared.getBufferName()
                 << "', which is neither in the arena nor an argument";
  }

  void check(CollectiveOp op) {
    checkExchanged(op);
    BufferOpInterface from = getDeclaration(op.getFrom()), to = getDeclaration(op.getTo());
    Type element = from.getBufferType().getElementType();
    if (to.getBufferType().getElementType() != element)
      fail(op) << "goes from '" << from.getBufferName() << "' of " << element << " to '"
               << to.getBufferName() << "' of " << to.getBufferType().getElementType();
    if (!element.isF32() && !element.isBF16() && !element.isF16() && !element.isSignlessInteger(32))
      fail(op) << "is of " << element << "; possible are f32, bf16, f16 and i32";
    if (from == to && op.getKind() != CollectiveKind::AllReduce)
      fail(op) << "has '" << from.getBufferName() << "' for both ends";
    std::string coordinate = AdaptDialect::getCoordinate(op.getAxis());
    if (!symbols.contains(coordinate))
      fail(op) << "goes over '" << op.getAxis() << "', but the program has no symbol '"
               << coordinate << "', which says how many ranks take part";
    llvm::SetVector<StringRef> used;
    for (AffineExpr size : op.getSizes().getExprs())
      collectSymbols(size, used);
    if (used.contains(coordinate))
      fail(op) << "has sizes that are not the same on all ranks: " << op.getSizes();
  }

  void check(FunctionOp function, program::CallOp call) {
    auto callee = table.lookup<FunctionOp>(call.getCallee());
    if (!callee) {
      fail(call) << "calls the unknown function @" << call.getCallee();
      return;
    }
    for (StringRef index : callee.getIndices().getAsValueRange<StringAttr>())
      if (!isa_and_nonnull<IntegerAttr>(call.getIndices().get(index)))
        fail(call) << "does not bind the index '" << index << "' of @" << call.getCallee();
    for (NamedAttribute binding : call.getIndices())
      if (!llvm::is_contained(callee.getIndices().getAsValueRange<StringAttr>(),
                              binding.getName().getValue()))
        fail(call) << "binds '" << binding.getName().getValue() << "', which is no index of @"
                   << call.getCallee();
    int64_t end;
    int64_t offset = call.getArenaOffset();
    if (offset % kAlignment)
      fail(call) << "gives the callee the arena at " << offset << ", not a multiple of "
                 << kAlignment;
    else if (llvm::AddOverflow<int64_t>(offset, callee.getArenaBytes(), end) ||
             end > static_cast<int64_t>(function.getArenaBytes()))
      fail(call) << "gives the callee the bytes " << offset << " + " << callee.getArenaBytes()
                 << " of an arena of " << function.getArenaBytes();
    if (call.getBuffers().size() != callee.getNumArguments()) {
      fail(call) << "passes " << call.getBuffers().size() << " buffers, @" << call.getCallee()
                 << " has " << callee.getNumArguments() << " arguments";
      return;
    }
    for (auto argument : callee.getBody().getOps<ArgumentOp>()) {
      if (argument.getNumber() >= call.getBuffers().size())
        continue; // The function's verifier says so.
      BufferOpInterface bound = getDeclaration(call.getBuffers()[argument.getNumber()]);
      auto expected = cast<RankedTensorType>(argument.getType());
      if (bound.getBufferType() != expected)
        fail(call) << "passes '" << bound.getBufferName() << "' of type " << bound.getBufferType()
                   << " as '" << argument.getName() << "' of type " << expected;
    }
  }

  /// What a function is with all calls expanded, as the runtime does.
  struct Extent {
    int64_t steps = 0; ///< kMaxSteps + 1 for any number above
    int64_t depth = 1; ///< of calls
  };

  /// The extent of a function; nullopt, after reporting, for one that the runtime would refuse.
  std::optional<Extent> measure(FunctionOp function, int64_t depth = 1) {
    auto [it, isNew] = extents.try_emplace(function, std::nullopt);
    if (!isNew) {
      if (!it->second && open.contains(function))
        fail(function) << "@" << function.getSymName() << " calls itself";
      return it->second;
    }
    if (depth > kMaxDepth)
      return Extent{0, kMaxDepth + 1}; // Whoever is outermost says so.
    open.insert(function);
    Extent extent;
    bool isKnown = true;
    for (Operation &op : function.getBody().front()) {
      extent.steps += isa<StepOpInterface>(op);
      auto call = dyn_cast<program::CallOp>(op);
      auto callee = call ? table.lookup<FunctionOp>(call.getCallee()) : FunctionOp();
      if (!callee)
        continue;
      std::optional<Extent> inner = measure(callee, depth + 1);
      isKnown &= inner.has_value();
      extent.depth = std::max(extent.depth, inner ? 1 + inner->depth : 1);
      extent.steps = std::min(extent.steps + (inner ? inner->steps : 0), kMaxSteps + 1);
    }
    open.erase(function);
    if (isKnown && extent.steps > kMaxSteps)
      fail(function) << "@" << function.getSymName() << " expands to more than " << kMaxSteps
                     << " steps";
    if (depth == 1 && extent.depth > kMaxDepth)
      fail(function) << "@" << function.getSymName() << " nests calls more than " << kMaxDepth
                     << " deep";
    if (!isKnown || extent.steps > kMaxSteps)
      return std::nullopt;
    if (extent.depth <= kMaxDepth)
      extents[function] = extent;
    return extent;
  }

  void check(EntryOp entry) {
    auto function = table.lookup<FunctionOp>(entry.getFunction());
    if (!function) {
      fail(entry) << "'" << entry.getName() << "' is the unknown function @" << entry.getFunction();
      return;
    }
    if (!function.getIndices().empty() || function.getNumArguments() != 0)
      fail(entry) << "'" << entry.getName() << "' is @" << entry.getFunction()
                  << ", which has indices or arguments that nobody binds";
    if (function.getArenaBytes() > module.getArenaBytes())
      fail(entry) << "'" << entry.getName() << "' needs an arena of " << function.getArenaBytes()
                  << " bytes, the program has " << module.getArenaBytes();
    int64_t count = function.getBuffers().size();
    for (ArrayRef<int64_t> ports : {entry.getInputs(), entry.getOutputs()})
      for (int64_t port : ports)
        if (port < 0 || port >= count)
          fail(entry) << "'" << entry.getName() << "' names buffer " << port << " of " << count;
  }

  // As the runtime's Program::kMaxFlatSteps and kMaxCallDepth.
  static constexpr int64_t kMaxSteps = int64_t(1) << 22, kMaxDepth = 64;

  program::ModuleOp module;
  mlir::SymbolTable table;
  llvm::StringSet<> symbols;
  llvm::DenseMap<Operation *, std::optional<Extent>> extents;
  llvm::DenseSet<Operation *> open; ///< functions that are being measured
  LogicalResult result = success();
};
} // namespace

LogicalResult program::ModuleOp::verifyRegions() { return ModuleVerifier(*this).run(); }
