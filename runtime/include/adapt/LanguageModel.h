// Runs a language model: ragged batches of prefill and decode through one program.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "adapt/ModelStage.h"
#include "adapt/Ranks.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adapt::rt {

class Bundle;

class LanguageModel {
public:
  using Options = ModelStage::Options;
  static absl::StatusOr<std::unique_ptr<LanguageModel>> create(std::unique_ptr<Device> device,
                                                               const Program &program,
                                                               ModelSource source,
                                                               const Options &options);
  /// Weights, program and kernels of a bundle. Of several ranks this is rank 0, and the others
  /// follow() (Ranks.h); `ranks` must outlive the model.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> load(const Bundle &bundle,
                                                             std::unique_ptr<Device> device,
                                                             const Options &options,
                                                             Communicator *ranks = nullptr);
  ~LanguageModel();

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

  int64_t vocabSize() const { return stage->vocabSize(); }
  int64_t maxSeqLen() const { return stage->maxSeqLen(); }
  int64_t maxNumTokens() const { return stage->tokens().max; }    ///< in one run of the program
  int64_t maxBatchSize() const { return stage->sequences().max; } ///< in one run of the program
  const KvCache &cache() const { return stage->cache(); }
  Device &device() { return stage->device(); }
  uint64_t arenaBytes() const { return stage->arenaBytes(); }

  /// The weights that one run of this rank's program reads, in its order.
  absl::Span<const Region> params() const { return stage->executionPlan().params(); }
  size_t numLaunches() const { return stage->executionPlan().numLaunches(); }

  /// Weights that were copied to memory of the device, since it cannot read the host's.
  uint64_t uploadedBytes() const { return stage->uploadedBytes(); }

  /// What the ranks have sent so far; nothing on one rank.
  absl::StatusOr<std::vector<Traffic>> traffic();

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

  LanguageModel(std::unique_ptr<ModelStage> stage, Communicator *ranks)
      : stage(std::move(stage)), ranks(ranks) {}
  absl::Status checkBatch(absl::Span<const Chunk> batch);
  absl::Status reserve(absl::Span<const Chunk> batch);
  StepInputs describe(absl::Span<const Chunk> batch, absl::Span<const Piece> pieces) const;
  absl::Status runPieces(absl::Span<const Chunk> batch, absl::Span<const Piece> pieces,
                         LogitsSink sink);

  std::unique_ptr<ModelStage> stage;
  Communicator *ranks; // null on one rank

  absl::flat_hash_map<SequenceId, Sequence> sequences;
  SequenceId nextId = 1;

  std::vector<float> hostLogits; // from other ranks
};

} // namespace adapt::rt
