// The phase drops what nobody needs and computes once what is computed twice.
// RUN: adapt-opt %s --split-input-file --adapt-simplify | FileCheck %s

// CHECK-LABEL: func.func @twice
// CHECK-SAME:    %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT:    %[[E:.*]] = adapt.exp %[[X]]
// CHECK-NEXT:    %[[S:.*]] = adapt.add %[[E]], %[[E]]
// CHECK-NEXT:    return %[[S]]
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = adapt.exp %x : tensor<4xf32>
  %1 = adapt.exp %x : tensor<4xf32>
  %2 = adapt.neg %x : tensor<4xf32>
  %3 = adapt.add %0, %1 : tensor<4xf32>
  return %3 : tensor<4xf32>
}
// CHECK-NOT: @unused
func.func private @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
