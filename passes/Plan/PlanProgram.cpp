#include "adapt/CodeGen/KernelGenerator.h"
#include "dialects/Program/Export.h"
#include "passes/Common/SizeBounds.h"
#include "passes/Common/Structure.h"
#include "passes/Common/TargetInfo.h"
#include "passes/Plan/ArenaLayout.h"
#include "passes/Plan/Passes.h"
#include "llvm/ADT/StringSet.h"
#include <limits>

namespace adapt {
#define GEN_PASS_DEF_PLANPROGRAM
#include "passes/Plan/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;
using program::kAlignment;

namespace {
/// One variant without guards and one work item, where no code generator is linked.
class OneVariant : public KernelGenerator {
public:
  FailureOr<SmallVector<KernelVariant>> getVariants(KernelOp kernel) override {
    KernelVariant variant;
    variant.symbol = kernel.getSymName().str();
    variant.grid.push_back(getAffineConstantExpr(1, kernel.getContext()));
    return SmallVector<KernelVariant>{variant};
  }
  FailureOr<std::string> compile(ModuleOp module) override {
    return module.emitError("no code generator is linked into this tool");
  }
};

/// A buffer of a function that is being planned.
struct Buffer {
  enum Kind { Argument, Arena, Weight, Plane };
  Buffer(Kind kind, std::string name, RankedTensorType type)
      : kind(kind), name(std::move(name)), type(type) {}

  Kind kind;
  std::string name;
  RankedTensorType type;
  int64_t bytes = 0;  ///< upper bound; 0 for weights and state
  int64_t number = 0; ///< Argument: which
  std::string state;  ///< Plane: the program's state
  /// Steps that mention it; the whole program for ports of an entry.
  int64_t firstStep = std::numeric_limits<int64_t>::max();
  int64_t lastStep = -1;
  int64_t offset = 0; ///< Arena
};

struct Step {
  Operation *op;                 ///< LaunchOp, CallOp, or null for a copy
  SmallVector<unsigned> buffers; ///< Copy: from, to
  int64_t arenaOffset = 0;       ///< Call
};

constexpr int64_t kForever = std::numeric_limits<int64_t>::max() - 1;

constexpr StringLiteral kLanguageModel = "language_model";
constexpr StringRef kInputNames[] = {"token_ids", "positions",   "seq_starts",
                                     "kv_lens",   "block_table", "logit_rows"};
constexpr StringRef kOutputNames[] = {"logits"};
/// An argument's or result's name for the user.
constexpr StringLiteral kPortName = "adapt.name";

/// "language_model" or "graph": the attribute `adapt.entry`, else by whether there is paged state.
StringRef getEntryKind(func::FuncOp function) {
  if (auto kind = function->getAttrOfType<StringAttr>("adapt.entry"))
    return kind.getValue();
  return llvm::any_of(function.getArgumentTypes(), llvm::IsaPred<PagedType>) ? kLanguageModel
                                                                             : "graph";
}

/// What all functions share.
struct Plan {
  program::ModuleOp program;
  const SizeBounds &bounds;
  llvm::StringMap<int64_t> arenaBytes; ///< of functions planned so far
};

/// The suffix of a plane's name.
std::string getPlaneName(unsigned plane, unsigned count) {
  return count == 2 ? (plane == 0 ? "k" : "v") : std::to_string(plane);
}

class FunctionPlanner {
public:
  FunctionPlanner(Plan &plan, func::FuncOp function, bool isEntry)
      : plan(plan), function(function), isEntry(isEntry) {}

  LogicalResult run() {
    if (!llvm::hasSingleElement(function.getBody()) ||
        !isa<func::ReturnOp>(function.getBody().front().getTerminator()))
      return function.emitOpError()
             << "@" << function.getSymName() << " is not one block that ends in func.return";
    addArguments();
    addResults();
    for (Operation &op : function.getBody().front())
      addStep(&op);
    if (isEntry && getEntryKind(function) == kLanguageModel &&
        (inputs.size() != std::size(kInputNames) || outputs.size() != std::size(kOutputNames)))
      fail(function) << "is a language model with " << inputs.size() << " inputs and "
                     << outputs.size() << " outputs instead of " << std::size(kInputNames)
                     << " and " << std::size(kOutputNames);
    if (failed(result) || failed(layOut()))
      return failure();
    build();
    return success();
  }

