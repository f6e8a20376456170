//===- RecipeValues.h - Values of a recipe, read in ranges ----------------===//
//
// Each operation of a recipe is a value whose elements can be read by ranges of their row-major
// numbers, computed from ranges of the operands. Slices and transposes are kept as strided maps,
// directly over memory wherever they can be, so that chains of them cost one pass.
//
// Nothing here fails: arguments were checked by the caller (Recipe.cpp). Reading is thread-safe.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/ElementType.h"
#include "weights/Support.h"

#include <memory>

namespace adapt::weights {

class RecipeValue;
using ValueRef = std::shared_ptr<const RecipeValue>;

/// Element i of a row-major tensor of these extents lies at offset + Σ index_d · stride_d.
struct StridedMap {
  struct Dim {
    uint64_t extent;
    int64_t stride; // in elements
  };
  uint64_t offset = 0;
  std::vector<Dim> dims;

  static StridedMap rowMajor(absl::Span<const int64_t> shape);
  /// Neighbouring dimensions that can be one are one; there is at least one dimension.
  StridedMap coalesced() const;
};

class RecipeValue {
public:
  RecipeValue(ElementType element, std::vector<int64_t> shape);
  virtual ~RecipeValue() = default;

  /// Elements [begin, begin + count), densely, into `out`.
  virtual void read(uint64_t begin, uint64_t count, std::byte *out) const = 0;
  /// All elements, densely in memory already; else null.
  virtual const std::byte *inPlace() const { return nullptr; }
  /// Ranges must begin and end at multiples of this.
  virtual uint64_t granule() const { return 1; }

  const ElementType element;
  const unsigned elementBytes;
  const std::vector<int64_t> shape;
  /// Of the logical shape.
  const uint64_t count;
};

/// The tensor at `data`; `isSplat`: one element that stands for all.
ValueRef makeMemory(ElementType element, std::vector<int64_t> shape, const std::byte *data,
                    bool isSplat);
/// Owns its element.
ValueRef makeSplat(ElementType element, std::vector<int64_t> shape, double value);
ValueRef makeSlice(const ValueRef &operand, absl::Span<const int64_t> offsets,
                   absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides);
ValueRef makeTranspose(const ValueRef &operand, absl::Span<const uint32_t> permutation);
ValueRef makeReshape(const ValueRef &operand, std::vector<int64_t> shape);
ValueRef makeCast(const ValueRef &operand, ElementType element);
ValueRef makeConcat(std::vector<ValueRef> operands, unsigned axis);
ValueRef makePad(const ValueRef &operand, absl::Span<const int64_t> low,
                 absl::Span<const int64_t> high, double value);
/// Elements are numbered as they lie in memory, padding included.
ValueRef makePack(const ValueRef &operand, uint32_t n, uint32_t k);

} // namespace adapt::weights
