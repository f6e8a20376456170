#include "adapt/Bundle.h"
#include "adapt/Version.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include <limits>

using namespace adapt;
using namespace adapt::rt;
using nlohmann::json;

namespace {

constexpr int64_t kMaxAxis = 1 << 20; // ranks along one axis of the mesh

/// Whether a path is relative and stays where it starts, whatever lies there.
bool staysInside(absl::string_view path) {
  if (path.empty() || path[0] == '/' || path.find('\\') != absl::string_view::npos ||
      path.find('\0') != absl::string_view::npos)
    return false;
  for (absl::string_view part : absl::StrSplit(path, '/'))
    if (part.empty() || part == "." || part == "..")
      return false;
  return true;
}

/// Reads fields of nested objects and collects what is wrong with them.
class Reader {
public:
  explicit Reader(Problems &problems) : problems(problems) {}

  /// The value at a key of an object, or null after reporting.
  const json *field(const json &object, const std::string &where, const char *key,
                    json::value_t type, const char *typeName) {
    auto it = object.find(key);
    if (it == object.end()) {
      problems.add(where, key, " is missing");
      return nullptr;
    }
    bool isType =
        it->type() == type || (type == json::value_t::number_integer && it->is_number_integer());
    if (isType)
      return &*it;
    problems.add(where, key, " is not ", typeName);
    return nullptr;
  }

  const json *object(const json &parent, const std::string &where, const char *key) {
    return field(parent, where, key, json::value_t::object, "an object");
  }

  const json *array(const json &parent, const std::string &where, const char *key) {
    return field(parent, where, key, json::value_t::array, "an array");
  }

  void string(const json &object, const std::string &where, const char *key, std::string &out) {
    if (const json *value = field(object, where, key, json::value_t::string, "a string"))
      out = value->get<std::string>();
  }

  void path(const json &object, const std::string &where, const char *key, std::string &out) {
    string(object, where, key, out);
    if (object.contains(key) && object[key].is_string() && !staysInside(out))
      problems.add(where, key, " '", out, "' is not a path within the bundle");
  }

  void integer(const json &object, const std::string &where, const char *key, int64_t min,
               int64_t max, int64_t &out) {
    if (const json *value = field(object, where, key, json::value_t::number_integer, "an integer"))
      number(*value, absl::StrCat(where, key), min, max, out);
  }

  void number(const json &value, const std::string &what, int64_t min, int64_t max, int64_t &out) {
    bool tooLarge =
        value.is_number_unsigned() &&
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (tooLarge || value.get<int64_t>() < min || value.get<int64_t>() > max)
      problems.add(what, " is ", value.dump(), ", must lie in ", min, " to ", max);
    else
      out = value.get<int64_t>();
  }

  void strings(const json &object, const std::string &where, const char *key,
               std::vector<std::string> &out) {
    const json *list = array(object, where, key);
    for (size_t i = 0; list && i < list->size(); ++i) {
      if (!(*list)[i].is_string())
        problems.add(where, key, "[", i, "] is not a string");
      else
        out.push_back((*list)[i].get<std::string>());
    }
  }

