// RUN: adapt-interpret %s --mode typed | FileCheck %s

// gelu(1) and gelu(-3) by both definitions: math.erf and math.tanh of Python (fault case D07).
func.func @main() -> (tensor<2xf32>, tensor<2xf32>) {
  %x = adapt.constant dense<[1.0, -3.0]> : tensor<2xf32>
  %one = adapt.constant dense<1.0> : tensor<2xf32>
  // CHECK: result0 = tensor<2xf32> [0.84134{{[0-9]*}}, -0.0040{{(49|50)[0-9]*}}]
  %0 = adapt.gated_activation gelu_erf %x, %one : tensor<2xf32>
  // CHECK: result1 = tensor<2xf32> [0.84119{{[0-9]*}}, -0.003637{{[0-9]*}}]
  %1 = adapt.gated_activation gelu_tanh %x, %one : tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
