#include "adapt/Interpreter/Evaluation.h"

using namespace mlir;

namespace adapt::interp {

SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = int64_t(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

template <typename T>
static void gatherElements(ArrayRef<T> from, MutableArrayRef<T> to, ArrayRef<int64_t> shape,
                           int64_t place, ArrayRef<int64_t> strides) {
  SmallVector<int64_t> index(shape.size(), 0);
  for (T &element : to) {
    element = from[place];
    for (int64_t axis = int64_t(shape.size()) - 1; axis >= 0; --axis) {
      place += strides[axis];
      if (++index[axis] < shape[axis])
        break;
      place -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

Tensor gatherStrided(const Tensor &input, ArrayRef<int64_t> shape, int64_t offset,
                     ArrayRef<int64_t> strides) {
  Tensor result(input.getElementType(), shape);
  if (input.isFloat())
    gatherElements(input.floats(), result.mutableFloats(), shape, offset, strides);
  else
    gatherElements(input.ints(), result.mutableInts(), shape, offset, strides);
  return result;
}

std::optional<std::string> fillTemplate(StringRef name, const Bindings &indices) {
  std::string filled;
  while (!name.empty()) {
    auto [text, rest] = name.split('{');
    filled += text;
    if (text.size() == name.size())
      break;
    auto [index, tail] = rest.split('}');
    auto it = indices.find(index);
    if (it == indices.end())
      return std::nullopt;
    filled += std::to_string(it->second);
    name = tail;
  }
  return filled;
}

} // namespace adapt::interp
