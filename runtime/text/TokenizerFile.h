// tokenizer.json as data: the two large lists streamed into vectors, the rest as a JSON value.
#pragma once
#include "absl/status/statusor.h"
#include "adapt/Status.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adapt::rt {

struct TokenizerFile {
  /// All but model.vocab and model.merges, which are null here where the file has them.
  nlohmann::json rest;
  std::vector<std::pair<std::string, int64_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;

  /// Problems: a key twice in an object, entries of the two lists that are not what they should be.
  /// Error (InvalidArgument): not JSON (or not UTF-8), or nested deeper than kMaxDepth.
  static absl::StatusOr<TokenizerFile> parse(std::string_view json, Problems &problems);

  static constexpr size_t kMaxDepth = 32;
};

} // namespace adapt::rt
