// RUN: adapt-opt %s --split-input-file --adapt-decompose-composites | FileCheck %s
// RUN: adapt-opt %S/../Inputs/tiny_llama.mlir --adapt-decompose-composites -o %t.mlir
// RUN: adapt-interpret %S/../Inputs/tiny_llama.mlir --random-inputs 7 \
// RUN:   --tokens %S/../Inputs/tokens.npy --chunk 3 --compare %t.mlir | FileCheck %s --check-prefix=SAME

// SAME: logits: error {{[0-9.]+e-1[0-9]|0}},

// A target that keeps nothing gets base operations only.
// CHECK-LABEL: func.func @norm
// CHECK-NOT:     adapt.rms_norm
// CHECK:         adapt.rsqrt
// CHECK-NOT:     adapt.rms_norm
module attributes {adapt.target = {name = "bare", ops = "all"}} {
  func.func @norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
    %0 = adapt.rms_norm %x, %w epsilon = 1.0e-6 : tensor<4x8xf32>, tensor<8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// What the target keeps stays whole.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    adapt.rms_norm
// CHECK-NEXT:    return
module attributes {adapt.target = {name = "good", ops = "all", keeps = ["rms_norm"]}} {
  func.func @kept(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
    %0 = adapt.rms_norm %x, %w epsilon = 1.0e-6 : tensor<4x8xf32>, tensor<8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// Attention over paged state becomes append and attend, on the same state.
// CHECK-LABEL: func.func @attention
// CHECK-SAME:    %[[KV:[a-z0-9]+]]: !adapt.paged
// CHECK:         %[[NEW:.*]] = adapt.paged_append %{{.*}}, %{{.*}}, %[[KV]] at
// CHECK:         %[[R:.*]], %[[LAST:.*]] = adapt.paged_attend %{{.*}}, %[[NEW]] at
// CHECK:         return %[[R]], %[[LAST]]
#q = #adapt.dims<[T, 4, 16]>
#kv = #adapt.dims<[T, 2, 16]>
!state = !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>
module attributes {adapt.target = {name = "good", ops = "all"}} {
  func.func @attention(%q: tensor<?x4x16xf32, #q>, %k: tensor<?x2x16xf32, #kv>,
                       %v: tensor<?x2x16xf32, #kv>, %state: !state,
                       %starts: tensor<?xi32, #adapt.dims<[S + 1]>>,
                       %lens: tensor<?xi32, #adapt.dims<[S]>>,
                       %table: tensor<?x?xi32, #adapt.dims<[S, B]>>)
      -> (tensor<?x4x16xf32, #q>, !state) attributes {adapt.symbols = ["T", "S", "B"]} {
    %0, %1 = adapt.paged_attention %q, %k, %v, %state at %starts, %lens, %table scale = 0.25
        : (tensor<?x4x16xf32, #q>, tensor<?x2x16xf32, #kv>, tensor<?x2x16xf32, #kv>, !state,
           tensor<?xi32, #adapt.dims<[S + 1]>>, tensor<?xi32, #adapt.dims<[S]>>,
           tensor<?x?xi32, #adapt.dims<[S, B]>>) -> (tensor<?x4x16xf32, #q>, !state)
    return %0, %1 : tensor<?x4x16xf32, #q>, !state
  }
}
