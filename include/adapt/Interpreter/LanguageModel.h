// Runs the entry point of a language model (docs/bundle.md) in the interpreter.
#pragma once

#include "adapt/Interpreter/Interpreter.h"

namespace adapt::interp {

/// A ragged batch of token ids.
struct TokenBatch {
  int64_t batch = 0;
  int64_t length = 0;              ///< of the longest sequence
  llvm::ArrayRef<int64_t> ids;     ///< [batch, length], row-major
  llvm::ArrayRef<int64_t> lengths; ///< of each sequence, at most `length`; empty: all are `length`
  /// The most tokens of a sequence in one step; 0: all in one.
  int64_t chunk = 0;
};

/// One step's inputs: those of the entry point, in order.
using StepFunction = llvm::function_ref<mlir::FailureOr<Tensor>(llvm::ArrayRef<Value> inputs)>;

/// Feeds a batch to `step`, which takes token_ids, positions, seq_starts, kv_lens, block_table and
/// logit_rows (i32) and returns logits [L, V]. Blocks of the sequences are interleaved, `numBlocks`
/// in all. Returns the logits of all tokens, [batch, length, V], zero after a sequence's end.
/// Errors are emitted at `loc`.
mlir::FailureOr<Tensor> runBatch(mlir::Location loc, const TokenBatch &batch, int64_t blockTokens,
                                 StepFunction step);
/// The blocks that `runBatch` uses.
int64_t getNumBlocks(const TokenBatch &batch, int64_t blockTokens);

/// runBatch on a function of `adapt` IR: its arguments that are not state are the inputs above, its
/// first result that is not state is the logits, and its states begin empty.
mlir::FailureOr<Tensor> runLanguageModel(Interpreter &interpreter,
                                         mlir::FunctionOpInterface function,
                                         const TokenBatch &batch);

} // namespace adapt::interp
