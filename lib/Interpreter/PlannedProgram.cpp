#include "adapt/Interpreter/PlannedProgram.h"

#include "adapt/Interpreter/Evaluation.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace adapt::interp {

/// Calls nest this deep at most.
static constexpr size_t kMaxFrames = 64;

PlannedProgram::PlannedProgram(program::ModuleOp program, Interpreter &interpreter)
    : program(program), interpreter(interpreter) {
  context.mode = interpreter.getOptions().mode;
  context.maxElements = interpreter.getOptions().maxElements;
  program->getParentOp()->walk(
      [&](ParamOp param) { params.try_emplace(param.getName(), param.getOperation()); });
}

program::ModuleOp PlannedProgram::find(ModuleOp module) {
  auto programs = llvm::to_vector(module.getOps<program::ModuleOp>());
  return programs.size() == 1 ? programs.front() : program::ModuleOp();
}

program::EntryOp PlannedProgram::lookup(StringRef name) {
  for (auto entry : program.getOps<program::EntryOp>())
    if (entry.getName() == name)
      return entry;
  return {};
}

LogicalResult PlannedProgram::createStates(int64_t blocks) {
  for (auto op : program.getOps<program::StateOp>()) {
    auto plane = cast<RankedTensorType>(op.getType());
    FailureOr<State> state =
        interpreter.makeState(op, PagedType::get(op.getContext(), {plane}), blocks);
    if (failed(state))
      return failure();
    states[op.getSymName()] = {op.getSymName().str(), std::move(state->planes[0]), {}, 0, 0, false};
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

FailureOr<Tensor> PlannedProgram::read(Operation *op, const Storage &storage) {
  if (storage.contents)
    return *storage.contents;
  if (storage.overwrittenBy.empty())
    return op->emitOpError("reads buffer '") << storage.name << "', which nothing was written to";
  return op->emitOpError("reads buffer '")
         << storage.name << "', whose memory was written to as '" << storage.overwrittenBy << "'";
}

LogicalResult PlannedProgram::write(Operation *op, Storage &storage, Tensor tensor) {
  if (storage.readOnly)
    return op->emitOpError("writes to '") << storage.name << "', which is a weight";
  for (Frame &frame : frames)
    for (Storage &other : frame.owned)
      if (&other != &storage && other.begin < storage.end && storage.begin < other.end) {
        other.contents.reset();
        other.overwrittenBy = storage.name;
      }
  storage.contents = std::move(tensor);
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
      auto state = states.find(plane.getState());
      if (state == states.end())
        return op.emitOpError("is a plane of @") << plane.getState() << ", which does not exist";
      storage = &state->second;
    } else if (auto weight = dyn_cast<program::WeightOp>(op)) {
      Operation *param = params.lookup(weight.getName());
      if (!param || param->getResult(0).getType() != weight.getType())
        return op.emitOpError("is no adapt.param of this name and type in the module");
      FailureOr<Value> value = interpreter.evaluateParam(param, frame.indices);
      if (failed(value))
        return failure();
      frame.owned.push_back({name, value->tensor(), {}, 0, 0, true});
      storage = &frame.owned.back();
    } else if (auto place = dyn_cast<program::ArenaOp>(op)) {
      int64_t offset = place.getOffset(), bytes = place.getBytes();
      if (offset < 0 || bytes < 0 || offset > arena || bytes > arena - offset)
        return op.emitOpError("lies at ")
               << offset << " with " << bytes << " bytes, in an arena of " << arena;
      std::optional<int64_t> needed = context.getSize(getNumBytes(buffer.getBufferType()));
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

LogicalResult PlannedProgram::launch(program::LaunchOp op, Frame &frame) {
  auto kernel = dyn_cast_or_null<KernelOp>(interpreter.lookup(op.getKernel()).getOperation());
  if (!kernel)
    return op.emitOpError("launches @") << op.getKernel() << ", which is not an adapt.kernel";
  EvalContext sizes = context;
  sizes.symbols.clear();
  for (auto [name, size] : llvm::zip(kernel.getSymbols(), op.getSizes().getExprs())) {
    std::optional<int64_t> value = context.getSize(size);
    if (!value)
      return op.emitOpError("cannot be run: size ") << toString(size) << " is not known";
    sizes.symbols[name] = *value;
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
  SmallVector<Value> arguments;
  SmallVector<SmallVector<Storage *>> planes;
  for (Type type : kernel.getArgumentTypes()) {
    planes.emplace_back();
    auto paged = dyn_cast<PagedType>(type);
    State state;
    for (size_t i = 0, n = paged ? paged.getPlanes().size() : 1; i < n; ++i) {
      planes.back().push_back(buffers[place]);
      FailureOr<Tensor> tensor = read(op, *buffers[place++]);
      if (failed(tensor))
        return failure();
      state.planes.push_back(std::move(*tensor));
    }
    if (paged) {
      arguments.push_back(std::move(state));
      continue;
    }
    FailureOr<Tensor> view = viewAs(op, sizes, state.planes[0], type);
    if (failed(view))
      return failure();
    arguments.push_back(std::move(*view));
  }
  for (Storage *output : ArrayRef(buffers).drop_front(place))
    for (Storage *input : ArrayRef(buffers).take_front(place))
      if (input->begin < output->end && output->begin < input->end)
        return op.emitOpError("writes buffer '")
               << output->name << "' over its own input '" << input->name << "'";
  FailureOr<SmallVector<Value>> results = interpreter.run(kernel, arguments, {}, sizes.symbols);
  if (failed(results))
    return failure();
  for (auto [i, result] : llvm::enumerate(*results)) {
    if (!result.isState()) {
      if (failed(write(op, *buffers[place++], std::move(result.tensor()))))
        return failure();
      continue;
    }
    BlockArgument argument = kernel.getTiedArgument(i);
    for (auto [plane, tensor] :
         llvm::zip_equal(planes[argument.getArgNumber()], result.state().planes))
      if (failed(write(op, *plane, std::move(tensor))))
        return failure();
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

LogicalResult PlannedProgram::copy(program::CopyOp op, Frame &frame) {
  Storage &to = *frame.buffers.lookup(op.getTo());
  FailureOr<Tensor> tensor = read(op, *frame.buffers.lookup(op.getFrom()));
  if (failed(tensor))
    return failure();
  auto target = cast<program::BufferOpInterface>(op.getTo().getDefiningOp()).getBufferType();
  FailureOr<Tensor> view = viewAs(op, context, *tensor, target);
  if (failed(view))
    return failure();
  std::optional<int64_t> bytes = context.getSize(op.getBytes().getExprs().front());
  if (bytes != context.getSize(getNumBytes(target)))
    return op.emitOpError("cannot be interpreted: it copies a part of a buffer");
  return write(op, to, std::move(*view));
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
    types.push_back(
        cast<program::BufferOpInterface>(buffers[input].getDefiningOp()).getBufferType());
  return types;
}

LogicalResult PlannedProgram::bindSizes(program::EntryOp entry, ArrayRef<Value> inputs) {
  context.symbols.clear();
  if (failed(bindSymbols(entry, getInputTypes(entry), inputs, context)))
    return failure();
  LogicalResult result = success();
  for (auto symbol : program.getOps<program::SymbolOp>()) {
    auto it = context.symbols.find(symbol.getName());
    if (it != context.symbols.end() &&
        (it->second < int64_t(symbol.getMin()) || it->second > int64_t(symbol.getMax())))
      result = entry.emitOpError("cannot be run: ")
               << symbol.getName() << " is " << it->second << ", but the program was planned for "
               << symbol.getMin() << " to " << symbol.getMax();
  }
  return result;
}

FailureOr<SmallVector<Value>> PlannedProgram::run(program::EntryOp entry, ArrayRef<Value> inputs) {
  auto function =
      SymbolTable::lookupNearestSymbolFrom<program::FunctionOp>(entry, entry.getFunctionAttr());
  if (function.getArenaBytes() > program.getArenaBytes())
    return entry.emitOpError("needs an arena of ")
           << function.getArenaBytes() << " bytes, but the program has " << program.getArenaBytes();
  if (failed(bindSizes(entry, inputs)))
    return failure();
  Frame *frame = enter(function);
  llvm::scope_exit exit([&] { leave(); });
  frame->arenaOffset = 0;
  if (failed(bindBuffers(*frame, {})))
    return failure();
  SmallVector<mlir::Value> buffers = function.getBuffers();
  for (auto [input, value] : llvm::zip_equal(entry.getInputs(), inputs))
    if (failed(write(entry, *frame->buffers.lookup(buffers[input]), value.tensor())))
      return failure();
  if (failed(runSteps(*frame)))
    return failure();
  SmallVector<Value> outputs;
  for (int64_t output : entry.getOutputs()) {
    auto buffer = cast<program::BufferOpInterface>(buffers[output].getDefiningOp());
    FailureOr<Tensor> tensor = read(entry, *frame->buffers.lookup(buffers[output]));
    if (failed(tensor))
      return failure();
    FailureOr<Tensor> view = viewAs(entry, context, *tensor, buffer.getBufferType());
    if (failed(view))
      return failure();
    outputs.push_back(std::move(*view));
  }
  return outputs;
}

} // namespace adapt::interp
