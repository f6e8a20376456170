//===- ElementType.h - Names, sizes and conversions of element types ------===//
//
// Element types of schema/types.proto: their sizes, their names in MLIR and in safetensors files,
// and exact conversions between floating-point formats (round to nearest, ties to even; a NaN stays
// a NaN and keeps its sign).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "types.pb.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace adapt::weights {

using schema::ElementType;

struct ElementInfo {
  ElementType element;
  std::string_view name;            // as MLIR prints it
  std::string_view safetensorsName; // in a safetensors header
  unsigned bytes;
};

inline constexpr ElementInfo kElementInfos[] = {
    {schema::F64, "f64", "F64", 8},  {schema::F32, "f32", "F32", 4},
    {schema::F16, "f16", "F16", 2},  {schema::BF16, "bf16", "BF16", 2},
    {schema::I64, "i64", "I64", 8},  {schema::I32, "i32", "I32", 4},
    {schema::I16, "i16", "I16", 2},  {schema::I8, "i8", "I8", 1},
    {schema::U64, "ui64", "U64", 8}, {schema::U32, "ui32", "U32", 4},
    {schema::U16, "ui16", "U16", 2}, {schema::U8, "ui8", "U8", 1},
    {schema::BOOL, "i1", "BOOL", 1},
};

/// Null for ELEMENT_TYPE_UNSPECIFIED and for values that this version does not know.
inline const ElementInfo *elementInfo(ElementType element) {
  for (const ElementInfo &info : kElementInfos)
    if (info.element == element)
      return &info;
  return nullptr;
}

/// Bytes of one element in memory; 0 for a type that is not known.
inline unsigned elementBytes(ElementType element) {
  const ElementInfo *info = elementInfo(element);
  return info ? info->bytes : 0;
}

/// "bf16", "ui8", "i1", …; "unspecified" for a type that is not known.
inline std::string_view elementName(ElementType element) {
  const ElementInfo *info = elementInfo(element);
  return info ? info->name : "unspecified";
}

inline std::string_view safetensorsName(ElementType element) {
  const ElementInfo *info = elementInfo(element);
  return info ? info->safetensorsName : "unspecified";
}

inline std::optional<ElementType> elementFromName(std::string_view name) {
  for (const ElementInfo &info : kElementInfos)
    if (info.name == name)
      return info.element;
  return std::nullopt;
}

inline std::optional<ElementType> elementFromSafetensorsName(std::string_view name) {
  for (const ElementInfo &info : kElementInfos)
    if (info.safetensorsName == name)
      return info.element;
  return std::nullopt;
}

inline bool isFloat(ElementType element) {
  return element == schema::F64 || element == schema::F32 || element == schema::F16 ||
         element == schema::BF16;
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

template <typename To, typename From> inline To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

inline float bf16ToF32(uint16_t bits) { return bitCast<float>(uint32_t(bits) << 16); }

inline uint16_t f32ToBf16(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  // A NaN is made quiet, so that dropping its low bits cannot make it an infinity.
  uint32_t quiet = bits | 0x00400000;
  return uint16_t(((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
}

inline float f16ToF32(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t magnitude = bits & 0x7fff;
  // Exponent and mantissa moved into place and rebased; subnormals come out right because the
  // multiplication normalises them; infinities and NaNs get the largest exponent.
  float finite = bitCast<float>(magnitude << 13) * bitCast<float>(uint32_t(254 - 15) << 23);
  uint32_t special = (magnitude << 13) | 0x7f800000;
  // A signalling NaN becomes quiet, as the hardware does it.
  special |= magnitude > 0x7c00 ? 0x00400000 : 0;
  return bitCast<float>(sign | (magnitude >= 0x7c00 ? special : bitCast<uint32_t>(finite)));
}

inline uint16_t f32ToF16(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  // Normal results: rebase the exponent and round away the 13 low bits.
  uint32_t normal =
      (magnitude - (uint32_t(127 - 15) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal results: adding 0.5 aligns the value so that its unit is 2^-24; the addition rounds.
  uint32_t subnormal = bitCast<uint32_t>(bitCast<float>(magnitude) + 0.5f) - 0x3f000000;
  uint32_t result = magnitude < 0x38800000 ? subnormal : normal;
  result = magnitude >= 0x477ff000 ? 0x7c00 : result; // 65520 and above round to infinity
  result = magnitude > 0x7f800000 ? 0x7e00 | ((magnitude >> 13) & 0x1ff) : result;
  return uint16_t(sign | result);
}

/// Rounds to odd: the result can be rounded again, to a format at least two bits shorter, as if in
/// one step.
inline float f64ToF32RoundToOdd(double value) {
  float nearest = float(value);
  if (!(value == value) || double(nearest) == value)
    return nearest;
  uint32_t bits = bitCast<uint32_t>(nearest);
  // The neighbour towards zero has the truncated bits, whose last bit then sticks.
  bool away = (value > 0) == (double(nearest) > value);
  bits -= away ? 1 : 0;
  return bitCast<float>(bits | 1);
}

inline uint16_t f64ToBf16(double value) { return f32ToBf16(f64ToF32RoundToOdd(value)); }
inline uint16_t f64ToF16(double value) { return f32ToF16(f64ToF32RoundToOdd(value)); }

/// An integer as f64, rounded to odd where it has more than 53 bits.
inline double integerToF64RoundToOdd(uint64_t magnitude, bool negative) {
  if (magnitude >> 53) {
    unsigned drop = 11 - unsigned(__builtin_clzll(magnitude));
    uint64_t lost = magnitude & ((uint64_t(1) << drop) - 1);
    magnitude = ((magnitude >> drop) | (lost ? 1 : 0)) << drop;
  }
  return negative ? -double(magnitude) : double(magnitude);
}

} // namespace adapt::weights
