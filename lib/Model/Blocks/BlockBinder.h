// Binds the options of a block's spec to values and weights.
#pragma once

#include "Blocks/Block.h"

namespace adapt {

/// The values of a config.json under the names that a family's expressions use.
class ConfigScope {
public:
  void set(llvm::StringRef name, llvm::json::Value value);
  std::optional<llvm::json::Value> lookup(llvm::StringRef name) const;

  /// Evaluates; on failure an error was emitted at the expression.
  std::optional<llvm::json::Value> evaluate(const FamilyExpr &expr) const;
  /// A size: an integer from 1 to 2^31 - 1. `what` names it in the error.
  std::optional<int64_t> evaluateSize(const FamilyExpr &expr, llvm::StringRef what) const;

private:
  llvm::StringMap<llvm::json::Value> values;
};

class BlockBinder {
public:
  /// `prefix` begins the weights' names: "layers.{layer}." or nothing.
  BlockBinder(const ConfigScope &scope, const BlockSpec &spec, std::string prefix,
              int64_t hiddenSize, int64_t vocabSize)
      : hiddenSize(hiddenSize), vocabSize(vocabSize), scope(scope), spec(spec),
        prefix(std::move(prefix)) {}

  const int64_t hiddenSize, vocabSize;

  bool has(llvm::StringRef option) const { return spec.options.count(option.str()); }
  /// Values of options; a problem gives some value of the type and makes the binder fail.
  int64_t size(llvm::StringRef option);
  double number(llvm::StringRef option);
  bool flag(llvm::StringRef option);
  std::string text(llvm::StringRef option);
  /// Declares a tensor, a linear layer [out, in] (with a bias if the family has one here) or a norm
  /// over `width` elements.
  WeightRef tensor(llvm::StringRef option, llvm::ArrayRef<int64_t> shape, llvm::StringRef part);
  Linear linear(llvm::StringRef option, int64_t out, int64_t in, llvm::StringRef part);
  Norm norm(llvm::StringRef option, int64_t width);

  /// Says how a weight is split over ranks. A layer's bias goes with its outputs (axis 0); of a
  /// layer split along its inputs (axis 1) each rank has all of it.
  void split(WeightRef weight, ShardRole role) { weights[weight].shard = role; }
  void split(const Linear &linear, ShardRole role);

  mlir::InFlightDiagnostic error();
  /// Gives what was declared to the block; null if there were problems.
  std::unique_ptr<Block> finish(std::unique_ptr<Block> block);

private:
  std::optional<llvm::json::Value> value(llvm::StringRef option);
  WeightRef declare(const TensorSpec &tensor, std::string name, llvm::ArrayRef<int64_t> shape,
                    llvm::StringRef part);
  std::optional<WeightExpr> resolve(const TensorSpec &tensor,
                                    std::optional<llvm::ArrayRef<int64_t>> shape);
  std::optional<WeightExpr> applyStep(const TensorSpec::Step &step, WeightExpr input);
  bool isPresent(const TensorSpec &tensor);

  const ConfigScope &scope;
  const BlockSpec &spec;
  std::string prefix;
  std::string key;
  std::vector<Weight> weights;
  bool failed = false;
};

} // namespace adapt
