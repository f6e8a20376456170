// RUN: adapt-interpret %s --mode wide | FileCheck %s --check-prefix=WIDE
// RUN: adapt-interpret %s --mode typed | FileCheck %s --check-prefix=TYPED

// bf16 has 8 bits of precision and f16 has 11 (IEEE 754); ties go to even.
func.func @main() -> (tensor<4xbf16>, tensor<3xf16>, tensor<2xbf16>, tensor<1xf32>, tensor<1xbf16>) {
  // 1 + 2^-8 (tie, to even: down), 1 + 3 * 2^-8 (tie, up), just above the first tie, and the f32
  // below the first tie but so near it that rounding to bf16 twice would be seen.
  %f = adapt.constant dense<[1.00390625, 1.01171875, 1.0039063692092896, 1.0039061307907104]> : tensor<4xf32>
  // WIDE: result0 = tensor<4xbf16> [1.0039062, 1.0117188, 1.0039064, 1.0039061]
  // TYPED: result0 = tensor<4xbf16> [1, 1.015625, 1.0078125, 1]
  %0 = adapt.cast %f : tensor<4xf32> -> tensor<4xbf16>
  // 2049 is a tie between 2048 and 2050; 65520 rounds to infinity; 2^-25 is a tie with zero.
  %g = adapt.constant dense<[2049.0, 65520.0, 2.98023223876953125e-08]> : tensor<3xf32>
  // WIDE: result1 = tensor<3xf16> [2049, 65520, 2.9802322e-08]
  // TYPED: result1 = tensor<3xf16> [2048, inf, 0]
  %1 = adapt.cast %g : tensor<3xf32> -> tensor<3xf16>
  // f64 to bf16 in one step: 1 + 2^-8 + 2^-40 is above the tie, though not as an f32.
  %d = adapt.constant dense<[1.0039062500009095, -1.0039062500009095]> : tensor<2xf64>
  // WIDE: result2 = tensor<2xbf16> [1.0039063, -1.0039063]
  // TYPED: result2 = tensor<2xbf16> [1.0078125, -1.0078125]
  %2 = adapt.cast %d : tensor<2xf64> -> tensor<2xbf16>
  // 2^24 + 1 is no f32.
  %x = adapt.constant dense<16777216.0> : tensor<1xf32>
  %one = adapt.constant dense<1.0> : tensor<1xf32>
  // WIDE: result3 = tensor<1xf32> [1]
  // TYPED: result3 = tensor<1xf32> [0]
  %sum = adapt.add %x, %one : tensor<1xf32>
  %3 = adapt.sub %sum, %x : tensor<1xf32>
  // A composite rounds once: silu(1) * 3 = 2.1931757 is 2.1875 in bf16 (silu(1) alone would be
  // 0.73046875, and that times three 2.1914062).
  %b = adapt.constant dense<1.0> : tensor<1xbf16>
  %c = adapt.constant dense<3.0> : tensor<1xbf16>
  // WIDE: result4 = tensor<1xbf16> [2.1931757]
  // TYPED: result4 = tensor<1xbf16> [2.1875]
  %4 = adapt.gated_activation silu %b, %c : tensor<1xbf16>
  return %0, %1, %2, %3, %4 : tensor<4xbf16>, tensor<3xf16>, tensor<2xbf16>, tensor<1xf32>, tensor<1xbf16>
}
