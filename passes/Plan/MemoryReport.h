// What planned programs take, by region.
#pragma once

#include "dialects/Program/ProgramDialect.h"
#include "llvm/Support/LogicalResult.h"

namespace adapt {

/// Bytes of one rank; those of a stage have equal shapes.
struct MemoryReport {
  int64_t weights = 0; ///< resident: each weight once, padding of packed storage included
  int64_t numWeights = 0;
  int64_t arena = 0;              ///< dynamic: activations
  int64_t stateBytesPerBlock = 0; ///< one block of every plane of every layer
  int64_t blockTokens = 0;        ///< tokens in a block
  int64_t maxBlocks = 0;          ///< for the largest batch of the longest sequences: S * B
  /// The first and last value of the index "layer" that its calls bind, if any does.
  std::optional<std::pair<int64_t, int64_t>> layers;
  int64_t state() const { return stateBytesPerBlock * maxBlocks; }
  int64_t total() const { return weights + arena + state(); }
};

/// On failure (a sum that leaves 64 bits) an error was emitted. Symbols S and B, if the program has
/// them, count sequences and blocks of a sequence.
mlir::FailureOr<MemoryReport> reportMemory(program::ModuleOp program);

/// Calls `visit` for every step of every entry point, calls expanded, in order, with what the calls
/// bind.
void forEachStep(program::ModuleOp program,
                 llvm::function_ref<void(mlir::Operation *, mlir::DictionaryAttr indices)> visit);

} // namespace adapt
