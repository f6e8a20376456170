#include "text/TokenizerFile.h"

#include <fmt/format.h>

namespace adapt::rt {
namespace {

using nlohmann::json;

// Receives nlohmann's parse events. Returning false ends the parse.
class Handler {
public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  Handler(TokenizerFile &file, Problems &problems) : file(file), problems(problems) {}

  std::string error;

  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(number_integer_t value) { return number(value); }
  bool number_unsigned(number_unsigned_t value) {
    // What int64 cannot hold is out of range as an id in any case.
    return number(static_cast<int64_t>(std::min<number_unsigned_t>(value, INT64_MAX)));
  }
  bool number_float(number_float_t value, const string_t &) { return scalar(value); }
  bool binary(binary_t &) { return false; } // never in JSON text

  bool string(string_t &value) {
    if (mode == kMerges)
      addMerge(value);
    else if (mode == kMergePair)
      pair.push_back(std::move(value));
    else
      return scalar(std::move(value));
    return true;
  }

  bool start_object(size_t) {
    if (mode == kRest && isModelKey("vocab"))
      return enterList(kVocab);
    return start(json::object());
  }
  bool start_array(size_t) {
    if (mode == kRest && isModelKey("merges"))
      return enterList(kMerges);
    if (mode == kMerges) {
      mode = kMergePair;
      pair.clear();
      pairIsOdd = false;
      return true;
    }
    return start(json::array());
  }
  bool key(string_t &name) {
    if (mode == kVocab && skipDepth == 0) {
      lastKey = std::move(name);
      return true;
    }
    if (mode != kRest)
      return true;
    lastKey = std::move(name);
    if (stack.back()->contains(lastKey))
      problems.add("key '", lastKey, "' occurs twice in an object");
    return true;
  }
  bool end_object() {
    if (mode == kVocab && skipDepth == 0) {
      mode = kRest;
      return true;
    }
    return end();
  }
  bool end_array() {
    if (mode == kMergePair && skipDepth == 0) {
      mode = kMerges;
      if (pair.size() == 2 && !pairIsOdd)
        file.merges.emplace_back(std::move(pair[0]), std::move(pair[1]));
      else
        problems.add(fmt::format("merge {} is not a pair of strings", mergeCount));
      ++mergeCount;
      return true;
    }
    if (mode == kMerges && skipDepth == 0) {
      mode = kRest;
      return true;
    }
    return end();
  }
  template <typename Exception> bool parse_error(size_t, const std::string &, const Exception &e) {
    error = e.what();
    return false;
  }

private:
  enum Mode { kRest, kVocab, kMerges, kMergePair };

  bool isModelKey(std::string_view name) const {
    return stack.size() == 2 && topKey == "model" && lastKey == name && stack.back()->is_object();
  }
  bool enterList(Mode list) {
    (*stack.back())[lastKey] = nullptr;
    mode = list;
    return true;
  }

  bool number(int64_t value) {
    if (mode == kVocab && skipDepth == 0) {
      file.vocab.emplace_back(std::move(lastKey), value);
      return true;
    }
    return scalar(value);
  }

  template <typename Value> bool scalar(Value &&value) {
    if (mode == kRest)
      place(json(std::forward<Value>(value)));
    else if (skipDepth == 0)
      oddEntry();
    return true;
  }

  bool start(json container) {
    if (stack.size() + skipDepth >= TokenizerFile::kMaxDepth) {
      error = fmt::format("nested deeper than {} levels", TokenizerFile::kMaxDepth);
      return false;
    }
    if (mode != kRest) {
      if (skipDepth++ == 0)
        oddEntry();
      return true;
    }
    if (stack.size() == 1)
      topKey = lastKey;
    stack.push_back(place(std::move(container)));
    return true;
  }
  bool end() {
    if (mode != kRest)
      --skipDepth;
    else
      stack.pop_back();
    return true;
  }

  // A value where an entry of a list was expected.
  void oddEntry() {
    if (mode == kVocab) {
      problems.add(fmt::format("vocabulary entry '{}' is not an integer", lastKey));
    } else if (mode == kMergePair) {
      pairIsOdd = true;
    } else {
      problems.add(fmt::format("merge {} is neither a string nor a pair of strings", mergeCount));
      ++mergeCount;
    }
  }

  void addMerge(const std::string &line) {
    if (line.compare(0, 8, "#version") == 0) // a line of merges.txt that came along
      return;
    size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      problems.add(
          fmt::format("merge {} ('{}') is not two tokens with a space between", mergeCount, line));
    else
      file.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    ++mergeCount;
  }

  json *place(json value) {
    if (stack.empty()) {
      file.rest = std::move(value);
      return &file.rest;
    }
    json &parent = *stack.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[lastKey] = std::move(value));
  }

  TokenizerFile &file;
  Problems &problems;
  std::vector<json *> stack; // open containers; a parent does not change while a child is open
  std::string lastKey, topKey;
  Mode mode = kRest;
  size_t skipDepth = 0; // open containers inside a list's odd entry
  std::vector<std::string> pair;
  bool pairIsOdd = false;
  size_t mergeCount = 0;
};

} // namespace

absl::StatusOr<TokenizerFile> TokenizerFile::parse(std::string_view text, Problems &problems) {
  TokenizerFile file;
  Handler handler(file, problems);
  if (!json::sax_parse(text.begin(), text.end(), &handler))
    return absl::InvalidArgumentError(handler.error.empty() ? "not JSON" : handler.error);
  return file;
}

} // namespace adapt::rt
