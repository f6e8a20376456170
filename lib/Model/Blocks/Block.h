// What a block of a layer is: its options, its weights, and how it becomes adapt IR.
//
// A kind of block is one class in one file. Its constructor binds the options of a family's file to
// one config.json; `build` then makes the IR as often as needed.
#pragma once

#include "adapt/Model/Family.h"
#include "adapt/Model/Model.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>
#include <optional>

namespace adapt {

/// An option that a kind of block knows.
struct OptionSpec {
  enum class Type { Expr, Tensor, Linear, Norm };
  llvm::StringLiteral name;
  Type type;
  bool isRequired = true;
};

/// A weight of a block: its number in Block::weights.
using WeightRef = unsigned;
struct Linear {
  WeightRef weight = 0;
  std::optional<WeightRef> bias;
};
struct Norm {
  WeightRef weight = 0;
  double epsilon = 0;
};

class BlockBinder;

struct BlockKind {
  enum class Place { Embedding, Layer, Head };
  llvm::StringLiteral name;
  Place place;
  llvm::ArrayRef<OptionSpec> options;
  /// Binds the options; problems go to the binder.
  std::unique_ptr<Block> (*bind)(BlockBinder &binder);
};

/// All kinds; a new one is added in Block.cpp.
llvm::ArrayRef<const BlockKind *> getBlockKinds();
const BlockKind *findBlockKind(llvm::StringRef name);

extern const BlockKind kEmbedding, kAttention, kGatedMlp, kHead;

} // namespace adapt
