// RUN: adapt-interpret %s | FileCheck %s
// RUN: adapt-interpret %s --function half --mode typed | FileCheck %s --check-prefix=HALF

// Expected: numpy in f64, with the formulas of the operations' descriptions.
func.func @main() -> (tensor<2x2xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<3x2xf32>,
                      tensor<3x2xf32>, tensor<1x1x6xf32>, tensor<1x1x6xf32>) {
  %x = adapt.constant dense<[[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]]> : tensor<2x3xf32>
  %w = adapt.constant dense<[[1.0, 0.0, -1.0], [2.0, 4.0, 0.5]]> : tensor<2x3xf32>
  // CHECK: result0 = tensor<2x2xf32> {{\[\[}}-2, 11.5], [-3, 1]]
  %0 = adapt.matmul %x, %w : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x2xf32>
  %a = adapt.constant dense<[[1.0, 2.0, 3.0, 4.0], [0.5, -0.5, 1.5, -2.0]]> : tensor<2x4xf32>
  %g = adapt.constant dense<[1.0, 0.5, 2.0, -1.0]> : tensor<4xf32>
  // CHECK: result1 = tensor<2x4xf32> {{\[\[}}0.36514813, 0.36514813, 2.1908888, -1.4605925], [0.38489904, -0.19244952, 2.3093942, 1.5395962]]
  %1 = adapt.rms_norm %a, %g epsilon = 1.0e-5 : tensor<2x4xf32>, tensor<4xf32>
  // The weight comes after the norm: [1, 2], not [.63, 1.26] (fault case D06).
  %one = adapt.constant dense<1.0> : tensor<2xf32>
  %onetwo = adapt.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK: result2 = tensor<2xf32> [1, 2]
  %2 = adapt.rms_norm %one, %onetwo epsilon = 0.0 : tensor<2xf32>, tensor<2xf32>
  %p = adapt.constant dense<[0, 1, 7]> : tensor<3xi32>
  // CHECK: result3 = tensor<3x2xf32> {{\[\[}}1, 1], [0.54030231, 0.99996948], [0.75390225, 0.99850501]]
  // CHECK: result4 = tensor<3x2xf32> {{\[\[}}0, 0], [0.84147098, 0.0078124205], [0.6569866, 0.054660245]]
  %3, %4 = adapt.rope_table %p inverse_frequencies = dense<[1.0, 0.0078125]> : tensor<2xf32> : tensor<3xi32> -> tensor<3x2xf32>
  // Two pairs rotate by 0.5 and 1.5, the last two elements pass.
  %r = adapt.constant dense<[[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]]> : tensor<1x1x6xf32>
  %t = adapt.constant dense<[1]> : tensor<1xi32>
  %c, %s = adapt.rope_table %t inverse_frequencies = dense<[0.5, 1.5]> : tensor<2xf32> : tensor<1xi32> -> tensor<1x2xf32>
  // CHECK: result5 = tensor<1x1x6xf32> {{\[\[\[}}-0.56069405, -3.8485055, 3.1121732, 2.2779388, 5, 6]]]
  %5 = adapt.rope %r, %c, %s : tensor<1x1x6xf32>, tensor<1x2xf32>
  // CHECK: result6 = tensor<1x1x6xf32> {{\[\[\[}}-0.081268515, 2.2345907, -3.7777683, 3.2754338, 5, 6]]]
  %6 = adapt.rope %r, %c, %s interleaved : tensor<1x1x6xf32>, tensor<1x2xf32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2x2xf32>, tensor<2x4xf32>, tensor<2xf32>,
      tensor<3x2xf32>, tensor<3x2xf32>, tensor<1x1x6xf32>, tensor<1x1x6xf32>
}

// Fault case D06: 64 times 1000 in f16 normalises to ones, though its squares are no f16; a row of
// zeros stays zero. Accumulation is wider than the type: 2048 ones and one more, in bf16 inputs.
func.func @half() -> (tensor<64xf16>, tensor<4xf16>, tensor<1x1xf32>) {
  %x = adapt.constant dense<1000.0> : tensor<64xf16>
  %w = adapt.constant dense<1.0> : tensor<64xf16>
  // HALF: result0 = tensor<64xf16> [1, 1, {{(1, )+}}1]
  %0 = adapt.rms_norm %x, %w epsilon = 1.0e-6 : tensor<64xf16>, tensor<64xf16>
  %z = adapt.constant dense<0.0> : tensor<4xf16>
  %w4 = adapt.constant dense<1.0> : tensor<4xf16>
  // HALF: result1 = tensor<4xf16> [0, 0, 0, 0]
  %1 = adapt.rms_norm %z, %w4 epsilon = 1.0e-6 : tensor<4xf16>, tensor<4xf16>
  %ones = adapt.constant dense<1.0> : tensor<1x2049xbf16>
  // HALF: result2 = tensor<1x1xf32> {{\[\[}}2049]]
  %2 = adapt.matmul %ones, %ones : tensor<1x2049xbf16>, tensor<1x2049xbf16> -> tensor<1x1xf32>
  return %0, %1, %2 : tensor<64xf16>, tensor<4xf16>, tensor<1x1xf32>
}
