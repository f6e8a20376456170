#include "weights/WeightTable.h"

#include "weights/JsonStream.h"

#include "fmt/format.h"

#include <filesystem>

namespace adapt::weights {

namespace fs = std::filesystem;
using schema::WeightTable;

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

static bool sameIndices(const WeightTable::Param &a, const WeightTable::Param &b) {
  auto same = [](const WeightTable::Range &x, const WeightTable::Range &y) {
    return x.index() == y.index() &&
           std::equal(x.values().begin(), x.values().end(), y.values().begin(), y.values().end());
  };
  return std::equal(a.indices().begin(), a.indices().end(), b.indices().begin(), b.indices().end(),
                    same);
}

/// Counts up like an odometer, the last range fastest. False after the last combination.
static bool advance(std::vector<int> &position, const WeightTable::Param &param) {
  for (int d = param.indices_size(); d-- > 0;) {
    if (++position[size_t(d)] < param.indices(d).values_size())
      return true;
    position[size_t(d)] = 0;
  }
  return false;
}

absl::StatusOr<std::vector<WeightInstance>> expandInstances(const WeightTable &table) {
  constexpr uint64_t kMaxInstances = 1 << 24;
  std::vector<WeightInstance> instances;
  Problems problems;
  absl::flat_hash_set<std::string> names;

  for (const WeightTable::Param &param : table.params()) {
    absl::StatusOr<uint64_t> bytes = storedBytes(param.type());
    if (!bytes.ok())
      problems.add(
          fmt::format("param {}: {}", quote(param.name()), toStd(bytes.status().message())));
    else if (*bytes != param.bytes())
      problems.add(fmt::format("param {} of type {} takes {} bytes, but is said to take {}",
                               quote(param.name()), typeString(param.type()), *bytes,
                               param.bytes()));
  }
  for (int first = 0; first < table.params_size();) {
    const WeightTable::Param &leader = table.params(first);
    int past = first + 1;
    while (past < table.params_size() && sameIndices(leader, table.params(past)))
      ++past;

    uint64_t combinations = 1;
    for (const WeightTable::Range &range : leader.indices())
      combinations = checkedMul(combinations, uint64_t(range.values_size())).value_or(UINT64_MAX);
    std::optional<uint64_t> count = checkedMul(combinations, uint64_t(past - first));
    if (!count || *count > kMaxInstances - instances.size())
      return absl::InvalidArgumentError(
          fmt::format("weight table: param {} and those before it are "
                      "more than {} tensors",
                      quote(leader.name()), kMaxInstances));

    std::vector<int> position(size_t(leader.indices_size()), 0);
    bool more = combinations > 0;
    for (; more; more = advance(position, leader)) {
      IntegerMap indices;
      for (int d = 0; d < leader.indices_size(); ++d)
        indices[leader.indices(d).index()] = leader.indices(d).values(position[size_t(d)]);
      for (int i = first; i < past; ++i) {
        const WeightTable::Param &param = table.params(i);
        absl::StatusOr<std::string> name = instantiate(param.name(), indices);
        if (!name.ok()) {
          problems.add(std::string(toStd(name.status().message())));
          continue;
        }
        if (!names.insert(*name).second)
          problems.add(fmt::format("tensor {} is there twice", quote(*name)));
        instances.push_back({&param, std::move(*name), indices});
      }
    }
    first = past;
  }
  if (!problems.empty())
    return problems.status("weight table");
  return instances;
}

absl::StatusOr<WeightTable> readWeightTable(const std::string &path) {
  constexpr uint64_t kMaxBytes = INT32_MAX; // of a Protobuf message
  absl::StatusOr<OpenedFile> opened = openForReading(path);
  if (!opened.ok())
    return opened.status();
  if (opened->stamp.bytes > kMaxBytes)
    return absl::InvalidArgumentError(
        fmt::format("{}: is larger than a weight table can be", printable(path, 4096)));
  WeightTable table;
  if (!table.ParseFromFileDescriptor(opened->fd.get()))
    return absl::InvalidArgumentError(fmt::format(
        "{}: is not a weight table (damaged, or of another version)", printable(path, 4096)));
  return table;
}

//===----------------------------------------------------------------------===//
// Source files
//===----------------------------------------------------------------------===//

/// XXH3-128 of a whole file, and its stamp.
static absl::StatusOr<WeightTable::SourceFile> describeWhole(const std::string &path) {
  absl::StatusOr<OpenedFile> opened = openForReading(path);
  if (!opened.ok())
    return opened.status();
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                 XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> buffer(size_t(std::min<uint64_t>(opened->stamp.bytes, 1 << 20)));
  for (uint64_t offset = 0; offset < opened->stamp.bytes;) {
    size_t bytes = size_t(std::min<uint64_t>(buffer.size(), opened->stamp.bytes - offset));
    absl::Status status =
        readExactly(opened->fd.get(), offset, absl::MakeSpan(buffer).first(bytes), path);
    if (!status.ok())
      return status;
    XXH3_128bits_update(state.get(), buffer.data(), bytes);
    offset += bytes;
  }
  WeightTable::SourceFile file;
  file.set_path(path);
  file.set_bytes(opened->stamp.bytes);
  file.set_mtime_ns(opened->stamp.mtimeNs);
  file.set_header_xxh3(hexDigest(XXH3_128bits_digest(state.get())));
  return file;
}

static WeightTable::SourceFile describe(const SafetensorsFile &file) {
  WeightTable::SourceFile result;
  result.set_path(file.path());
  result.set_bytes(file.stamp().bytes);
  result.set_mtime_ns(file.stamp().mtimeNs);
  result.set_header_xxh3(file.headerHash());
  return result;
}

/// Describes the files as they are now, with the paths that the checkpoint was opened by.
static absl::StatusOr<std::vector<WeightTable::SourceFile>>
describeAll(const Checkpoint &checkpoint) {
  std::vector<WeightTable::SourceFile> sources;
  if (!checkpoint.indexPath().empty()) {
    absl::StatusOr<WeightTable::SourceFile> index = describeWhole(checkpoint.indexPath());
    if (!index.ok())
      return index.status();
    sources.push_back(std::move(*index));
  }
  for (size_t i = 0; i < checkpoint.numFiles(); ++i)
    sources.push_back(describe(checkpoint.file(i)));
  return sources;
}

absl::StatusOr<std::vector<WeightTable::SourceFile>> describeSources(const Checkpoint &checkpoint) {
  absl::StatusOr<std::vector<WeightTable::SourceFile>> sources = describeAll(checkpoint);
  if (!sources.ok())
    return sources;
  for (WeightTable::SourceFile &source : *sources) {
    std::error_code error;
    fs::path absolute = fs::absolute(source.path(), error).lexically_normal();
    if (error)
      return systemError(source.path(), "cannot be made absolute", error.value());
    source.set_path(absolute.string());
  }
  return sources;
}

/// How a file differs from its record; empty if it does not.
static std::string difference(const WeightTable::SourceFile &then,
                              const WeightTable::SourceFile &now) {
  if (then.bytes() != now.bytes())
    return fmt::format("had {} bytes and has {}", then.bytes(), now.bytes());
  if (then.header_xxh3() != now.header_xxh3())
    return "has another header";
  if (then.mtime_ns() != now.mtime_ns())
    return "was modified since";
  return "";
}

absl::StatusOr<std::unique_ptr<Checkpoint>> openSources(const WeightTable &table,
                                                        const std::string &bundleDirectory) {
  if (table.sources().empty())
    return absl::InvalidArgumentError(
        "weight table: mode is REFERENCE, but it names no source files");
  auto locate = [&](const WeightTable::SourceFile &source) {
    return (fs::path(bundleDirectory) / source.path()).lexically_normal();
  };
  absl::StatusOr<std::unique_ptr<Checkpoint>> opened =
      Checkpoint::open(locate(table.sources(0)).string());
  if (!opened.ok())
    return absl::Status(
        opened.status().code(),
        fmt::format("the bundle refers to weights in the original checkpoint, and: {}",
                    toStd(opened.status().message())));
  absl::StatusOr<std::vector<WeightTable::SourceFile>> now = describeAll(**opened);
  if (!now.ok())
    return now.status();

  Problems problems;
  for (int i = 0; i < table.sources_size() && size_t(i) < now->size(); ++i) {
    const WeightTable::SourceFile &then = table.sources(i);
    std::string path = locate(then).string();
    if (path != fs::path((*now)[size_t(i)].path()).lexically_normal())
      problems.add(
          fmt::format("expected {}, found {}", quote(path), quote((*now)[size_t(i)].path())));
    else if (std::string how = difference(then, (*now)[size_t(i)]); !how.empty())
      problems.add(fmt::format("{} {}", path, how));
  }
  if (size_t(table.sources_size()) != now->size())
    problems.add(fmt::format("it had {} files and has {}", table.sources_size(), now->size()));
  if (!problems.empty())
    return problems.status(
        "the checkpoint that this bundle refers to is not the one it was made from "
        "(compile again)",
        absl::StatusCode::kFailedPrecondition);
  return opened;
}

} // namespace adapt::weights
