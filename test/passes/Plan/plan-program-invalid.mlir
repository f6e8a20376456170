// RUN: adapt-opt %s --split-input-file --verify-diagnostics --adapt-plan-program

// expected-error @below {{the module has no attribute adapt.limits}}
module attributes {adapt.target = {name = "cpu"}} {}

// -----

// expected-error @below {{adapt.limits: 'S' must be a maximum or [minimum, maximum], not [4, 2]}}
// expected-error @below {{adapt.limits: 'T' must be a maximum or [minimum, maximum], not 0 : i64}}
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {T = 0, S = [4, 2]}} {}

// -----

// expected-error @below {{adapt.limits gives no bounds of: T S}}
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {
  func.func @main(%x: tensor<?x?xf32, #adapt.dims<[T, S]>>) attributes {adapt.symbols = ["T", "S"]} {
    return
  }
}

// -----

// expected-error @below {{the module has no entry point}}
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {}

// -----

// A size that leaves 64 bits is refused, not wrapped.
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {T = 4611686018427387904}} {
  // expected-error @below {{'x' of type 'tensor<?x4xf32, #adapt.dims<[T, 4]>>' has no size at the bounds of adapt.limits}}
  func.func @main(%x: tensor<?x4xf32, #adapt.dims<[T, 4]>> {adapt.name = "x"}) attributes {adapt.symbols = ["T"]} {
    return
  }
}

// -----

// Two that fit each, but not together.
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {T = 2305843009213693951}} {
  // expected-error @below {{in @main needs an arena of more than 2^63 bytes}}
  func.func @main(%x: tensor<?xf32, #adapt.dims<[T]>>, %y: tensor<?xf32, #adapt.dims<[T]>>) attributes {adapt.symbols = ["T"]} {
    return
  }
}

// -----

module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{in @main is in no kernel: run the phase fuse before plan}}
    %0 = adapt.neg %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

!s = !adapt.paged<tensor<1x2xf32>>
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {
  func.func @main(%a: !s, %b: !s) -> (!s, !s) attributes {adapt.entry = "graph"} {
    // expected-error @below {{in @main returns as state 0 another than it took}}
    // expected-error @below {{in @main returns as state 1 another than it took}}
    return %b, %a : !s, !s
  }
}

// -----

module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {
  func.func @main() {
    adapt.call @f() {} : () -> ()
    return
  }
  // expected-error @below {{@f is not one block that ends in func.return}}
  func.func private @f()
}

// -----

module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {
  // expected-error @below {{'f' calls itself}}
  func.func @f() {
    adapt.call @g() {} : () -> ()
    return
  }
  func.func private @g() {
    adapt.call @f() {} : () -> ()
    return
  }
}

// -----

// What a language model's entry point is, program.proto says.
!s = !adapt.paged<tensor<1x2xf32>>
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {
  // expected-error @below {{in @main is a language model with 1 inputs and 0 outputs instead of 6 and 1}}
  func.func @main(%x: tensor<4xf32>, %a: !s) -> !s {
    return %a : !s
  }
}
