#include "weights/Checkpoint.h"

#include "weights/JsonStream.h"

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"

#include <algorithm>
#include <filesystem>

namespace adapt::weights {

namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// The index
//===----------------------------------------------------------------------===//

namespace {

/// The index as read: names in one pool, in order, each with the number of its shard.
struct IndexContents {
  std::string names;
  struct Item {
    size_t name;
    size_t nameBytes;
    uint32_t shard;
  };
  std::vector<Item> items;
  std::vector<std::string> shards;

  std::string_view nameOf(const Item &item) const {
    return std::string_view(names).substr(item.name, item.nameBytes);
  }
};

/// Reads `weight_map`; other keys of the index are passed over.
class IndexHandler : public JsonHandler {
public:
  explicit IndexHandler(IndexContents &contents) : contents(contents) {}
  bool sawMap = false;

  bool null() override { return skipped() || unexpected("null"); }
  bool boolean(bool) override { return skipped() || unexpected("a boolean"); }
  bool number_integer(int64_t v) override { return skipped() || unexpected(std::to_string(v)); }
  bool number_unsigned(uint64_t v) override { return skipped() || unexpected(std::to_string(v)); }
  bool number_float(double, const std::string &text) override {
    return skipped() || unexpected(printable(text, 40));
  }

  bool start_object(size_t) override {
    if (skipping()) {
      ++depth;
      return true;
    }
    if (place == Place::Start) {
      place = Place::Root;
      return true;
    }
    if (place == Place::MapValue) {
      place = Place::Map;
      return true;
    }
    return unexpected("an object");
  }
  bool start_array(size_t) override {
    if (!skipping())
      return unexpected("an array");
    ++depth;
    return true;
  }
  bool end_array() override { return leave(); }
  bool end_object() override {
    if (skipping())
      return leave();
    place = place == Place::Map ? Place::Root : Place::End;
    return true;
  }

  bool key(std::string &name) override {
    if (skipping())
      return true;
    if (place == Place::Root) {
      if (name != "weight_map") {
        place = Place::Skip;
        return true;
      }
      if (sawMap)
        return fail("'weight_map' is there twice");
      sawMap = true;
      place = Place::MapValue;
      return true;
    }
    contents.items.push_back({contents.names.size(), name.size(), 0});
    contents.names += name;
    place = Place::ShardName;
    return true;
  }

  bool string(std::string &text) override {
    if (skipped())
      return true;
    if (place != Place::ShardName)
      return unexpected("the string " + quote(text));
    auto [found, isNew] = shardNumbers.try_emplace(text, uint32_t(contents.shards.size()));
    if (isNew)
      contents.shards.push_back(text);
    contents.items.back().shard = found->second;
    place = Place::Map;
    return true;
  }

protected:
  bool unexpected(std::string_view what) override {
    if (place == Place::ShardName)
      return fail(fmt::format("the shard of tensor {} is {}, not a string",
                              quote(contents.nameOf(contents.items.back())), what));
    if (place == Place::MapValue)
      return fail(fmt::format("'weight_map' is {}, not an object", what));
    return fail(fmt::format("the index is {}, not an object", what));
  }

private:
  enum class Place { Start, Root, Skip, MapValue, Map, ShardName, End };

  bool skipping() const { return place == Place::Skip; }
  /// A scalar of a value that is passed over.
  bool skipped() {
    if (!skipping())
      return false;
    if (depth == 0)
      place = Place::Root;
    return true;
  }
  bool leave() {
    if (--depth == 0)
      place = Place::Root;
    return true;
  }

  IndexContents &contents;
  absl::flat_hash_map<std::string, uint32_t> shardNumbers;
  Place place = Place::Start;
  size_t depth = 0;
};

absl::StatusOr<IndexContents> readIndex(const std::string &path) {
  absl::StatusOr<OpenedFile> opened = openForReading(path);
  if (!opened.ok())
    return opened.status();
  IndexContents contents;
  JsonStream stream(opened->fd.get(), 0, opened->stamp.bytes, path);
  IndexHandler handler(contents);
  std::string subject = printable(path, 4096);
  if (absl::Status status = parseJson(stream, handler, subject); !status.ok())
    return status;
  if (!handler.sawMap)
    return absl::InvalidArgumentError(subject + ": has no 'weight_map'");
  return contents;
}

/// There is such a name, even if it is a symbolic link that leads nowhere.
bool hasName(const fs::path &path) {
  std::error_code ignored;
  fs::file_type type = fs::symlink_status(path, ignored).type();
  return type != fs::file_type::not_found && type != fs::file_type::none;
}

} // namespace

//===----------------------------------------------------------------------===//
// Checkpoint
//===----------------------------------------------------------------------===//

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::string &path) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->givenPath = path;
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  auto opened = [&](absl::Status result) -> absl::StatusOr<std::unique_ptr<Checkpoint>> {
    if (!result.ok())
      return result;
    return std::move(checkpoint);
  };

  if (!fs::exists(status))
    return absl::NotFoundError(printable(path, 4096) + ": does not exist");
  if (!fs::is_directory(status))
    return opened(fs::path(path).extension() == ".json" ? checkpoint->openIndex(path)
                                                        : checkpoint->openSingle(path));
  fs::path indexPath = fs::path(path) / kIndexName;
  if (hasName(indexPath))
    return opened(checkpoint->openIndex(indexPath.string()));
  fs::path single = fs::path(path) / kSingleName;
  if (hasName(single))
    return opened(checkpoint->openSingle(single.string()));

  std::vector<std::string> others;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::string extension = it->path().extension().string();
    if (extension == ".safetensors" || extension == ".bin" || extension == ".pt" ||
        extension == ".pth" || extension == ".gguf")
      others.push_back(quote(it->path().filename().string()));
  }
  std::sort(others.begin(), others.end());
  std::string message =
      fmt::format("{}: has neither {} nor {}", printable(path, 4096), kIndexName, kSingleName);
  if (others.empty())
    return absl::NotFoundError(message + ", nor other files of weights");
  if (others.size() > 5) {
    std::string more = fmt::format("{} more", others.size() - 5);
    others.resize(5);
    others.push_back(more);
  }
  return absl::NotFoundError(
      fmt::format("{}; it has {} (a single safetensors file can be given by its path)", message,
                  fmt::join(others, ", ")));
}

