// A model family as its file describes it: models/<family>.yaml. Grammar: docs/families.md.
//
// What is here is not yet bound to a config.json: sizes and options are expressions.
#pragma once

#include "adapt/Support/Expr.h"
#include "adapt/Support/Yaml.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <variant>

namespace adapt {

/// The version of the grammar that this compiler reads.
constexpr int kFamilySchema = 1;

/// An expression and its place in the file.
struct FamilyExpr {
  Expr expr;
  mlir::Location loc;
};

/// What config.json may say under one key.
struct ConfigKey {
  enum class Kind { Size, Int, Float, Bool, String, Map, List };
  Kind kind = Kind::Size;
  bool isOptional = false;                       ///< absent or null means null
  std::optional<llvm::json::Value> defaultValue; ///< absent or null means this
  std::vector<llvm::json::Value> allowed;        ///< empty: every value of the kind
  std::optional<double> min, max;                ///< inclusive

  /// Why a value (not null) does not fit; empty if it does. `allowed` is not looked at.
  std::string check(const llvm::json::Value &value) const;
};

/// A tensor: a source with steps, or several tensors one after the other.
struct TensorSpec {
  struct Step {
    enum class Kind { Slice, Transpose, Reshape };
    Kind kind;
    mlir::Location loc;
    int64_t axis = 0;                       ///< Slice
    llvm::SmallVector<FamilyExpr, 2> sizes; ///< Slice: offset and size; Reshape: the new shape
    llvm::SmallVector<int64_t> permutation; ///< Transpose
  };
  mlir::Location loc;
  std::string source; ///< template, "model.layers.{layer}.mlp.up_proj.weight"; empty for a concat
  std::optional<FamilyExpr> when;
  llvm::SmallVector<FamilyExpr, 2> shape; ///< of the source; empty: what the steps' end must be
  std::vector<TensorSpec> parts;          ///< of a concat
  int64_t concatAxis = 0;
  std::vector<Step> steps;
};

struct LinearSpec {
  TensorSpec weight;
  std::optional<TensorSpec> bias;
};
struct NormSpec {
  FamilyExpr epsilon;
  TensorSpec weight;
};

/// What a block's option may be; which one is said by the block's kind (lib/Model/Blocks/).
using BlockOption = std::variant<FamilyExpr, TensorSpec, LinearSpec, NormSpec>;

struct BlockSpec {
  std::string kind;
  std::string name; ///< in the names of its weights; the kind unless given
  mlir::Location loc;
  std::map<std::string, BlockOption> options;
};

struct LayerVariant {
  std::optional<FamilyExpr> when; ///< absent: always
  std::vector<BlockSpec> blocks;
};

struct RopeSpec {
  FamilyExpr size, theta, scaling;
};

struct Family {
  struct Requirement {
    FamilyExpr expr;
    std::string message;
  };

  std::string name;
  std::string path;
  std::vector<std::string> modelTypes, architectures;
  std::map<std::string, ConfigKey> config;
  std::vector<std::pair<std::string, FamilyExpr>> sizes; ///< in order; each sees those before it
  std::vector<Requirement> requirements;
  /// Keys of config.json that are ignored, while they have one of these values (none: any).
  std::map<std::string, std::vector<llvm::json::Value>> ignoredKeys;

  std::optional<FamilyExpr> vocabSize, hiddenSize, maxSeqLen;
  std::optional<RopeSpec> rope;
  std::optional<BlockSpec> embedding, head;
  std::optional<FamilyExpr> layerCount;
  std::vector<LayerVariant> variants;
  std::vector<std::string> ignoredTensors; ///< valid patterns of llvm::GlobPattern
};

/// Reads one family. `common` is the file of keys that all families ignore; empty: none. Errors,
/// all at once, with places: unknown keys, missing ones, expressions that do not parse or use
/// unknown names, a schema version that this compiler does not read.
mlir::FailureOr<Family> loadFamily(mlir::MLIRContext *context, llvm::StringRef path,
                                   llvm::StringRef common);

/// Reads the families of folders (earlier folders win over later ones; with each folder its
/// common.yaml applies), or of the installation if none are given.
mlir::FailureOr<std::vector<Family>> loadFamilies(mlir::MLIRContext *context,
                                                  llvm::ArrayRef<std::string> directories);

/// A YAML value as the JSON value that it spells: `silu`, `1.0e-6`, `[false]`, `null`.
llvm::json::Value toJson(const YamlNode &node);

} // namespace adapt
