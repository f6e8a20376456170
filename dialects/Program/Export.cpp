#include "dialects/Program/Export.h"
#include "dialects/Adapt/Recipes.h"
#include "mlir/IR/BuiltinOps.h"
#include "program.pb.h"
#include "runtime/include/adapt/Version.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::program;

namespace {
class Exporter {
public:
  Exporter(program::ModuleOp module, schema::Program &out) : module(module), out(out) {}

  LogicalResult run() {
    out.set_version(rt::kProgramVersion);
    out.set_arena_bytes(module.getArenaBytes());
    Region &body = module.getBody();
    // Indices first: a function may call one that comes later.
    for (auto [index, op] : llvm::enumerate(body.getOps<program::KernelOp>()))
      kernels[op.getSymName()] = index;
    for (auto [index, op] : llvm::enumerate(body.getOps<StateOp>()))
      states[op.getSymName()] = index;
    for (auto [index, op] : llvm::enumerate(body.getOps<FunctionOp>()))
      functions[op.getSymName()] = index;
    for (Operation &op : body.front())
      llvm::TypeSwitch<Operation *>(&op)
          .Case<SymbolOp, program::KernelOp, StateOp, FunctionOp, EntryOp>(
              [&](auto declaration) { add(declaration); });
    return result;
  }

private:
  void setElement(Operation *op, Type type, llvm::function_ref<void(schema::ElementType)> set) {
    if (FailureOr<schema::ElementType> element = toElementType(type); succeeded(element)) {
      set(*element);
      return;
    }
    result = op->emitOpError() << "has elements of type " << type << ", which programs do not have";
  }

  void add(SymbolOp op) {
    schema::Symbol &symbol = *out.add_symbols();
    symbol.set_name(op.getName().str());
    symbol.set_min(op.getMin());
    symbol.set_max(op.getMax());
  }

  void add(program::KernelOp op) {
    schema::Kernel &kernel = *out.add_kernels();
    kernel.set_name(op.getSymName().str());
    for (StringRef size : op.getSizes().getAsValueRange<StringAttr>())
      kernel.add_sizes(size.str());
    for (auto variantOp : op.getBody().getOps<VariantOp>()) {
      schema::Kernel::Variant &variant = *kernel.add_variants();
      variant.set_symbol(variantOp.getSymbol().str());
      variant.set_scratch_bytes(variantOp.getScratchBytes());
      variant.set_threads(variantOp.getThreads().value_or(0));
      variant.set_shared_bytes(variantOp.getSharedBytes().value_or(0));
      for (AffineExpr extent : variantOp.getGrid().getExprs())
        exportExpr(extent, *variant.add_grid());
      if (variantOp.getGuards())
        for (auto guardAttr : variantOp.getGuards()->getAsRange<GuardAttr>()) {
          schema::Kernel::Guard &guard = *variant.add_guards();
          guard.set_size(guardAttr.getSize().str());
          guard.set_min(guardAttr.getMin());
          guard.set_max(guardAttr.getMax());
        }
    }
  }

  void add(StateOp op) {
    schema::State &state = *out.add_states();
    state.set_name(op.getSymName().str());
    state.set_bytes_per_block(op.getBytesPerBlock());
    setElement(op, cast<RankedTensorType>(op.getType()).getElementType(),
               [&](schema::ElementType element) { state.set_element(element); });
  }

  void add(EntryOp op) {
    schema::EntryPoint &entry = *out.add_entries();
    entry.set_name(op.getName().str());
    entry.set_kind(op.getKind().str());
    entry.set_function(functions.lookup(op.getFunction()));
    entry.set_block_tokens(op.getBlockTokens());
    auto addPorts = [](ArrayAttr names, ArrayRef<int64_t> buffers, auto add) {
      for (auto [name, buffer] : llvm::zip_equal(names.getAsValueRange<StringAttr>(), buffers)) {
        schema::EntryPoint::Port &port = *add();
        port.set_name(name.str());
        port.set_buffer(buffer);
      }
    };
    addPorts(op.getInputNames(), op.getInputs(), [&] { return entry.add_inputs(); });
    addPorts(op.getOutputNames(), op.getOutputs(), [&] { return entry.add_outputs(); });
  }

  void add(FunctionOp op) {
    schema::Function &function = *out.add_functions();
    function.set_name(op.getSymName().str());
    function.set_num_arguments(op.getNumArguments());
    function.set_arena_bytes(op.getArenaBytes());
    for (StringRef index : op.getIndices().getAsValueRange<StringAttr>())
      function.add_indices(index.str());
    buffers.clear();
    for (Operation &inner : op.getBody().front())
      llvm::TypeSwitch<Operation *>(&inner)
          .Case<BufferOpInterface>([&](auto buffer) { addBuffer(buffer, function); })
          .Case<program::LaunchOp, program::CallOp, CopyOp, CollectiveOp, SendOp, ReceiveOp>(
              [&](auto step) { addStep(step, *function.add_steps()); });
  }

