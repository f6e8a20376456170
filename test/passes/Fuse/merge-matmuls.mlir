// RUN: adapt-opt %s --split-input-file --adapt-merge-matmuls | FileCheck %s
// RUN: adapt-opt %S/../Inputs/tiny_llama.mlir --adapt-merge-matmuls -o %t.mlir
// RUN: adapt-interpret %S/../Inputs/tiny_llama.mlir --random-inputs 7 \
// RUN:   --tokens %S/../Inputs/tokens.npy --compare %t.mlir | FileCheck %s --check-prefix=SAME

// SAME: logits: error {{[0-9.]+e-1[0-9]|0}},

// Weights of one input lie below each other; results are slices of the common one.
// CHECK-LABEL: func.func @gate_up
// CHECK-SAME:    %[[X:.*]]: tensor<?x4xf32
// CHECK:         %[[W:.*]] = adapt.param "layers.{layer}.gate+up.weight" : tensor<14x4xf32>
// CHECK-NEXT:      %[[A:.*]] = adapt.source "l.{layer}.gate"
// CHECK-NEXT:      %[[B:.*]] = adapt.source "l.{layer}.up"
// CHECK-NEXT:      %[[C:.*]] = adapt.concat axis 0(%[[A]], %[[B]])
// CHECK-NEXT:      adapt.yield %[[C]]
// CHECK:         %[[M:.*]] = adapt.matmul %[[X]], %[[W]] {{.*}} -> tensor<?x14xf32, #adapt.dims<[T, 14]>>
// CHECK-NEXT:    %[[G:.*]] = adapt.slice %[[M]] offsets = [0, 0] strides = [1, 1] : {{.*}} -> tensor<?x8xf32,
// CHECK-NEXT:    %[[U:.*]] = adapt.slice %[[M]] offsets = [0, 8] strides = [1, 1] : {{.*}} -> tensor<?x6xf32,
// CHECK-NOT:     adapt.matmul
// CHECK:         return %[[G]], %[[U]]
func.func @gate_up(%x: tensor<?x4xf32, #adapt.dims<[T, 4]>>)
    -> (tensor<?x8xf32, #adapt.dims<[T, 8]>>, tensor<?x6xf32, #adapt.dims<[T, 6]>>)
    attributes {adapt.symbols = ["T"], adapt.indices = ["layer"]} {
  %gate = adapt.param "layers.{layer}.gate.weight" : tensor<8x4xf32> {
    %0 = adapt.source "l.{layer}.gate" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %0 = adapt.matmul %x, %gate : tensor<?x4xf32, #adapt.dims<[T, 4]>>, tensor<8x4xf32> -> tensor<?x8xf32, #adapt.dims<[T, 8]>>
  %up = adapt.param "layers.{layer}.up.weight" : tensor<6x4xf32> {
    %1 = adapt.source "l.{layer}.up" : tensor<6x4xf32>
    adapt.yield %1 : tensor<6x4xf32>
  }
  %2 = adapt.matmul %x, %up : tensor<?x4xf32, #adapt.dims<[T, 4]>>, tensor<6x4xf32> -> tensor<?x6xf32, #adapt.dims<[T, 6]>>
  return %0, %2 : tensor<?x8xf32, #adapt.dims<[T, 8]>>, tensor<?x6xf32, #adapt.dims<[T, 6]>>
}

// -----

// Not merged: a weight that something else reads too, another result type, another input.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-4: adapt.matmul
// CHECK-NOT:   adapt.slice
func.func @apart(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %ids: tensor<2xi32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xbf16>, tensor<2x8xf32>, tensor<2x4xf32>) {
  %a = adapt.param "a" : tensor<8x4xf32> {
    %0 = adapt.source "a" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %b = adapt.param "b" : tensor<8x4xf32> {
    %0 = adapt.source "b" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %c = adapt.param "c" : tensor<8x4xf32> {
    %0 = adapt.source "c" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %d = adapt.param "d" : tensor<8x4xf32> {
    %0 = adapt.source "d" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %0 = adapt.matmul %x, %a : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
  %1 = adapt.matmul %x, %b : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
  %2 = adapt.matmul %x, %c : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xbf16>
  %3 = adapt.matmul %y, %d : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
  %4 = adapt.gather %b[%ids] : tensor<8x4xf32>, tensor<2xi32> -> tensor<2x4xf32>
  return %0, %1, %2, %3, %4 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xbf16>, tensor<2x8xf32>, tensor<2x4xf32>
}

// -----

// Those that meet in one operation stay two: they become one kernel with it.
// CHECK-LABEL: func.func @meet
// CHECK-COUNT-2: adapt.matmul
// CHECK-NOT:   adapt.slice
func.func @meet(%x: tensor<2x4xf32>) -> tensor<2x8xf32> {
  %a = adapt.param "a" : tensor<8x4xf32> {
    %0 = adapt.source "a" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %b = adapt.param "b" : tensor<8x4xf32> {
    %0 = adapt.source "b" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %0 = adapt.matmul %x, %a : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
  %1 = adapt.matmul %x, %b : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
  %2 = adapt.gated_activation silu %0, %1 : tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}
