#include "dialects/Program/Export.h"
#include "passes/Common/SizeBounds.h"
#include "passes/Common/Structure.h"
#include "passes/Plan/Passes.h"
#include <limits>
#include <map>

namespace adapt {
#define GEN_PASS_DEF_VERIFYPLAN
#include "passes/Plan/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;
using program::BufferOpInterface;

namespace {
struct VerifyPlan : adapt::impl::VerifyPlanBase<VerifyPlan> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<program::ModuleOp>> programs = program::getPrograms(getOperation());
    FailureOr<SizeBounds> bounds = SizeBounds::get(getOperation());
    if (failed(programs) || failed(bounds))
      return signalPassFailure();
    SymbolTable kernels(getOperation());
    for (program::ModuleOp program : *programs) {
      SymbolTable functions(program);
      llvm::DenseMap<Operation *, program::EntryOp> entries;
      for (auto entry : program.getBody().getOps<program::EntryOp>())
        entries[functions.lookup(entry.getFunction())] = entry;
      for (auto function : program.getBody().getOps<program::FunctionOp>())
        check(function, entries.lookup(function), *bounds, kernels, functions);
      checkRanks(program);
    }
    checkTransfers(*programs);
  }

private:
  InFlightDiagnostic fail(Operation *op) {
    signalPassFailure();
    return op->emitOpError();
  }

  /// A part of the arena and the steps during which it must keep what it holds.
  struct Part {
    std::string name;
    Operation *op;
    int64_t offset, bytes, first, last;
  };

  void check(program::FunctionOp function, program::EntryOp entry, const SizeBounds &bounds,
             SymbolTable &kernels, SymbolTable &functions) {
    SmallVector<Value> buffers = function.getBuffers();
    llvm::DenseMap<Value, std::pair<int64_t, int64_t>> lives;
    llvm::DenseSet<Value> written;
    auto setForever = [&](int64_t index) {
      lives[buffers[index]] = {-1, std::numeric_limits<int64_t>::max()};
    };
    if (entry) {
      for (int64_t index : entry.getInputs()) {
        setForever(index);
        written.insert(buffers[index]);
      }
      for (int64_t index : entry.getOutputs())
        setForever(index);
    }
    for (Value buffer : buffers)
      if (!isa<program::ArenaOp>(buffer.getDefiningOp()))
        written.insert(buffer); // By others; results of a function are checked at its end.

    SmallVector<Part> parts;
    int64_t at = -1;
    for (Operation &op : function.getBody().front()) {
      if (auto buffer = dyn_cast<BufferOpInterface>(op)) {
        checkSize(buffer, bounds);
        continue;
      }
      ++at;
      for (Value buffer : op.getOperands()) {
        auto [it, inserted] = lives.try_emplace(buffer, at, at);
        it->second.second = std::max(it->second.second, at);
      }
      checkReads(&op, kernels, functions, written);
      if (auto call = dyn_cast<program::CallOp>(op))
        if (auto callee = functions.lookup<program::FunctionOp>(call.getCallee()))
          parts.push_back({("the arena of @" + call.getCallee()).str(), &op,
                           static_cast<int64_t>(call.getArenaOffset()),
                           static_cast<int64_t>(callee.getArenaBytes()), at, at});
    }
    if (entry)
      for (int64_t index : entry.getOutputs())
        if (!written.contains(buffers[index]))
          fail(buffers[index].getDefiningOp())
              << "'" << getName(buffers[index]) << "' is an output that nothing writes";
    for (Value buffer : buffers)
      if (auto arena = buffer.getDefiningOp<program::ArenaOp>())
        if (auto live = lives.find(buffer); live != lives.end())
          parts.push_back(
              {("'" + arena.getName() + "'").str(), arena, static_cast<int64_t>(arena.getOffset()),
               static_cast<int64_t>(arena.getBytes()), live->second.first, live->second.second});
    checkOverlaps(parts);
  }

