//===- WeightLoader.h - Weights in memory ---------------------------------===//
//
// Makes the weights of one rank ready for kernels: each at a 64-byte aligned address, under its
// name.
//
// CONVERTED weights are mapped from the bundle's files, or copied into one arena of huge pages in
// the order of execution. REFERENCE weights are computed into such an arena from the original
// checkpoint. The table, the files' own headers and their sizes must agree before anything is read.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/WeightTable.h"

#include "absl/container/flat_hash_map.h"

namespace adapt::weights {

/// Anonymous memory, aligned to 2 MiB, that asks for huge pages.
class Arena {
public:
  static absl::StatusOr<Arena> allocate(uint64_t bytes);
  Arena() = default;
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();
  std::byte *data() const { return base; }
  /// Writing becomes a fault.
  void protect();

private:
  void *mapping = nullptr;
  uint64_t mappingBytes = 0;
  std::byte *base = nullptr;
  uint64_t bytes = 0;
};

struct LoadOptions {
  /// Copy CONVERTED weights into an arena; else map the files (less memory, smaller pages).
  bool copyToArena = true;
  unsigned threads = 1;
  /// Where relative paths of REFERENCE sources start.
  std::string bundleDirectory;
  /// Values of mesh coordinates in recipes.
  IntegerMap symbols;
};

class LoadedWeights {
public:
  /// Errors: InvalidArgument or DataLoss for what does not agree, FailedPrecondition for sources
  /// that have changed, ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<LoadedWeights>> load(const schema::WeightTable &table,
                                                             const std::string &rankDirectory,
                                                             const LoadOptions &options = {});

  /// The bytes of a tensor, padding of its layout included; nothing if there is none of that name.
  std::optional<absl::Span<const std::byte>> find(std::string_view name) const;
  size_t size() const { return tensors.size(); }
  /// Of all tensors.
  uint64_t bytes() const { return totalBytes; }

private:
  LoadedWeights() = default;
  absl::Status loadConverted(const schema::WeightTable &table,
                             const std::vector<WeightInstance> &instances,
                             const std::string &rankDirectory, const LoadOptions &options);
  absl::Status loadReference(const schema::WeightTable &table,
                             const std::vector<WeightInstance> &instances,
                             const LoadOptions &options);

  absl::flat_hash_map<std::string, absl::Span<const std::byte>> tensors;
  uint64_t totalBytes = 0;
  Arena arena;
  std::vector<MappedFile> files;
};

} // namespace adapt::weights