  void tokenIds(const json &object, const std::string &where, const char *key, int64_t limit,
                std::vector<int32_t> &out) {
    const json *list = array(object, where, key);
    for (size_t i = 0; list && i < list->size(); ++i) {
      int64_t id = 0;
      if (!(*list)[i].is_number_integer())
        problems.add(where, key, "[", i, "] is not an integer");
      else
        number((*list)[i], absl::StrCat(where, key, "[", i, "]"), 0, limit - 1, id);
      out.push_back(static_cast<int32_t>(id));
    }
  }

private:
  Problems &problems;
};

void readLayers(Reader &read, const json &rank, const std::string &where, Manifest::Rank &out,
                Problems &problems) {
  const json *layers = read.array(rank, where, "layers");
  if (!layers)
    return;
  if (layers->size() != 2 || !(*layers)[0].is_number_integer() ||
      !(*layers)[1].is_number_integer()) {
    problems.add(where, "layers is not [first, last]");
    return;
  }
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  std::pair<int64_t, int64_t> range(0, 0);
  read.number((*layers)[0], where + "layers[0]", 0, kMax, range.first);
  read.number((*layers)[1], where + "layers[1]", range.first, kMax, range.second);
  out.layers = range;
}

void readRanks(Reader &read, const json &root, Manifest &manifest, Problems &problems) {
  const json *ranks = read.array(root, "", "ranks");
  for (size_t i = 0; ranks && i < ranks->size(); ++i) {
    std::string where = absl::StrCat("ranks[", i, "].");
    const json &rank = (*ranks)[i];
    if (!rank.is_object()) {
      problems.add("ranks[", i, "] is not an object");
      continue;
    }
    Manifest::Rank &out = manifest.ranks.emplace_back();
    read.path(rank, where, "directory", out.directory);
    read.integer(rank, where, "pp_rank", 0, kMaxAxis - 1, out.ppRank);
    read.integer(rank, where, "tp_rank", 0, kMaxAxis - 1, out.tpRank);
    if (rank.contains("layers"))
      readLayers(read, rank, where, out, problems);
    read.path(rank, where, "program", out.program);
    read.path(rank, where, "weights", out.weights);
    read.path(rank, where, "kernels", out.kernels);
    for (auto [key, path] : {std::pair("ptx", &out.ptx), std::pair("sim", &out.sim)})
      if (rank.contains(key))
        read.path(rank, where, key, *path);
  }
}

/// That the ranks are those of the mesh, in order, and their layers the model's.
void checkRanks(const Manifest &manifest, Problems &problems) {
  if (manifest.dp != 1)
    problems.add("parallel.dp is ", manifest.dp, ", this runtime reads bundles of dp 1");
  if (manifest.ranks.size() != static_cast<size_t>(manifest.tp * manifest.pp)) {
    problems.add(manifest.ranks.size(), " ranks, but tp * pp is ", manifest.tp * manifest.pp);
    return;
  }
  absl::flat_hash_set<std::string> directories;
  for (size_t i = 0; i < manifest.ranks.size(); ++i) {
    const Manifest::Rank &rank = manifest.ranks[i];
    std::string where = absl::StrCat("ranks[", i, "].");
    int64_t pp = static_cast<int64_t>(i) / manifest.tp, tp = static_cast<int64_t>(i) % manifest.tp;
    if (rank.ppRank != pp || rank.tpRank != tp)
      problems.add(where, "pp_rank and tp_rank are ", rank.ppRank, " and ", rank.tpRank,
                   ", must be ", pp, " and ", tp);
    if (!directories.insert(rank.directory).second)
      problems.add(where, "directory '", rank.directory, "' is another rank's too");
    const Manifest::Rank &stage = manifest.ranks[pp * manifest.tp];
    if (rank.program != stage.program)
      problems.add(where, "program '", rank.program, "' is not its stage's '", stage.program, "'");
    if (rank.layers != stage.layers) {
      problems.add(where, "layers are not those of its stage");
    } else if (rank.layers.has_value() != manifest.ranks[0].layers.has_value()) {
      problems.add(where, "layers are ", rank.layers ? "given" : "missing", ", unlike rank 0's");
    } else if (tp == 0 && rank.layers) {
      const Manifest::Rank *before = pp ? &manifest.ranks[(pp - 1) * manifest.tp] : nullptr;
      int64_t first = before && before->layers ? before->layers->second + 1 : 0;
      if (rank.layers->first != first)
        problems.add(where, "layers begin at ", rank.layers->first, ", must begin at ", first);
    }
  }
}

void readFiles(Reader &read, const json &root, Manifest &manifest, Problems &problems) {
  const json *files = read.array(root, "", "files");
  absl::flat_hash_set<std::string> seen;
  for (size_t i = 0; files && i < files->size(); ++i) {
    std::string where = absl::StrCat("files[", i, "].");
    const json &file = (*files)[i];
    if (!file.is_object()) {
      problems.add("files[", i, "] is not an object");
      continue;
    }
    Manifest::File &out = manifest.files.emplace_back();
    read.path(file, where, "path", out.path);
    int64_t bytes = 0;
    read.integer(file, where, "bytes", 0, std::numeric_limits<int64_t>::max(), bytes);
    out.bytes = static_cast<uint64_t>(bytes);
    read.string(file, where, "xxh3", out.xxh3);
    if (out.xxh3.size() != 32 ||
        out.xxh3.find_first_not_of("0123456789abcdef") != std::string::npos)
      problems.add(where, "xxh3 '", out.xxh3, "' is not 32 hexadecimal digits");
    if (!seen.insert(out.path).second)
      problems.add(where, "path '", out.path, "' appears twice");
  }
  // What the runtime opens must be covered by sizes and hashes.
  auto requireListed = [&](const std::string &path) {
    if (!seen.contains(path))
      problems.add("'", path, "' is not in files");
  };
  for (const Manifest::Rank &rank : manifest.ranks)
    for (const std::string *file :
         {&rank.program, &rank.weights, &rank.kernels, &rank.ptx, &rank.sim})
      if (!file->empty())
        requireListed(*file);
  if (!manifest.tokenizer.empty())
    requireListed(manifest.tokenizer);
}

} // namespace

