#include "weights/WeightWriter.h"

#include "weights/JsonStream.h"

#include "fmt/format.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace adapt::weights {

std::map<std::string, std::string> rankMetadata(int64_t tpRank, int64_t tpSize, int64_t ppRank,
                                                int64_t ppSize, int64_t epRank, int64_t epSize) {
  return {{"producer", "adaptc"},
          {"tp_rank", std::to_string(tpRank)},
          {"tp_size", std::to_string(tpSize)},
          {"pp_rank", std::to_string(ppRank)},
          {"pp_size", std::to_string(ppSize)},
          {"ep_rank", std::to_string(epRank)},
          {"ep_size", std::to_string(epSize)}};
}

static uint64_t alignUp(uint64_t bytes) {
  return (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

namespace {

/// A JSON string literal; nothing if the text is not UTF-8.
std::optional<std::string> jsonString(const std::string &text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception &) {
    return std::nullopt;
  }
}

/// The header of one file, built tensor by tensor.
class HeaderBuilder {
public:
  void add(const std::string &literal, std::string_view dtype, absl::Span<const int64_t> shape,
           uint64_t bytes) {
    entries += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                           literal, dtype, fmt::join(shape, ","), dataBytes, dataBytes + bytes);
    dataBytes += bytes;
  }
  /// Brings the next tensor to its alignment.
  void pad() {
    uint64_t bytes = alignUp(dataBytes) - dataBytes;
    if (bytes == 0)
      return;
    int64_t extent = int64_t(bytes);
    add(fmt::format("\"__pad.{}\"", pads++), "U8", absl::MakeConstSpan(&extent, 1), bytes);
  }
  std::string finish(const std::string &metadata) const {
    std::string header = "{\"__metadata__\":{" + metadata + "}" + entries + "}";
    header.resize(alignUp(8 + header.size()) - 8, ' ');
    std::string length(8, '\0');
    for (int i = 0; i < 8; ++i)
      length[size_t(i)] = char(uint64_t(header.size()) >> (8 * i));
    return length + header;
  }

  std::string entries;
  uint64_t dataBytes = 0;

private:
  uint64_t pads = 0;
};

/// `"key":"value",…`, with the range of layers.
absl::StatusOr<std::string> metadataText(std::map<std::string, std::string> pairs,
                                         absl::Span<const WeightItem> items) {
  std::optional<int64_t> first, last;
  for (const WeightItem &item : items) {
    if (!item.layer)
      continue;
    first = std::min(first.value_or(*item.layer), *item.layer);
    last = std::max(last.value_or(*item.layer), *item.layer);
  }
  if (first)
    pairs["layers"] = fmt::format("{}-{}", *first, *last);
  std::string text;
  for (const auto &[key, value] : pairs) {
    std::optional<std::string> keyText = jsonString(key), valueText = jsonString(value);
    if (!keyText || !valueText)
      return absl::InvalidArgumentError(
          fmt::format("metadata {} of weight files is not UTF-8", quote(key)));
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", *keyText, *valueText);
  }
  return text;
}

} // namespace

absl::StatusOr<WeightWriter> WeightWriter::plan(std::vector<WeightItem> items,
                                                WeightWriterOptions options) {
  // Far enough below the format's limit for metadata and padding.
  constexpr uint64_t kMaxEntriesBytes = SafetensorsFile::kMaxHeaderBytes / 2;
  WeightWriter writer;
  writer.items = std::move(items);
  Problems problems;
  absl::flat_hash_set<std::string> names;
  HeaderBuilder header;
  size_t firstOfFile = 0;

  auto finishFile = [&](size_t pastItem) -> absl::Status {
    absl::StatusOr<std::string> metadata = metadataText(
        options.metadata,
        absl::MakeConstSpan(writer.items).subspan(firstOfFile, pastItem - firstOfFile));
    if (!metadata.ok())
      return metadata.status();
    writer.headers.push_back(header.finish(*metadata));
    uint64_t headerBytes = writer.headers.back().size();
    for (size_t i = firstOfFile; i < pastItem; ++i)
      writer.places[i].set_offset(writer.places[i].offset() + headerBytes);
    std::string name = fmt::format("weights-{:05}.safetensors", writer.outputs.size() + 1);
    writer.outputs.push_back({name, headerBytes + header.dataBytes, ""});
    header = HeaderBuilder();
    firstOfFile = pastItem;
    return absl::OkStatus();
  };

  for (size_t i = 0; i < writer.items.size(); ++i) {
    const WeightItem &item = writer.items[i];
    std::optional<std::string> literal = jsonString(item.name);
    if (!literal || item.name.empty() || item.name == "__metadata__" ||
        item.name.rfind("__pad.", 0) == 0)
      problems.add(fmt::format("{} cannot be a tensor's name", quote(item.name)));
    else if (!names.insert(item.name).second)
      problems.add(fmt::format("tensor {} is there twice", quote(item.name)));
    absl::StatusOr<uint64_t> bytes = storedBytes(item.type);
    if (!bytes.ok())
      problems.add(fmt::format("tensor {}: {}", quote(item.name), toStd(bytes.status().message())));
    if (!problems.empty())
      continue;

    std::optional<uint64_t> end = checkedAdd(alignUp(header.dataBytes), *bytes);
    if (i > firstOfFile &&
        (!end || *end > options.maxFileBytes || header.entries.size() > kMaxEntriesBytes)) {
      if (absl::Status status = finishFile(i); !status.ok())
        return status;
    }
    header.pad();
    schema::WeightTable::Stored place;
    place.set_name(item.name);
    place.set_file(uint32_t(writer.outputs.size()));
    place.set_offset(header.dataBytes); // the header's size is added when it is known
    place.set_bytes(*bytes);
    writer.places.push_back(std::move(place));
    header.add(*literal, safetensorsName(item.type.element()), physicalShape(item.type), *bytes);
  }
  if (!problems.empty())
    return problems.status("weight files");
  if (!writer.items.empty())
    if (absl::Status status = finishFile(writer.items.size()); !status.ok())
      return status;
  return writer;
}