  /// Of an entry: the buffers of its tensor arguments and results.
  SmallVector<unsigned> inputs, outputs;
  StringRef getBufferName(unsigned index) const { return buffers[index].name; }
  /// Of an entry: its states, by argument, one name a plane.
  SmallVector<std::pair<std::string, RankedTensorType>> states;

private:
  InFlightDiagnostic fail(Operation *op) {
    result = failure();
    return op->emitOpError() << "in @" << function.getSymName() << ' ';
  }

  unsigned addBuffer(Buffer buffer) {
    if (buffer.kind == Buffer::Arena || buffer.kind == Buffer::Argument) {
      std::optional<SizeBounds::Range> range = plan.bounds.getRange(getNumBytes(buffer.type));
      if (!range || range->max < 0)
        fail(function) << "'" << buffer.name << "' of type " << buffer.type
                       << " has no size at the bounds of " << SizeBounds::kAttribute
                       << ", or one of more than 2^63 bytes";
      else
        buffer.bytes = std::max<int64_t>(range->max, 1); // No bytes would say: of its owner's size.
    }
    buffers.push_back(std::move(buffer));
    return buffers.size() - 1;
  }

  /// A state is a buffer per plane.
  void addState(Value value, StringRef name, Buffer::Kind kind) {
    ArrayRef<RankedTensorType> planes = cast<PagedType>(value.getType()).getPlanes();
    for (auto [index, plane] : llvm::enumerate(planes)) {
      Buffer buffer(kind, (name + "." + getPlaneName(index, planes.size())).str(), plane);
      if (kind == Buffer::Plane)
        states.emplace_back(buffer.state = buffer.name, plane);
      else
        buffer.number = numArguments++;
      buffers.push_back(buffer);
      buffersOf[value].push_back(buffers.size() - 1);
    }
  }

  /// From the attribute `adapt.name` of the argument or result; for an entry of a language model as
  /// program.proto says.
  std::string getPortName(ArrayAttr attributes, unsigned index, StringRef otherwise,
                          ArrayRef<StringRef> fixed, unsigned port) {
    if (attributes)
      if (auto name = cast<DictionaryAttr>(attributes[index]).getAs<StringAttr>(kPortName))
        return name.str();
    if (isEntry && getEntryKind(function) == kLanguageModel && port < fixed.size())
      return fixed[port].str();
    return (otherwise + Twine(index)).str();
  }

  void addArguments() {
    ArrayAttr attributes = function.getArgAttrsAttr();
    for (BlockArgument argument : function.getArguments()) {
      std::string name =
          getPortName(attributes, argument.getArgNumber(), "arg", kInputNames, inputs.size());
      if (isa<PagedType>(argument.getType())) {
        if (isEntry)
          addState(argument, getStateName(argument, attributes), Buffer::Plane);
        else
          addState(argument, name, Buffer::Argument);
        continue;
      }
      unsigned index = addPort(name, argument.getType());
      buffersOf[argument].push_back(index);
      inputs.push_back(index);
    }
  }

  /// An entry's ports live in the arena all the time; a function's are bound by the call.
  unsigned addPort(std::string name, Type type) {
    Buffer buffer(isEntry ? Buffer::Arena : Buffer::Argument, std::move(name),
                  cast<RankedTensorType>(type));
    if (!isEntry)
      buffer.number = numArguments++;
    buffer.firstStep = -1;
    buffer.lastStep = kForever;
    return addBuffer(buffer);
  }

  /// "kv.7": the argument's `adapt.name`, or made from the indices of the call that takes it.
  std::string getStateName(BlockArgument argument, ArrayAttr attributes) {
    unsigned number = argument.getArgNumber();
    std::string name = "kv";
    auto call = argument.hasOneUse() ? dyn_cast<CallOp>(*argument.getUsers().begin()) : CallOp();
    auto attribute = attributes
                         ? cast<DictionaryAttr>(attributes[number]).getAs<StringAttr>(kPortName)
                         : StringAttr();
    if (attribute)
      name = attribute.str();
    else if (call)
      for (NamedAttribute index : call.getIndices())
        name += "." + std::to_string(cast<IntegerAttr>(index.getValue()).getInt());
    if (!stateNames.insert(name).second) {
      name += ".arg" + std::to_string(number);
      stateNames.insert(name);
    }
    return name;
  }

