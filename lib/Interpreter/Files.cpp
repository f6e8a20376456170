#include "adapt/Interpreter/Files.h"

#include "adapt/Npy.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace mlir;

namespace adapt::interp {

//===----------------------------------------------------------------------===//
// .npy
//===----------------------------------------------------------------------===//

static llvm::Error makeError(const std::string &text) {
  return llvm::createStringError(std::errc::invalid_argument, "%s", text.c_str());
}

template <typename T, typename To>
static void convert(const std::vector<std::byte> &data, MutableArrayRef<To> to) {
  for (auto [i, out] : llvm::enumerate(to)) {
    T value;
    std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
    out = To(value);
  }
}

llvm::Expected<Tensor> readTensor(const std::string &path, Type element) {
  absl::StatusOr<rt::NpyArray> array = rt::readNpy(path);
  if (!array.ok())
    return makeError(std::string(array.status().message()));
  Tensor tensor(element, array->shape);
  bool floating = array->descr[1] == 'f';
  if (floating != tensor.isFloat())
    return makeError(path + ": elements of type '" + array->descr + "' for " +
                     (floating ? "an integer" : "a floating-point") + " argument");
  const std::string &descr = array->descr;
  if (descr == "<f8")
    convert<double>(array->data, tensor.mutableFloats());
  else if (descr == "<f4")
    convert<float>(array->data, tensor.mutableFloats());
  else if (descr == "<i8")
    convert<int64_t>(array->data, tensor.mutableInts());
  else if (descr == "<i4")
    convert<int32_t>(array->data, tensor.mutableInts());
  else if (descr == "<i2")
    convert<int16_t>(array->data, tensor.mutableInts());
  else if (descr == "|i1")
    convert<int8_t>(array->data, tensor.mutableInts());
  else if (descr == "|u1" || descr == "|b1")
    convert<uint8_t>(array->data, tensor.mutableInts());
  else
    return makeError(path + ": elements of type '" + descr + "' cannot be read here");
  if (!floating)
    for (int64_t value : tensor.ints())
      if (wrapToType(element, value) != value)
        return makeError(path + ": " + std::to_string(value) + " is out of the argument's range");
  return tensor;
}

llvm::Error writeTensor(const std::string &path, const Tensor &tensor) {
  bool wide = tensor.getElementType().isF64();
  absl::StatusOr<rt::NpyWriter> writer = rt::NpyWriter::create(path,
                                                               !tensor.isFloat() ? "<i8"
                                                               : wide            ? "<f8"
                                                                                 : "<f4",
                                                               tensor.getShape().vec());
  if (!writer.ok())
    return makeError(std::string(writer.status().message()));
  absl::Status status;
  if (!tensor.isFloat()) {
    status = writer->write(0, tensor.ints().data(), tensor.ints().size());
  } else if (wide) {
    status = writer->write(0, tensor.floats().data(), tensor.floats().size());
  } else {
    std::vector<float> narrow(tensor.floats().begin(), tensor.floats().end());
    status = writer->write(0, narrow.data(), narrow.size());
  }
  if (status.ok())
    status = writer->finish();
  return status.ok() ? llvm::Error::success() : makeError(std::string(status.message()));
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printElements(llvm::raw_ostream &os, const Tensor &tensor, unsigned axis,
                          int64_t &place) {
  if (axis == tensor.getRank()) {
    if (!tensor.isFloat())
      os << tensor.ints()[place];
    else if (double value = tensor.floats()[place]; std::isnan(value))
      os << "nan"; // without the sign that some operations give it
    else
      os << llvm::format("%.8g", value);
    ++place;
    return;
  }
  os << '[';
  for (int64_t i = 0; i < tensor.getDim(axis); ++i) {
    if (i)
      os << ", ";
    printElements(os, tensor, axis + 1, place);
  }
  os << ']';
}

static void printTensor(llvm::raw_ostream &os, const Tensor &tensor) {
  os << RankedTensorType::get(tensor.getShape(), tensor.getElementType()) << ' ';
  int64_t place = 0;
  printElements(os, tensor, 0, place);
}

void printValue(llvm::raw_ostream &os, const Value &value) {
  if (!value.isState())
    return printTensor(os, value.tensor());
  os << "state {";
  llvm::interleaveComma(value.state().planes, os,
                        [&](const Tensor &plane) { printTensor(os, plane); });
  os << '}';
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

std::optional<Difference> compare(const Value &a, const Value &b) {
  if (a.isState() != b.isState())
    return std::nullopt;
  Difference worst;
  if (a.isState()) {
    if (a.state().planes.size() != b.state().planes.size())
      return std::nullopt;
    for (auto [x, y] : llvm::zip_equal(a.state().planes, b.state().planes)) {
      std::optional<Difference> part = compare(Value(x), Value(y));
      if (!part)
        return std::nullopt;
      worst.error = std::max(worst.error, part->error);
      worst.cosine = std::min(worst.cosine, part->cosine);
    }
    return worst;
  }
  const Tensor &x = a.tensor(), &y = b.tensor();
  if (x.getShape() != y.getShape() || x.isFloat() != y.isFloat())
    return std::nullopt;
  double difference = 0, largest = 0, xx = 0, yy = 0, xy = 0;
  for (int64_t i = 0, n = x.getNumElements(); i < n; ++i) {
    double p = x.getAsDouble(i), q = y.getAsDouble(i);
    if (!std::isfinite(p) || !std::isfinite(q)) {
      if (!(p == q || (std::isnan(p) && std::isnan(q))))
        difference = std::numeric_limits<double>::infinity();
      continue;
    }
    difference = std::max(difference, std::fabs(p - q));
    largest = std::max(largest, std::fabs(q));
    xx += p * p;
    yy += q * q;
    xy += p * q;
  }
  worst.error = difference == 0 ? 0 : difference / largest;
  // Two zero vectors point the same way.
  worst.cosine = xx == yy && xx == xy ? 1 : xx * yy == 0 ? 0 : xy / std::sqrt(xx * yy);
  return worst;
}

} // namespace adapt::interp
