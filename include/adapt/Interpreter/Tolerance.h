// How far a kernel may be from the interpreter's typed mode.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include <cmath>

namespace adapt::interp {

/// Of max|a-b| / max|b|, for results of this type whose elements are sums of `terms` products in
/// f32 (f64 for f64): c · √K · ε of the accumulator, and the roundings to a narrower type, which
/// may fall on either side; as many as there are operations in the kernel, as fusion may drop some.
///
/// Sums in another order differ like a random walk of roundings, hence √K (Higham, Accuracy and
/// Stability of Numerical Algorithms, 2nd ed., section 2.8: the rule of thumb); c allows for
/// functions like exp, which are right to a few units in the last place.
inline double getTolerance(mlir::Type element, int64_t terms, int64_t roundings = 1) {
  constexpr double c = 4;
  unsigned precision = mlir::cast<mlir::FloatType>(element).getFPMantissaWidth();
  double accumulator = std::ldexp(1.0, element.isF64() ? -53 : -24);
  double rounding = std::ldexp(1.0, 1 - int(precision));
  bool narrow = precision < (element.isF64() ? 53u : 24u);
  return c * std::sqrt(double(std::max<int64_t>(terms, 1))) * accumulator +
         (narrow ? double(roundings) * rounding : 0);
}

} // namespace adapt::interp
