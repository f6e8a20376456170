// RUN: adapt-opt %s -canonicalize | FileCheck %s

// Two reshapes are one, and one that changes nothing is none.
// CHECK-LABEL: func @reshape
// CHECK-SAME: (%[[X:.*]]: tensor<2x6xf32>)
// CHECK-NEXT: %[[Y:.*]] = adapt.reshape %[[X]] : tensor<2x6xf32> -> tensor<3x4xf32>
// CHECK-NEXT: return %[[Y]], %[[X]]
func.func @reshape(%x: tensor<2x6xf32>) -> (tensor<3x4xf32>, tensor<2x6xf32>) {
  %0 = adapt.reshape %x : tensor<2x6xf32> -> tensor<12xf32>
  %1 = adapt.reshape %0 : tensor<12xf32> -> tensor<3x4xf32>
  %2 = adapt.reshape %1 : tensor<3x4xf32> -> tensor<2x6xf32>
  return %1, %2 : tensor<3x4xf32>, tensor<2x6xf32>
}

// Two transposes are one: axis i of the result is axis [1, 2, 0][[2, 0, 1][i]] of the input.
// CHECK-LABEL: func @transpose
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK: %[[Y:.*]] = adapt.transpose %[[X]] [2, 1, 0]
// CHECK: return %[[X]], %[[Y]]
func.func @transpose(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<4x3x2xf32>) {
  %0 = adapt.transpose %x [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %1 = adapt.transpose %0 [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
  %2 = adapt.transpose %0 [1, 0, 2] : tensor<3x4x2xf32> -> tensor<4x3x2xf32>
  return %1, %2 : tensor<2x3x4xf32>, tensor<4x3x2xf32>
}

// A slice of the whole, a concat of one and a broadcast to the same are their inputs.
// CHECK-LABEL: func @nothing
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = adapt.slice %x offsets = [0, 0] strides = [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = adapt.concat axis 1(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = adapt.broadcast %1 dims = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// A slice from elsewhere stays.
// CHECK-LABEL: func @slice
// CHECK: adapt.slice
func.func @slice(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0 = adapt.slice %x offsets = [2] strides = [1] : tensor<4xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func @constant
// CHECK: adapt.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
func.func @constant() -> tensor<2x2xf32> {
  %0 = adapt.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = adapt.reshape %0 : tensor<4xf32> -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
