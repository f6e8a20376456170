#include "passes/Plan/FunctionPlanner.h"
#include "dialects/Program/Export.h"
#include "passes/Common/Structure.h"
#include "passes/Plan/ArenaLayout.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace adapt;
using program::kAlignment;

namespace {
constexpr int64_t kForever = std::numeric_limits<int64_t>::max() - 1;

constexpr StringLiteral kLanguageModel = "language_model";
constexpr StringRef kInputNames[] = {"token_ids", "positions",   "seq_starts",
                                     "kv_lens",   "block_table", "logit_rows"};
constexpr StringRef kOutputNames[] = {"logits"};
/// An argument's or result's name for the user.
constexpr StringLiteral kPortName = "adapt.name";

/// The suffix of a plane's name.
std::string getPlaneName(unsigned plane, unsigned count) {
  return count == 2 ? (plane == 0 ? "k" : "v") : std::to_string(plane);
}

StringRef getName(ArrayAttr attributes, unsigned index) {
  auto name = attributes ? cast<DictionaryAttr>(attributes[index]).getAs<StringAttr>(kPortName)
                         : StringAttr();
  return name ? name.getValue() : StringRef();
}
} // namespace

StringRef adapt::getEntryKind(func::FuncOp function) {
  if (auto kind = function->getAttrOfType<StringAttr>("adapt.entry"))
    return kind.getValue();
  return llvm::any_of(function.getArgumentTypes(), llvm::IsaPred<PagedType>) ? kLanguageModel
                                                                             : "graph";
}

LogicalResult FunctionPlanner::run() {
  addArguments();
  addResults();
  for (Operation &op : function.getBody().front())
    addOp(&op);
  if (stage && getEntryKind(function) == kLanguageModel)
    checkPorts();
  if (failed(result) || failed(layOut()))
    return failure();
  build();
  return success();
}

InFlightDiagnostic FunctionPlanner::fail(Operation *op) {
  result = failure();
  return op->emitOpError() << "in @" << function.getSymName() << ' ';
}

