#include "absl/container/flat_hash_set.h"
#include "text/ByteAlphabet.h"
#include "text/Normalizer.h"
#include "text/TokenizerFile.h"
#include "text/TokenizerParts.h"

#include <algorithm>
#include <fmt/format.h>
#include <initializer_list>
#include <utility>

namespace adapt::rt {
namespace {

using nlohmann::json;

constexpr size_t kMaxAddedToken = 1024; // bytes

class Loader {
public:
  explicit Loader(Problems &problems) : problems(problems) {}

  TokenizerParts parts;

  void load(const TokenizerFile &file) {
    if (!isObject(file.rest, "the file"))
      return;
    checkKeys(file.rest, "the file",
              {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model"});
    const json &version = at(file.rest, "version");
    if (version != "1.0")
      problems.add(fmt::format("version is {}, known is \"1.0\"", brief(version)));
    for (const char *key : {"truncation", "padding"})
      if (!at(file.rest, key).is_null())
        problems.add(fmt::format("{} is set; only null is supported", key));
    loadNormalizer(at(file.rest, "normalizer"), "normalizer");
    // Added tokens come last: BPE knows the model's vocabulary only.
    loadModel(at(file.rest, "model"), file);
    loadUnknown(at(file.rest, "model"));
    loadMerges(file);
    loadAddedTokens(at(file.rest, "added_tokens"));
    parts.special.resize(parts.known.size());
    parts.bpe.special = parts.special;
    loadPreTokenizers(at(file.rest, "pre_tokenizer"));
    loadPostProcessor(at(file.rest, "post_processor"), "post_processor");
    loadDecoder(at(file.rest, "decoder"));
  }

private:
  // --- JSON

  static const json &at(const json &object, const char *key) {
    static const json null;
    if (!object.is_object())
      return null;
    auto it = object.find(key);
    return it == object.end() ? null : *it;
  }

  static std::string brief(const json &value) {
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
  }

  bool isObject(const json &value, std::string_view where) {
    if (!value.is_object())
      problems.add(fmt::format("{} is not an object", where));
    return value.is_object();
  }

  void checkKeys(const json &object, std::string_view where,
                 std::initializer_list<std::string_view> known) {
    for (auto it = object.begin(); it != object.end(); ++it)
      if (std::find(known.begin(), known.end(), it.key()) == known.end())
        problems.add(fmt::format("{}: key '{}' is not known", where, it.key()));
  }

  std::string typeOf(const json &object, std::string_view where) {
    if (!isObject(object, where))
      return "";
    const json &type = at(object, "type");
    if (!type.is_string()) {
      problems.add(fmt::format("{} has no type", where));
      return "";
    }
    return type.get<std::string>();
  }

  bool boolean(const json &object, const char *key, bool absent, std::string_view where) {
    const json &value = at(object, key);
    if (value.is_null())
      return absent;
    if (!value.is_boolean()) {
      problems.add(fmt::format("{}: {} is {}, not true or false", where, key, brief(value)));
      return absent;
    }
    return value.get<bool>();
  }

  /// The elements of an array, or none and a problem.
  const json &array(const json &object, const char *key, std::string_view where) {
    static const json none = json::array();
    const json &value = at(object, key);
    if (value.is_array())
      return value;
    problems.add(fmt::format("{}: {} is not an array", where, key));
    return none;
  }

  // --- Parts

  void loadNormalizer(const json &value, const std::string &where) {
    if (value.is_null())
      return;
    std::string type = typeOf(value, where);
    if (type == "NFC") {
      checkKeys(value, where, {"type"});
      parts.nfc = true;
    } else if (type == "Sequence") {
      checkKeys(value, where, {"type", "normalizers"});
      size_t i = 0;
      for (const json &part : array(value, "normalizers", where))
        loadNormalizer(part, fmt::format("{}.normalizers[{}]", where, i++));
    } else if (!type.empty()) {
      problems.add(fmt::format("{}: type '{}' is not supported (NFC, Sequence)", where, type));
    }
  }

  void loadModel(const json &model, const TokenizerFile &file) {
    std::string type = typeOf(model, "model");
    if (type.empty())
      return;
    if (type != "BPE") {
      problems.add(fmt::format("model: type '{}' is not supported (BPE)", type));
      return;
    }
    checkKeys(model, "model",
              {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
               "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    const json &dropout = at(model, "dropout");
    if (!dropout.is_null() && dropout != 0)
      problems.add(fmt::format("model: dropout {} is not supported (null)", brief(dropout)));
    for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const json &value = at(model, key); !value.is_null() && value != "")
        problems.add(fmt::format("model: {} {} is not supported (null)", key, brief(value)));
    if (boolean(model, "byte_fallback", false, "model"))
      problems.add("model: byte_fallback is not supported");
    parts.bpe.fuseUnknown = boolean(model, "fuse_unk", false, "model");
    ignoreMerges = boolean(model, "ignore_merges", false, "model");
    for (const char *key : {"vocab", "merges"})
      if (!model.contains(key) || !at(model, key).is_null())
        problems.add(fmt::format("model: {} is missing or of a wrong type", key));

    // Bounds the tables by the file's size, and leaves room for gaps.
    idBound = static_cast<int64_t>(8 * file.vocab.size() + 65536);
    parts.ids.reserve(file.vocab.size());
    for (const auto &[content, id] : file.vocab) {
      if (!checkId(content, id))
        continue;
      if (!parts.ids.emplace(content, static_cast<int32_t>(id)).second)
        problems.add(fmt::format("model: token '{}' occurs twice", content));
      else
        setToken(static_cast<int32_t>(id), content, content);
    }
  }

  bool checkId(const std::string &content, int64_t id) {
    if (id >= 0 && id < idBound)
      return true;
    problems.add(
        fmt::format("token '{}': id {} is out of range (0 to {} for a vocabulary of this size)",
                    content, id, idBound - 1));
    return false;
  }

  void setToken(int32_t id, const std::string &content, std::string_view decodedFrom) {
    size_t index = static_cast<size_t>(id);
    if (index >= parts.known.size()) {
      parts.known.resize(index + 1);
      parts.bytes.resize(index + 1);
    }
    if (parts.known[index])
      problems.add(fmt::format("token '{}': id {} is another token's", content, id));
    parts.known[index] = true;
    parts.bytes[index] = fromByteAlphabet(decodedFrom);
  }

  void loadAddedTokens(const json &list) {
    if (list.is_null())
      return;
    if (!list.is_array()) {
      problems.add("added_tokens is not an array");
      return;
    }
    parts.special.resize(parts.known.size());
    // Hugging Face tokenizers numbers tokens that are not in the vocabulary itself, whatever the
    // file says: from the count of the vocabulary on.
    int64_t nextId = static_cast<int64_t>(parts.ids.size());
    size_t i = 0;
    absl::flat_hash_set<std::string> seen;
    for (const json &entry : list) {
      std::string where = fmt::format("added_tokens[{}]", i++);
      if (!isObject(entry, where))
        continue;
      checkKeys(entry, where,
                {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      const json &content = at(entry, "content"), &id = at(entry, "id");
      if (!content.is_string() || content == "" || !id.is_number_integer()) {
        problems.add(fmt::format("{}: no content or no integer id", where));
        continue;
      }
      AddedToken token;
      token.content = content.get<std::string>();
      where += fmt::format(" ('{}')", token.content.substr(0, 60));
      for (auto [key, flag] : {std::pair<const char *, bool *>{"single_word", &token.singleWord},
                               {"lstrip", &token.lstrip},
                               {"rstrip", &token.rstrip},
                               {"normalized", &token.normalized},
                               {"special", &token.special}}) {
        if (at(entry, key).is_null())
          problems.add(fmt::format("{}: {} is missing", where, key));
        *flag = boolean(entry, key, false, where);
      }
      if (token.content.size() > kMaxAddedToken) {
        problems.add(fmt::format("{}: longer than {} bytes", where, kMaxAddedToken));
        continue;
      }
      if (!seen.insert(token.content).second) {
        problems.add(fmt::format("{} occurs twice", where));
        continue;
      }
      int64_t wanted = id.get<int64_t>();
      if (!checkId(token.content, wanted))
        continue;
      auto inVocabulary = parts.ids.find(token.content);
      int64_t given = inVocabulary != parts.ids.end() ? inVocabulary->second : nextId++;
      if (given != wanted) {
        problems.add(
            fmt::format("{}: id {}, but the tokenizers library gives it {}", where, wanted, given));
        continue;
      }
      token.id = static_cast<int32_t>(wanted);
      addToken(token, where, inVocabulary != parts.ids.end());
    }
  }

  void addToken(const AddedToken &token, const std::string &where, bool inVocabulary) {
    std::string pattern = token.content;
    if (token.normalized && parts.nfc) {
      absl::StatusOr<std::string> normal = normalizeNfc(token.content);
      if (!normal.ok()) {
        problems.add(fmt::format("{}: {}", where, std::string(normal.status().message())));
        return;
      }
      pattern = *std::move(normal);
    }
    if (!inVocabulary) {
      setToken(token.id, token.content, pattern);
      parts.ids.emplace(token.content, token.id);
    } else {
      parts.bytes[static_cast<size_t>(token.id)] = fromByteAlphabet(pattern);
    }
    parts.special.resize(parts.known.size());
    parts.special[static_cast<size_t>(token.id)] = token.special;
    AddedTokenMatcher &matcher = token.normalized ? parts.addedNormalized : parts.addedRaw;
    if (!matcher.add(token, pattern))
      problems.add(fmt::format("{}: another added token normalises to the same text", where));
  }

  void loadUnknown(const json &model) {
    const json &unknown = at(model, "unk_token");
    if (unknown.is_null())
      return;
    if (auto id = vocabularyId(unknown.is_string() ? unknown.get<std::string>() : ""))
      parts.bpe.unknown = *id;
    else
      problems.add(fmt::format("model: unk_token {} is not in the vocabulary", brief(unknown)));
  }

  std::optional<int32_t> vocabularyId(const std::string &content) const {
    auto it = parts.ids.find(content);
    if (it == parts.ids.end())
      return std::nullopt;
    return it->second;
  }

  void loadMerges(const TokenizerFile &file) {
    Bpe &bpe = parts.bpe;
    for (int byte = 0; byte < 256; ++byte)
      bpe.byteTokens[byte] =
          vocabularyId(byteCharacter(static_cast<unsigned char>(byte))).value_or(-1);
    bpe.merges.reserve(file.merges.size());
    uint32_t rank = 0;
    std::string joined;
    for (const auto &[left, right] : file.merges) {
      joined = left + right;
      auto leftId = vocabularyId(left), rightId = vocabularyId(right), id = vocabularyId(joined);
      if (leftId && rightId && id)
        // Of equal pairs the last counts, as in the tokenizers library.
        bpe.merges.insert_or_assign(Bpe::pairKey(*leftId, *rightId), Bpe::Merge{rank, *id});
      else
        problems.add(fmt::format("merge {}: token '{}' is not in the vocabulary", rank,
                                 !leftId    ? left
                                 : !rightId ? right
                                            : joined));
      ++rank;
    }
    if (ignoreMerges)
      for (const auto &[content, id] : file.vocab) {
        std::string bytes = fromByteAlphabet(content);
        if (toByteAlphabet(bytes) == content && vocabularyId(content))
          bpe.words.emplace(std::move(bytes), static_cast<int32_t>(id));
      }
  }

  void loadPreTokenizers(const json &value) {
    bool byteLevel = false;
    loadPreTokenizer(value, "pre_tokenizer", byteLevel);
    if (!byteLevel)
      problems.add("pre_tokenizer: no ByteLevel; only byte-level BPE is supported");
  }

  void loadPreTokenizer(const json &value, const std::string &where, bool &byteLevel) {
    if (value.is_null())
      return;
    std::string type = typeOf(value, where);
    if (type.empty())
      return;
    if (type == "Sequence") {
      checkKeys(value, where, {"type", "pretokenizers"});
      size_t i = 0;
      for (const json &part : array(value, "pretokenizers", where))
        loadPreTokenizer(part, fmt::format("{}.pretokenizers[{}]", where, i++), byteLevel);
      return;
    }
    if (byteLevel)
      problems.add(fmt::format("{}: '{}' after ByteLevel is not supported", where, type));
    if (type == "ByteLevel") {
      checkKeys(value, where, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      ByteLevelStep step;
      step.addPrefixSpace = boolean(value, "add_prefix_space", false, where);
      step.useRegex = boolean(value, "use_regex", true, where);
      boolean(value, "trim_offsets", true, where); // of no consequence for ids
      byteLevel = true;
      if (absl::Status status = parts.preTokenizer.add(step); !status.ok())
        problems.add(fmt::format("{}: {}", where, std::string(status.message())));
    } else if (type == "Digits") {
      checkKeys(value, where, {"type", "individual_digits"});
      parts.preTokenizer.add(DigitsStep{boolean(value, "individual_digits", false, where)});
    } else if (type == "Split") {
      loadSplit(value, where);
    } else {
      problems.add(fmt::format(
          "{}: type '{}' is not supported (ByteLevel, Digits, Split, Sequence)", where, type));
    }
  }

  void loadSplit(const json &value, const std::string &where) {
    checkKeys(value, where, {"type", "pattern", "behavior", "invert"});
    SplitStep step;
    step.invert = boolean(value, "invert", false, where);
    static constexpr std::pair<const char *, SplitBehavior> kBehaviors[] = {
        {"Removed", SplitBehavior::kRemoved},
        {"Isolated", SplitBehavior::kIsolated},
        {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
        {"MergedWithNext", SplitBehavior::kMergedWithNext},
        {"Contiguous", SplitBehavior::kContiguous}};
    const json &behavior = at(value, "behavior");
    bool known = false;
    for (auto [name, meaning] : kBehaviors)
      if (behavior == name) {
        step.behavior = meaning;
        known = true;
      }
    if (!known)
      problems.add(fmt::format("{}: behavior {} is not known", where, brief(behavior)));

    const json &pattern = at(value, "pattern");
    const json &regex = at(pattern, "Regex"), &literal = at(pattern, "String");
    if (!pattern.is_object() || pattern.size() != 1 ||
        !(regex.is_string() || literal.is_string())) {
      problems.add(fmt::format("{}: pattern is neither a Regex nor a String", where));
      return;
    }
    if (literal.is_string()) {
      step.literal = literal.get<std::string>();
      if (step.literal.empty()) {
        problems.add(fmt::format("{}: an empty String as pattern is not supported", where));
        return;
      }
    } else {
      absl::StatusOr<Regex> compiled = Regex::compile(regex.get_ref<const std::string &>());
      if (!compiled.ok()) {
        problems.add(fmt::format("{}: {}", where, std::string(compiled.status().message())));
        return;
      }
      step.regex = *std::move(compiled);
    }
    parts.preTokenizer.add(std::move(step));
  }

  void loadPostProcessor(const json &value, const std::string &where) {
    if (value.is_null())
      return;
    std::string type = typeOf(value, where);
    if (type == "ByteLevel") {
      // Changes offsets, which nobody asks us for.
      checkKeys(value, where, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    } else if (type == "Sequence") {
      checkKeys(value, where, {"type", "processors"});
      size_t i = 0;
      for (const json &part : array(value, "processors", where))
        loadPostProcessor(part, fmt::format("{}.processors[{}]", where, i++));
    } else if (type == "TemplateProcessing") {
      loadTemplate(value, where);
    } else if (!type.empty()) {
      problems.add(fmt::format(
          "{}: type '{}' is not supported (ByteLevel, TemplateProcessing, Sequence)", where, type));
    }
  }

  void loadTemplate(const json &value, const std::string &where) {
    checkKeys(value, where, {"type", "single", "pair", "special_tokens"});
    std::vector<int32_t> before, after;
    bool seenText = false;
    const json &specials = at(value, "special_tokens");
    for (const json &piece : array(value, "single", where)) {
      const json &sequence = at(piece, "Sequence"), &special = at(piece, "SpecialToken");
      if (sequence.is_object() && at(sequence, "id") == "A" && !seenText) {
        seenText = true;
        continue;
      }
      const json &id = at(special, "id");
      const json *ids = nullptr;
      if (id.is_string() && specials.is_object())
        ids = &at(at(specials, id.get_ref<const std::string &>().c_str()), "ids");
      if (!ids || !ids->is_array()) {
        problems.add(
            fmt::format("{}: {} in 'single' is neither the text, once, nor a special token "
                        "with ids",
                        where, brief(piece)));
        continue;
      }
      for (const json &token : *ids) {
        int64_t number = token.is_number_integer() ? token.get<int64_t>() : -1;
        if (number < 0 || number >= static_cast<int64_t>(parts.known.size()) ||
            !parts.known[static_cast<size_t>(number)])
          problems.add(fmt::format("{}: special token {} has id {}, which no token has", where,
                                   brief(id), brief(token)));
        else
          (seenText ? after : before).push_back(static_cast<int32_t>(number));
      }
    }
    if (!seenText)
      problems.add(fmt::format("{}: 'single' leaves the text out", where));
    if (std::exchange(hasTemplate, true))
      problems.add(fmt::format("{}: a second TemplateProcessing is not supported", where));
    parts.prefix = std::move(before);
    parts.suffix = std::move(after);
  }

  void loadDecoder(const json &value) {
    if (value.is_null()) {
      problems.add("decoder is null; only ByteLevel is supported");
      return;
    }
    std::string type = typeOf(value, "decoder");
    if (type == "ByteLevel")
      checkKeys(value, "decoder", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    else if (!type.empty())
      problems.add(fmt::format("decoder: type '{}' is not supported (ByteLevel)", type));
  }

  Problems &problems;
  bool ignoreMerges = false;
  bool hasTemplate = false;
  int64_t idBound = 65536;
};

} // namespace

absl::StatusOr<TokenizerParts> TokenizerParts::load(std::string_view text) {
  Problems problems;
  absl::StatusOr<TokenizerFile> file = TokenizerFile::parse(text, problems);
  if (!file.ok())
    return file.status();
  Loader loader(problems);
  loader.load(*file);
  if (!problems.empty())
    return problems.status("not usable");
  return std::move(loader.parts);
}

} // namespace adapt::rt
