// RUN: adapt-opt %s --split-input-file --verify-diagnostics --adapt-verify-map

module attributes {adapt.target = {name = "cpu", ops = "all"}} {
  func.func @main(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<2x4xf32> {
    // expected-error @below {{in @main is a composite that target 'cpu' does not keep}}
    %0 = adapt.rms_norm %x, %w epsilon = 1.0e-6 : tensor<2x4xf32>, tensor<4xf32>
    // expected-error @below {{in @main has no implementation (adapt.impl)}}
    %1 = adapt.exp %0 : tensor<2x4xf32>
    %2 = adapt.neg %1 {adapt.impl = "generated"} : tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}
