//===- Safetensors.h - The header of one safetensors file -----------------===//
//
// A safetensors file is an 8-byte little-endian length N, N bytes of JSON and the tensors' data:
//   {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, …,
//    "__metadata__": {"key": "value"}}
// with offsets from the end of the header. Format: https://github.com/huggingface/safetensors.
//
// Nothing in a file is believed. A file that opens has: a header within the file and its cap,
// unique names, known dtypes, offsets that agree with shape and dtype and that cover the data
// exactly, with no overlap, gap or rest. All problems of a file are told together, with the
// tensors' names.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/ElementType.h"
#include "weights/Support.h"

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"

#include <memory>
#include <mutex>

namespace adapt::weights {

/// A data type of the format. Some have no ElementType yet: a file may hold such tensors, and only
/// asking for one of them is an error.
struct DataType {
  std::string_view name;
  unsigned bits;
  ElementType element; // ELEMENT_TYPE_UNSPECIFIED: cannot be computed with
};

/// Null for a name that the format does not know.
const DataType *findDataType(std::string_view name);

/// One tensor of a file. Refers to the file's memory.
struct TensorEntry {
  std::string_view name;
  const DataType *type;
  absl::Span<const int64_t> shape;
  uint64_t offset; // of the data, from the start of the file; any alignment
  uint64_t bytes;
};

class SafetensorsFile {
public:
  /// The reference implementation's limit of a header, in bytes.
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;

  /// Reads and checks the header; no data is read.
  /// Errors: InvalidArgument (what is wrong with the file), NotFound and other system errors.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> open(const std::string &path);

  const std::string &path() const { return filePath; }
  const FileStamp &stamp() const { return fileStamp; }
  /// XXH3-128 of the N bytes of JSON, padding included, as 32 hex digits.
  const std::string &headerHash() const { return hash; }
  /// `__metadata__`, in the order of the file.
  absl::Span<const std::pair<std::string, std::string>> metadata() const { return metadataPairs; }

  size_t size() const { return entries.size(); }
  /// In the order of the header.
  TensorEntry tensor(size_t index) const;
  std::optional<size_t> find(std::string_view name) const;

  /// The data of a tensor, in the mapped file. Maps the file on the first call, and fails if it is
  /// no longer the one whose header was read. Thread-safe.
  absl::StatusOr<absl::Span<const std::byte>> data(size_t index) const;

private:
  friend class HeaderHandler;

  // Names and shapes lie in two shared pools; a header of half a million tensors is common enough.
  struct Entry {
    uint64_t begin = 0; // from the end of the header
    uint64_t end = 0;
    uint32_t name = 0;
    uint32_t nameBytes = 0;
    uint32_t shape = 0;
    uint32_t rank = 0;
    const DataType *type = nullptr;
  };
  // Entries by name, stored as their numbers.
  struct ByName {
    using is_transparent = void;
    const SafetensorsFile *file;
    std::string_view nameOf(uint32_t index) const { return file->nameOf(file->entries[index]); }
    static std::string_view nameOf(std::string_view name) { return name; }
    template <typename T> size_t operator()(const T &key) const {
      return absl::Hash<absl::string_view>()(toAbsl(nameOf(key)));
    }
    template <typename A, typename B> bool operator()(const A &a, const B &b) const {
      return nameOf(a) == nameOf(b);
    }
  };

  SafetensorsFile() : byName(0, ByName{this}, ByName{this}) {}
  absl::Status readHeader(const OpenedFile &file);
  void checkCover(Problems &problems) const;
  std::string_view nameOf(const Entry &entry) const {
    return std::string_view(names).substr(entry.name, entry.nameBytes);
  }

  std::string filePath;
  FileStamp fileStamp;
  uint64_t dataStart = 0;
  std::string hash;
  std::vector<std::pair<std::string, std::string>> metadataPairs;
  std::string names;
  std::vector<int64_t> shapes;
  std::vector<Entry> entries;
  absl::flat_hash_set<uint32_t, ByName, ByName> byName;

  mutable std::mutex mapMutex;
  mutable MappedFile mapped;
  mutable bool isMapped = false;
};

} // namespace adapt::weights
