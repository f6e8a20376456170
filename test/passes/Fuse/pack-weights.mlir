// RUN: adapt-opt %s --split-input-file --adapt-pack-weights | FileCheck %s
// RUN: adapt-opt %S/../Inputs/tiny_llama.mlir --adapt-pack-weights -o %t.mlir
// RUN: adapt-interpret %S/../Inputs/tiny_llama.mlir --random-inputs 7 \
// RUN:   --tokens %S/../Inputs/tokens.npy --compare %t.mlir | FileCheck %s --check-prefix=SAME

// SAME: logits: error {{[0-9.]+e-1[0-9]|0}},

// The layout is that of the element type; a gather reads the same storage; a vector stays.
// CHECK-LABEL: func.func @types
// CHECK:         %[[A:.*]] = adapt.param "a" : tensor<8x4xbf16, #adapt.packed<16, 2>> {
// CHECK-NEXT:      %[[S:.*]] = adapt.source "a" : tensor<8x4xbf16>
// CHECK-NEXT:      %[[P:.*]] = adapt.pack %[[S]] : tensor<8x4xbf16> -> tensor<8x4xbf16, #adapt.packed<16, 2>>
// CHECK-NEXT:      adapt.yield %[[P]]
// CHECK:         %[[B:.*]] = adapt.param "b" : tensor<8x4xf32, #adapt.packed<16, 1>> {
// CHECK:         adapt.param "n" : tensor<4xbf16> {
// CHECK:         adapt.gather %[[A]]{{.*}} : tensor<8x4xbf16, #adapt.packed<16, 2>>
// CHECK:         adapt.matmul %{{.*}}, %[[A]] : tensor<2x4xbf16>, tensor<8x4xbf16, #adapt.packed<16, 2>>
// CHECK:         adapt.matmul %{{.*}}, %[[B]] : tensor<2x4xf32>, tensor<8x4xf32, #adapt.packed<16, 1>>
module attributes {adapt.target = {name = "cpu", weight_layouts = {bf16 = #adapt.packed<16, 2>,
                                                                   f32 = #adapt.packed<16, 1>}}} {
  func.func @types(%ids: tensor<2xi32>, %x: tensor<2x4xf32>) -> (tensor<2x8xbf16>, tensor<2x8xf32>) {
    %a = adapt.param "a" : tensor<8x4xbf16> {
      %0 = adapt.source "a" : tensor<8x4xbf16>
      adapt.yield %0 : tensor<8x4xbf16>
    }
    %b = adapt.param "b" : tensor<8x4xf32> {
      %0 = adapt.source "b" : tensor<8x4xf32>
      adapt.yield %0 : tensor<8x4xf32>
    }
    %n = adapt.param "n" : tensor<4xbf16> {
      %0 = adapt.source "n" : tensor<4xbf16>
      adapt.yield %0 : tensor<4xbf16>
    }
    %0 = adapt.gather %a[%ids] : tensor<8x4xbf16>, tensor<2xi32> -> tensor<2x4xbf16>
    %1 = adapt.rms_norm %0, %n epsilon = 1.0e-6 : tensor<2x4xbf16>, tensor<4xbf16>
    %2 = adapt.matmul %1, %a : tensor<2x4xbf16>, tensor<8x4xbf16> -> tensor<2x8xbf16>
    %3 = adapt.matmul %x, %b : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
    return %2, %3 : tensor<2x8xbf16>, tensor<2x8xf32>
  }
}

// -----

// Somebody who needs the rows as they are keeps them; the matmul gets its own.
// CHECK-LABEL: func.func @rows
// CHECK:         %[[A:.*]] = adapt.param "a" : tensor<2x4xf32> {
// CHECK:         %[[P:.*]] = adapt.param "a.packed" : tensor<2x4xf32, #adapt.packed<16, 1>> {
// CHECK:         adapt.add %{{.*}}, %[[A]]
// CHECK:         adapt.matmul %{{.*}}, %[[P]]
module attributes {adapt.target = {name = "cpu", weight_layouts = {f32 = #adapt.packed<16, 1>}}} {
  func.func @rows(%x: tensor<2x4xf32>) -> tensor<2x2xf32> {
    %a = adapt.param "a" : tensor<2x4xf32> {
      %0 = adapt.source "a" : tensor<2x4xf32>
      adapt.yield %0 : tensor<2x4xf32>
    }
    %0 = adapt.add %x, %a : tensor<2x4xf32>
    %1 = adapt.matmul %0, %a : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x2xf32>
    return %1 : tensor<2x2xf32>
  }
}
