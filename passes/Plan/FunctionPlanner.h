// Plans one function: its buffers, where they lie, its steps.
#pragma once

#include "dialects/Program/ProgramDialect.h"
#include "passes/Common/SizeBounds.h"
#include "passes/Plan/Stages.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <limits>

namespace adapt {

/// What all functions of a program share while it is planned.
struct ProgramPlan {
  program::ModuleOp program;
  const SizeBounds &bounds;
  llvm::StringMap<int64_t> arenaBytes; ///< of functions planned so far
};

/// "language_model" or "graph": the attribute `adapt.entry`, else by whether there is paged state.
llvm::StringRef getEntryKind(mlir::func::FuncOp function);

class FunctionPlanner {
public:
  /// `stage` is set for an entry point. Callees have been planned before.
  FunctionPlanner(ProgramPlan &plan, mlir::func::FuncOp function, const Stage *stage)
      : plan(plan), function(function), stage(stage) {}

  /// Adds the function to the program. On failure errors were emitted.
  mlir::LogicalResult run();

  /// Of an entry: the buffers of its tensor arguments and results.
  llvm::SmallVector<unsigned> inputs, outputs;
  llvm::StringRef getBufferName(unsigned index) const { return buffers[index].name; }
  /// Of an entry: its states, by argument, one name a plane.
  llvm::SmallVector<std::pair<std::string, mlir::RankedTensorType>> states;

private:
  struct Buffer {
    enum Kind { Argument, Arena, Weight, Plane };
    Buffer(Kind kind, std::string name, mlir::RankedTensorType type)
        : kind(kind), name(std::move(name)), type(type) {}

    Kind kind;
    std::string name;
    mlir::RankedTensorType type;
    int64_t bytes = 0;  ///< upper bound; 0 for weights and state
    int64_t number = 0; ///< Argument: which
    std::string state;  ///< Plane: the program's state
    /// Steps that mention it; the whole program for ports of an entry.
    int64_t firstStep = std::numeric_limits<int64_t>::max();
    int64_t lastStep = -1;
    int64_t offset = 0; ///< Arena
  };

  struct Step {
    enum Kind { Run, Copy, Send, Receive };
    Kind kind = Run;
    mlir::Operation *op = nullptr;       ///< Run: a launch, a call or a collective
    llvm::SmallVector<unsigned> buffers; ///< Copy: from, to
    int64_t arenaOffset = 0;             ///< of a call
    Stage::Port port{};                  ///< Send, Receive
  };

  mlir::InFlightDiagnostic fail(mlir::Operation *op);

  unsigned addBuffer(Buffer buffer);
  void addState(mlir::Value value, llvm::StringRef name, Buffer::Kind kind);
  std::string getPortName(mlir::ArrayAttr attributes, unsigned index, llvm::StringRef otherwise,
                          llvm::ArrayRef<llvm::StringRef> fixed, unsigned port);
  void addArguments();
  void addReceived(mlir::BlockArgument argument, const Stage::Port &port, std::string name);
  unsigned addPort(std::string name, mlir::Type type);
  std::string getStateName(mlir::BlockArgument argument, mlir::ArrayAttr attributes);
  void addResults();
  void addOp(mlir::Operation *op);
  void addReturn(mlir::func::ReturnOp yield);
  unsigned getExchanged(mlir::Value value);
  bool isInPlace(mlir::Operation *op);
  void addStep(Step step);
  static std::string getTemporaryName(mlir::Operation *op, mlir::OpResult value);
  void checkStates(mlir::func::ReturnOp yield);
  void checkPorts();

  mlir::LogicalResult layOut();
  void build();
  mlir::Value buildBuffer(mlir::OpBuilder &builder, const Buffer &buffer);
  void buildStep(mlir::OpBuilder &builder, const Step &step, llvm::ArrayRef<mlir::Value> operands);

  ProgramPlan &plan;
  mlir::func::FuncOp function;
  const Stage *stage;
  llvm::SmallVector<Buffer> buffers;
  llvm::SmallVector<Step> steps;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<unsigned>> buffersOf;
  llvm::DenseMap<mlir::Value, unsigned> resultOf;             ///< port of a returned value
  llvm::SmallVector<std::pair<mlir::Value, unsigned>> copies; ///< at the end: value to port
  llvm::StringSet<> stateNames;
  int64_t numArguments = 0;
  int64_t arenaBytes = 0;
  mlir::LogicalResult result = mlir::success();
};

} // namespace adapt
