//===- Sources.h - Where recipes get their source tensors -----------------===//
#pragma once

#include "weights/ElementType.h"
#include "weights/Support.h"

namespace adapt::weights {

/// A dense row-major tensor. `data` outlives the provider's answer as long as the provider lives;
/// it may have any alignment. If `isSplat`, `data` is one element that stands for all.
struct SourceTensor {
  ElementType element = schema::ELEMENT_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  absl::Span<const std::byte> data;
  bool isSplat = false;
};

/// What source tensors a recipe can name. Implementations are thread-safe.
class SourceProvider {
public:
  virtual ~SourceProvider() = default;
  /// Errors: NotFound, or whatever keeps the data from being read. Names the tensor.
  virtual absl::StatusOr<SourceTensor> source(std::string_view name) const = 0;
};

} // namespace adapt::weights
