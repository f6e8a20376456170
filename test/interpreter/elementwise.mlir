// RUN: adapt-interpret %s | FileCheck %s
// RUN: adapt-interpret %s --function gelu | FileCheck %s --check-prefix=GELU
// RUN: adapt-interpret %s --function cast | FileCheck %s --check-prefix=CAST

// Expected: numpy in f64, math.erf of Python.
func.func @main() -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
                      tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
                      tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
                      tensor<4xi32>, tensor<4xi32>) {
  %x = adapt.constant dense<[0.5, 2.0, -1.25]> : tensor<3xf32>
  %y = adapt.constant dense<[2.0, 0.5, -1.0]> : tensor<3xf32>
  %p = adapt.constant dense<[0.25, 2.0, 9.0]> : tensor<3xf32>
  %nan = adapt.constant dense<[0x7FC00000, 1.0, 0xFF800000]> : tensor<3xf32>
  // CHECK: result0 = tensor<3xf32> [2.5, 2.5, -2.25]
  %add = adapt.add %x, %y : tensor<3xf32>
  // CHECK: result1 = tensor<3xf32> [-1.5, 1.5, -0.25]
  %sub = adapt.sub %x, %y : tensor<3xf32>
  // CHECK: result2 = tensor<3xf32> [1, 1, 1.25]
  %mul = adapt.mul %x, %y : tensor<3xf32>
  // CHECK: result3 = tensor<3xf32> [0.25, 4, 1.25]
  %div = adapt.div %x, %y : tensor<3xf32>
  // CHECK: result4 = tensor<3xf32> [nan, 2, -1.25]
  %max = adapt.maximum %x, %nan : tensor<3xf32>
  // CHECK: result5 = tensor<3xf32> [nan, 1, -inf]
  %min = adapt.minimum %x, %nan : tensor<3xf32>
  // CHECK: result6 = tensor<3xf32> [-0.5, -2, 1.25]
  %neg = adapt.neg %x : tensor<3xf32>
  // CHECK: result7 = tensor<3xf32> [1.6487213, 7.3890561, 0.2865048]
  %exp = adapt.exp %x : tensor<3xf32>
  // CHECK: result8 = tensor<3xf32> [0.5, 1.4142136, 3]
  %sqrt = adapt.sqrt %p : tensor<3xf32>
  // CHECK: result9 = tensor<3xf32> [2, 0.70710678, 0.33333333]
  %rsqrt = adapt.rsqrt %p : tensor<3xf32>
  // CHECK: result10 = tensor<3xf32> [0.46211716, 0.96402758, -0.84828364]
  %tanh = adapt.tanh %x : tensor<3xf32>
  // CHECK: result11 = tensor<3xf32> [0.52049988, 0.99532227, -0.92290013]
  %erf = adapt.erf %x : tensor<3xf32>
  // CHECK: result12 = tensor<3xf32> [0.47942554, 0.90929743, -0.94898462]
  %sin = adapt.sin %x : tensor<3xf32>
  // CHECK: result13 = tensor<3xf32> [0.87758256, -0.41614684, 0.31532236]
  %cos = adapt.cos %x : tensor<3xf32>
  // CHECK: result14 = tensor<3xf32> [0.62245933, 0.88079708, 0.22270014]
  %sigmoid = adapt.sigmoid %x : tensor<3xf32>
  %a = adapt.constant dense<[-7, 7, -7, 2147483647]> : tensor<4xi32>
  %b = adapt.constant dense<[2, -2, -2, 1]> : tensor<4xi32>
  // Integers divide toward zero.
  // CHECK: result15 = tensor<4xi32> [-3, -3, 3, 2147483647]
  %idiv = adapt.div %a, %b : tensor<4xi32>
  // They wrap.
  // CHECK: result16 = tensor<4xi32> [-5, 5, -9, -2147483648]
  %iadd = adapt.add %a, %b : tensor<4xi32>
  return %add, %sub, %mul, %div, %max, %min, %neg, %exp, %sqrt, %rsqrt, %tanh, %erf, %sin, %cos,
      %sigmoid, %idiv, %iadd : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
      tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>,
      tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4xi32>,
      tensor<4xi32>
}

// gelu(1), gelu(-3) by both definitions: the figures of fault case D07 (to 1e-5).
func.func @gelu() -> (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) {
  %x = adapt.constant dense<[1.0, -3.0]> : tensor<2xf32>
  %one = adapt.constant dense<1.0> : tensor<2xf32>
  // GELU: result0 = tensor<2xf32> [0.841344{{[0-9]*}}, -0.0040496{{[0-9]*}}]
  %0 = adapt.gated_activation gelu_erf %x, %one : tensor<2xf32>
  // GELU: result1 = tensor<2xf32> [0.841191{{[0-9]*}}, -0.0036373{{[0-9]*}}]
  %1 = adapt.gated_activation gelu_tanh %x, %one : tensor<2xf32>
  %gate = adapt.constant dense<[0.5, 2.0, -1.25]> : tensor<3xf32>
  %up = adapt.constant dense<[2.0, 0.5, -1.0]> : tensor<3xf32>
  // numpy: gate / (1 + exp(-gate)) * up
  // GELU: result2 = tensor<3xf32> [0.62245933, 0.88079708, 0.27837517]
  %2 = adapt.gated_activation silu %gate, %up : tensor<3xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<3xf32>
}

// Kinds of numbers change in both modes. i16 to i8 and f32 to bool: ONNX's Cast, fault case A08.
func.func @cast() -> (tensor<3xi8>, tensor<3xi1>, tensor<4xi32>, tensor<2xf32>) {
  %i = adapt.constant dense<[200, -129, 300]> : tensor<3xi16>
  // CAST: result0 = tensor<3xi8> [-56, 127, 44]
  %0 = adapt.cast %i : tensor<3xi16> -> tensor<3xi8>
  %f = adapt.constant dense<[0.3, -0.0, 0x7FC00000]> : tensor<3xf32>
  // CAST: result1 = tensor<3xi1> [1, 0, 1]
  %1 = adapt.cast %f : tensor<3xf32> -> tensor<3xi1>
  %g = adapt.constant dense<[2.9, -2.9, 0.5, -0.5]> : tensor<4xf32>
  // CAST: result2 = tensor<4xi32> [2, -2, 0, 0]
  %2 = adapt.cast %g : tensor<4xf32> -> tensor<4xi32>
  %b = adapt.constant dense<[true, false]> : tensor<2xi1>
  // CAST: result3 = tensor<2xf32> [1, 0]
  %3 = adapt.cast %b : tensor<2xi1> -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<3xi8>, tensor<3xi1>, tensor<4xi32>, tensor<2xf32>
}
