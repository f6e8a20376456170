// What adapt-run can do with a bundle.
#pragma once
#include "adapt/Bundle.h"
#include "adapt/Generate.h"
#include "adapt/LanguageModel.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace adapt::rt {

struct RunOptions {
  std::string bundle;
  int threads = 0;               // 0: one a core
  std::string device, laneOrder; // as in OpenDeviceOptions

  // Ranks.
  std::string ranks; // local, mpi, or empty: one, or mpi where a launcher started this process
  double timeout = 120;
  std::string stats;

  bool json = false;
  bool verifyHashes = false;
  bool poison = false;

  // Text.
  std::string prompt;
  std::optional<int64_t> maxTokens;
  SamplingOptions sampling;

  // Arrays.
  std::string tokens, logits, outputTokens;
  std::vector<int64_t> lengths;
  int64_t chunk = 0; // 0: the whole prompt at once
  int64_t generate = 0;

  // Graphs.
  std::vector<std::string> inputs; // NAME=file.npy
  std::string outputDirectory;

  // Speed.
  int64_t benchPrompt = 512, benchContext = 128, benchDecode = 64, benchRepetitions = 5;
};

/// A bundle, and where it runs: rank 0 of its ranks, or the only one.
struct Session {
  const Bundle &bundle;
  const RunOptions &options;
  Communicator *ranks = nullptr; ///< null for one rank
  CpuShare share;
  bool pin = true;
  int localRank = 0; ///< on this machine: its GPU
};

absl::StatusOr<std::unique_ptr<Device>> openDevice(const Session &session);

/// The bundle's model, with a cache for so many tokens.
absl::StatusOr<std::unique_ptr<LanguageModel>> openModel(const Session &session,
                                                         int64_t cacheTokens);

/// --stats: what the ranks have sent for the model.
absl::Status writeStats(const Session &session, LanguageModel &model);

/// This process' number among those that a launcher started; 0 without one.
int launchedRank();

/// Opens the bundle and runs the body: on the only rank, or on rank 0, where the others follow.
/// Reports errors; the exit code.
int runOnRanks(const RunOptions &options, const std::function<absl::Status(Session &)> &body);

/// Reports a failure; the exit code.
int report(const absl::Status &status);

/// ", 270.1 MB of weights copied to the device"; empty where nothing was.
std::string describeUpload(LanguageModel &model);

/// "2 threads"; "sim-cuda, 2 threads".
std::string describeDevice(LanguageModel &model);

/// --prompt: streams text to stdout, figures to stderr.
absl::Status runPrompt(const Session &session);

/// --tokens: token ids in, logits or greedy token ids out.
absl::Status runTokens(const Session &session);

/// --input: a graph's arrays in, its outputs as files.
absl::Status runGraph(const RunOptions &options);

/// --bench: prefill and decode speed, beside a plain read of the weights.
absl::Status runBench(const Session &session);

} // namespace adapt::rt
