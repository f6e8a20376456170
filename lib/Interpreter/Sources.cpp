#include "adapt/Interpreter/Sources.h"

#include "weights/Sources.h"
#include "llvm/Support/xxhash.h"
#include <cmath>
#include <random>

using namespace mlir;

namespace adapt::interp {

Type getElementType(MLIRContext *context, schema::ElementType element) {
  switch (element) {
  case schema::F64:
    return Float64Type::get(context);
  case schema::F32:
    return Float32Type::get(context);
  case schema::F16:
    return Float16Type::get(context);
  case schema::BF16:
    return BFloat16Type::get(context);
  case schema::I64:
  case schema::I32:
  case schema::I16:
  case schema::I8:
    return IntegerType::get(context, 8 * weights::elementBytes(element));
  case schema::U64:
  case schema::U32:
  case schema::U16:
  case schema::U8:
    return IntegerType::get(context, 8 * weights::elementBytes(element), IntegerType::Unsigned);
  case schema::BOOL:
    return IntegerType::get(context, 1);
  default:
    return {};
  }
}

template <typename T> static T load(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

static double decodeFloat(schema::ElementType element, const std::byte *from) {
  switch (element) {
  case schema::F64:
    return load<double>(from);
  case schema::F32:
    return load<float>(from);
  case schema::F16:
    return weights::f16ToF32(load<uint16_t>(from));
  default:
    return weights::bf16ToF32(load<uint16_t>(from));
  }
}

static int64_t decodeInteger(schema::ElementType element, const std::byte *from) {
  switch (element) {
  case schema::I64:
  case schema::U64:
    return load<int64_t>(from);
  case schema::I32:
    return load<int32_t>(from);
  case schema::I16:
    return load<int16_t>(from);
  case schema::I8:
    return load<int8_t>(from);
  case schema::U32:
    return load<uint32_t>(from);
  case schema::U16:
    return load<uint16_t>(from);
  default:
    return load<uint8_t>(from);
  }
}

static FailureOr<Tensor> readSource(const weights::SourceProvider &provider, Operation *op,
                                    StringRef name, RankedTensorType type) {
  absl::StatusOr<weights::SourceTensor> source = provider.source({name.data(), name.size()});
  if (!source.ok())
    return op->emitOpError("cannot be read: ") << std::string(source.status().message());
  Type element = getElementType(op->getContext(), source->element);
  if (element != type.getElementType() || ArrayRef(source->shape) != type.getShape())
    return op->emitOpError("reads '")
           << name << "' as " << type << ", but the checkpoint has it as "
           << std::string(weights::elementName(source->element)) << " "
           << weights::shapeString(source->shape);
  Tensor tensor(element, type.getShape());
  int64_t count = tensor.getNumElements(), bytes = weights::elementBytes(source->element);
  if (source->data.size() != size_t(source->isSplat ? bytes : count * bytes))
    return op->emitOpError("reads '") << name << "', whose data has " << source->data.size()
                                      << " bytes for " << count << " elements";
  const std::byte *from = source->data.data();
  int64_t step = source->isSplat ? 0 : bytes;
  if (tensor.isFloat()) {
    for (double &to : tensor.mutableFloats()) {
      to = decodeFloat(source->element, from);
      from += step;
    }
  } else {
    for (int64_t &to : tensor.mutableInts()) {
      to = decodeInteger(source->element, from);
      from += step;
    }
  }
  return tensor;
}

ReadSource readFrom(const weights::SourceProvider &provider) {
  return [&provider](Operation *op, StringRef name, RankedTensorType type) {
    return readSource(provider, op, name, type);
  };
}

void fillRandom(Tensor &tensor, uint64_t seed, int64_t below) {
  std::mt19937_64 generator(seed);
  // Not the library's distributions, which differ between libraries.
  auto uniform = [&] { return double(generator() >> 11) * 0x1p-53; };
  if (!tensor.isFloat()) {
    for (int64_t &x : tensor.mutableInts())
      x = wrapToType(tensor.getElementType(), int64_t(uniform() * double(below)));
    return;
  }
  double scale = tensor.getRank() > 1 ? 1 / std::sqrt(double(tensor.getShape().back())) : 1;
  for (double &x : tensor.mutableFloats()) {
    double normal = std::sqrt(-2 * std::log1p(-uniform())) * std::cos(2 * M_PI * uniform());
    x = roundToType(tensor.getElementType(), scale * normal);
  }
}

ReadSource readRandom(uint64_t seed) {
  return [seed](Operation *, StringRef name, RankedTensorType type) -> FailureOr<Tensor> {
    Tensor tensor(type.getElementType(), type.getShape());
    fillRandom(tensor, seed ^ llvm::xxh3_64bits(name), /*below=*/4);
    return tensor;
  };
}

} // namespace adapt::interp
