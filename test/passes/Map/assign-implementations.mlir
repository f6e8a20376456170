// RUN: adapt-opt %s --split-input-file --verify-diagnostics --adapt-assign-implementations | FileCheck %s

// Weights and structure need nothing that runs them.
// CHECK-LABEL: func.func @all
// CHECK:         adapt.param "w" : tensor<8x4xf32>
// CHECK-NOT:     adapt.impl
// CHECK:         adapt.matmul %{{.*}}, %{{.*}} {adapt.impl = "generated"}
module attributes {adapt.target = {name = "cpu", ops = "all"}} {
  func.func @all(%x: tensor<2x4xf32>) -> tensor<2x8xf32> {
    %w = adapt.param "w" : tensor<8x4xf32> {
      %0 = adapt.source "w" : tensor<8x4xf32>
      adapt.yield %0 : tensor<8x4xf32>
    }
    %0 = adapt.matmul %x, %w : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
    return %0 : tensor<2x8xf32>
  }
}

// -----

// What nothing runs is listed at once, by kind and function, with how often and why.
// expected-error @below {{target 'small' cannot run 3 kinds of operation:}}
module attributes {adapt.target = {name = "small", ops = ["add"]}} {
  func.func @main(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
    %0 = adapt.call @layer(%x) {layer = 0} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = adapt.call @layer(%0) {layer = 1} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    // expected-note @below {{adapt.rms_norm: 1 in @main (called 1 time), a composite that was neither kept nor decomposed}}
    %2 = adapt.rms_norm %1, %w epsilon = 1.0e-6 : tensor<2x4xf32>, tensor<4xf32>
    return %2 : tensor<2x4xf32>
  }
  func.func private @layer(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {adapt.indices = ["layer"]} {
    // expected-note @below {{adapt.exp: 2 in @layer (called 2 times), which is not among the target's 'ops'}}
    %0 = adapt.exp %x : tensor<2x4xf32>
    %1 = adapt.exp %0 : tensor<2x4xf32>
    %2 = adapt.add %0, %1 : tensor<2x4xf32>
    // expected-note @below {{arith.negf: 1 in @layer (called 2 times), which is not an operation of the dialect adapt}}
    %3 = arith.negf %2 : tensor<2x4xf32>
    return %3 : tensor<2x4xf32>
  }
}
