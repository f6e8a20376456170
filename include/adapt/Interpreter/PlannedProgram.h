// Runs the programs that `plan` made, with the interpreter for the kernels' bodies. It proves the
// plan: buffers have the places in the arena that the plan gave them, and what a step overwrites is
// lost to those that lay there.
//
// All tensor-parallel ranks run a program in lockstep, each step on all of them. Programs of
// pipeline stages run one after the other; what one sends lies ready when the other receives.
#pragma once

#include "adapt/Interpreter/Interpreter.h"
#include "dialects/Program/ProgramDialect.h"
#include <list>
#include <map>

namespace adapt::interp {

class PlannedProgram {
public:
  /// The programs of the interpreter's module, in the order of their stages; their weights are the
  /// adapt.param ops of that module.
  PlannedProgram(llvm::ArrayRef<program::ModuleOp> programs, Interpreter &interpreter);

  /// The programs of a module; empty if there are none, or several that are not those of stages.
  static llvm::SmallVector<program::ModuleOp> find(mlir::ModuleOp module);
  /// The first stage's entry point of this name; null if there is none.
  program::EntryOp lookup(llvm::StringRef name);

  llvm::SmallVector<mlir::Type> getInputTypes(program::EntryOp entry);
  /// Of the entry points of this name of all stages.
  llvm::SmallVector<llvm::StringRef> getOutputNames(program::EntryOp entry);

  /// Makes empty states of so many blocks.
  mlir::LogicalResult createStates(int64_t blocks);

  /// Runs an entry point on its inputs, in order, and returns its outputs, which all ranks must
  /// agree on. A later stage gets those inputs that have the names of its own. States go on from
  /// the run before. Errors are emitted at the step, and name the buffers: one that is read before
  /// it is written or after something else was written to its place; one that is larger than its
  /// place; a launch that writes over its own inputs; sizes beyond the plan's bounds.
  mlir::FailureOr<llvm::SmallVector<Value>> run(program::EntryOp entry,
                                                llvm::ArrayRef<Value> inputs);

private:
  /// One tensor of each rank, all of one shape.
  using RankTensors = llvm::SmallVector<Tensor, 1>;

  /// The memory of a buffer, on all ranks.
  struct Storage {
    std::string name;
    std::optional<RankTensors> contents;
    std::string overwrittenBy;
    /// Its place in the arena; empty for weights and states.
    int64_t begin = 0, end = 0;
    bool readOnly = false;
  };
  struct Stage {
    program::ModuleOp program;
    llvm::StringMap<Storage> states;
  };
  /// A running function.
  struct Frame {
    program::FunctionOp function;
    Bindings indices;
    int64_t arenaOffset;
    llvm::DenseMap<mlir::Value, Storage *> buffers;
    std::list<Storage> owned;
  };

  program::EntryOp lookup(Stage &stage, llvm::StringRef name);
  mlir::FailureOr<llvm::SmallVector<Value>> runStage(program::EntryOp entry,
                                                     llvm::ArrayRef<Value> inputs);
  mlir::LogicalResult bindBuffers(Frame &frame, llvm::ArrayRef<Storage *> arguments);
  mlir::LogicalResult runSteps(Frame &frame);
  mlir::LogicalResult launch(program::LaunchOp op, Frame &frame);
  mlir::LogicalResult call(program::CallOp op, Frame &frame);
  mlir::LogicalResult copy(program::CopyOp op, Frame &frame);
  mlir::LogicalResult collective(program::CollectiveOp op, Frame &frame);
  mlir::LogicalResult send(program::SendOp op, Frame &frame);
  mlir::LogicalResult receive(program::ReceiveOp op, Frame &frame);
  mlir::FailureOr<RankTensors> read(mlir::Operation *op, const Storage &storage);
  /// As elements of another type's shape on each rank.
  mlir::FailureOr<RankTensors> readAs(mlir::Operation *op, const Storage &storage, mlir::Type type);
  mlir::LogicalResult write(mlir::Operation *op, Storage &storage, RankTensors tensors);
  mlir::LogicalResult bindSizes(program::EntryOp entry, llvm::ArrayRef<Value> inputs);
  std::optional<int64_t> getSize(mlir::AffineExpr size) { return contexts[0].getSize(size); }
  Frame *enter(program::FunctionOp function);
  void leave();

  std::vector<Stage> stages;
  Interpreter &interpreter;
  std::vector<EvalContext> contexts; ///< each rank's symbols
  llvm::StringMap<mlir::Operation *> params;
  Stage *stage = nullptr;              ///< the one that runs
  std::map<int64_t, RankTensors> sent; ///< by tag
  /// The frames of the calls in progress, innermost last.
  std::list<Frame> frames;
};

} // namespace adapt::interp
