// Runs modules of the dialect `adapt`, simply and slowly. It is the specification: passes are
// proved by interpret(before) = interpret(after), kernels by comparing with it.
#pragma once

#include "adapt/Interpreter/Value.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace adapt::interp {

struct Options {
  Mode mode = Mode::Wide;
  int64_t blockTokens = 16;
  /// Reads the tensors of adapt.source (see Sources.h); without it they are an error.
  ReadSource readSource;
  /// Larger tensors are refused.
  int64_t maxElements = int64_t(1) << 30;
};

/// The module outlives the interpreter and does not change. Weights are evaluated once and kept.
class Interpreter {
public:
  Interpreter(mlir::ModuleOp module, Options options);

  /// Runs a function with bound indices. Its symbols are `symbols` and what the arguments' shapes
  /// say. On failure an error was emitted that names the operation. With several ranks each has
  /// these arguments; tensors that they return must agree, states are those of rank 0.
  mlir::FailureOr<llvm::SmallVector<Value>> run(mlir::FunctionOpInterface function,
                                                llvm::ArrayRef<Value> arguments,
                                                const Bindings &indices = {},
                                                const Bindings &symbols = {});
  /// The same on all tensor-parallel ranks of the module's mesh in lockstep: `arguments[r]` are
  /// those of rank r, and so are the results and, if there are any, the symbols. Stages run one
  /// after the other.
  mlir::FailureOr<std::vector<llvm::SmallVector<Value>>>
  runRanks(mlir::FunctionOpInterface function, llvm::ArrayRef<llvm::SmallVector<Value>> arguments,
           const Bindings &indices = {}, llvm::ArrayRef<Bindings> symbols = {});
  unsigned getNumRanks() const { return numRanks; }
  /// The function of this name; null if there is none.
  mlir::FunctionOpInterface lookup(llvm::StringRef name);

  /// Evaluates a rank's weight for these indices.
  mlir::FailureOr<Value> evaluateParam(mlir::Operation *param, const Bindings &indices,
                                       unsigned rank = 0);

  /// An empty state of so many blocks.
  mlir::FailureOr<State> makeState(mlir::Operation *op, mlir::Type type, int64_t blocks);

  const Options &getOptions() const { return options; }

private:
  struct Frame;
  /// One value per rank.
  using RankValues = llvm::SmallVector<Value, 1>;

  mlir::LogicalResult runBlock(mlir::Block &block, Frame &frame,
                               llvm::SmallVectorImpl<RankValues> &results);
  mlir::LogicalResult runOp(mlir::Operation &op, Frame &frame,
                            llvm::SmallVectorImpl<RankValues> &results);
  mlir::LogicalResult evaluate(mlir::Operation &op, Frame &frame,
                               llvm::ArrayRef<RankValues> operands,
                               llvm::SmallVectorImpl<RankValues> &results);
  /// `symbols` are those of each rank.
  mlir::LogicalResult runBody(mlir::FunctionOpInterface function, std::vector<Bindings> symbols,
                              const Bindings &indices, llvm::ArrayRef<RankValues> arguments,
                              llvm::SmallVectorImpl<RankValues> &results);
  EvalContext makeContext(Bindings symbols, const Bindings &indices, unsigned rank) const;

  mlir::ModuleOp module;
  Options options;
  mlir::SymbolTableCollection symbolTables;
  unsigned numRanks = 1;
  /// Weights by operation and filled-in name; one map for each rank.
  std::vector<llvm::DenseMap<mlir::Operation *, llvm::StringMap<Value>>> params;
  unsigned depth = 0;
};

/// Whether two tensors are of one shape and have equal elements, or both no number.
bool haveSameElements(const Tensor &a, const Tensor &b);

/// Finds the symbols in a function's argument types from its arguments' shapes, adding to
/// `symbols`; checks kinds, element types and all sizes. Errors are emitted at `op`.
mlir::LogicalResult bindSymbols(mlir::Operation *op, mlir::TypeRange types,
                                llvm::ArrayRef<Value> arguments, EvalContext &context);

} // namespace adapt::interp
