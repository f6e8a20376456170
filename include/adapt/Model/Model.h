// A model: a family bound to one config.json, and to one checkpoint where there is one.
//
// Knows every size and every weight with its source tensors, so that `inspect` and `plan` can count
// without IR; `buildModel` makes the IR of the phase `import` from it.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adapt {

struct Family;
class BlockBuilder;

/// A weight in terms of the checkpoint's tensors. Serialises as the region of an `adapt.param`.
struct WeightExpr {
  enum class Kind { Source, Slice, Transpose, Reshape, Concat };
  Kind kind = Kind::Source;
  std::string source;                 ///< Source: a template
  mlir::Type element;                 ///< Source: as stored
  llvm::SmallVector<int64_t> shape;   ///< of the result
  llvm::SmallVector<int64_t> numbers; ///< Slice: offsets; Transpose: permutation
  int64_t axis = 0;                   ///< Concat
  std::vector<WeightExpr> operands;

  /// Calls `visit` for each source in it.
  void forEachSource(llvm::function_ref<void(WeightExpr &)> visit);
};

/// How a weight is split over tensor-parallel ranks: #adapt.shard.
struct ShardRole {
  int64_t axis = 0;
  int64_t heads = 0;   ///< key/value heads, which stay whole; 0: by elements
  int64_t queries = 0; ///< query heads of each
};

struct Weight {
  std::string name; ///< "layers.{layer}.attention.query.weight"
  std::string part; ///< embed, attention, norm, mlp or head
  WeightExpr value;
  std::optional<ShardRole> shard; ///< unset: each rank has all of it

  llvm::ArrayRef<int64_t> getShape() const { return value.shape; }
  int64_t getNumElements() const;
};

/// A block of a model with its options bound. Each kind is a class in lib/Model/Blocks/.
class Block {
public:
  virtual ~Block() = default;
  /// Appends the block's IR: from the hidden states [T, hidden] to the new ones.
  virtual mlir::Value build(BlockBuilder &builder, mlir::Value hidden) const = 0;

  std::string kind;
  std::string name;
  std::vector<Weight> weights;
  /// Per token state: the shapes of its planes, e.g. {[G, D], [G, E]}; empty: none.
  std::vector<llvm::SmallVector<int64_t, 2>> statePlanes;
  /// Equal for blocks that are the same but for their layer's number.
  std::string key;
};

/// Layers that share one function.
struct LayerKind {
  std::string name; ///< of the function
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<int64_t> layers; ///< their numbers, ascending
};

struct Model {
  std::string name; ///< of the checkpoint's folder
  std::string family;
  mlir::Type dtype; ///< of activations and state
  /// Where the dtype comes from: "--dtype", "config.json", "the stored tensors", or "assumed".
  std::string dtypeOrigin;
  int64_t vocabSize = 0, hiddenSize = 0, maxSeqLen = 0;
  std::vector<int64_t> bosTokenIds, eosTokenIds;
  std::vector<float> inverseFrequencies;
  std::unique_ptr<Block> embedding, head;
  std::vector<LayerKind> layerKinds;
  std::vector<unsigned> layers; ///< the kind of each layer
  /// The family's sizes, for reports: ("heads", 9), …
  std::vector<std::pair<std::string, int64_t>> sizes;
  bool isHeadTied = false;
  /// There is no checkpoint: the sources are those that the family names, in the model's type.
  bool weightsAreAbsent = false;

  /// Calls `visit` for each weight with the number of layers that have one of their own.
  void forEachWeight(llvm::function_ref<void(const Weight &, int64_t count)> visit) const;
  /// Parameters by part; a tied head counts as no part.
  std::map<std::string, int64_t> countParameters() const;
  /// Bytes of state of all layers for one token.
  int64_t getStateBytesPerToken() const;
};

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

/// The tensors of a checkpoint, as binding sees them.
class CheckpointTensors {
public:
  struct Tensor {
    std::string dtype;  ///< as the file calls it, "BF16"
    mlir::Type element; ///< null: a type that nothing here computes with
    llvm::SmallVector<int64_t> shape;
  };
  virtual ~CheckpointTensors() = default;
  virtual std::optional<Tensor> find(llvm::StringRef name) const = 0;
  virtual void forEachName(llvm::function_ref<void(llvm::StringRef)> visit) const = 0;
  /// Whether two tensors of the same type hold the same bytes. An error was emitted if they cannot
  /// be read.
  virtual mlir::FailureOr<bool> haveSameData(llvm::StringRef a, llvm::StringRef b) const = 0;
};

/// A config.json and what stands beside it.
struct ModelConfig {
  std::string path; ///< of config.json, for messages
  std::string name;
  llvm::json::Object config;
  std::optional<llvm::json::Object> generation; ///< generation_config.json
};

/// The family that a config.json is of, by `model_type`, else by `architectures`. An error was
/// emitted if there is none: it lists what is known.
mlir::FailureOr<const Family *> selectFamily(mlir::MLIRContext *context,
                                             llvm::ArrayRef<Family> families,
                                             const ModelConfig &config);

/// Binds a family to a config. `tensors` is null where there is no checkpoint; then stored types
/// are taken to be the model's. `dtype` is null for "auto". Problems are emitted, all of a kind at
/// once: config keys and values that the family does not know; tensors that are missing, of another
/// shape, of a type that cannot be used, or that nothing uses.
mlir::FailureOr<Model> bindModel(mlir::MLIRContext *context, const Family &family,
                                 const ModelConfig &config, const CheckpointTensors *tensors,
                                 mlir::Type dtype);

/// The inverse frequencies of a rope of `size` rotated elements: f64 arithmetic, stored as f32.
/// `scaling` is config.json's rope_scaling or rope_parameters (or null). Kinds: default, linear,
/// llama3; others are refused by name.
llvm::Expected<std::vector<float>> computeInverseFrequencies(int64_t size, double theta,
                                                             const llvm::json::Value &scaling);

//===----------------------------------------------------------------------===//
// IR
//===----------------------------------------------------------------------===//

/// The module that the phase `import` ends with: `@main` and a function per kind of layer. The
/// attributes and arguments are described in docs/families.md.
mlir::OwningOpRef<mlir::ModuleOp> buildModel(mlir::MLIRContext *context, const Model &model);

} // namespace adapt
