#include "adapt/Interpreter/PlannedProgram.h"

#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/Collectives.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace adapt::interp {

/// Calls nest this deep at most.
static constexpr size_t kMaxFrames = 64;

PlannedProgram::PlannedProgram(ArrayRef<program::ModuleOp> programs, Interpreter &interpreter)
    : interpreter(interpreter), contexts(interpreter.getNumRanks()) {
  for (program::ModuleOp program : programs)
    stages.push_back({program, {}});
  for (EvalContext &context : contexts) {
    context.mode = interpreter.getOptions().mode;
    context.maxElements = interpreter.getOptions().maxElements;
  }
  stages.front().program->getParentOp()->walk(
      [&](ParamOp param) { params.try_emplace(param.getName(), param.getOperation()); });
}

SmallVector<program::ModuleOp> PlannedProgram::find(ModuleOp module) {
  SmallVector<program::ModuleOp> programs(module.getOps<program::ModuleOp>());
  for (auto [number, program] : llvm::enumerate(programs))
    if (programs.size() > 1 && program.getStage() != number)
      return {};
  return programs;
}

program::EntryOp PlannedProgram::lookup(Stage &stage, StringRef name) {
  for (auto entry : stage.program.getOps<program::EntryOp>())
    if (entry.getName() == name)
      return entry;
  return {};
}

program::EntryOp PlannedProgram::lookup(StringRef name) { return lookup(stages.front(), name); }

