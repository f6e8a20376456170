// RUN: adapt-opt %s -canonicalize | FileCheck %s

// A cast to the same type is its input.
// CHECK-LABEL: func @cast
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @cast(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = adapt.cast %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A cast that rounds stays.
// CHECK-LABEL: func @rounds
// CHECK: adapt.cast
// CHECK: adapt.cast
func.func @rounds(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = adapt.cast %x : tensor<4xf32> -> tensor<4xbf16>
  %1 = adapt.cast %0 : tensor<4xbf16> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
