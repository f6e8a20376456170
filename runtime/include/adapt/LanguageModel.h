// Runs a language model: ragged batches of prefill and decode through one program.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "adapt/Device.h"
#include "adapt/ExecutionPlan.h"
#include "adapt/KvCache.h"
#include "adapt/Program.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adapt::rt {

class Bundle;

class LanguageModel {
public:
  struct Options {
    int64_t cacheTokens = 0; ///< of all sequences together; 0: max_batch_size * max_seq_len
    int64_t maxSeqLen = 0;   ///< tokens of one sequence; 0: the bundle's limit
    bool poison = false;     ///< fill arena and cache with NaN patterns first, to find bad reads
  };
  /// What create() needs to know of the bundle.
  struct Source {
    std::string kernels; ///< absolute path
    /// A parameter by its full name; must stay valid as long as `weights` is held.
    std::function<absl::StatusOr<Region>(absl::string_view)> param;
    std::shared_ptr<void> weights;
    uint64_t uploadedBytes = 0; ///< of weights, to memory of the device
    int64_t maxSeqLen = 0;
    int64_t vocabSize = 0; ///< 0: as the program says
  };
  static absl::StatusOr<std::unique_ptr<LanguageModel>> create(std::unique_ptr<Device> device,
                                                               const Program &program,
                                                               Source source,
                                                               const Options &options);
  /// Weights, program and kernels of a bundle of one rank.
  static absl::StatusOr<std::unique_ptr<LanguageModel>>
  load(const Bundle &bundle, std::unique_ptr<Device> device, const Options &options);

  using SequenceId = uint64_t;
  SequenceId addSequence();
  /// Its blocks become free. Nothing happens for an unknown id.
  void removeSequence(SequenceId id);
  /// Tokens in the cache; 0 for an unknown id.
  int64_t length(SequenceId id) const;

  enum class Logits { kNone, kLast, kAll };
  struct Chunk {
    SequenceId sequence;
    absl::Span<const int32_t> tokens; ///< appended to the sequence; at least one
    Logits logits = Logits::kLast;    ///< whose logits come out
  };
  /// Called with logits [vocabSize] of token `token` of chunk `chunk`, in order within a chunk. The
  /// row is valid during the call. An error ends the step.
  using LogitsSink =
      absl::FunctionRef<absl::Status(size_t chunk, int64_t token, absl::Span<const float> row)>;

  /// Appends tokens to sequences and gives logits. The batch may be of any size: it is cut into as
  /// many runs of the program as its limits need. Errors, before anything runs: unknown or repeated
  /// sequences, tokens outside the vocabulary, sequences beyond maxSeqLen() (OutOfRange), a cache
  /// that is full (ResourceExhausted). After an error in a run, sequences keep the tokens of the
  /// runs before it.
  absl::Status step(absl::Span<const Chunk> batch, LogitsSink sink);

  int64_t vocabSize() const { return vocab; }
  int64_t maxSeqLen() const { return sequenceLimit; }
  int64_t maxNumTokens() const { return tokenLimit; } ///< in one run of the program
  int64_t maxBatchSize() const { return batchLimit; } ///< in one run of the program
  const KvCache &cache() const { return *kv; }
  Device &device() { return *dev; }
  uint64_t arenaBytes() const { return arena.bytes; }

  /// The weights that one run of the program reads, in its order.
  absl::Span<const Region> params() const { return plan.params(); }
  size_t numLaunches() const { return plan.numLaunches(); }
  /// Weights that were copied to memory of the device, since it cannot read the host's.
  uint64_t uploadedBytes() const { return uploaded; }

private:
  struct Sequence {
    std::vector<int32_t> blocks;
    int64_t length = 0;
  };
  /// A piece of a chunk that takes part in one run.
  struct Piece {
    size_t chunk;
    int64_t begin, end; // tokens of the chunk
    bool lastRow, allRows;
  };
  /// A port's dimension: a symbol of the program, or a constant.
  struct Dimension {
    int32_t symbol = -1;
    int64_t min = 0, max = 0;
  };

  LanguageModel() = default;
  absl::Status bindPorts(const Program &program, const schema::EntryPoint &entry);
  absl::Status checkBatch(absl::Span<const Chunk> batch);
  absl::Status reserve(absl::Span<const Chunk> batch);
  absl::Status runPieces(absl::Span<const Chunk> batch, absl::Span<const Piece> pieces,
                         LogitsSink sink);
  absl::Status writeInput(const Region &region, absl::Span<const int32_t> values);
  absl::Status poisonMemory();

  std::unique_ptr<Device> dev;
  std::shared_ptr<void> weights;
  uint64_t uploaded = 0;
  Memory arena;
  std::vector<Memory> arguments;
  std::unique_ptr<KvCache> kv;
  ExecutionPlan plan;

  Dimension tokens, sequencesDim, tableWidth, rows; // T S B L
  Region tokenIds, positions, seqStarts, kvLens, blockTable, logitRows, logits;
  int64_t vocab = 0, sequenceLimit = 0, tokenLimit = 0, batchLimit = 0;

  absl::flat_hash_map<SequenceId, Sequence> sequences;
  SequenceId nextId = 1;

  std::vector<int64_t> symbols; // this run's values
  std::vector<int32_t> hostTokens, hostPositions, hostStarts, hostLens, hostTable, hostRows;
  std::vector<float> hostLogits; // where the device's memory cannot be read
};

} // namespace adapt::rt