LogicalResult PlannedProgram::createStates(int64_t blocks) {
  for (Stage &stage : stages)
    for (auto op : stage.program.getOps<program::StateOp>()) {
      auto plane = cast<RankedTensorType>(op.getType());
      FailureOr<State> state =
          interpreter.makeState(op, PagedType::get(op.getContext(), {plane}), blocks);
      if (failed(state))
        return failure();
      stage.states[op.getSymName()] = {
          op.getSymName().str(), RankTensors(contexts.size(), state->planes[0]), {}, 0, 0, false};
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

FailureOr<PlannedProgram::RankTensors> PlannedProgram::read(Operation *op, const Storage &storage) {
  if (storage.contents)
    return *storage.contents;
  if (storage.overwrittenBy.empty())
    return op->emitOpError("reads buffer '") << storage.name << "', which nothing was written to";
  return op->emitOpError("reads buffer '")
         << storage.name << "', whose memory was written to as '" << storage.overwrittenBy << "'";
}

LogicalResult PlannedProgram::write(Operation *op, Storage &storage, RankTensors tensors) {
  if (storage.readOnly)
    return op->emitOpError("writes to '") << storage.name << "', which is a weight";
  for (Frame &frame : frames)
    for (Storage &other : frame.owned)
      if (&other != &storage && other.begin < storage.end && storage.begin < other.end) {
        other.contents.reset();
        other.overwrittenBy = storage.name;
      }
  storage.contents = std::move(tensors);
  storage.overwrittenBy.clear();
  return success();
}

PlannedProgram::Frame *PlannedProgram::enter(program::FunctionOp function) {
  frames.emplace_back();
  frames.back().function = function;
  return &frames.back();
}

void PlannedProgram::leave() { frames.pop_back(); }

LogicalResult PlannedProgram::bindBuffers(Frame &frame, ArrayRef<Storage *> arguments) {
  int64_t arena = frame.function.getArenaBytes();
  for (Operation &op : frame.function.getBody().front()) {
    auto buffer = dyn_cast<program::BufferOpInterface>(op);
    if (!buffer)
      continue;
    std::string name = (frame.function.getSymName() + "/" + buffer.getBufferName()).str();
    Storage *storage = nullptr;
    if (auto argument = dyn_cast<program::ArgumentOp>(op)) {
      if (argument.getNumber() >= arguments.size())
        return op.emitOpError("is argument ")
               << argument.getNumber() << " of a call with " << arguments.size();
      storage = arguments[argument.getNumber()];
      if (storage->end > storage->begin &&
          int64_t(argument.getBytes()) > storage->end - storage->begin)
        return op.emitOpError("needs ")
               << argument.getBytes() << " bytes, but buffer '" << storage->name << "' has "
               << storage->end - storage->begin;
    } else if (auto plane = dyn_cast<program::PlaneOp>(op)) {
      auto state = stage->states.find(plane.getState());
      if (state == stage->states.end())
        return op.emitOpError("is a plane of @") << plane.getState() << ", which does not exist";
      storage = &state->second;
    } else if (auto weight = dyn_cast<program::WeightOp>(op)) {
      Operation *param = params.lookup(weight.getName());
      if (!param || param->getResult(0).getType() != weight.getType())
        return op.emitOpError("is no adapt.param of this name and type in the module");
      RankTensors tensors;
      for (unsigned rank = 0; rank < contexts.size(); ++rank) {
        FailureOr<Value> value = interpreter.evaluateParam(param, frame.indices, rank);
        if (failed(value))
          return failure();
        tensors.push_back(value->tensor());
      }
      frame.owned.push_back({name, std::move(tensors), {}, 0, 0, true});
      storage = &frame.owned.back();
    } else if (auto place = dyn_cast<program::ArenaOp>(op)) {
      int64_t offset = place.getOffset(), bytes = place.getBytes();
      if (offset < 0 || bytes < 0 || offset > arena || bytes > arena - offset)
        return op.emitOpError("lies at ")
               << offset << " with " << bytes << " bytes, in an arena of " << arena;
      std::optional<int64_t> needed = getSize(getNumBytes(buffer.getBufferType()));
      if (!needed || *needed > bytes)
        return op.emitOpError("needs ")
               << (needed ? std::to_string(*needed) : "unknown") << " bytes, but has " << bytes;
      offset += frame.arenaOffset;
      frame.owned.push_back({name, std::nullopt, {}, offset, offset + bytes, false});
      storage = &frame.owned.back();
    } else {
      return op.emitOpError("is no kind of buffer that can be interpreted");
    }
    frame.buffers[op.getResult(0)] = storage;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

LogicalResult PlannedProgram::runSteps(Frame &frame) {
  for (Operation &op : frame.function.getBody().front()) {
    if (isa<program::BufferOpInterface>(op))
      continue;
    LogicalResult done =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case([&](program::LaunchOp step) { return launch(step, frame); })
            .Case([&](program::CallOp step) { return call(step, frame); })
            .Case([&](program::CopyOp step) { return copy(step, frame); })
            .Case([&](program::CollectiveOp step) { return collective(step, frame); })
            .Case([&](program::SendOp step) { return send(step, frame); })
            .Case([&](program::ReceiveOp step) { return receive(step, frame); })
            .Default([](Operation *step) { return step->emitOpError("cannot be interpreted"); });
    if (failed(done))
      return failure();
  }
  return success();
}

/// A buffer under another shape of as many elements: reshapes cost nothing in a program.
static FailureOr<Tensor> viewAs(Operation *op, const EvalContext &sizes, const Tensor &tensor,
                                Type type) {
  FailureOr<SmallVector<int64_t>> shape = sizes.getShape(op, type);
  if (failed(shape))
    return failure();
  Tensor view = tensor.withShape(*shape);
  if (view.getNumElements() != tensor.getNumElements() ||
      tensor.getElementType() != cast<RankedTensorType>(type).getElementType())
    return op->emitOpError("takes ")
           << RankedTensorType::get(tensor.getShape(), tensor.getElementType())
           << " for what has type " << type;
  return view;
}

FailureOr<PlannedProgram::RankTensors> PlannedProgram::readAs(Operation *op, const Storage &storage,
                                                              Type type) {
  FailureOr<RankTensors> tensors = read(op, storage);
  if (failed(tensors))
    return failure();
  for (auto [tensor, context] : llvm::zip_equal(*tensors, contexts)) {
    FailureOr<Tensor> view = viewAs(op, context, tensor, type);
    if (failed(view))
      return failure();
    tensor = std::move(*view);
  }
  return tensors;
}

LogicalResult PlannedProgram::launch(program::LaunchOp op, Frame &frame) {
  auto kernel = dyn_cast_or_null<KernelOp>(interpreter.lookup(op.getKernel()).getOperation());
  if (!kernel)
    return op.emitOpError("launches @") << op.getKernel() << ", which is not an adapt.kernel";
  std::vector<EvalContext> sizes = contexts; // by the kernel's names
  std::vector<Bindings> symbols;
  for (auto [context, own] : llvm::zip_equal(contexts, sizes)) {
    own.symbols.clear();
    for (auto [name, size] : llvm::zip(kernel.getSymbols(), op.getSizes().getExprs())) {
      std::optional<int64_t> value = context.getSize(size);
      if (!value)
        return op.emitOpError("cannot be run: size ") << toString(size) << " is not known";
      own.symbols[name] = *value;
    }
    symbols.push_back(own.symbols);
  }
  // Inputs, a state as its planes, then outputs that are not state.
  SmallVector<Storage *> buffers;
  for (mlir::Value buffer : op.getBuffers())
    buffers.push_back(frame.buffers.lookup(buffer));
  size_t needed = llvm::count_if(kernel.getResultTypes(), llvm::IsaPred<RankedTensorType>);
  for (Type type : kernel.getArgumentTypes()) {
    auto state = dyn_cast<PagedType>(type);
    needed += state ? state.getPlanes().size() : 1;
  }
  if (buffers.size() != needed)
    return op.emitOpError("passes ")
           << buffers.size() << " buffers, @" << op.getKernel() << " takes " << needed;
  size_t place = 0;
  std::vector<SmallVector<Value>> arguments(contexts.size());
  SmallVector<SmallVector<Storage *>> planes;
  for (Type type : kernel.getArgumentTypes()) {
    planes.emplace_back();
    auto paged = dyn_cast<PagedType>(type);
    std::vector<State> states(contexts.size());
    for (size_t i = 0, n = paged ? paged.getPlanes().size() : 1; i < n; ++i) {
      planes.back().push_back(buffers[place]);
      FailureOr<RankTensors> tensors = read(op, *buffers[place++]);
      if (failed(tensors))
        return failure();
      for (auto [state, tensor] : llvm::zip_equal(states, *tensors))
        state.planes.push_back(std::move(tensor));
    }
    for (auto [rank, state] : llvm::enumerate(states)) {
      if (paged) {
        arguments[rank].push_back(std::move(state));
        continue;
      }
      FailureOr<Tensor> view = viewAs(op, sizes[rank], state.planes[0], type);
      if (failed(view))
        return failure();
      arguments[rank].push_back(std::move(*view));
    }
  }
  for (Storage *output : ArrayRef(buffers).drop_front(place))
    for (Storage *input : ArrayRef(buffers).take_front(place))
      if (input->begin < output->end && output->begin < input->end)
        return op.emitOpError("writes buffer '")
               << output->name << "' over its own input '" << input->name << "'";
  auto results = interpreter.runRanks(kernel, arguments, {}, symbols);
  if (failed(results))
    return failure();
  for (unsigned i = 0; i < kernel.getNumResults(); ++i) {
    if (!(*results)[0][i].isState()) {
      RankTensors tensors;
      for (SmallVector<Value> &ofRank : *results)
        tensors.push_back(std::move(ofRank[i].tensor()));
      if (failed(write(op, *buffers[place++], std::move(tensors))))
        return failure();
      continue;
    }
    BlockArgument argument = kernel.getTiedArgument(i);
    for (auto [number, plane] : llvm::enumerate(planes[argument.getArgNumber()])) {
      RankTensors tensors;
      for (SmallVector<Value> &ofRank : *results)
        tensors.push_back(std::move(ofRank[i].state().planes[number]));
      if (failed(write(op, *plane, std::move(tensors))))
        return failure();
    }
  }
  return success();
}

LogicalResult PlannedProgram::call(program::CallOp op, Frame &frame) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<program::FunctionOp>(op, op.getCalleeAttr());
  if (!callee)
    return op.emitOpError("calls @") << op.getCallee() << ", which is not a function";
  if (frames.size() == kMaxFrames)
    return op.emitOpError("cannot be run: calls nest more than ") << kMaxFrames << " deep";
  int64_t offset = op.getArenaOffset(), bytes = callee.getArenaBytes();
  int64_t arena = frame.function.getArenaBytes();
  if (offset < 0 || bytes < 0 || offset > arena || bytes > arena - offset)
    return op.emitOpError("puts ")
           << bytes << " bytes of the callee at " << offset << ", in an arena of " << arena;
  Frame *inner = enter(callee);
  llvm::scope_exit exit([&] { leave(); });
  inner->arenaOffset = frame.arenaOffset + offset;
  for (NamedAttribute index : op.getIndices())
    inner->indices[index.getName().getValue()] = cast<IntegerAttr>(index.getValue()).getInt();
  SmallVector<Storage *> arguments;
  for (mlir::Value buffer : op.getBuffers())
    arguments.push_back(frame.buffers.lookup(buffer));
  if (failed(bindBuffers(*inner, arguments)))
    return failure();
  return runSteps(*inner);
}

static RankedTensorType getType(mlir::Value buffer) {
  return cast<program::BufferOpInterface>(buffer.getDefiningOp()).getBufferType();
}

LogicalResult PlannedProgram::copy(program::CopyOp op, Frame &frame) {
  Storage &to = *frame.buffers.lookup(op.getTo());
  RankedTensorType target = getType(op.getTo());
  FailureOr<RankTensors> tensors = readAs(op, *frame.buffers.lookup(op.getFrom()), target);
  if (failed(tensors))
    return failure();
  if (getSize(op.getBytes().getExprs().front()) != getSize(getNumBytes(target)))
    return op.emitOpError("cannot be interpreted: it copies a part of a buffer");
  return write(op, to, std::move(*tensors));
}

//===----------------------------------------------------------------------===//
// Between ranks
//===----------------------------------------------------------------------===//

LogicalResult PlannedProgram::collective(program::CollectiveOp op, Frame &frame) {
  FailureOr<RankTensors> tensors = read(op, *frame.buffers.lookup(op.getFrom()));
  if (failed(tensors))
    return failure();
  std::optional<int64_t> outer = getSize(op.getSizes().getExprs()[0]);
  std::optional<int64_t> inner = getSize(op.getSizes().getExprs()[1]);
  int64_t ranks = contexts.size(), elements = 0;
  bool scatters = op.getKind() == program::CollectiveKind::ReduceScatter;
  if (!outer || !inner || *outer < 0 || *inner < 0 || llvm::MulOverflow(*outer, *inner, elements) ||
      (scatters && llvm::MulOverflow(elements, ranks, elements)) ||
      elements != tensors->front().getNumElements() || ranks < 2)
    return op.emitOpError("of ") << ranks << " ranks and sizes " << op.getSizes()
                                 << " cannot be run: each rank has "
                                 << tensors->front().getNumElements() << " elements";
  for (Tensor &tensor : *tensors)
    tensor = tensor.withShape({*outer, scatters ? *inner * ranks : *inner});
  Tensor whole = op.getKind() == program::CollectiveKind::AllGather
                     ? gatherRanks(*tensors, /*axis=*/1)
                     : combineRanks(contexts[0], ReduceKind::Sum, *tensors);
  if (contexts[0].mode == Mode::Typed || !whole.isFloat())
    whole.roundToElementType();
  for (auto [rank, tensor] : llvm::enumerate(*tensors)) {
    tensor = scatters ? takePart(whole, /*axis=*/1, rank, ranks) : whole;
    FailureOr<Tensor> view = viewAs(op, contexts[rank], tensor, getType(op.getTo()));
    if (failed(view))
      return failure();
    tensor = std::move(*view);
  }
  return write(op, *frame.buffers.lookup(op.getTo()), std::move(*tensors));
}

LogicalResult PlannedProgram::send(program::SendOp op, Frame &frame) {
  RankedTensorType type = getType(op.getBuffer());
  FailureOr<RankTensors> tensors = readAs(op, *frame.buffers.lookup(op.getBuffer()), type);
  if (failed(tensors))
    return failure();
  if (getSize(op.getBytes().getExprs().front()) != getSize(getNumBytes(type)))
    return op.emitOpError("cannot be interpreted: it sends a part of a buffer");
  sent[op.getTag()] = std::move(*tensors);
  return success();
}

LogicalResult PlannedProgram::receive(program::ReceiveOp op, Frame &frame) {
  auto it = sent.find(op.getTag());
  if (it == sent.end())
    return op.emitOpError("waits for tag ") << op.getTag() << ", which no earlier stage has sent";
  RankTensors tensors = std::move(it->second);
  sent.erase(it);
  for (auto [tensor, context] : llvm::zip_equal(tensors, contexts)) {
    FailureOr<Tensor> view = viewAs(op, context, tensor, getType(op.getBuffer()));
    if (failed(view))
      return failure();
    tensor = std::move(*view);
  }
  return write(op, *frame.buffers.lookup(op.getBuffer()), std::move(tensors));
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

SmallVector<Type> PlannedProgram::getInputTypes(program::EntryOp entry) {
  auto function =
      SymbolTable::lookupNearestSymbolFrom<program::FunctionOp>(entry, entry.getFunctionAttr());
  SmallVector<mlir::Value> buffers = function.getBuffers();
  SmallVector<Type> types;
  for (int64_t input : entry.getInputs())
    types.push_back(getType(buffers[input]));
  return types;
}

SmallVector<StringRef> PlannedProgram::getOutputNames(program::EntryOp entry) {
  SmallVector<StringRef> names;
  for (Stage &stage : stages)
    if (program::EntryOp own = lookup(stage, entry.getName()))
      llvm::append_range(names, own.getOutputNames().getAsValueRange<StringAttr>());
  return names;
}

LogicalResult PlannedProgram::bindSizes(program::EntryOp entry, ArrayRef<Value> inputs) {
  LogicalResult result = success();
  for (auto [rank, context] : llvm::enumerate(contexts)) {
    context.symbols.clear();
    if (contexts.size() > 1)
      context.symbols[AdaptDialect::getCoordinate("tp")] = rank;
    if (failed(bindSymbols(entry, getInputTypes(entry), inputs, context)))
      return failure();
    for (auto symbol : stage->program.getOps<program::SymbolOp>()) {
      auto it = context.symbols.find(symbol.getName());
      if (it != context.symbols.end() &&
          (it->second < int64_t(symbol.getMin()) || it->second > int64_t(symbol.getMax())))
        result = entry.emitOpError("cannot be run: ")
                 << symbol.getName() << " is " << it->second << ", but the program was planned for "
                 << symbol.getMin() << " to " << symbol.getMax();
    }
    if (failed(result))
      return failure();
  }
  return success();
}

FailureOr<SmallVector<Value>> PlannedProgram::run(program::EntryOp entry, ArrayRef<Value> inputs) {
  SmallVector<Value> outputs;
  sent.clear();
  for (Stage &next : stages) {
    stage = &next;
    program::EntryOp own = lookup(next, entry.getName());
    if (!own)
      return entry.emitOpError("has no counterpart in stage ")
             << next.program.getStage().value_or(0);
    SmallVector<Value> values;
    for (Attribute name : own.getInputNames()) {
      auto place = llvm::find(entry.getInputNames(), name) - entry.getInputNames().begin();
      if (place == int64_t(inputs.size()))
        return own.emitOpError("has the input ") << name << ", which the first stage does not have";
      values.push_back(inputs[place]);
    }
    FailureOr<SmallVector<Value>> results = runStage(own, values);
    if (failed(results))
      return failure();
    llvm::append_range(outputs, *results);
  }
  return outputs;
}

FailureOr<SmallVector<Value>> PlannedProgram::runStage(program::EntryOp entry,
                                                       ArrayRef<Value> inputs) {
  auto function =
      SymbolTable::lookupNearestSymbolFrom<program::FunctionOp>(entry, entry.getFunctionAttr());
  int64_t arena = stage->program.getArenaBytes();
  if (int64_t(function.getArenaBytes()) > arena)
    return entry.emitOpError("needs an arena of ")
           << function.getArenaBytes() << " bytes, but the program has " << arena;
  if (failed(bindSizes(entry, inputs)))
    return failure();
  Frame *frame = enter(function);
  llvm::scope_exit exit([&] { leave(); });
  frame->arenaOffset = 0;
  if (failed(bindBuffers(*frame, {})))
    return failure();
  SmallVector<mlir::Value> buffers = function.getBuffers();
  for (auto [input, value] : llvm::zip_equal(entry.getInputs(), inputs))
    if (failed(write(entry, *frame->buffers.lookup(buffers[input]),
                     RankTensors(contexts.size(), value.tensor()))))
      return failure();
  if (failed(runSteps(*frame)))
    return failure();
  SmallVector<Value> outputs;
  for (int64_t output : entry.getOutputs()) {
    FailureOr<RankTensors> tensors =
        readAs(entry, *frame->buffers.lookup(buffers[output]), getType(buffers[output]));
    if (failed(tensors))
      return failure();
    for (auto [rank, tensor] : llvm::enumerate(*tensors))
      if (!haveSameElements(tensor, tensors->front()))
        return entry.emitOpError("output ")
               << outputs.size() << " on rank " << rank << " is another than on rank 0";
    outputs.push_back(std::move(tensors->front()));
  }
  return outputs;
}

} // namespace adapt::interp
