// RUN: adapt-opt %s --split-input-file --adapt-outline-kernels | FileCheck %s
// RUN: adapt-opt %S/../Inputs/tiny_llama.mlir --adapt-simplify --adapt-map --adapt-fuse -o %t.mlir
// RUN: adapt-interpret %S/../Inputs/tiny_llama.mlir --random-inputs 7 \
// RUN:   --tokens %S/../Inputs/tokens.npy --chunk 4 --compare %t.mlir | FileCheck %s --check-prefix=SAME

// SAME: logits: error {{[0-9.]+e-1[0-9]|0}},

// The same work on sizes of other names is one kernel; its sizes are numbered as they appear.
// CHECK:         adapt.kernel @main_neg_4(%[[A:.*]]: tensor<?x4xf32, #adapt.dims<[s0, 4]>>) -> tensor<?x4xf32, #adapt.dims<[s0, 4]>>
// CHECK-SAME:      attributes {adapt.symbols = ["s0"]}
// CHECK-NEXT:      %[[N:.*]] = adapt.neg %[[A]]
// CHECK-NEXT:      adapt.yield %[[N]]
// CHECK-NOT:     adapt.kernel
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:[a-z0-9]+]]: {{.*}}, %[[Y:[a-z0-9]+]]:
// CHECK:         adapt.launch @main_neg_4(%[[X]]) sizes<[T]>
// CHECK:         adapt.launch @main_neg_4(%[[Y]]) sizes<[L]>
func.func @main(%x: tensor<?x4xf32, #adapt.dims<[T, 4]>>, %y: tensor<?x4xf32, #adapt.dims<[L, 4]>>)
    -> (tensor<?x4xf32, #adapt.dims<[T, 4]>>, tensor<?x4xf32, #adapt.dims<[L, 4]>>)
    attributes {adapt.symbols = ["T", "L"]} {
  %0 = adapt.dispatch -> tensor<?x4xf32, #adapt.dims<[T, 4]>> {
    %1 = adapt.neg %x : tensor<?x4xf32, #adapt.dims<[T, 4]>>
    adapt.yield %1 : tensor<?x4xf32, #adapt.dims<[T, 4]>>
  }
  %2 = adapt.dispatch -> tensor<?x4xf32, #adapt.dims<[L, 4]>> {
    %3 = adapt.neg %y : tensor<?x4xf32, #adapt.dims<[L, 4]>>
    adapt.yield %3 : tensor<?x4xf32, #adapt.dims<[L, 4]>>
  }
  return %0, %2 : tensor<?x4xf32, #adapt.dims<[T, 4]>>, tensor<?x4xf32, #adapt.dims<[L, 4]>>
}

// -----

// Two sizes that are equal in one place and not in the other are two kernels; names stay apart.
// CHECK:       adapt.kernel @main_transpose(
// CHECK-SAME:    adapt.symbols = ["s0"]
// CHECK:       adapt.kernel @main_transpose_0(
// CHECK-SAME:    adapt.symbols = ["s0", "s1"]
// CHECK-LABEL: func.func @main
// CHECK:         adapt.launch @main_transpose({{.*}}) sizes<[T]>
// CHECK:         adapt.launch @main_transpose_0({{.*}}) sizes<[T, L]>
func.func @main(%x: tensor<?x?xf32, #adapt.dims<[T, T]>>, %y: tensor<?x?xf32, #adapt.dims<[T, L]>>)
    -> (tensor<?x?xf32, #adapt.dims<[T, T]>>, tensor<?x?xf32, #adapt.dims<[L, T]>>)
    attributes {adapt.symbols = ["T", "L"]} {
  %0 = adapt.dispatch -> tensor<?x?xf32, #adapt.dims<[T, T]>> {
    %1 = adapt.transpose %x [1, 0] : tensor<?x?xf32, #adapt.dims<[T, T]>> -> tensor<?x?xf32, #adapt.dims<[T, T]>>
    adapt.yield %1 : tensor<?x?xf32, #adapt.dims<[T, T]>>
  }
  %2 = adapt.dispatch -> tensor<?x?xf32, #adapt.dims<[L, T]>> {
    %3 = adapt.transpose %y [1, 0] : tensor<?x?xf32, #adapt.dims<[T, L]>> -> tensor<?x?xf32, #adapt.dims<[L, T]>>
    adapt.yield %3 : tensor<?x?xf32, #adapt.dims<[L, T]>>
  }
  return %0, %2 : tensor<?x?xf32, #adapt.dims<[T, T]>>, tensor<?x?xf32, #adapt.dims<[L, T]>>
}
