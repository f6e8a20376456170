// A bundle on disk, opened and checked. See docs/bundle.md.
#pragma once
#include "absl/strings/string_view.h"
#include "adapt/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adapt::rt {

/// XXH3-128 of bytes, as 32 hexadecimal digits.
std::string xxh3(absl::string_view bytes);

/// manifest.json, format version 1, every field checked for presence, type and range.
struct Manifest {
  /// Rank r of ranks has pp_rank r / tp and tp_rank r % tp.
  struct Rank {
    std::string directory; ///< of its weight files
    int64_t ppRank = 0, tpRank = 0;
    std::optional<std::pair<int64_t, int64_t>> layers; ///< first and last; none in a graph
    /// All relative to the bundle; ranks of a stage share a program, and any ranks may share
    /// kernels.
    std::string program, weights, kernels;
    std::string ptx; ///< beside a cubin, for devices that it does not fit; may be empty
    std::string sim; ///< kernels for the simulated GPU; empty without --sim
  };
  struct File {
    std::string path;
    uint64_t bytes = 0;
    std::string xxh3;
  };

  std::string name;
  std::string producerVersion, producerCommit, producerLlvm;
  std::string targetName;                  ///< cpu, cuda or hip
  std::string targetCpu;                   ///< of cpu
  std::vector<std::string> targetFeatures; ///< of cpu
  std::string targetArch;                  ///< of cuda and hip: "sm_90", "gfx942"
  int64_t tp = 1, pp = 1, dp = 1, ep = 1;
  std::string kind; ///< "language_model" or "graph"
  std::string family, dtype;
  int64_t vocabSize = 0, modelMaxSeqLen = 0;
  std::vector<int32_t> bosTokenIds, eosTokenIds;
  int64_t maxNumTokens = 0, maxBatchSize = 0, maxSeqLen = 0, blockTokens = 0;
  std::string tokenizer; ///< relative path; empty without one
  std::vector<Rank> ranks;
  std::vector<File> files;

  /// All problems at once.
  static absl::StatusOr<Manifest> parse(absl::string_view json);
};

class Bundle {
public:
  struct Options {
    bool verifyHashes = false; ///< of all files, the weights too
    bool checkCpu = true;      ///< the target's CPU features against this CPU's
  };
  /// Reads the manifest and checks: the version, the CPU's features, that every file lies within
  /// the bundle and has its size, and the hashes of what will be loaded (program, kernels, weight
  /// table, tokenizer; with verifyHashes, everything).
  static absl::StatusOr<Bundle> open(const std::string &path, const Options &options);

  const Manifest &manifest() const { return contents; }

  /// Of manifest.json, which holds the hashes of all other files.
  const std::string &hash() const { return manifestHash; }

  /// Absolute and free of symbolic links.
  const std::string &root() const { return directory; }

  /// The real, absolute path of a file that the manifest lists.
  absl::StatusOr<std::string> resolve(absl::string_view relative) const;

private:
  absl::Status checkFiles(const Options &options) const;

  std::string directory, manifestHash;
  Manifest contents;
};

/// A whole file as a string. Errors: not a regular file, larger than `limit`, unreadable.
absl::StatusOr<std::string> readFile(const std::string &path, uint64_t limit);

} // namespace adapt::rt