  /// A returned value is computed where the result goes, if that place is free; else copied there.
  void addResults() {
    auto yield = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    ArrayAttr attributes = function.getResAttrsAttr();
    for (OpOperand &operand : yield->getOpOperands()) {
      if (isa<PagedType>(operand.get().getType()))
        continue;
      unsigned port = addPort(getPortName(attributes, operand.getOperandNumber(), "result",
                                          kOutputNames, outputs.size()),
                              operand.get().getType());
      outputs.push_back(port);
      bool computed = isa_and_nonnull<LaunchOp, CallOp>(operand.get().getDefiningOp());
      if (computed && resultOf.try_emplace(operand.get(), port).second)
        continue;
      copies.emplace_back(operand.get(), port);
    }
  }

  void addStep(Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op)) {
      buffersOf[param.getResult()].push_back(addBuffer(
          Buffer(Buffer::Weight, param.getName().str(), cast<RankedTensorType>(param.getType()))));
    } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      buffersOf[reshape.getResult()] = SmallVector<unsigned>(buffersOf[reshape.getInput()]);
    } else if (isa<LaunchOp, CallOp>(op)) {
      Step step{op, {}};
      for (Value operand : op->getOperands())
        llvm::append_range(step.buffers, buffersOf[operand]);
      for (OpResult value : op->getResults()) {
        if (isa<PagedType>(value.getType())) {
          Value tied = cast<StateOpInterface>(op).getTiedOperand(value).get();
          buffersOf[value] = SmallVector<unsigned>(buffersOf[tied]);
          continue;
        }
        auto port = resultOf.find(value);
        unsigned index = port != resultOf.end()
                             ? port->second
                             : addBuffer(Buffer(Buffer::Arena, getTemporaryName(op, value),
                                                cast<RankedTensorType>(value.getType())));
        buffersOf[value].push_back(index);
        step.buffers.push_back(index);
      }
      addStep(std::move(step));
    } else if (auto yield = dyn_cast<func::ReturnOp>(op)) {
      if (failed(result))
        return; // What is returned may have no buffer.
      for (auto [value, port] : copies)
        addStep({nullptr, {buffersOf[value].front(), port}});
      checkStates(yield);
    } else {
      fail(op) << "is in no kernel: run the phase fuse before plan";
    }
  }

  void addStep(Step step) {
    for (unsigned index : step.buffers) {
      buffers[index].firstStep = std::min<int64_t>(buffers[index].firstStep, steps.size());
      buffers[index].lastStep = std::max<int64_t>(buffers[index].lastStep, steps.size());
    }
    steps.push_back(std::move(step));
  }

  std::string getTemporaryName(Operation *op, OpResult value) {
    StringRef name =
        isa<LaunchOp>(op) ? cast<LaunchOp>(op).getKernel() : cast<CallOp>(op).getCallee();
    std::string text = name.str();
    if (op->getNumResults() > 1)
      text += "." + std::to_string(value.getResultNumber());
    return text;
  }

  /// State is updated in place: a returned one must be the one that came in.
  void checkStates(func::ReturnOp yield) {
    auto isState = [](Value value) { return isa<PagedType>(value.getType()); };
    SmallVector<Value> in(llvm::make_filter_range(function.getArguments(), isState));
    SmallVector<Value> out(llvm::make_filter_range(yield.getOperands(), isState));
    if (in.size() != out.size()) {
      fail(yield) << "returns " << out.size() << " states, the function takes " << in.size();
      return;
    }
    for (auto [index, pair] : llvm::enumerate(llvm::zip_equal(in, out)))
      if (buffersOf[std::get<0>(pair)] != buffersOf[std::get<1>(pair)])
        fail(yield) << "returns as state " << index << " another than it took";
  }

  LogicalResult layOut() {
    SmallVector<ArenaRequest> requests;
    SmallVector<int64_t *> offsets;
    for (Buffer &buffer : buffers)
      if (buffer.kind == Buffer::Arena) {
        requests.push_back({buffer.bytes, buffer.firstStep, buffer.lastStep});
        offsets.push_back(&buffer.offset);
      }
    for (auto [index, step] : llvm::enumerate(steps))
      if (auto call = dyn_cast_or_null<CallOp>(step.op)) {
        int64_t at = index;
        requests.push_back({plan.arenaBytes.lookup(call.getCallee()), at, at});
        offsets.push_back(&step.arenaOffset);
      }
    std::optional<int64_t> bytes = layOutArena(requests, kAlignment);
    if (!bytes)
      return fail(function) << "needs an arena of more than 2^63 bytes";
    for (auto [request, offset] : llvm::zip_equal(requests, offsets))
      *offset = request.offset;
    arenaBytes = *bytes;
    plan.arenaBytes[function.getSymName()] = arenaBytes;
    return success();
  }

  void build() {
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.program.getBody().front());
    auto out = program::FunctionOp::create(
        builder, function.getLoc(), function.getSymName(),
        builder.getStrArrayAttr(getNames(function, AdaptDialect::kIndices)), numArguments,
        arenaBytes);
    builder.setInsertionPointToStart(&out.getBody().emplaceBlock());
    SmallVector<Value> values;
    for (const Buffer &buffer : buffers)
      values.push_back(buildBuffer(builder, buffer));
    for (const Step &step : steps) {
      SmallVector<Value> operands;
      for (unsigned index : step.buffers)
        operands.push_back(values[index]);
      if (auto launch = dyn_cast_or_null<LaunchOp>(step.op)) {
        program::LaunchOp::create(builder, launch.getLoc(), launch.getKernel(), operands,
                                  launch.getSizes());
      } else if (auto call = dyn_cast_or_null<CallOp>(step.op)) {
        program::CallOp::create(builder, call.getLoc(), call.getCallee(), operands,
                                call.getIndices(), step.arenaOffset);
      } else {
        AffineExpr bytes = getNumBytes(buffers[step.buffers[1]].type);
        program::CopyOp::create(builder, function.getLoc(), operands[0], operands[1],
                                DimsAttr::get(builder.getContext(), bytes));
      }
    }
  }

  Value buildBuffer(OpBuilder &builder, const Buffer &buffer) {
    Location loc = function.getLoc();
    auto result = program::BufferType::get(builder.getContext());
    switch (buffer.kind) {
    case Buffer::Argument:
      return program::ArgumentOp::create(builder, loc, result, buffer.number, buffer.name,
                                         buffer.bytes, buffer.type);
    case Buffer::Arena:
      return program::ArenaOp::create(builder, loc, result, buffer.name, buffer.offset,
                                      buffer.bytes, buffer.type);
    case Buffer::Weight:
      return program::WeightOp::create(builder, loc, result, buffer.name, buffer.type);
    case Buffer::Plane:
      return program::PlaneOp::create(builder, loc, result, buffer.state, buffer.type);
    }
    llvm_unreachable("a buffer has one of four kinds");
  }

  Plan &plan;
  func::FuncOp function;
  bool isEntry;
  SmallVector<Buffer> buffers;
  SmallVector<Step> steps;
  llvm::DenseMap<Value, SmallVector<unsigned>> buffersOf;
  llvm::DenseMap<Value, unsigned> resultOf;       ///< port of a returned value
  SmallVector<std::pair<Value, unsigned>> copies; ///< at the end: value to port
  llvm::StringSet<> stateNames;
  int64_t numArguments = 0;
  int64_t arenaBytes = 0;
  LogicalResult result = success();
};