  void addBuffer(BufferOpInterface op, schema::Function &function) {
    buffers[op->getResult(0)] = function.buffers_size();
    schema::Buffer &buffer = *function.add_buffers();
    buffer.set_name(op.getBufferName().str());
    buffer.set_bytes(op.getBufferBytes());
    RankedTensorType type = op.getBufferType();
    setElement(op, type.getElementType(),
               [&](schema::ElementType element) { buffer.set_element(element); });
    for (AffineExpr dim : getDims(type))
      exportExpr(dim, *buffer.add_shape());
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](ArgumentOp argument) { buffer.set_argument(argument.getNumber()); })
        .Case([&](ArenaOp arena) { buffer.set_arena_offset(arena.getOffset()); })
        .Case([&](WeightOp weight) { buffer.set_param(weight.getName().str()); })
        .Case([&](PlaneOp plane) { buffer.set_state(states.lookup(plane.getState())); });
  }

  void addStep(program::LaunchOp op, schema::Step &step) {
    schema::Step::Launch &launch = *step.mutable_launch();
    launch.set_kernel(kernels.lookup(op.getKernel()));
    for (Value buffer : op.getBuffers())
      launch.add_buffers(buffers.lookup(buffer));
    for (AffineExpr size : op.getSizes().getExprs())
      exportExpr(size, *launch.add_sizes());
  }

  void addStep(program::CallOp op, schema::Step &step) {
    schema::Step::Call &call = *step.mutable_call();
    call.set_function(functions.lookup(op.getCallee()));
    for (Value buffer : op.getBuffers())
      call.add_arguments(buffers.lookup(buffer));
    for (NamedAttribute binding : op.getIndices())
      (*call.mutable_bindings())[binding.getName().str()] =
          cast<IntegerAttr>(binding.getValue()).getInt();
    call.set_arena_offset(op.getArenaOffset());
  }

  void addStep(CopyOp op, schema::Step &step) {
    schema::Step::Copy &copy = *step.mutable_copy();
    copy.set_from(buffers.lookup(op.getFrom()));
    copy.set_to(buffers.lookup(op.getTo()));
    exportExpr(op.getBytes().getExprs().front(), *copy.mutable_bytes());
  }

  void addStep(CollectiveOp op, schema::Step &step) {
    schema::Step::Collective &collective = *step.mutable_collective();
    static constexpr schema::Step::Collective::Kind kKinds[] = {
        schema::Step::Collective::ALL_REDUCE, schema::Step::Collective::ALL_GATHER,
        schema::Step::Collective::REDUCE_SCATTER};
    collective.set_kind(kKinds[static_cast<unsigned>(op.getKind())]);
    collective.set_axis(op.getAxis().str());
    collective.set_from(buffers.lookup(op.getFrom()));
    collective.set_to(buffers.lookup(op.getTo()));
    exportExpr(op.getSizes().getExprs()[0], *collective.mutable_outer());
    exportExpr(op.getSizes().getExprs()[1], *collective.mutable_inner());
  }

  void addStep(SendOp op, schema::Step &step) {
    addTransfer(op, schema::Step::Transfer::SEND, *step.mutable_transfer());
  }
  void addStep(ReceiveOp op, schema::Step &step) {
    addTransfer(op, schema::Step::Transfer::RECEIVE, *step.mutable_transfer());
  }

  template <typename Op>
  void addTransfer(Op op, schema::Step::Transfer::Direction direction,
                   schema::Step::Transfer &transfer) {
    transfer.set_direction(direction);
    transfer.set_buffer(buffers.lookup(op.getBuffer()));
    exportExpr(op.getBytes().getExprs().front(), *transfer.mutable_bytes());
    transfer.set_peer_stage(op.getPeer());
    transfer.set_tag(op.getTag());
  }

  program::ModuleOp module;
  schema::Program &out;
  llvm::StringMap<uint32_t> kernels, states, functions;
  llvm::DenseMap<Value, uint32_t> buffers;
  LogicalResult result = success();
};
} // namespace

LogicalResult program::exportProgram(program::ModuleOp program, schema::Program &out) {
  return Exporter(program, out).run();
}

FailureOr<SmallVector<program::ModuleOp>> program::getPrograms(mlir::ModuleOp module) {
  SmallVector<program::ModuleOp> programs(module.getOps<program::ModuleOp>());
  if (programs.empty())
    return module.emitError() << "the module has no program: run the phase plan";
  for (auto [index, program] : llvm::enumerate(programs)) {
    if (programs.size() == 1 ? program.getStage().value_or(0) == 0 : program.getStage() == index)
      continue;
    return program.emitOpError() << "is number " << index << " of " << programs.size()
                                 << " in its module, which is not its stage";
  }
  for (program::ModuleOp program : programs)
    if (program.getBody().getOps<EntryOp>().empty())
      return program.emitOpError() << "has no entry point";
  return programs;
}
