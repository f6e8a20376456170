#include "weights/Cast.h"

#include <type_traits>

namespace adapt::weights {
namespace {

// How an element is stored, and the type it is computed with.
template <ElementType E> struct Element;
template <typename T> struct Plain {
  using Storage = T;
  using Value = T;
  static Value load(Storage stored) { return stored; }
};
template <> struct Element<schema::F64> : Plain<double> {};
template <> struct Element<schema::F32> : Plain<float> {};
template <> struct Element<schema::I64> : Plain<int64_t> {};
template <> struct Element<schema::I32> : Plain<int32_t> {};
template <> struct Element<schema::I16> : Plain<int16_t> {};
template <> struct Element<schema::I8> : Plain<int8_t> {};
template <> struct Element<schema::U64> : Plain<uint64_t> {};
template <> struct Element<schema::U32> : Plain<uint32_t> {};
template <> struct Element<schema::U16> : Plain<uint16_t> {};
template <> struct Element<schema::U8> : Plain<uint8_t> {};
template <> struct Element<schema::F16> {
  using Storage = uint16_t;
  using Value = float;
  static Value load(Storage stored) { return f16ToF32(stored); }
};
template <> struct Element<schema::BF16> {
  using Storage = uint16_t;
  using Value = float;
  static Value load(Storage stored) { return bf16ToF32(stored); }
};
template <> struct Element<schema::BOOL> {
  using Storage = uint8_t;
  using Value = bool;
  static Value load(Storage stored) { return stored != 0; }
};

template <typename Integer, typename Float> Integer saturate(Float value) {
  // The first values beyond the range are powers of two, so exact in every float type.
  constexpr int bits = std::numeric_limits<Integer>::digits;
  const Float end = Float(uint64_t(1) << (bits - 1)) * 2;
  if (!(value == value))
    return 0;
  if (value >= end)
    return std::numeric_limits<Integer>::max();
  if (value <= (std::is_signed_v<Integer> ? -end : Float(0)))
    return std::numeric_limits<Integer>::min();
  return Integer(value);
}

/// An integer as f64 that can be rounded once more.
template <typename Integer> double wide(Integer value) {
  if constexpr (std::is_signed_v<Integer>)
    return integerToF64RoundToOdd(value < 0 ? 0 - uint64_t(value) : uint64_t(value), value < 0);
  else
    return integerToF64RoundToOdd(uint64_t(value), false);
}

template <ElementType To, typename Value> typename Element<To>::Storage convert(Value value) {
  using Storage = typename Element<To>::Storage;
  if constexpr (To == schema::BOOL) {
    return value != Value(0);
  } else if constexpr (To == schema::F16 || To == schema::BF16) {
    if constexpr (std::is_same_v<Value, float>)
      return To == schema::F16 ? f32ToF16(value) : f32ToBf16(value);
    else if constexpr (std::is_same_v<Value, double>)
      return To == schema::F16 ? f64ToF16(value) : f64ToBf16(value);
    else
      return convert<To>(wide(value));
  } else if constexpr (std::is_floating_point_v<Value> && std::is_integral_v<Storage>) {
    return saturate<Storage>(value);
  } else {
    return Storage(value);
  }
}

template <ElementType From, ElementType To>
void cast(const std::byte *from, std::byte *to, size_t count) {
  using FromStorage = typename Element<From>::Storage;
  using ToStorage = typename Element<To>::Storage;
  for (size_t i = 0; i < count; ++i) {
    FromStorage in;
    std::memcpy(&in, from + i * sizeof in, sizeof in);
    ToStorage out = convert<To>(Element<From>::load(in));
    std::memcpy(to + i * sizeof out, &out, sizeof out);
  }
}

/// Calls `f` with the element type as a constant.
template <typename F>
auto dispatch(ElementType element, F f)
    -> decltype(f(std::integral_constant<ElementType, schema::F32>())) {
  switch (element) {
#define ADAPT_CASE(E)                                                                              \
  case schema::E:                                                                                  \
    return f(std::integral_constant<ElementType, schema::E>());
    ADAPT_CASE(F64)
    ADAPT_CASE(F32)
    ADAPT_CASE(F16)
    ADAPT_CASE(BF16)
    ADAPT_CASE(I64)
    ADAPT_CASE(I32)
    ADAPT_CASE(I16)
    ADAPT_CASE(I8)
    ADAPT_CASE(U64)
    ADAPT_CASE(U32)
    ADAPT_CASE(U16)
    ADAPT_CASE(U8)
    ADAPT_CASE(BOOL)
#undef ADAPT_CASE
  default:
    return {};
  }
}

} // namespace

CastFunction castFunction(ElementType from, ElementType to) {
  return dispatch(from, [&](auto f) -> CastFunction {
    return dispatch(
        to, [](auto t) -> CastFunction { return cast<decltype(f)::value, decltype(t)::value>; });
  });
}

void storeElement(double value, ElementType to, std::byte out[8]) {
  if (CastFunction convert = castFunction(schema::F64, to))
    convert(reinterpret_cast<const std::byte *>(&value), out, 1);
}

} // namespace adapt::weights
