// Runs the program that `plan` made, with the interpreter for the kernels' bodies. It proves the
// plan: buffers have the places in the arena that the plan gave them, and what a step overwrites is
// lost to those that lay there.
#pragma once

#include "adapt/Interpreter/Interpreter.h"
#include "dialects/Program/ProgramDialect.h"
#include <list>

namespace adapt::interp {

class PlannedProgram {
public:
  /// The program of the interpreter's module; its weights are the adapt.param ops of that module.
  PlannedProgram(program::ModuleOp program, Interpreter &interpreter);

  /// The program of a module; null if there is none, or several.
  static program::ModuleOp find(mlir::ModuleOp module);
  /// Its entry point of this name; null if there is none.
  program::EntryOp lookup(llvm::StringRef name);

  llvm::SmallVector<mlir::Type> getInputTypes(program::EntryOp entry);

  /// Makes empty states of so many blocks.
  mlir::LogicalResult createStates(int64_t blocks);

  /// Runs an entry point on its inputs, in order, and returns its outputs. States go on from the
  /// run before. Errors are emitted at the step, and name the buffers: one that is read before it
  /// is written or after something else was written to its place; one that is larger than its
  /// place; a launch that writes over its own inputs; sizes beyond the plan's bounds.
  mlir::FailureOr<llvm::SmallVector<Value>> run(program::EntryOp entry,
                                                llvm::ArrayRef<Value> inputs);

private:
  /// The memory of a buffer.
  struct Storage {
    std::string name;
    std::optional<Tensor> contents;
    std::string overwrittenBy;
    /// Its place in the arena; empty for weights and states.
    int64_t begin = 0, end = 0;
    bool readOnly = false;
  };
  /// A running function.
  struct Frame {
    program::FunctionOp function;
    Bindings indices;
    int64_t arenaOffset;
    llvm::DenseMap<mlir::Value, Storage *> buffers;
    std::list<Storage> owned;
  };

  mlir::LogicalResult bindBuffers(Frame &frame, llvm::ArrayRef<Storage *> arguments);
  mlir::LogicalResult runSteps(Frame &frame);
  mlir::LogicalResult launch(program::LaunchOp op, Frame &frame);
  mlir::LogicalResult call(program::CallOp op, Frame &frame);
  mlir::LogicalResult copy(program::CopyOp op, Frame &frame);
  mlir::FailureOr<Tensor> read(mlir::Operation *op, const Storage &storage);
  mlir::LogicalResult write(mlir::Operation *op, Storage &storage, Tensor tensor);
  mlir::LogicalResult bindSizes(program::EntryOp entry, llvm::ArrayRef<Value> inputs);
  Frame *enter(program::FunctionOp function);
  void leave();

  program::ModuleOp program;
  Interpreter &interpreter;
  EvalContext context; ///< the program's symbols
  llvm::StringMap<mlir::Operation *> params;
  llvm::StringMap<Storage> states;
  /// The frames of the calls in progress, innermost last.
  std::list<Frame> frames;
};

} // namespace adapt::interp
