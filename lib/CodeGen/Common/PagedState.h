// How the paged state of keys and values lies in memory, and where a step's tokens are in it.
#pragma once

#include "KernelBuilder.h"

namespace adapt::codegen {

inline constexpr int64_t kBlockTokens = 16;

/// A block of a plane [groups, size] for 16 tokens. Keys put the 16 tokens side by side,
/// values their elements: with pairs (bf16)
///   keys   [groups][size / 2][16 tokens][2 elements]
///   values [groups][8 pairs of tokens][size][2 tokens]
/// else [groups][size][16] and [groups][16][size].
struct PagedPlane {
  PagedPlane(mlir::RankedTensorType plane, bool keys);

  int64_t groups, size, depth;
  mlir::Type element;
  bool keys;

  int64_t getBlockElements() const { return kBlockTokens * groups * size; }
  int64_t getGroupElements() const { return kBlockTokens * size; }
  /// The place of an element within a group of a block.
  mlir::Value getPlace(KernelBuilder &b, mlir::Value slot, mlir::Value index) const;
};

/// The arguments that say which tokens belong to which sequence and where its blocks are.
struct PagedStep {
  Pointer seqStarts, kvLens, blockTable;
  mlir::AffineExpr sequences, tableWidth;

  PagedStep(KernelBuilder &b, mlir::Value seqStarts, mlir::Value kvLens, mlir::Value blockTable);

  /// The sequence that owns a token.
  mlir::Value findSequence(KernelBuilder &b, mlir::Value token) const;
  /// A token's position in its sequence.
  mlir::Value getPosition(KernelBuilder &b, mlir::Value sequence, mlir::Value token) const;
  /// The state's block that holds the tokens 16 * index … of a sequence.
  mlir::Value getBlock(KernelBuilder &b, mlir::Value sequence, mlir::Value index) const;
};

inline unsigned getArgumentNumber(mlir::Value value) {
  return llvm::cast<mlir::BlockArgument>(value).getArgNumber();
}

} // namespace adapt::codegen