absl::Status Checkpoint::openSingle(const std::string &path) {
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> opened = SafetensorsFile::open(path);
  if (!opened.ok())
    return opened.status();
  files.push_back(std::move(*opened));
  tensors.resize(files[0]->size());
  for (uint32_t i = 0; i < tensors.size(); ++i)
    tensors[i] = {0, i};
  return absl::OkStatus();
}

absl::Status Checkpoint::openIndex(const std::string &path) {
  index = path;
  std::string subject = printable(path, 4096);
  absl::StatusOr<IndexContents> contents = readIndex(path);
  if (!contents.ok())
    return contents.status();
  if (contents->items.size() > UINT32_MAX)
    return absl::InvalidArgumentError(subject + ": lists more than 2^32 tensors");

  fs::path directory = fs::path(path).parent_path();
  Problems names, missing;
  for (const std::string &shard : contents->shards) {
    std::error_code error;
    if (!isInnerPath(shard))
      names.add(
          fmt::format("shard {} is not a file name below the index's directory", quote(shard)));
    else if (!fs::exists(directory / shard, error))
      missing.add(fmt::format("shard {} is missing", quote(shard)));
  }
  if (!names.empty())
    return names.status(subject);
  if (!missing.empty())
    return missing.status(subject, absl::StatusCode::kNotFound);

  Problems invalid;
  for (const std::string &shard : contents->shards) {
    absl::StatusOr<std::unique_ptr<SafetensorsFile>> opened =
        SafetensorsFile::open((directory / shard).string());
    if (opened.ok())
      files.push_back(std::move(*opened));
    else
      invalid.add(std::string(toStd(opened.status().message())));
  }
  if (!invalid.empty())
    return invalid.status(subject);

  Problems absent;
  tensors.reserve(contents->items.size());
  byName.reserve(contents->items.size());
  for (const IndexContents::Item &item : contents->items) {
    std::string_view name = contents->nameOf(item);
    std::optional<size_t> entry = files[item.shard]->find(name);
    if (!entry) {
      absent.add(fmt::format("tensor {} is not in its shard {}", quote(name),
                             quote(contents->shards[item.shard])));
      continue;
    }
    tensors.push_back({item.shard, uint32_t(*entry)});
    if (!byName.insert(uint32_t(tensors.size() - 1)).second)
      absent.add(fmt::format("tensor {} is listed twice", quote(name)));
  }
  return absent.status(subject);
}

Checkpoint::Tensor Checkpoint::tensor(size_t i) const {
  const Place &place = tensors[i];
  return {files[place.file]->tensor(place.entry), place.file, place.entry};
}

std::optional<Checkpoint::Tensor> Checkpoint::find(std::string_view name) const {
  if (index.empty()) {
    std::optional<size_t> entry = files[0]->find(name);
    return entry ? std::optional<Tensor>(tensor(*entry)) : std::nullopt;
  }
  auto found = byName.find(name);
  return found == byName.end() ? std::nullopt : std::optional<Tensor>(tensor(*found));
}

/// A tensor's type and shape, without data.
static absl::StatusOr<SourceTensor> describe(const Checkpoint &checkpoint, std::string_view name,
                                             std::optional<Checkpoint::Tensor> tensor) {
  if (!tensor)
    return absl::NotFoundError(fmt::format("{}: has no tensor {} among its {}",
                                           printable(checkpoint.path(), 4096), quote(name),
                                           checkpoint.size()));
  if (tensor->type->element == schema::ELEMENT_TYPE_UNSPECIFIED)
    return absl::UnimplementedError(fmt::format(
        "{}: tensor {} is {}, which this version cannot compute with",
        printable(checkpoint.file(tensor->file).path(), 4096), quote(name), tensor->type->name));
  SourceTensor result;
  result.element = tensor->type->element;
  result.shape.assign(tensor->shape.begin(), tensor->shape.end());
  return result;
}

absl::StatusOr<SourceTensor> Checkpoint::source(std::string_view name) const {
  std::optional<Tensor> tensor = find(name);
  absl::StatusOr<SourceTensor> result = describe(*this, name, tensor);
  if (!result.ok())
    return result;
  absl::StatusOr<absl::Span<const std::byte>> bytes = data(*tensor);
  if (!bytes.ok())
    return bytes.status();
  result->data = *bytes;
  return result;
}

absl::StatusOr<SourceTensor> SplatProvider::source(std::string_view name) const {
  static constexpr std::byte kZero[8] = {};
  absl::StatusOr<SourceTensor> result = describe(checkpoint, name, checkpoint.find(name));
  if (!result.ok())
    return result;
  result->data = absl::MakeConstSpan(kZero, elementBytes(result->element));
  result->isSplat = true;
  return result;
}

} // namespace adapt::weights
