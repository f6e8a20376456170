// Makes the IR of blocks: the values of a step, weights as params, and the operations that several
// blocks use.
#pragma once

#include "Blocks/Block.h"
#include "mlir/IR/Builders.h"

namespace adapt {

/// What a function of the model has at hand. Which are set depends on the function.
struct StepValues {
  mlir::Value tokenIds, logitRows; ///< of @main
  mlir::Value cosines, sines;      ///< rope tables [T, R]
  mlir::Value seqStarts, kvLens, blockTable;
  llvm::SmallVector<mlir::Value> states; ///< one per block that has state; replaced as used
};

class BlockBuilder {
public:
  BlockBuilder(mlir::OpBuilder &builder, mlir::Type dtype) : builder(builder), dtype(dtype) {}

  mlir::OpBuilder &builder;
  mlir::Type dtype;
  StepValues step;

  /// Subsequent operations are located in this block.
  void enter(const Block &block);
  mlir::Location getLoc() const { return *loc; }

  /// A weight of the block in the model's type; one param per weight and function.
  mlir::Value param(const Block &block, WeightRef weight);
  mlir::Value linear(const Block &block, const Linear &linear, mlir::Value input);
  /// The same with another result type.
  mlir::Value linear(const Block &block, const Linear &linear, mlir::Value input,
                     mlir::Type element);
  mlir::Value norm(const Block &block, const Norm &norm, mlir::Value input);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value reshape(mlir::Value input, llvm::ArrayRef<int64_t> trailing);
  /// The state of the next block that has one, and its replacement.
  mlir::Value &nextState() { return step.states[usedStates++]; }

private:
  mlir::Value buildRecipe(const WeightExpr &expr, mlir::Location loc);

  std::optional<mlir::Location> loc;
  llvm::StringMap<mlir::Value> params;
  size_t usedStates = 0;
};

} // namespace adapt