/// All inputs of a language model but what an earlier stage has used up; outputs of the last.
void FunctionPlanner::checkPorts() {
  size_t wantedInputs = std::size(kInputNames) - (stage->number > 0);
  size_t wantedOutputs = stage->sent.empty() ? std::size(kOutputNames) : 0;
  if (inputs.size() != wantedInputs || outputs.size() != wantedOutputs)
    fail(function) << "is a language model with " << inputs.size() << " inputs and "
                   << outputs.size() << " outputs instead of " << wantedInputs << " and "
                   << wantedOutputs;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

unsigned FunctionPlanner::addBuffer(Buffer buffer) {
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
void FunctionPlanner::addState(Value value, StringRef name, Buffer::Kind kind) {
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
std::string FunctionPlanner::getPortName(ArrayAttr attributes, unsigned index, StringRef otherwise,
                                         ArrayRef<StringRef> fixed, unsigned port) {
  if (StringRef name = getName(attributes, index); !name.empty())
    return name.str();
  if (stage && getEntryKind(function) == kLanguageModel && port < fixed.size())
    return fixed[port].str();
  return (otherwise + Twine(index)).str();
}

void FunctionPlanner::addArguments() {
  ArrayAttr attributes = function.getArgAttrsAttr();
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    std::string name = getPortName(attributes, number, "arg", kInputNames, inputs.size());
    if (isa<PagedType>(argument.getType())) {
      if (stage)
        addState(argument, getStateName(argument, attributes), Buffer::Plane);
      else
        addState(argument, name, Buffer::Argument);
      continue;
    }
    const Stage::Port *received =
        stage ? llvm::find_if(stage->received,
                              [&](const Stage::Port &port) { return port.place == number; })
              : nullptr;
    if (stage && received != stage->received.end()) {
      addReceived(argument, *received, name);
      continue;
    }
    // Tokens are the first stage's; later ones get what it made of them.
    if (stage && stage->number > 0 && getEntryKind(function) == kLanguageModel &&
        name == kInputNames[0]) {
      if (!argument.use_empty())
        fail(function) << "needs " << name << ", which only the first stage has";
      continue;
    }
    unsigned index = addPort(name, argument.getType());
    buffersOf[argument].push_back(index);
    inputs.push_back(index);
  }
}

void FunctionPlanner::addReceived(BlockArgument argument, const Stage::Port &port,
                                  std::string name) {
  unsigned index =
      addBuffer(Buffer(Buffer::Arena, std::move(name), cast<RankedTensorType>(argument.getType())));
  buffersOf[argument].push_back(index);
  Step step;
  step.kind = Step::Receive;
  step.buffers = {index};
  step.port = port;
  addStep(std::move(step));
}

/// An entry's ports live in the arena all the time; a function's are bound by the call.
unsigned FunctionPlanner::addPort(std::string name, Type type) {
  Buffer buffer(stage ? Buffer::Arena : Buffer::Argument, std::move(name),
                cast<RankedTensorType>(type));
  if (!stage)
    buffer.number = numArguments++;
  buffer.firstStep = -1;
  buffer.lastStep = kForever;
  return addBuffer(buffer);
}

/// "kv.7": the argument's `adapt.name`, or made from the indices of the call that takes it.
std::string FunctionPlanner::getStateName(BlockArgument argument, ArrayAttr attributes) {
  unsigned number = argument.getArgNumber();
  std::string name = "kv";
  auto call = argument.hasOneUse() ? dyn_cast<CallOp>(*argument.getUsers().begin()) : CallOp();
  if (StringRef given = getName(attributes, number); !given.empty())
    name = given.str();
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
void FunctionPlanner::addResults() {
  auto yield = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  ArrayAttr attributes = function.getResAttrsAttr();
  for (OpOperand &operand : yield->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (isa<PagedType>(operand.get().getType()) || (stage && !stage->outputs[number]))
      continue;
    unsigned port = addPort(getPortName(attributes, number, "result", kOutputNames, outputs.size()),
                            operand.get().getType());
    outputs.push_back(port);
    bool computed =
        isa_and_nonnull<LaunchOp, CallOp, CollectiveOpInterface>(operand.get().getDefiningOp());
    if (computed && resultOf.try_emplace(operand.get(), port).second)
      continue;
    copies.emplace_back(operand.get(), port);
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void FunctionPlanner::addOp(Operation *op) {
  if (auto param = dyn_cast<ParamOp>(op)) {
    buffersOf[param.getResult()].push_back(addBuffer(
        Buffer(Buffer::Weight, param.getName().str(), cast<RankedTensorType>(param.getType()))));
  } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    buffersOf[reshape.getResult()] = SmallVector<unsigned>(buffersOf[reshape.getInput()]);
  } else if (isa<LaunchOp, CallOp, AllReduceOp, AllGatherOp>(op)) {
    auto reduce = dyn_cast<AllReduceOp>(op);
    if (reduce && reduce.getKind() != ReduceKind::Sum)
      fail(op) << "combines by " << stringifyReduceKind(reduce.getKind())
               << ", and programs have sums only";
    Step step;
    step.op = op;
    if (isa<CollectiveOpInterface>(op))
      step.buffers.push_back(getExchanged(op->getOperand(0)));
    else
      for (Value operand : op->getOperands())
        llvm::append_range(step.buffers, buffersOf[operand]);
    for (OpResult value : op->getResults()) {
      if (isa<PagedType>(value.getType())) {
        Value tied = cast<StateOpInterface>(op).getTiedOperand(value).get();
        buffersOf[value] = SmallVector<unsigned>(buffersOf[tied]);
        continue;
      }
      auto port = resultOf.find(value);
      unsigned index = port != resultOf.end() ? port->second
                       : isInPlace(op)
                           ? step.buffers.front()
                           : addBuffer(Buffer(Buffer::Arena, getTemporaryName(op, value),
                                              cast<RankedTensorType>(value.getType())));
      buffersOf[value].push_back(index);
      step.buffers.push_back(index);
    }
    addStep(std::move(step));
  } else if (auto yield = dyn_cast<func::ReturnOp>(op)) {
    if (succeeded(result)) // What is returned may have no buffer.
      addReturn(yield);
  } else {
    fail(op) << "is in no kernel: run the phase fuse before plan";
  }
}

void FunctionPlanner::addReturn(func::ReturnOp yield) {
  for (auto [value, port] : copies) {
    Step step;
    step.kind = Step::Copy;
    step.buffers = {buffersOf[value].front(), port};
    addStep(std::move(step));
  }
  if (stage)
    for (const Stage::Port &port : stage->sent) {
      Step step;
      step.kind = Step::Send;
      step.buffers = {getExchanged(yield.getOperand(port.place))};
      step.port = port;
      addStep(std::move(step));
    }
  checkStates(yield);
}

/// What goes to other ranks is an activation: a weight is copied first.
unsigned FunctionPlanner::getExchanged(Value value) {
  unsigned index = buffersOf[value].front();
  if (buffers[index].kind != Buffer::Weight)
    return index;
  Step copy;
  copy.kind = Step::Copy;
  copy.buffers = {index, addBuffer(Buffer(Buffer::Arena, buffers[index].name,
                                          cast<RankedTensorType>(value.getType())))};
  addStep(copy);
  return copy.buffers.back();
}

/// A sum may take the place of what is summed, if that is nothing but this sum's operand.
bool FunctionPlanner::isInPlace(Operation *op) {
  auto reduce = dyn_cast<AllReduceOp>(op);
  if (!reduce || !reduce.getInput().hasOneUse() || !reduce.getInput().getDefiningOp<LaunchOp>())
    return false;
  return buffers[buffersOf[reduce.getInput()].front()].kind == Buffer::Arena;
}

void FunctionPlanner::addStep(Step step) {
  for (unsigned index : step.buffers) {
    buffers[index].firstStep = std::min<int64_t>(buffers[index].firstStep, steps.size());
    buffers[index].lastStep = std::max<int64_t>(buffers[index].lastStep, steps.size());
  }
  steps.push_back(std::move(step));
}

std::string FunctionPlanner::getTemporaryName(Operation *op, OpResult value) {
  std::string text;
  if (auto launch = dyn_cast<LaunchOp>(op))
    text = launch.getKernel().str();
  else if (auto call = dyn_cast<CallOp>(op))
    text = call.getCallee().str();
  else
    text = op->getName().stripDialect().str();
  if (op->getNumResults() > 1)
    text += "." + std::to_string(value.getResultNumber());
  return text;
}

/// State is updated in place: a returned one must be the one that came in.
void FunctionPlanner::checkStates(func::ReturnOp yield) {
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

//===----------------------------------------------------------------------===//
// Places, and the program
//===----------------------------------------------------------------------===//

LogicalResult FunctionPlanner::layOut() {
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

void FunctionPlanner::build() {
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
    buildStep(builder, step, operands);
  }
}

namespace {
/// [outer, inner]: a gathered tensor's sizes before the axis and from it on, of one rank's part.
DimsAttr getCollectiveSizes(AllGatherOp op) {
  SmallVector<AffineExpr> dims = getDims(cast<RankedTensorType>(op.getInput().getType()));
  AffineExpr one = getAffineConstantExpr(1, op.getContext()), sizes[] = {one, one};
  for (auto [axis, size] : llvm::enumerate(dims)) {
    AffineExpr &product = sizes[axis < op.getAxis() ? 0 : 1];
    product = product * size;
  }
  return DimsAttr::get(op.getContext(), sizes);
}

DimsAttr getCollectiveSizes(AllReduceOp op) {
  AffineExpr sizes[] = {getAffineConstantExpr(1, op.getContext()),
                        getNumElements(cast<RankedTensorType>(op.getInput().getType()))};
  return DimsAttr::get(op.getContext(), sizes);
}
} // namespace

void FunctionPlanner::buildStep(OpBuilder &builder, const Step &step, ArrayRef<Value> operands) {
  Location loc = step.op ? step.op->getLoc() : function.getLoc();
  auto getBytes = [&](unsigned buffer) {
    return DimsAttr::get(builder.getContext(), getNumBytes(buffers[step.buffers[buffer]].type));
  };
  switch (step.kind) {
  case Step::Copy:
    program::CopyOp::create(builder, loc, operands[0], operands[1], getBytes(1));
    return;
  case Step::Send:
    program::SendOp::create(builder, loc, operands[0], getBytes(0), step.port.peer, step.port.tag);
    return;
  case Step::Receive:
    program::ReceiveOp::create(builder, loc, operands[0], getBytes(0), step.port.peer,
                               step.port.tag);
    return;
  case Step::Run:
    break;
  }
  llvm::TypeSwitch<Operation *>(step.op)
      .Case([&](LaunchOp launch) {
        program::LaunchOp::create(builder, loc, launch.getKernel(), operands, launch.getSizes());
      })
      .Case([&](CallOp call) {
        program::CallOp::create(builder, loc, call.getCallee(), operands, call.getIndices(),
                                step.arenaOffset);
      })
      .Case([&](AllReduceOp reduce) {
        program::CollectiveOp::create(builder, loc, program::CollectiveKind::AllReduce,
                                      reduce.getMeshAxis(), operands[0], operands[1],
                                      getCollectiveSizes(reduce));
      })
      .Case([&](AllGatherOp gather) {
        program::CollectiveOp::create(builder, loc, program::CollectiveKind::AllGather,
                                      gather.getMeshAxis(), operands[0], operands[1],
                                      getCollectiveSizes(gather));
      });
}

Value FunctionPlanner::buildBuffer(OpBuilder &builder, const Buffer &buffer) {
  Location loc = function.getLoc();
  auto result = program::BufferType::get(builder.getContext());
  switch (buffer.kind) {
  case Buffer::Argument:
    return program::ArgumentOp::create(builder, loc, result, buffer.number, buffer.name,
                                       buffer.bytes, buffer.type);
  case Buffer::Arena:
    return program::ArenaOp::create(builder, loc, result, buffer.name, buffer.offset, buffer.bytes,
                                    buffer.type);
  case Buffer::Weight:
    return program::WeightOp::create(builder, loc, result, buffer.name, buffer.type);
  case Buffer::Plane:
    return program::PlaneOp::create(builder, loc, result, buffer.state, buffer.type);
  }
  llvm_unreachable("a buffer has one of four kinds");
}
