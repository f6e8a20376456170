// RUN: adapt-interpret %s | FileCheck %s
// RUN: adapt-opt %s --pass-pipeline='builtin.module(adapt-decompose-composites)' -o %t.mlir
// RUN: adapt-interpret %t.mlir | FileCheck %s

// Expected: by hand, and from the definitions of ONNX (onnx 1.23's reference for gelu and layer_norm).
module attributes {adapt.target = {name = "cpu", keeps = []}} {
func.func @main() -> (tensor<4xi1>, tensor<4xf32>, tensor<3xi64>, tensor<4xi64>, tensor<2x3xf32>, tensor<2x1xf32>,
                      tensor<1x2x2xf32>, tensor<1x1x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %x = adapt.constant dense<[1.0, -2.0, 0x7FC00000, 4.0]> : tensor<4xf32>
  %y = adapt.constant dense<[1.0, -3.0, 0.0, 5.0]> : tensor<4xf32>
  // A NaN is in no relation.
  // CHECK: result0 = tensor<4xi1> [1, 0, 0, 1]
  %0 = adapt.compare le %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: result1 = tensor<4xf32> [1, -3, 0, 4]
  %1 = adapt.select %0, %x, %y : tensor<4xi1>, tensor<4xf32>
  %a = adapt.constant dense<[-5, 5, -5]> : tensor<3xi64>
  %b = adapt.constant dense<[3, -3, -3]> : tensor<3xi64>
  // The sign is the dividend's.
  // CHECK: result2 = tensor<3xi64> [-2, 2, -2]
  %2 = adapt.rem %a, %b : tensor<3xi64>
  // CHECK: result3 = tensor<4xi64> [7, 5, 3, 1]
  %3 = adapt.iota start = <[7]> step = -2 : tensor<4xi64>
  %m = adapt.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %z = adapt.constant dense<9.0> : tensor<f32>
  // CHECK: result4 = tensor<2x3xf32> {{\[\[}}9, 1, 2], [9, 3, 4]]
  %4 = adapt.pad %m, %z low = [0, 1] : tensor<2x2xf32>, tensor<f32> -> tensor<2x3xf32>
  %i = adapt.constant dense<[1]> : tensor<1xi64>
  // CHECK: result5 = tensor<2x1xf32> {{\[\[}}2], [4]]
  %5 = adapt.gather %m[%i] {axis = 1 : i64} : tensor<2x2xf32>, tensor<1xi64> -> tensor<2x1xf32>
  %l = adapt.reshape %m : tensor<2x2xf32> -> tensor<1x2x2xf32>
  // CHECK: result6 = tensor<1x2x2xf32> {{\[\[\[}}7, 10], [15, 22]]]
  %6 = adapt.batch_matmul %l, %l : tensor<1x2x2xf32>, tensor<1x2x2xf32> -> tensor<1x2x2xf32>
  %s = adapt.constant dense<[[[1.0, 2.0, 3.0, 4.0, 5.0]]]> : tensor<1x1x5xf32>
  %k = adapt.constant dense<[[[10.0, 1.0]]]> : tensor<1x1x2xf32>
  // Taps at -1 and 1, at 1 and 3, at 3 and 5: what lies outside is zero.
  // CHECK: result7 = tensor<1x1x3xf32> {{\[\[\[}}2, 24, 40]]]
  %7 = adapt.conv %s, %k strides = [2] dilations = [2] pads = [1, 1] groups = 1
      : tensor<1x1x5xf32>, tensor<1x1x2xf32> -> tensor<1x1x3xf32>
  // ln 1, 2, 3, 4 along axis 0: 1/4, 2/6, 3/4, 4/6.
  %logs = adapt.log %m : tensor<2x2xf32>
  // CHECK: result8 = tensor<2x2xf32> {{\[\[}}0.25, 0.3333333{{[0-9]*}}], [0.75, 0.6666666{{[0-9]*}}]]
  %8 = adapt.softmax %logs axis = 0 : tensor<2x2xf32>
  %g = adapt.constant dense<[2.0, 3.0]> : tensor<2xf32>
  // Rows are -1 and 1 when normalised: times [2, 3], plus [2, 3].
  // CHECK: result9 = tensor<2x2xf32> {{\[\[}}0, 6], [0, 6]]
  %9 = adapt.layer_norm %m, %g, %g epsilon = 0.0 : tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>
  %h = adapt.constant dense<[1.0, -3.0]> : tensor<2xf32>
  // CHECK: result10 = tensor<2xf32> [0.8413447{{[0-9]*}}, -0.0040496{{[0-9]*}}]
  %10 = adapt.gelu %h : tensor<2xf32>
  // CHECK: result11 = tensor<2xf32> [0.8411{{[0-9]*}}, -0.0036373{{[0-9]*}}]
  %11 = adapt.gelu tanh %h : tensor<2xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : tensor<4xi1>, tensor<4xf32>, tensor<3xi64>, tensor<4xi64>,
      tensor<2x3xf32>, tensor<2x1xf32>, tensor<1x2x2xf32>, tensor<1x1x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>,
      tensor<2xf32>, tensor<2xf32>
}
}