  static StringRef getName(Value buffer) {
    return cast<BufferOpInterface>(buffer.getDefiningOp()).getBufferName();
  }

  void checkSize(BufferOpInterface buffer, const SizeBounds &bounds) {
    // Weights and planes have the size that their owner gives them; so have arguments bound to
    // them.
    if (!isa<program::ArenaOp>(buffer) && buffer.getBufferBytes() == 0)
      return;
    std::optional<SizeBounds::Range> range = bounds.getRange(getNumBytes(buffer.getBufferType()));
    if (!range || range->max > buffer.getBufferBytes())
      fail(buffer) << "'" << buffer.getBufferName() << "' has " << buffer.getBufferBytes()
                   << " bytes, but may need "
                   << (range ? std::to_string(range->max) : std::string("more than 2^63"));
  }

  /// What a step reads must have been written; what it writes has been from then on. A launch's
  /// outputs are its last buffers, and it passes what its kernel expects.
  void checkReads(Operation *op, SymbolTable &kernels, SymbolTable &functions,
                  llvm::DenseSet<Value> &written) {
    size_t numInputs =
        cast<program::StepOpInterface>(op).getNumRead().value_or(op->getNumOperands());
    if (auto launch = dyn_cast<program::LaunchOp>(op)) {
      auto kernel = kernels.lookup<KernelOp>(launch.getKernel());
      if (!kernel) {
        fail(op) << "launches @" << launch.getKernel()
                 << ", but the module has no such adapt.kernel";
        return;
      }
      SmallVector<RankedTensorType> expected;
      for (Type type : kernel.getArgumentTypes())
        if (auto state = dyn_cast<PagedType>(type))
          llvm::append_range(expected, state.getPlanes());
        else
          expected.push_back(cast<RankedTensorType>(type));
      numInputs = expected.size();
      for (Type type : kernel.getResultTypes())
        if (!isa<PagedType>(type))
          expected.push_back(cast<RankedTensorType>(type));
      if (expected.size() != op->getNumOperands()) {
        fail(op) << "passes " << op->getNumOperands() << " buffers, @" << launch.getKernel()
                 << " takes " << expected.size();
        return;
      }
      // The kernel's sizes, in the program's. A buffer may have other axes (a reshape is free), but
      // not other elements or another number of them.
      llvm::DenseMap<AffineExpr, AffineExpr> sizes;
      for (auto [name, size] : llvm::zip(kernel.getSymbols(), launch.getSizes().getExprs()))
        sizes[getSymbolExpr(&getContext(), name)] = size;
      for (auto [buffer, type] : llvm::zip_equal(op->getOperands(), expected)) {
        RankedTensorType have = cast<BufferOpInterface>(buffer.getDefiningOp()).getBufferType();
        if (!areEqualSizes(getNumElements(have), getNumElements(type).replace(sizes)) ||
            have.getElementType() != type.getElementType())
          fail(op) << "passes '" << getName(buffer) << "' of type " << have << " where @"
                   << launch.getKernel() << " takes " << type;
      }
    } else if (auto call = dyn_cast<program::CallOp>(op)) {
      // Arguments that the callee writes before it reads are its results.
      auto callee = functions.lookup<program::FunctionOp>(call.getCallee());
      numInputs = 0;
      if (callee)
        for (auto argument : callee.getBody().getOps<program::ArgumentOp>())
          if (argument.getNumber() < op->getNumOperands())
            if (Value buffer = op->getOperand(argument.getNumber());
                !written.contains(buffer) && isReadFirst(argument, kernels))
              fail(op) << "passes '" << getName(buffer) << "', which nothing has written, as '"
                       << argument.getName() << "'";
    }
    for (auto [index, buffer] : llvm::enumerate(op->getOperands()))
      if (index < numInputs && !written.contains(buffer))
        fail(op) << "reads '" << getName(buffer) << "', which nothing has written";
    written.insert(op->operand_begin(), op->operand_end());
  }

