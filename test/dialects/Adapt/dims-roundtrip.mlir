// RUN: adapt-opt %s -split-input-file | adapt-opt -split-input-file | FileCheck %s

// Sizes print as they are written, after simplification.
// CHECK-LABEL: func @sizes
// CHECK-SAME: #adapt.dims<[T, 4]>
// CHECK-SAME: #adapt.dims<[T + 1]>
// CHECK-SAME: #adapt.dims<[T - 1]>
// CHECK-SAME: #adapt.dims<[T * S]>
// CHECK-SAME: #adapt.dims<[(T + S) * 2]>
// CHECK-SAME: #adapt.dims<[T ceildiv 16, S floordiv 2, S mod 3]>
// CHECK-SAME: #adapt.dims<[S - T]>
func.func @sizes(%0: tensor<?x4xf32, #adapt.dims<[T, 4]>>, %1: tensor<?xf32, #adapt.dims<[1 + T]>>,
                 %2: tensor<?xf32, #adapt.dims<[T + -1]>>,
                 %3: tensor<?xf32, #adapt.dims<[T * S]>>,
                 %4: tensor<?xf32, #adapt.dims<[(T + S) * 2]>>,
                 %5: tensor<?x?x?xf32, #adapt.dims<[T ceildiv 16, S floordiv 2, S mod 3]>>,
                 %6: tensor<?xf32, #adapt.dims<[S - T]>>) attributes {adapt.symbols = ["T", "S"]} {
  return
}

// -----

// Equal sizes are one type: no error where 2 * T - T meets T.
// CHECK-LABEL: func @equal
func.func @equal(%0: tensor<?xf32, #adapt.dims<[2 * T - T]>>) -> tensor<?xf32, #adapt.dims<[T]>>
    attributes {adapt.symbols = ["T"]} {
  return %0 : tensor<?xf32, #adapt.dims<[T]>>
}

// -----

// CHECK-LABEL: func @storage
// CHECK-SAME: tensor<10x6xbf16, #adapt.packed<16, 2>>
// CHECK-SAME: !adapt.paged<tensor<2x16xf32>, tensor<2x8xf32>>
func.func @storage(%0: tensor<10x6xbf16, #adapt.packed<16, 2>>,
                   %1: !adapt.paged<tensor<2x16xf32>, tensor<2x8xf32>>) {
  return
}
