//===- Checkpoint.h - The tensors of a checkpoint, by name ----------------===//
//
// A checkpoint is a safetensors file or a set of shards with an index:
//   model.safetensors.index.json: {"metadata": {…}, "weight_map": {"name": "shard file", …}}
// Where there is an index it is the authority: files that it does not name are not opened, and a
// tensor that also lies in another shard than the one named there is passed over.
//
// Opening reads headers only, so a checkpoint of sparse files costs nothing but its headers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/Safetensors.h"
#include "weights/Sources.h"

namespace adapt::weights {

class Checkpoint : public SourceProvider {
public:
  static constexpr std::string_view kIndexName = "model.safetensors.index.json";
  static constexpr std::string_view kSingleName = "model.safetensors";

  /// Opens a directory, a single safetensors file, or an index file.
  /// Errors (all problems of one kind at once): no checkpoint, missing shards, invalid headers,
  /// tensors that the index promises and their shard does not have, shard names that leave the
  /// directory.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> open(const std::string &path);

  /// As given to `open`.
  const std::string &path() const { return givenPath; }
  /// The index file, or empty.
  const std::string &indexPath() const { return index; }

  size_t numFiles() const { return files.size(); }
  const SafetensorsFile &file(size_t i) const { return *files[i]; }

  /// A tensor and its place.
  struct Tensor : TensorEntry {
    uint32_t file;  // number of its file
    uint32_t entry; // number within the file's header
  };

  /// In the order of the index, or of the single file's header.
  size_t size() const { return tensors.size(); }
  Tensor tensor(size_t i) const;
  std::optional<Tensor> find(std::string_view name) const;

  /// The bytes of a tensor, in the mapped file.
  absl::StatusOr<absl::Span<const std::byte>> data(const Tensor &tensor) const {
    return files[tensor.file]->data(tensor.entry);
  }

  absl::StatusOr<SourceTensor> source(std::string_view name) const override;

private:
  struct Place {
    uint32_t file;
    uint32_t entry;
  };
  // Places by name, stored as numbers into `tensors`.
  struct ByName {
    using is_transparent = void;
    const Checkpoint *checkpoint;
    std::string_view nameOf(uint32_t i) const { return checkpoint->tensor(i).name; }
    static std::string_view nameOf(std::string_view name) { return name; }
    template <typename T> size_t operator()(const T &key) const {
      return absl::Hash<absl::string_view>()(toAbsl(nameOf(key)));
    }
    template <typename A, typename B> bool operator()(const A &a, const B &b) const {
      return nameOf(a) == nameOf(b);
    }
  };

  Checkpoint() : byName(0, ByName{this}, ByName{this}) {}
  absl::Status openSingle(const std::string &file);
  absl::Status openIndex(const std::string &file);

  std::string givenPath;
  std::string index;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::vector<Place> tensors;
  // Empty for a single file, whose own table serves.
  absl::flat_hash_set<uint32_t, ByName, ByName> byName;
};

/// Answers every name of a checkpoint with zeros of its type: for checkpoints whose data is absent.
class SplatProvider : public SourceProvider {
public:
  explicit SplatProvider(const Checkpoint &checkpoint) : checkpoint(checkpoint) {}
  absl::StatusOr<SourceTensor> source(std::string_view name) const override;

private:
  const Checkpoint &checkpoint;
};

} // namespace adapt::weights
