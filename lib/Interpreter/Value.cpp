#include "adapt/Interpreter/Value.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include <cmath>

using namespace mlir;

namespace adapt::interp {

static int64_t product(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return n;
}

Tensor::Tensor(Type element, ArrayRef<int64_t> shape)
    : element(element), shape(shape.begin(), shape.end()) {
  if (isFloat())
    floatData = std::make_shared<std::vector<double>>(product(shape));
  else
    intData = std::make_shared<std::vector<int64_t>>(product(shape));
}

int64_t Tensor::getNumElements() const { return product(shape); }

ArrayRef<double> Tensor::floats() const { return *floatData; }
ArrayRef<int64_t> Tensor::ints() const { return *intData; }

template <typename T> static MutableArrayRef<T> unshare(std::shared_ptr<std::vector<T>> &data) {
  if (data.use_count() != 1)
    data = std::make_shared<std::vector<T>>(*data);
  return *data;
}

MutableArrayRef<double> Tensor::mutableFloats() { return unshare(floatData); }
MutableArrayRef<int64_t> Tensor::mutableInts() { return unshare(intData); }

/// Truncates; out of range is the nearest end of the range and NaN is 0, so that no input is
/// undefined behaviour.
static int64_t truncate(double value) {
  if (std::isnan(value))
    return 0;
  if (value >= 0x1p63)
    return std::numeric_limits<int64_t>::max();
  if (value < -0x1p63)
    return std::numeric_limits<int64_t>::min();
  return int64_t(value);
}

void Tensor::setFromDouble(int64_t i, double value) {
  if (isFloat())
    mutableFloats()[i] = value;
  else
    mutableInts()[i] = truncate(value);
}

Tensor Tensor::withShape(ArrayRef<int64_t> newShape) const {
  Tensor result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  return result;
}

Tensor Tensor::withElementType(Type newElement) const {
  Tensor result = *this;
  result.element = newElement;
  return result;
}

void Tensor::roundToElementType() {
  if (element.isF64() || element.isInteger(64) || element.isIndex())
    return;
  if (isFloat()) {
    for (double &x : mutableFloats())
      x = roundToType(element, x);
  } else {
    for (int64_t &x : mutableInts())
      x = wrapToType(element, x);
  }
}

/// Goes through f32 rounded to odd, which makes the second rounding right.
static double roundToBF16(double value) {
  float narrow = float(value);
  if (!std::isfinite(narrow))
    return narrow;
  uint32_t bits = llvm::bit_cast<uint32_t>(narrow);
  if (double(narrow) != value) {
    if (std::fabs(double(narrow)) > std::fabs(value))
      --bits;
    bits |= 1;
  }
  bits += 0x7fff + ((bits >> 16) & 1);
  return llvm::bit_cast<float>(bits & 0xffff0000u);
}

double roundToType(Type element, double value) {
  if (element.isF64())
    return value;
  if (element.isF32())
    return float(value);
  if (element.isBF16())
    return roundToBF16(value);
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(cast<FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                 &losesInfo);
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

int64_t wrapToType(Type element, int64_t value) {
  auto type = dyn_cast<IntegerType>(element);
  if (!type || type.getWidth() >= 64)
    return value;
  unsigned shift = 64 - type.getWidth();
  uint64_t high = uint64_t(value) << shift;
  if (type.isUnsigned() || type.getWidth() == 1)
    return int64_t(high >> shift);
  return int64_t(high) >> shift;
}

std::optional<Tensor> getConstant(ElementsAttr attr) {
  auto type = cast<ShapedType>(attr.getType());
  Tensor result(type.getElementType(), type.getShape());
  if (result.isFloat()) {
    auto values = attr.tryGetValues<APFloat>();
    if (!values)
      return std::nullopt;
    MutableArrayRef<double> out = result.mutableFloats();
    for (auto [i, value] : llvm::enumerate(*values)) {
      bool losesInfo;
      llvm::APFloat number = value;
      number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
      out[i] = number.convertToDouble();
    }
    return result;
  }
  auto values = attr.tryGetValues<APInt>();
  if (!values)
    return std::nullopt;
  MutableArrayRef<int64_t> out = result.mutableInts();
  bool isUnsigned = type.getElementType().isUnsignedInteger() || type.getElementType().isInteger(1);
  for (auto [i, value] : llvm::enumerate(*values))
    out[i] = isUnsigned ? int64_t(value.getZExtValue()) : value.getSExtValue();
  return result;
}

} // namespace adapt::interp
