// The adaptation record of a compilation: what was built, on what, and what it costs.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <string>
#include <vector>

namespace adapt {

struct Report {
  struct Phase {
    std::string name;
    double seconds;
    uint64_t peakBytes; ///< resident set, largest so far
  };
  /// An operation kind of the module after `map`.
  struct Mapping {
    std::string operation;      ///< "adapt.rms_norm"
    std::string implementation; ///< "generated", "library:NAME"
    int64_t inModule;           ///< operations in the module
    int64_t inStep;             ///< executed in one step: layers counted
  };
  /// Operations of one kind before `map`, by how the target runs them (passes/Map/Coverage.h).
  struct Coverage {
    std::string operation;
    int64_t library, generated, composite, missing;
    std::vector<std::string> reasons; ///< of those that are missing, with the nodes' names
  };
  /// What a step costs by the operations' own account; the traffic of state is not in it.
  struct StepCost {
    std::string step; ///< "decode of 1 token"
    int64_t flops, bytesRead, bytesWritten;
  };
  struct Kernel {
    std::string name;
    std::vector<std::string> variants; ///< "decode when s0 from 1 to 1"
    int64_t launches;                  ///< in one step
  };

  /// What a rank holds, with `plan`; in order of the ranks, pp_rank * tp + tp_rank.
  struct Rank {
    int64_t ppRank, tpRank;
    std::optional<std::pair<int64_t, int64_t>> layers; ///< first and last of the stage
    int64_t weightBytes, arenaBytes, stateBytesPerToken;
  };
  /// A collective or a transfer between stages.
  struct Communication {
    std::string kind, axis;     ///< "all_reduce" over "tp"
    int64_t stage, peer;        ///< where it runs; the receiving stage of a transfer, or -1
    std::string function, what; ///< where it stands, and the buffer's name
    int64_t count;              ///< in one step, layers counted
    int64_t groups;             ///< of ranks that run it, each for itself
    /// Bytes of the whole tensor, and what one group sends in all; once, as expressions.
    std::string payload, wire;
    /// The same for steps of certain sizes, in the order of `costs`.
    std::vector<std::pair<int64_t, int64_t>> bytes;
  };

  std::string name, family, target, dtype;
  std::vector<std::pair<std::string, int64_t>> sizes; ///< ("layers", 30), ("hidden_size", 576), …
  std::map<std::string, int64_t> parameters;          ///< by part
  std::vector<Coverage> coverage;
  std::vector<Mapping> mapping;
  std::vector<StepCost> costs;
  std::vector<Kernel> kernels;
  std::vector<Rank> ranks;
  std::vector<Communication> communication;

  // Of the rank that has most of it.
  int64_t weightBytes = 0; ///< resident, as stored
  int64_t arenaBytes = 0;  ///< activations
  int64_t stateBytesPerToken = 0;
  int64_t stateBytesPerSequence = 0;                   ///< of max_seq_len tokens
  std::vector<std::pair<std::string, int64_t>> limits; ///< ("max_num_tokens", 512), …

  std::vector<Phase> phases;
  /// What is slower, padded, replicated, dropped or approximated.
  std::vector<std::string> notes;

  int64_t getNumParameters() const;
  /// Of all ranks together.
  int64_t getWeightBytes() const;
  /// What all ranks send in the step `costs[step]`.
  int64_t getWireBytes(size_t step) const;
  llvm::json::Object toJson() const;
  std::string toMarkdown() const;
};

/// "269.0 MB"; bytes below 1000 as they are.
std::string formatBytes(uint64_t bytes);

/// The process's largest resident set so far, in bytes.
uint64_t getPeakResidentBytes();

} // namespace adapt
