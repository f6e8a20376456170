// What a planned program takes, by region.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/LogicalResult.h"

namespace adapt {

/// Bytes of one rank.
struct MemoryReport {
  int64_t weights = 0; ///< resident: each weight once, padding of packed storage included
  int64_t numWeights = 0;
  int64_t arena = 0;              ///< dynamic: activations
  int64_t stateBytesPerBlock = 0; ///< one block of every plane of every layer
  int64_t blockTokens = 0;        ///< tokens in a block
  int64_t maxBlocks = 0;          ///< for the largest batch of the longest sequences: S * B
  int64_t state() const { return stateBytesPerBlock * maxBlocks; }
  int64_t total() const { return weights + arena + state(); }
};

/// Of a module after the phase `plan`. On failure (a sum that leaves 64 bits) an error was emitted.
/// Symbols S and B, if the program has them, count sequences and blocks of a sequence.
mlir::FailureOr<MemoryReport> reportMemory(mlir::ModuleOp module);

} // namespace adapt