  /// Whether the first step that mentions the argument reads it.
  static bool isReadFirst(program::ArgumentOp argument, SymbolTable &kernels) {
    Operation *first = nullptr;
    unsigned place = 0;
    for (OpOperand &use : argument.getBuffer().getUses())
      if (!first || use.getOwner()->isBeforeInBlock(first) ||
          (use.getOwner() == first && use.getOperandNumber() < place)) {
        first = use.getOwner();
        place = use.getOperandNumber();
      }
    auto step = dyn_cast_or_null<program::StepOpInterface>(first);
    if (std::optional<unsigned> numRead = step ? step.getNumRead() : std::nullopt)
      return place < *numRead;
    auto launch = dyn_cast_or_null<program::LaunchOp>(first);
    if (!launch)
      return false;
    auto kernel = kernels.lookup<KernelOp>(launch.getKernel());
    if (!kernel)
      return false;
    unsigned outputs =
        llvm::count_if(kernel.getResultTypes(), [](Type type) { return !isa<PagedType>(type); });
    return place + outputs < launch.getBuffers().size();
  }

  /// A collective's coordinate has as many values as the mesh has ranks along its axis.
  void checkRanks(program::ModuleOp program) {
    program.walk([&](program::CollectiveOp op) {
      int64_t ranks = getMeshSize(getOperation(), op.getAxis());
      for (auto symbol : program.getBody().getOps<program::SymbolOp>())
        if (symbol.getName() == AdaptDialect::getCoordinate(op.getAxis()) &&
            int64_t(symbol.getMax()) + 1 != ranks)
          fail(op) << "is of " << symbol.getMax() + 1 << " ranks, the mesh has " << ranks
                   << " along '" << op.getAxis() << "'";
    });
  }

  /// What one stage sends another receives, once, as many bytes of it.
  void checkTransfers(ArrayRef<program::ModuleOp> programs) {
    struct End {
      Operation *op;
      uint64_t stage, peer;
      DimsAttr bytes;
    };
    std::map<uint64_t, End> sent;
    auto getStage = [](Operation *op) {
      return op->getParentOfType<program::ModuleOp>().getStage().value_or(0);
    };
    for (program::ModuleOp program : programs)
      program.walk([&](program::SendOp op) {
        End end{op, getStage(op), op.getPeer(), op.getBytes()};
        if (!sent.try_emplace(op.getTag(), end).second)
          fail(op) << "has tag " << op.getTag() << ", as another one";
      });
    for (program::ModuleOp program : programs)
      program.walk([&](program::ReceiveOp op) {
        auto end = sent.find(op.getTag());
        if (end == sent.end() || end->second.stage != op.getPeer() ||
            end->second.peer != getStage(op) || end->second.bytes != op.getBytes()) {
          fail(op) << "waits for " << op.getBytes() << " bytes of tag " << op.getTag()
                   << " from stage " << op.getPeer() << ", which sends no such thing here";
          return;
        }
        sent.erase(end);
      });
    for (const auto &[tag, end] : sent)
      fail(end.op) << "sends to stage " << end.peer << ", which does not receive tag " << tag;
  }

  void checkOverlaps(ArrayRef<Part> parts) {
    for (auto [index, a] : llvm::enumerate(parts))
      for (const Part &b : parts.drop_front(index + 1)) {
        bool sameTime = a.first <= b.last && b.first <= a.last;
        bool samePlace = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        if (!sameTime || !samePlace)
          continue;
        InFlightDiagnostic error = fail(b.op)
                                   << b.name << " at " << b.offset << " + " << b.bytes
                                   << " overlaps " << a.name << " at " << a.offset << " + "
                                   << a.bytes << ", which lives at the same time";
        error.attachNote(a.op->getLoc()) << "the other one";
      }
  }
};
} // namespace
