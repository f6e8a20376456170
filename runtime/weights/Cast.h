//===- Cast.h - Conversion of runs of elements ----------------------------===//
#pragma once

#include "weights/ElementType.h"

#include <cstddef>

namespace adapt::weights {

/// Converts `count` elements; neither pointer needs any alignment; the ranges do not overlap.
/// - to a narrower float: to nearest even, in one step; too large becomes an infinity;
/// - integer to narrower integer: the low bits (as ONNX says);
/// - float to integer: towards zero, out of range to the nearest end, NaN to 0;
/// - to bool: whether it is not zero (NaN is not).
using CastFunction = void (*)(const std::byte *from, std::byte *to, size_t count);

/// Null if one of the types is not known.
CastFunction castFunction(ElementType from, ElementType to);

/// `value` as one element, by the same rules, in the first elementBytes(to) of `out`.
void storeElement(double value, ElementType to, std::byte out[8]);

} // namespace adapt::weights
