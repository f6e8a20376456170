// Several ranks as one: rank 0 decides what is run, the others follow.
#pragma once
#include "absl/functional/function_ref.h"
#include "adapt/Bundle.h"
#include "adapt/Communicator.h"
#include "adapt/ModelStage.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace adapt::rt {

/// The mesh that a bundle was made for.
Mesh meshOf(const Manifest &manifest);

/// That all ranks are of one version and have the same bundle. Errors as Communicator::agree.
absl::Status handshake(Communicator &ranks, const Bundle &bundle);

/// On ranks other than 0: loads this rank's part of every LanguageModel that rank 0 loads and runs
/// its steps, until rank 0 calls dismiss(). An error is this rank's own, or one that has ended the
/// exchange of messages.
absl::Status follow(const Bundle &bundle, Communicator &ranks,
                    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Device>>()> createDevice);

/// On rank 0: the others leave follow(). Nothing happens where they cannot be told.
void dismiss(Communicator &ranks);

/// What all ranks together have sent for one step of a stage's program.
struct Traffic {
  int stage = 0;
  std::string where; ///< as ExchangeStep::where
  ExchangeStep::Kind kind = ExchangeStep::Kind::kAllReduce;
  uint64_t times = 0; ///< on each rank
  uint64_t bytes = 0;
};

// What LanguageModel says to the followers.

/// Makes all ranks load their stage, and gives rank 0's.
absl::StatusOr<std::unique_ptr<ModelStage>> loadOnAll(Communicator &ranks, const Bundle &bundle,
                                                      std::unique_ptr<Device> device,
                                                      const ModelStage::Options &options);
/// Runs a step on all ranks. The logits of the wanted rows lie with the stage, or in `buffer`.
absl::StatusOr<absl::Span<const float>> runOnAll(Communicator &ranks, ModelStage &stage,
                                                 const StepInputs &inputs,
                                                 std::vector<float> &buffer);
absl::StatusOr<std::vector<Traffic>> trafficOfAll(Communicator &ranks, const ModelStage &stage);
/// The others free their stages.
void unloadOnAll(Communicator &ranks);

} // namespace adapt::rt