void WeightWriter::describe(schema::WeightTable &table) const {
  table.clear_files();
  table.clear_stored();
  for (const File &file : outputs) {
    schema::WeightTable::WeightFile &out = *table.add_files();
    out.set_path(file.name);
    out.set_bytes(file.bytes);
  }
  for (const schema::WeightTable::Stored &place : places)
    *table.add_stored() = place;
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

namespace {

/// A new file, written in order, hashed on the way.
class OutputFile {
public:
  static absl::StatusOr<OutputFile> create(const std::string &path) {
    OutputFile file;
    file.path = path;
    file.fd = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.fd.get() < 0)
      return systemError(path, "cannot be created", errno);
    return file;
  }

  absl::Status append(absl::Span<const std::byte> bytes) {
    written += bytes.size();
    if (buffer.size() + bytes.size() > kBuffer)
      if (absl::Status status = flush(); !status.ok())
        return status;
    if (bytes.size() >= kBuffer)
      return put(bytes);
    buffer.insert(buffer.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }

  absl::Status appendZeros(uint64_t count) {
    static constexpr std::byte kZeros[kWeightAlignment] = {};
    return append(absl::MakeConstSpan(kZeros, size_t(count)));
  }

  absl::Status finish() {
    if (absl::Status status = flush(); !status.ok())
      return status;
    if (::fsync(fd.get()) != 0)
      return systemError(path, "cannot be synced to the disk", errno);
    return absl::OkStatus();
  }

  uint64_t bytes() const { return written; }
  std::string hash() const { return hexDigest(XXH3_128bits_digest(state.get())); }

private:
  static constexpr size_t kBuffer = 1 << 20;

  OutputFile() : state(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state.get()); }

  absl::Status flush() {
    absl::Status status = put(buffer);
    buffer.clear();
    return status;
  }

  absl::Status put(absl::Span<const std::byte> bytes) {
    // In pieces, so that what is hashed is still in the cache when it is written.
    while (!bytes.empty()) {
      absl::Span<const std::byte> piece = bytes.first(std::min(bytes.size(), kBuffer));
      bytes.remove_prefix(piece.size());
      XXH3_128bits_update(state.get(), piece.data(), piece.size());
      while (!piece.empty()) {
        ssize_t count = ::write(fd.get(), piece.data(), piece.size());
        if (count < 0 && errno == EINTR)
          continue;
        if (count < 0)
          return systemError(path, "cannot be written", errno);
        piece.remove_prefix(size_t(count));
      }
    }
    return absl::OkStatus();
  }

  std::string path;
  FileDescriptor fd;
  uint64_t written = 0;
  std::vector<std::byte> buffer;
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state;
};

absl::Status syncDirectory(const std::string &path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0)
    return systemError(path, "cannot be synced to the disk", errno);
  return absl::OkStatus();
}

} // namespace

absl::Status WeightWriter::write(const std::string &directory, const Producer &producer) {
  size_t item = 0;
  for (size_t f = 0; f < outputs.size(); ++f) {
    absl::StatusOr<OutputFile> out = OutputFile::create(directory + "/" + outputs[f].name);
    if (!out.ok())
      return out.status();
    const std::string &header = headers[f];
    absl::Status status = out->append(
        absl::MakeConstSpan(reinterpret_cast<const std::byte *>(header.data()), header.size()));
    for (; status.ok() && item < items.size() && places[item].file() == f; ++item) {
      const schema::WeightTable::Stored &place = places[item];
      status = out->appendZeros(place.offset() - out->bytes());
      if (!status.ok())
        break;
      uint64_t end = place.offset() + place.bytes();
      status = producer(item, [&](absl::Span<const std::byte> bytes) {
        if (bytes.size() > end - out->bytes())
          return absl::InternalError(fmt::format("tensor {} has more than its {} bytes",
                                                 quote(items[item].name), place.bytes()));
        return out->append(bytes);
      });
      if (status.ok() && out->bytes() != end)
        status = absl::InternalError(fmt::format("tensor {} has {} bytes fewer than its {}",
                                                 quote(items[item].name), end - out->bytes(),
                                                 place.bytes()));
    }
    if (status.ok())
      status = out->finish();
    if (!status.ok())
      return status;
    outputs[f].xxh3 = out->hash();
  }
  return syncDirectory(directory);
}

} // namespace adapt::weights
