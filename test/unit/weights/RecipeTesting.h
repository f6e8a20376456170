// Recipes from text, and sources in memory.
#pragma once

#include "weights/Recipe.h"

#include "google/protobuf/text_format.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

namespace adapt::weights::test {

inline std::string message(const absl::Status &status) { return std::string(status.message()); }

inline schema::Recipe parse(const std::string &text) {
  schema::Recipe recipe;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &recipe)) << text;
  return recipe;
}

/// Named tensors in memory. Data is kept one byte off any alignment.
class MemorySources : public SourceProvider {
public:
  template <typename T>
  void add(const std::string &name, ElementType element, std::vector<int64_t> shape,
           const std::vector<T> &values) {
    ASSERT_EQ(elementBytes(element), sizeof(T));
    Tensor &tensor = tensors[name];
    tensor.element = element;
    tensor.shape = std::move(shape);
    tensor.bytes.resize(values.size() * sizeof(T) + 1);
    if (!values.empty())
      std::memcpy(tensor.bytes.data() + 1, values.data(), values.size() * sizeof(T));
  }
  absl::StatusOr<SourceTensor> source(std::string_view name) const override {
    auto found = tensors.find(name);
    if (found == tensors.end())
      return absl::NotFoundError("no tensor '" + std::string(name) + "'");
    const Tensor &tensor = found->second;
    return SourceTensor{tensor.element, tensor.shape, absl::MakeConstSpan(tensor.bytes).subspan(1),
                        false};
  }

private:
  struct Tensor {
    ElementType element;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Tensor, std::less<>> tensors;
};

} // namespace adapt::weights::test
