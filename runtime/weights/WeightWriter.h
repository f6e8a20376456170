//===- WeightWriter.h - Weight files of a bundle --------------------------===//
//
// Writes tensors one after the other into weights-00001.safetensors, … . Every tensor begins at a
// multiple of 64 bytes of its file: the header is padded with spaces, and between tensors lie pad
// tensors "__pad.N" of U8, so that the files stay valid safetensors. Packed tensors have the shape
// [ceil(N/n), ceil(K/k), n, k] there. The same input gives the same bytes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/WeightTable.h"

namespace adapt::weights {

struct WeightItem {
  std::string name; // unique; not "__metadata__", not "__pad.…"
  schema::TensorType type;
  std::optional<int64_t> layer; // for the metadata
};

struct WeightWriterOptions {
  /// A file ends before the tensor that would make it larger; a larger tensor has its own file.
  uint64_t maxFileBytes = uint64_t(8) << 30;
  /// Goes into `__metadata__` of each file, e.g. {"tp_rank", "0"}. The writer adds "layers":
  /// "first-last" of the file's own tensors.
  std::map<std::string, std::string> metadata;
};

/// The metadata that every weight file of a bundle carries.
std::map<std::string, std::string> rankMetadata(int64_t tpRank, int64_t tpSize, int64_t ppRank,
                                                int64_t ppSize, int64_t epRank, int64_t epSize);

class WeightWriter {
public:
  struct File {
    std::string name; // "weights-00001.safetensors"
    uint64_t bytes;
    std::string xxh3; // XXH3-128 of the file, hex; known after `write`
  };

  /// Lays out the files. Nothing is written. Errors: all wrong names and types.
  static absl::StatusOr<WeightWriter> plan(std::vector<WeightItem> items,
                                           WeightWriterOptions options = {});

  /// Where each item lies, in their order; `file` is a number into `files()`.
  const std::vector<schema::WeightTable::Stored> &stored() const { return places; }
  const std::vector<File> &files() const { return outputs; }

  /// Called once for each item, in order; hands the item's bytes to the sink.
  using Producer = std::function<absl::Status(size_t item, const Evaluation::Sink &sink)>;

  /// Writes all files into an existing directory, and syncs them to the disk. No file may be there
  /// before. To make it atomic, write into a temporary directory and rename that. On an error files
  /// may be left incomplete.
  absl::Status write(const std::string &directory, const Producer &producer);

  /// Fills `files` and `stored` of a table.
  void describe(schema::WeightTable &table) const;

private:
  WeightWriter() = default;

  std::vector<WeightItem> items;
  std::vector<schema::WeightTable::Stored> places;
  std::vector<File> outputs;
  std::vector<std::string> headers; // of each file, length and padding included
};

} // namespace adapt::weights
