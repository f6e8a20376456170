#include "weights/RecipeValues.h"

#include "weights/Cast.h"

#include <algorithm>
#include <mutex>
#include <new>

namespace adapt::weights {

//===----------------------------------------------------------------------===//
// Runs of elements
//===----------------------------------------------------------------------===//

namespace {

struct Bytes16 {
  uint64_t low, high;
};

template <typename T> T load(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T> void store(std::byte *to, T value) { std::memcpy(to, &value, sizeof value); }

/// Calls `f` with an unsigned integer of `bytes` (1, 2, 4 or 8).
template <typename F> void withUnit(unsigned bytes, F f) {
  switch (bytes) {
  case 1:
    return f(uint8_t());
  case 2:
    return f(uint16_t());
  case 4:
    return f(uint32_t());
  case 8:
    return f(uint64_t());
  }
}

/// `count` elements, `stride` apart, in a dense run. A stride of 0 repeats one element.
void copyStrided(const std::byte *from, int64_t stride, uint64_t count, unsigned bytes,
                 std::byte *out) {
  if (stride == 1) {
    std::memcpy(out, from, count * bytes);
    return;
  }
  withUnit(bytes, [&](auto unit) {
    using T = decltype(unit);
    for (uint64_t i = 0; i < count; ++i)
      store(out + i * sizeof(T), load<T>(from + int64_t(i) * stride * int64_t(sizeof(T))));
  });
}

/// out[r][c] = from[c * stride + r], in tiles that stay in the first-level cache.
void copyTransposed(const std::byte *from, int64_t stride, uint64_t rows, uint64_t columns,
                    unsigned bytes, std::byte *out) {
  constexpr uint64_t kTile = 32;
  withUnit(bytes, [&](auto unit) {
    using T = decltype(unit);
    for (uint64_t r0 = 0; r0 < rows; r0 += kTile) {
      uint64_t r1 = std::min(rows, r0 + kTile);
      for (uint64_t c0 = 0; c0 < columns; c0 += kTile) {
        uint64_t c1 = std::min(columns, c0 + kTile);
        for (uint64_t c = c0; c < c1; ++c) {
          const std::byte *column = from + int64_t(c) * stride * int64_t(sizeof(T));
          for (uint64_t r = r0; r < r1; ++r)
            store(out + (r * columns + c) * sizeof(T), load<T>(column + r * sizeof(T)));
        }
      }
    }
  });
}

uint64_t product(absl::Span<const int64_t> shape) {
  uint64_t result = 1;
  for (int64_t extent : shape)
    result *= uint64_t(extent);
  return result;
}

} // namespace

StridedMap StridedMap::rowMajor(absl::Span<const int64_t> shape) {
  StridedMap map;
  map.dims.resize(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    map.dims[d] = {uint64_t(shape[d]), stride};
    // Only an empty tensor's strides can overflow, and they are never used.
    if (__builtin_mul_overflow(stride, shape[d], &stride))
      stride = 0;
  }
  return map;
}

StridedMap StridedMap::coalesced() const {
  StridedMap result;
  result.offset = offset;
  for (const Dim &dim : dims) {
    if (dim.extent == 1)
      continue;
    int64_t span;
    bool overflows = __builtin_mul_overflow(dim.stride, int64_t(dim.extent), &span);
    if (!result.dims.empty() && !overflows && result.dims.back().stride == span)
      result.dims.back() = {result.dims.back().extent * dim.extent, dim.stride};
    else
      result.dims.push_back(dim);
  }
  if (result.dims.empty())
    result.dims.push_back({1, 1});
  return result;
}

RecipeValue::RecipeValue(ElementType element, std::vector<int64_t> shape)
    : element(element), elementBytes(weights::elementBytes(element)), shape(std::move(shape)),
      count(product(this->shape)) {}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {

/// Elements of memory, or of another value, by a strided map.
class MappedValue : public RecipeValue {
public:
  MappedValue(ElementType element, std::vector<int64_t> shape, const std::byte *memory,
              StridedMap map, std::shared_ptr<const void> owner = nullptr)
      : RecipeValue(element, std::move(shape)), memory(memory), map(std::move(map)),
        owner(std::move(owner)) {
    flat = this->map.coalesced();
  }
  MappedValue(const ValueRef &operand, std::vector<int64_t> shape, StridedMap map)
      : RecipeValue(operand->element, std::move(shape)), operand(operand), map(std::move(map)) {
    flat = this->map.coalesced();
  }

  void read(uint64_t begin, uint64_t count, std::byte *out) const override {
    const StridedMap::Dim &last = flat.dims.back();
    const std::byte *elements = memory;
    if (operand && last.stride != 1)
      elements = materialised();
    uint64_t row = begin / last.extent, column = begin % last.extent;
    while (count > 0) {
      uint64_t start = rowOffset(row) + uint64_t(int64_t(column) * last.stride);
      uint64_t taken = std::min(last.extent - column, count);
      if (elements && column == 0 && isTransposed() && taken == last.extent) {
        uint64_t extent = flat.dims[flat.dims.size() - 2].extent;
        uint64_t rows = std::min(extent - row % extent, count / last.extent);
        copyTransposed(elements + start * elementBytes, last.stride, rows, last.extent,
                       elementBytes, out);
        taken = rows * last.extent;
        row += rows;
      } else {
        if (elements)
          copyStrided(elements + start * elementBytes, last.stride, taken, elementBytes, out);
        else if (last.stride == 1)
          operand->read(start, taken, out);
        else
          for (uint64_t i = 0; i < taken; ++i)
            operand->read(start + uint64_t(int64_t(i) * last.stride), 1, out + i * elementBytes);
        ++row;
      }
      column = 0;
      count -= taken;
      out += taken * elementBytes;
    }
  }

  const std::byte *inPlace() const override {
    bool dense = memory && flat.dims.size() == 1 && (flat.dims[0].stride == 1 || count <= 1);
    return dense ? memory + flat.offset * elementBytes : nullptr;
  }

  /// The same elements under another map of what this one maps.
  ValueRef remapped(std::vector<int64_t> newShape, StridedMap newMap) const {
    if (memory)
      return std::make_shared<MappedValue>(element, std::move(newShape), memory, std::move(newMap),
                                           owner);
    return std::make_shared<MappedValue>(operand, std::move(newShape), std::move(newMap));
  }

  bool isMemory() const { return memory != nullptr; }
  const StridedMap &getMap() const { return map; }
  const StridedMap &getFlat() const { return flat; }

private:
  uint64_t rowOffset(uint64_t row) const {
    uint64_t offset = flat.offset;
    for (size_t d = flat.dims.size() - 1; d-- > 0;) {
      offset += uint64_t(int64_t(row % flat.dims[d].extent) * flat.dims[d].stride);
      row /= flat.dims[d].extent;
    }
    return offset;
  }

  bool isTransposed() const {
    return flat.dims.size() >= 2 && flat.dims[flat.dims.size() - 2].stride == 1;
  }

  /// All of the operand, computed at the first use; null if that would be too much.
  const std::byte *materialised() const {
    constexpr uint64_t kLimit = uint64_t(1) << 30;
    if (operand->count > kLimit / elementBytes)
      return nullptr;
    std::call_once(once, [&] {
      copy.reset(new (std::nothrow) std::byte[operand->count * elementBytes]);
      if (copy)
        operand->read(0, operand->count, copy.get());
    });
    return copy.get();
  }

  const std::byte *memory = nullptr;
  ValueRef operand;
  StridedMap map;
  StridedMap flat;
  std::shared_ptr<const void> owner;
  mutable std::once_flag once;
  mutable std::unique_ptr<std::byte[]> copy;
};

class ReshapeValue : public RecipeValue {
public:
  ReshapeValue(const ValueRef &operand, std::vector<int64_t> shape)
      : RecipeValue(operand->element, std::move(shape)), operand(operand) {}
  void read(uint64_t begin, uint64_t count, std::byte *out) const override {
    operand->read(begin, count, out);
  }
  const std::byte *inPlace() const override { return operand->inPlace(); }

private:
  ValueRef operand;
};

class CastValue : public RecipeValue {
public:
  CastValue(const ValueRef &operand, ElementType element)
      : RecipeValue(element, operand->shape), operand(operand),
        convert(castFunction(operand->element, element)) {}

  void read(uint64_t begin, uint64_t count, std::byte *out) const override {
    if (const std::byte *from = operand->inPlace())
      return convert(from + begin * operand->elementBytes, out, count);
    constexpr uint64_t kChunk = 1024;
    std::byte buffer[kChunk * 8];
    while (count > 0) {
      uint64_t taken = std::min(kChunk, count);
      operand->read(begin, taken, buffer);
      convert(buffer, out, taken);
      begin += taken;
      count -= taken;
      out += taken * elementBytes;
    }
  }

  const ValueRef operand;

private:
  CastFunction convert;
};

class ConcatValue : public RecipeValue {
public:
  ConcatValue(std::vector<ValueRef> parts, unsigned axis, std::vector<int64_t> shape)
      : RecipeValue(parts[0]->element, std::move(shape)), operands(std::move(parts)), axis(axis) {
    for (const ValueRef &operand : operands) {
      starts.push_back(total);
      total += product(absl::MakeConstSpan(operand->shape).subspan(axis));
    }
  }

  void read(uint64_t begin, uint64_t count, std::byte *out) const override {
    while (count > 0) {
      uint64_t outer = begin / total, position = begin % total;
      // The last part that starts at or before the position; parts may be empty.
      size_t part =
          size_t(std::upper_bound(starts.begin(), starts.end(), position) - starts.begin()) - 1;
      uint64_t end = part + 1 < starts.size() ? starts[part + 1] : total;
      uint64_t length = end - starts[part];
      uint64_t taken = std::min(count, end - position);
      operands[part]->read(outer * length + position - starts[part], taken, out);
      begin += taken;
      count -= taken;
      out += taken * elementBytes;
    }
  }

  const std::vector<ValueRef> operands;
  const unsigned axis;

private:
  std::vector<uint64_t> starts; // of each part, in one index of the outer dimensions
  uint64_t total = 0;
};

class PadValue : public RecipeValue {
public:
  PadValue(const ValueRef &operand, std::vector<int64_t> shape, absl::Span<const int64_t> low,
           double value)
      : RecipeValue(operand->element, std::move(shape)), operand(operand) {
    storeElement(value, element, fill);
    for (size_t d = 0; d < this->shape.size(); ++d) {
      uint64_t inner = uint64_t(operand->shape[d]), all = uint64_t(this->shape[d]);
      // A dimension without padding continues the one before it.
      if (!dims.empty() && inner == all) {
        dims.back().low *= all;
        dims.back().inner *= all;
        dims.back().all *= all;
      } else {
        dims.push_back({uint64_t(low[d]), inner, all});
      }
    }
    if (dims.empty())
      dims.push_back({0, 1, 1});
  }

  void read(uint64_t begin, uint64_t count, std::byte *out) const override {
    const Dim &last = dims.back();
    uint64_t row = begin / last.all, column = begin % last.all;
    while (count > 0) {
      uint64_t end = std::min(last.all, column + count);
      count -= end - column;
      uint64_t first = last.low, past = last.low + last.inner;
      std::optional<uint64_t> source = operandRow(row);
      if (!source)
        first = past = end;
      uint64_t fillEnd = std::clamp(first, column, end);
      put(out, fillEnd - column);
      uint64_t copyEnd = std::clamp(past, fillEnd, end);
      if (copyEnd > fillEnd)
        operand->read(*source * last.inner + fillEnd - first, copyEnd - fillEnd, out);
      out += (copyEnd - fillEnd) * elementBytes;
      put(out, end - copyEnd);
      column = 0;
      ++row;
    }
  }

private:
  struct Dim {
    uint64_t low, inner, all;
  };

  /// The operand's row that a row of the result holds; nothing if it is all padding.
  std::optional<uint64_t> operandRow(uint64_t row) const {
    uint64_t result = 0, scale = 1;
    for (size_t d = dims.size() - 1; d-- > 0;) {
      uint64_t index = row % dims[d].all;
      row /= dims[d].all;
      if (index < dims[d].low || index - dims[d].low >= dims[d].inner)
        return std::nullopt;
      result += (index - dims[d].low) * scale;
      scale *= dims[d].inner;
    }
    return result;
  }

  void put(std::byte *&out, uint64_t count) const {
    copyStrided(fill, 0, count, elementBytes, out);
    out += count * elementBytes;
  }

  ValueRef operand;
  std::vector<Dim> dims;
  std::byte fill[8] = {};
};

/// [N, K] as [ceil(N/n)][ceil(K/k)][n][k].
class PackValue : public RecipeValue {
public:
  PackValue(const ValueRef &operand, uint32_t n, uint32_t k)
      : RecipeValue(operand->element, operand->shape), operand(operand), n(n), k(k),
        rows(uint64_t(operand->shape[0])), columns(uint64_t(operand->shape[1])),
        blocks((columns + k - 1) / k) {}

  uint64_t granule() const override { return uint64_t(n) * k; }

  void read(uint64_t begin, uint64_t count, std::byte *out) const override {
    // Few enough columns at once that the output of a chunk stays in the first-level cache.
    uint64_t chunk = std::max<uint64_t>(1, 512 / k);
    std::vector<std::byte> buffer(chunk * k * elementBytes);
    uint64_t block = begin / granule(), end = (begin + count) / granule();
    while (block < end) {
      uint64_t panel = block / blocks, first = block % blocks;
      uint64_t taken = std::min({chunk, blocks - first, end - block});
      packBlocks(panel, first, taken, buffer.data(), out);
      block += taken;
      out += taken * granule() * elementBytes;
    }
  }

private:
  /// Blocks [first, first + taken) of one panel of n rows.
  void packBlocks(uint64_t panel, uint64_t first, uint64_t taken, std::byte *buffer,
                  std::byte *out) const {
    uint64_t width = taken * k, column = first * k;
    uint64_t valid = std::min(width, columns - column);
    const std::byte *memory = operand->inPlace();
    for (uint64_t r = 0; r < n; ++r) {
      uint64_t row = panel * n + r;
      const std::byte *from = buffer;
      if (row >= rows) {
        std::memset(buffer, 0, width * elementBytes);
      } else if (memory && valid == width) {
        from = memory + (row * columns + column) * elementBytes;
      } else {
        operand->read(row * columns + column, valid, buffer);
        std::memset(buffer + valid * elementBytes, 0, (width - valid) * elementBytes);
      }
      scatterRow(from, taken, out + r * k * elementBytes);
    }
  }

  /// Groups of k elements, n groups apart.
  void scatterRow(const std::byte *from, uint64_t groups, std::byte *out) const {
    uint64_t group = uint64_t(k) * elementBytes, step = group * n;
    auto scatter = [&](auto unit) {
      using T = decltype(unit);
      for (uint64_t i = 0; i < groups; ++i)
        store(out + i * step, load<T>(from + i * sizeof(T)));
    };
    switch (group) {
    case 1:
      return scatter(uint8_t());
    case 2:
      return scatter(uint16_t());
    case 4:
      return scatter(uint32_t());
    case 8:
      return scatter(uint64_t());
    case 16:
      return scatter(Bytes16());
    default:
      for (uint64_t i = 0; i < groups; ++i)
        std::memcpy(out + i * step, from + i * group, group);
    }
  }

  ValueRef operand;
  uint64_t n, k, rows, columns, blocks;
};

const CastValue *asCast(const ValueRef &value) {
  return dynamic_cast<const CastValue *>(value.get());
}
const MappedValue *asMapped(const ValueRef &value) {
  return dynamic_cast<const MappedValue *>(value.get());
}

/// A map of the value's elements, and the value under that map.
ValueRef remap(const ValueRef &value, std::vector<int64_t> shape, StridedMap map) {
  if (const MappedValue *mapped = asMapped(value))
    return mapped->remapped(std::move(shape), std::move(map));
  return std::make_shared<MappedValue>(value, std::move(shape), std::move(map));
}
StridedMap mapOf(const ValueRef &value) {
  const MappedValue *mapped = asMapped(value);
  return mapped ? mapped->getMap() : StridedMap::rowMajor(value->shape);
}

} // namespace

//===----------------------------------------------------------------------===//
// Making values. Maps go below casts, towards the memory.
//===----------------------------------------------------------------------===//

ValueRef makeMemory(ElementType element, std::vector<int64_t> shape, const std::byte *data,
                    bool isSplat) {
  StridedMap map = StridedMap::rowMajor(shape);
  if (isSplat)
    for (StridedMap::Dim &dim : map.dims)
      dim.stride = 0;
  return std::make_shared<MappedValue>(element, std::move(shape), data, std::move(map));
}

ValueRef makeSplat(ElementType element, std::vector<int64_t> shape, double value) {
  auto owner = std::make_shared<std::vector<std::byte>>(8);
  storeElement(value, element, owner->data());
  StridedMap map = StridedMap::rowMajor(shape);
  for (StridedMap::Dim &dim : map.dims)
    dim.stride = 0;
  const std::byte *data = owner->data();
  return std::make_shared<MappedValue>(element, std::move(shape), data, std::move(map),
                                       std::move(owner));
}

ValueRef makeSlice(const ValueRef &operand, absl::Span<const int64_t> offsets,
                   absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides) {
  if (const CastValue *cast = asCast(operand))
    return makeCast(makeSlice(cast->operand, offsets, sizes, strides), cast->element);
  StridedMap map = mapOf(operand);
  if (product(sizes) == 0)
    return remap(operand, {sizes.begin(), sizes.end()}, StridedMap::rowMajor(sizes));
  for (size_t d = 0; d < map.dims.size(); ++d) {
    StridedMap::Dim &dim = map.dims[d];
    map.offset += uint64_t(offsets[d] * dim.stride);
    dim.extent = uint64_t(sizes[d]);
    // The stride of a single element is never used, and could overflow.
    dim.stride *= sizes[d] > 1 ? strides[d] : 1;
  }
  return remap(operand, {sizes.begin(), sizes.end()}, std::move(map));
}

ValueRef makeTranspose(const ValueRef &operand, absl::Span<const uint32_t> permutation) {
  if (const CastValue *cast = asCast(operand))
    return makeCast(makeTranspose(cast->operand, permutation), cast->element);
  // One level only: a concat of concats could be as wide as 2^depth.
  if (const auto *concat = dynamic_cast<const ConcatValue *>(operand.get())) {
    auto overMemory = [](const ValueRef &part) {
      const CastValue *cast = asCast(part);
      const MappedValue *mapped = asMapped(cast ? cast->operand : part);
      return mapped && mapped->isMemory();
    };
    if (std::all_of(concat->operands.begin(), concat->operands.end(), overMemory)) {
      std::vector<ValueRef> parts;
      for (const ValueRef &part : concat->operands)
        parts.push_back(makeTranspose(part, permutation));
      auto axis = std::find(permutation.begin(), permutation.end(), concat->axis);
      return makeConcat(std::move(parts), unsigned(axis - permutation.begin()));
    }
  }
  StridedMap from = mapOf(operand), map;
  map.offset = from.offset;
  std::vector<int64_t> shape;
  for (uint32_t axis : permutation) {
    map.dims.push_back(from.dims[axis]);
    shape.push_back(operand->shape[axis]);
  }
  return remap(operand, std::move(shape), std::move(map));
}

ValueRef makeReshape(const ValueRef &operand, std::vector<int64_t> shape) {
  if (const CastValue *cast = asCast(operand))
    return makeCast(makeReshape(cast->operand, std::move(shape)), cast->element);
  if (const MappedValue *mapped = asMapped(operand); mapped && mapped->getFlat().dims.size() == 1) {
    StridedMap map = StridedMap::rowMajor(shape);
    map.offset = mapped->getFlat().offset;
    if (operand->count > 0)
      for (StridedMap::Dim &dim : map.dims)
        dim.stride *= mapped->getFlat().dims[0].stride;
    return mapped->remapped(std::move(shape), std::move(map));
  }
  return std::make_shared<ReshapeValue>(operand, std::move(shape));
}

ValueRef makeCast(const ValueRef &operand, ElementType element) {
  if (operand->element == element)
    return operand;
  return std::make_shared<CastValue>(operand, element);
}

ValueRef makeConcat(std::vector<ValueRef> operands, unsigned axis) {
  if (operands.size() == 1)
    return operands[0];
  std::vector<int64_t> shape = operands[0]->shape;
  for (size_t i = 1; i < operands.size(); ++i)
    shape[axis] += operands[i]->shape[axis];
  return std::make_shared<ConcatValue>(std::move(operands), axis, std::move(shape));
}

ValueRef makePad(const ValueRef &operand, absl::Span<const int64_t> low,
                 absl::Span<const int64_t> high, double value) {
  std::vector<int64_t> shape = operand->shape;
  bool any = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    shape[d] += low[d] + high[d];
    any |= low[d] + high[d] != 0;
  }
  return any ? std::make_shared<PadValue>(operand, std::move(shape), low, value) : operand;
}

ValueRef makePack(const ValueRef &operand, uint32_t n, uint32_t k) {
  return std::make_shared<PackValue>(operand, n, k);
}

} // namespace adapt::weights
