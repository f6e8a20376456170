//===- WeightTable.h - The weights of one rank ----------------------------===//
//
// Reading, expanding and checking schema::WeightTable, and the record of the source files that a
// table of mode REFERENCE points to.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/Checkpoint.h"
#include "weights/Recipe.h"

namespace adapt::weights {

/// Alignment of weights, in files and in memory.
inline constexpr uint64_t kWeightAlignment = 64;

/// One tensor: a param with its indices bound. Refers to the table.
struct WeightInstance {
  const schema::WeightTable::Param *param;
  std::string name;
  IntegerMap indices;
};

/// All tensors of a table. The order is that of `params`; neighbouring params with the same indices
/// are taken together, so that all weights of layer 0 come before those of layer 1.
/// Checks every type, byte count and name (unique, no placeholder open or unused).
absl::StatusOr<std::vector<WeightInstance>> expandInstances(const schema::WeightTable &table);

/// Reads weights.pb.
absl::StatusOr<schema::WeightTable> readWeightTable(const std::string &path);

/// The files of a checkpoint, its index first, as WeightTable.sources records them. Paths are made
/// absolute.
absl::StatusOr<std::vector<schema::WeightTable::SourceFile>>
describeSources(const Checkpoint &checkpoint);

/// Opens the checkpoint that `sources` describes and checks that its files are still the same.
/// Relative paths start at `bundleDirectory`. Errors: FailedPrecondition, saying which file
/// differs, how, and what to do.
absl::StatusOr<std::unique_ptr<Checkpoint>> openSources(const schema::WeightTable &table,
                                                        const std::string &bundleDirectory);

} // namespace adapt::weights
