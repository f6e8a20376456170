// RUN: adapt-opt %s --split-input-file --verify-diagnostics --adapt-verify-import
// RUN: adapt-opt %S/../Inputs/tiny_llama.mlir --adapt-verify-import -o /dev/null

// A function per distinct layer; weights by their names; no data.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = adapt.call @a(%x) {layer = 0} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = adapt.call @b(%0) {layer = 1} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @a(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.indices = ["layer"]} {
  %0 = adapt.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error @below {{@b is the same as @a: call that one with other indices}}
func.func private @b(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.indices = ["layer"]} {
  %0 = adapt.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error @below {{@c is private and never called}}
func.func private @c() -> tensor<300xf32> {
  %0 = adapt.param "w" : tensor<4xf32> {
    %3 = adapt.source "w" : tensor<4xf32>
    adapt.yield %3 : tensor<4xf32>
  }
  // expected-error @below {{@c has two params 'w': a name is one weight}}
  %1 = adapt.param "w" : tensor<4xf32> {
    %3 = adapt.source "w" : tensor<4xf32>
    adapt.yield %3 : tensor<4xf32>
  }
  // One value in all places is no data.
  %zero = adapt.constant dense<0.0> : tensor<1000xf32>
  // expected-error @below {{a constant of type 'tensor<300xi32>' in @c holds more than 1024 bytes: weights are params}}
  %big = adapt.constant dense_resource<__elided__> : tensor<300xi32>
  %2 = adapt.cast %big : tensor<300xi32> -> tensor<300xf32>
  return %2 : tensor<300xf32>
}

// -----

// expected-error @below {{the module has no entry point}}
module {}

// -----

// State that is used twice would have two futures; one that is dropped, none.
!s = !adapt.paged<tensor<1x2xf32>>
module {
  // expected-error @below {{argument 1, a state of @main, is used 0 times, state is used exactly once}}
  func.func @main(%a: !s, %b: !s) -> (!s, !s) {
    // expected-error @below {{result 0, a state in @main, is used 2 times, state is used exactly once}}
    %0 = adapt.call @f(%a) {} : (!s) -> !s
    return %0, %0 : !s, !s
  }
  func.func private @f(%a: !s) -> !s {
    return %a : !s
  }
}