struct PlanProgram : adapt::impl::PlanProgramBase<PlanProgram> {
  using Base::Base;
  explicit PlanProgram(KernelGenerator *generator) : generator(generator) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<TargetInfo> target = TargetInfo::get(module);
    FailureOr<SizeBounds> bounds = SizeBounds::get(module);
    FailureOr<SmallVector<func::FuncOp>> functions = getCalleesFirst(module);
    if (failed(target) || failed(bounds) || failed(functions))
      return signalPassFailure();
    SmallVector<func::FuncOp> entries = getEntries(module);
    if (entries.empty()) {
      module.emitError("the module has no entry point: no public function that nobody calls");
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto program = program::ModuleOp::create(builder, module.getLoc(), /*arena_bytes=*/0);
    program.getBody().emplaceBlock();
    Plan plan{program, *bounds, {}};
    if (failed(addSymbols(plan)) || failed(addKernels(plan)))
      return signalPassFailure();

    int64_t arenaBytes = 0;
    for (func::FuncOp function : *functions) {
      bool isEntry = llvm::is_contained(entries, function);
      FunctionPlanner planner(plan, function, isEntry);
      if (failed(planner.run())) {
        signalPassFailure();
        continue;
      }
      if (!isEntry)
        continue;
      arenaBytes = std::max(arenaBytes, plan.arenaBytes[function.getSymName()]);
      addEntry(plan, function, planner, target->blockTokens);
    }
    program.setArenaBytes(arenaBytes);
  }