absl::StatusOr<Manifest> Manifest::parse(absl::string_view text) {
  // Two equal keys in an object: the second would win unseen.
  std::vector<absl::flat_hash_set<std::string>> keys;
  std::string repeated;
  json::parser_callback_t callback = [&](int, json::parse_event_t event, json &value) {
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == json::parse_event_t::key &&
             !keys.back().insert(value.get<std::string>()).second)
      repeated = value.get<std::string>();
    return true;
  };
  json root = json::parse(text.begin(), text.end(), callback, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object())
    return absl::InvalidArgumentError("not a JSON object");
  if (!repeated.empty())
    return absl::InvalidArgumentError(absl::StrCat("key '", repeated, "' appears twice"));

  // Before all else, since everything else depends on it.
  Manifest manifest;
  Problems problems;
  Reader read(problems);
  std::string format;
  int64_t version = 0;
  read.string(root, "", "format", format);
  read.integer(root, "", "format_version", 0, std::numeric_limits<int64_t>::max(), version);
  if (problems.empty() && format != "adaptc-bundle")
    problems.add("format is '", format, "', not 'adaptc-bundle'");
  ADAPT_RETURN_IF_ERROR(problems.status("not a bundle's manifest"));
  if (version != kBundleFormatVersion)
    return absl::FailedPreconditionError(absl::StrCat(
        "bundle format version ", version, ", but this runtime reads version ",
        kBundleFormatVersion, ": ",
        version > kBundleFormatVersion ? "use the adapt-run that came with the bundle's adaptc"
                                       : "compile the model again"));

  read.string(root, "", "name", manifest.name);
  if (const json *producer = read.object(root, "", "producer")) {
    read.string(*producer, "producer.", "version", manifest.producerVersion);
    read.string(*producer, "producer.", "commit", manifest.producerCommit);
    read.string(*producer, "producer.", "llvm", manifest.producerLlvm);
  }
  if (const json *target = read.object(root, "", "target")) {
    read.string(*target, "target.", "name", manifest.targetName);
    if (manifest.targetName == "cuda" || manifest.targetName == "hip") {
      read.string(*target, "target.", "arch", manifest.targetArch);
    } else {
      read.string(*target, "target.", "cpu", manifest.targetCpu);
      read.strings(*target, "target.", "features", manifest.targetFeatures);
    }
  }
  if (const json *parallel = read.object(root, "", "parallel"))
    for (auto [key, out] : {std::pair("tp", &manifest.tp), std::pair("pp", &manifest.pp),
                            std::pair("dp", &manifest.dp), std::pair("ep", &manifest.ep)})
      read.integer(*parallel, "parallel.", key, 1, kMaxAxis, *out);
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const json *model = read.object(root, "", "model");
  if (model) {
    read.string(*model, "model.", "kind", manifest.kind);
    if (manifest.kind != "language_model" && manifest.kind != "graph")
      problems.add("model.kind is '", manifest.kind, "', neither 'language_model' nor 'graph'");
  }
  // A graph has no more to it than its program says.
  bool isGraph = manifest.kind == "graph";
  if (model && !isGraph) {
    read.string(*model, "model.", "family", manifest.family);
    read.string(*model, "model.", "dtype", manifest.dtype);
    read.integer(*model, "model.", "vocab_size", 1, kMax, manifest.vocabSize);
    read.integer(*model, "model.", "max_seq_len", 1, kMax, manifest.modelMaxSeqLen);
    read.tokenIds(*model, "model.", "bos_token_ids", manifest.vocabSize, manifest.bosTokenIds);
    read.tokenIds(*model, "model.", "eos_token_ids", manifest.vocabSize, manifest.eosTokenIds);
  }
  if (const json *limits = isGraph ? nullptr : read.object(root, "", "limits")) {
    read.integer(*limits, "limits.", "max_num_tokens", 1, kMax, manifest.maxNumTokens);
    read.integer(*limits, "limits.", "max_batch_size", 1, kMax, manifest.maxBatchSize);
    read.integer(*limits, "limits.", "max_seq_len", 1, kMax, manifest.maxSeqLen);
    read.integer(*limits, "limits.", "block_tokens", 1, 1 << 20, manifest.blockTokens);
  }
  if (root.contains("tokenizer") && !root["tokenizer"].is_null())
    if (const json *tokenizer = read.object(root, "", "tokenizer"))
      read.path(*tokenizer, "tokenizer.", "file", manifest.tokenizer);
  readRanks(read, root, manifest, problems);
  readFiles(read, root, manifest, problems);
  checkRanks(manifest, problems);
  ADAPT_RETURN_IF_ERROR(problems.status("the manifest is not valid"));
  return manifest;
}
