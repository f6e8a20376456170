// One rank's part of a language model: a program, its weights and memory, on one device.
#pragma once
#include "absl/types/span.h"
#include "adapt/Communicator.h"
#include "adapt/Device.h"
#include "adapt/ExecutionPlan.h"
#include "adapt/Executor.h"
#include "adapt/KvCache.h"
#include "adapt/Program.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace adapt::rt {

class Bundle;

/// What a model needs of a bundle besides its program.
struct ModelSource {
  std::string kernels; ///< absolute path
  /// A parameter by its full name; must stay valid as long as `weights` is held.
  std::function<absl::StatusOr<Region>(absl::string_view)> param;
  std::shared_ptr<void> weights;
  uint64_t uploadedBytes = 0; ///< of weights, to memory of the device
  int64_t maxSeqLen = 0;
  int64_t vocabSize = 0; ///< 0: as the program says
};

/// One run of the program for a ragged batch (docs/bundle.md): the same on all ranks.
struct StepInputs {
  std::vector<int32_t> tokenIds, positions, seqStarts, kvLens, blockTable, logitRows;
  int64_t wantedRows = 0; ///< the first of logitRows; more are there for the program's sake alone

  /// As a message to other ranks, and back. Errors: bytes that serialize() does not give.
  std::string serialize() const;
  static absl::StatusOr<StepInputs> parse(absl::string_view bytes);
};

class ModelStage {
public:
  struct Options {
    int64_t cacheTokens = 0; ///< of all sequences together; 0: max_batch_size * max_seq_len
    int64_t maxSeqLen = 0;   ///< tokens of one sequence; 0: the bundle's limit
    bool poison = false;     ///< fill arena and cache with NaN patterns first, to find bad reads
  };
  /// A port's dimension: a symbol of the program, or a constant.
  struct Dimension {
    int32_t symbol = -1;
    int64_t min = 0, max = 0;
  };

  /// `ranks` is null on one rank; it must outlive the stage.
  static absl::StatusOr<std::unique_ptr<ModelStage>>
  create(std::unique_ptr<Device> device, const Program &program, ModelSource source,
         const Options &options, Communicator *ranks);
  /// This rank's program, weights and kernels of a bundle.
  static absl::StatusOr<std::unique_ptr<ModelStage>> load(const Bundle &bundle,
                                                          std::unique_ptr<Device> device,
                                                          const Options &options,
                                                          Communicator *ranks);

  /// Runs the program once. All ranks do, with the same inputs. Errors: sizes outside the program's
  /// bounds, a kernel or a rank that fails.
  absl::Status run(const StepInputs &inputs);

  /// The first rows of the last run's logits, [rows, vocabSize]; where isLast().
  absl::StatusOr<absl::Span<const float>> readLogits(int64_t rows);

  bool isFirst() const { return !ranks || ranks->ppRank() == 0; }
  bool isLast() const { return !ranks || ranks->ppRank() + 1 == ranks->mesh().pp; }

  // The bounds of a step: T, S, B and L of docs/bundle.md.
  const Dimension &tokens() const { return tokensDim; }
  const Dimension &sequences() const { return sequencesDim; }
  const Dimension &tableWidth() const { return tableDim; }
  const Dimension &rows() const { return rowsDim; }

  int64_t vocabSize() const { return vocab; }
  int64_t maxSeqLen() const { return sequenceLimit; }
  KvCache &cache() { return *kv; }
  const KvCache &cache() const { return *kv; }
  Device &device() { return *dev; }
  uint64_t arenaBytes() const { return arena.bytes; }
  uint64_t uploadedBytes() const { return uploaded; }
  const ExecutionPlan &executionPlan() const { return plan; }
  absl::Span<const Executor::Traffic> traffic() const { return executor->traffic(); }

private:
  ModelStage() = default;
  absl::Status bindPorts(const Program &program, const schema::EntryPoint &entry);
  /// Symbols that hold coordinates of the mesh; marks them as bound.
  absl::Status bindCoordinates(const schema::Program &program, std::vector<bool> &bound);
  absl::Status allocate(const Program &program, const schema::EntryPoint &entry,
                        const ModelSource &source, const Options &options);
  absl::Status writeInput(const Region &region, absl::Span<const int32_t> values);
  absl::Status poisonMemory();

  std::unique_ptr<Device> dev;
  Communicator *ranks = nullptr;
  std::shared_ptr<void> weights;
  uint64_t uploaded = 0;
  Memory arena;
  std::vector<Memory> arguments;
  std::unique_ptr<KvCache> kv;
  ExecutionPlan plan;
  std::unique_ptr<Executor> executor;

  Dimension tokensDim, sequencesDim, tableDim, rowsDim;
  Region tokenIds, positions, seqStarts, kvLens, blockTable, logitRows, logits;
  int64_t vocab = 0, sequenceLimit = 0;

  std::vector<int64_t> symbols;  // this run's values
  std::vector<float> hostLogits; // where the device's memory cannot be read
};

} // namespace adapt::rt