  LogicalResult addSymbols(Plan &plan) {
    llvm::SetVector<StringRef> symbols;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (StringRef symbol : getNames(function, AdaptDialect::kSymbols))
        symbols.insert(symbol);
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.program.getBody().front());
    SmallVector<StringRef> missing;
    for (StringRef symbol : symbols) {
      const SizeBounds::Range *range = plan.bounds.find(symbol);
      if (range)
        program::SymbolOp::create(builder, plan.program.getLoc(), symbol, range->min, range->max);
      else
        missing.push_back(symbol);
    }
    if (missing.empty())
      return success();
    InFlightDiagnostic error = getOperation().emitError()
                               << SizeBounds::kAttribute << " gives no bounds of:";
    for (StringRef symbol : missing)
      error << " " << symbol;
    return error;
  }

  LogicalResult addKernels(Plan &plan) {
    OneVariant oneVariant;
    KernelGenerator &source = generator ? *generator : oneVariant;
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.program.getBody().front());
    LogicalResult result = success();
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      FailureOr<SmallVector<KernelVariant>> variants = source.getVariants(kernel);
      if (failed(variants)) {
        result = failure();
        continue;
      }
      auto out = program::KernelOp::create(builder, kernel.getLoc(), kernel.getSymName(),
                                           builder.getStrArrayAttr(kernel.getSymbols()));
      OpBuilder inner = OpBuilder::atBlockBegin(&out.getBody().emplaceBlock());
      for (const KernelVariant &variant : *variants) {
        SmallVector<Attribute> guards;
        for (const KernelVariant::Guard &guard : variant.guards)
          guards.push_back(program::GuardAttr::get(
              builder.getContext(), builder.getStringAttr(guard.size), guard.min, guard.max));
        program::VariantOp::create(inner, kernel.getLoc(), variant.symbol,
                                   guards.empty() ? ArrayAttr() : builder.getArrayAttr(guards),
                                   DimsAttr::get(builder.getContext(), variant.grid),
                                   variant.scratchBytes);
      }
    }
    return result;
  }

  void addEntry(Plan &plan, func::FuncOp function, const FunctionPlanner &planner,
                int64_t blockTokens) {
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.program.getBody().front());
    Location loc = function.getLoc();
    // States stand before the functions.
    builder.setInsertionPoint(*plan.program.getBody().getOps<program::FunctionOp>().begin());
    for (const auto &[name, type] : planner.states) {
      int64_t bytes = type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
      if (llvm::MulOverflow(bytes, blockTokens, bytes) ||
          bytes > std::numeric_limits<int64_t>::max() - kAlignment) {
        function.emitOpError() << "a block of " << name << " takes more than 2^63 bytes";
        return signalPassFailure();
      }
      program::StateOp::create(builder, loc, name, type,
                               static_cast<int64_t>(llvm::alignTo(bytes, kAlignment)));
    }
    builder.setInsertionPointToEnd(&plan.program.getBody().front());
    auto addPorts = [&](ArrayRef<unsigned> ports, SmallVector<StringRef> &names,
                        SmallVector<int64_t> &buffers) {
      for (unsigned port : ports) {
        names.push_back(planner.getBufferName(port));
        buffers.push_back(port);
      }
    };
    SmallVector<StringRef> inputNames, outputNames;
    SmallVector<int64_t> inputs, outputs;
    addPorts(planner.inputs, inputNames, inputs);
    addPorts(planner.outputs, outputNames, outputs);
    program::EntryOp::create(builder, loc, function.getSymName(), function.getSymName(),
                             getEntryKind(function), builder.getStrArrayAttr(inputNames), inputs,
                             builder.getStrArrayAttr(outputNames), outputs, blockTokens);
  }

  KernelGenerator *generator = nullptr;
};
} // namespace

std::unique_ptr<Pass> adapt::createPlanProgram(KernelGenerator *generator) {
  return std::make_unique<PlanProgram>(generator);
}
