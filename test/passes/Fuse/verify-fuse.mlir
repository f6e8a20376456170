// RUN: adapt-opt %s --split-input-file --verify-diagnostics --adapt-verify-fuse

// All that is wrong is said: work outside of kernels, kernels that nobody launches or that are equal,
// weights in another storage than the target's.
module attributes {adapt.target = {name = "cpu", weight_layouts = {f32 = #adapt.packed<16, 1>}}} {
  adapt.kernel @a(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.symbols = []} {
    %0 = adapt.neg %x : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  // expected-error @below {{@b is the same as @a}}
  adapt.kernel @b(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.symbols = []} {
    %0 = adapt.neg %x : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  // expected-error @below {{@c is never launched}}
  adapt.kernel @c(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>) -> tensor<2x8xf32> attributes {adapt.symbols = []} {
    // expected-error @below {{in @c reads a weight of type 'tensor<8x4xf32>', target 'cpu' wants #adapt.packed<16, 1>}}
    %0 = adapt.matmul %x, %w : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
    adapt.yield %0 : tensor<2x8xf32>
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = adapt.launch @a(%x) sizes<[]> : (tensor<4xf32>) -> tensor<4xf32>
    %1 = adapt.launch @b(%0) sizes<[]> : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @below {{in @main is in no kernel}}
    %2 = adapt.exp %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

// In a bundle a name with its indices filled in is one weight.
module attributes {adapt.target = {name = "cpu"}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = adapt.call @even(%x) {layer = 0} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = adapt.call @odd(%x) {layer = 1} : (tensor<4xf32>) -> tensor<4xf32>
    %2 = adapt.call @even(%x) {layer = 2} : (tensor<4xf32>) -> tensor<4xf32>
    %3 = adapt.call @odd(%x) {layer = 2} : (tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  func.func private @even(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.indices = ["layer"]} {
    // expected-note @below {{the other one}}
    %w = adapt.param "w.{layer}" : tensor<4xf32> {
      %0 = adapt.source "even.{layer}" : tensor<4xf32>
      adapt.yield %0 : tensor<4xf32>
    }
    // expected-error @below {{'v' of @even is another weight too}}
    // expected-note @below {{the other one}}
    %v = adapt.param "v" : tensor<4xf32> {
      %0 = adapt.source "{layer}" : tensor<4xf32>
      adapt.yield %0 : tensor<4xf32>
    }
    return %w : tensor<4xf32>
  }
  func.func private @odd(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.indices = ["layer"]} {
    // expected-error @below {{'w.2' of @odd is another weight too}}
    %w = adapt.param "w.{layer}" : tensor<4xf32> {
      %0 = adapt.source "odd.{layer}" : tensor<4xf32>
      adapt.yield %0 : tensor<4xf32>
    }
    return %w : tensor<4xf32>
  }
}
