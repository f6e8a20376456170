// RUN: adapt-opt %s --split-input-file --adapt-dedupe-params | FileCheck %s
// RUN: adapt-opt %S/../Inputs/tiny_llama.mlir --adapt-dedupe-params -o %t.mlir
// RUN: adapt-interpret %S/../Inputs/tiny_llama.mlir --random-inputs 7 \
// RUN:   --tokens %S/../Inputs/tokens.npy --compare %t.mlir | FileCheck %s --check-prefix=SAME

// SAME: logits: error {{[0-9.]+e-1[0-9]|0}},

// A head tied to the embedding is the same weight.
// CHECK-LABEL: func.func @tied
// CHECK:         %[[W:.*]] = adapt.param "embed"
// CHECK-NOT:     adapt.param
// CHECK:         adapt.gather %[[W]]
// CHECK:         adapt.matmul %{{.*}}, %[[W]]
func.func @tied(%ids: tensor<3xi32>) -> tensor<3x8xf32> {
  %embed = adapt.param "embed" : tensor<8x4xf32> {
    %0 = adapt.source "embed.weight" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %head = adapt.param "head" : tensor<8x4xf32> {
    %0 = adapt.source "embed.weight" : tensor<8x4xf32>
    adapt.yield %0 : tensor<8x4xf32>
  }
  %0 = adapt.gather %embed[%ids] : tensor<8x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
  %1 = adapt.matmul %0, %head : tensor<3x4xf32>, tensor<8x4xf32> -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// -----

// Another source, or the same source in another type, is another weight.
// CHECK-LABEL: func.func @different
// CHECK-COUNT-3: adapt.param
func.func @different() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>) {
  %a = adapt.param "a" : tensor<4xf32> {
    %0 = adapt.source "one" : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  %b = adapt.param "b" : tensor<4xf32> {
    %0 = adapt.source "two" : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  %c = adapt.param "c" : tensor<4xbf16> {
    %0 = adapt.source "one" : tensor<4xf32>
    %1 = adapt.cast %0 : tensor<4xf32> -> tensor<4xbf16>
    adapt.yield %1 : tensor<4xbf16>
  }
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>
}

// -----

// Across functions the weight gets one name, unless that is taken by another weight.
// CHECK-LABEL: func.func @first
// CHECK:         adapt.param "shared"
// CHECK-LABEL: func.func @second
// CHECK:         adapt.param "shared"
// CHECK-LABEL: func.func @third
// CHECK:         adapt.param "shared"
// CHECK:         adapt.source "other"
// CHECK:         adapt.param "mine"
func.func @first() -> tensor<4xf32> {
  %a = adapt.param "shared" : tensor<4xf32> {
    %0 = adapt.source "one" : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  return %a : tensor<4xf32>
}
func.func @second() -> tensor<4xf32> {
  %a = adapt.param "mine" : tensor<4xf32> {
    %0 = adapt.source "one" : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  return %a : tensor<4xf32>
}
func.func @third() -> (tensor<4xf32>, tensor<4xf32>) {
  %a = adapt.param "shared" : tensor<4xf32> {
    %0 = adapt.source "other" : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  %b = adapt.param "mine" : tensor<4xf32> {
    %0 = adapt.source "one" : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
