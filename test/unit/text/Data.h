// The test data of this folder; scripts/goldens/tokenizer.py made it.
#pragma once
#include "text/Tokenizer.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

namespace adapt::rt::test {

inline nlohmann::json readJson(const std::string &path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return nlohmann::json::parse(file);
}
inline nlohmann::json data(const std::string &name) {
  return readJson(std::string(ADAPT_TEXT_DATA) + "/" + name);
}

inline Tokenizer tokenizer(const nlohmann::json &json) {
  absl::StatusOr<Tokenizer> result = Tokenizer::fromJson(json.dump());
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    abort();
  }
  return *std::move(result);
}

} // namespace adapt::rt::test
