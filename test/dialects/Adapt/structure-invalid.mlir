// RUN: adapt-opt %s -split-input-file -verify-diagnostics

func.func @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{calls @layer, which is not a function of this module}}
  %0 = adapt.call @layer(%x) {} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @layer(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
// All types that differ.
func.func @main(%x: tensor<5xf32>) {
  // expected-error @+3 {{operand 0 has type 'tensor<5xf32>', @layer has 'tensor<4xf32>'}}
  // expected-error @+2 {{operand 1 has type 'tensor<5xf32>', @layer has 'tensor<4xf32>'}}
  // expected-error @+1 {{result 0 has type 'tensor<5xf32>', @layer has 'tensor<4xf32>'}}
  %0 = adapt.call @layer(%x, %x) {} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  return
}

// -----

func.func private @layer() attributes {adapt.indices = ["layer"]} { return }
func.func @main() {
  // expected-error @+1 {{does not bind the index 'layer' of @layer}}
  adapt.call @layer() {} : () -> ()
  return
}

// -----

func.func private @layer() { return }
func.func @main() {
  // expected-error @+1 {{binds 'expert', which is not an index of @layer}}
  adapt.call @layer() {expert = 1 : i64} : () -> ()
  return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{launches @k, which is not a kernel of this module}}
  %0 = adapt.launch @k(%x) sizes<[]> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

adapt.kernel @k(%x: tensor<?xf32, #adapt.dims<[s0]>>) -> tensor<?xf32, #adapt.dims<[s0]>>
    attributes {adapt.symbols = ["s0"]} {
  adapt.yield %x : tensor<?xf32, #adapt.dims<[s0]>>
}
// The sizes say what the kernel's types are for the caller.
func.func @main(%x: tensor<?xf32, #adapt.dims<[T]>>) {
  // expected-error @+2 {{operand 0 has type 'tensor<?xf32, #adapt.dims<[T]>>', @k has 'tensor<?xf32, #adapt.dims<[S]>>'}}
  // expected-error @+1 {{result 0 has type 'tensor<?xf32, #adapt.dims<[T]>>', @k has 'tensor<?xf32, #adapt.dims<[S]>>'}}
  %0 = adapt.launch @k(%x) sizes<[S]> : (tensor<?xf32, #adapt.dims<[T]>>) -> tensor<?xf32, #adapt.dims<[T]>>
  return
}

// -----

adapt.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.symbols = ["s0"]} {
  adapt.yield %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{passes 2 sizes, @k has 1}}
  %0 = adapt.launch @k(%x) sizes<[1, 2]> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{must list its sizes in adapt.symbols}}
adapt.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  adapt.yield %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{yields 'tensor<4xf32>' but has results 'tensor<5xf32>'}}
adapt.kernel @k(%x: tensor<4xf32>) -> tensor<5xf32> attributes {adapt.symbols = []} {
  adapt.yield %x : tensor<4xf32>
}

// -----

func.func @dispatch(%x: tensor<4xf32>) {
  // expected-error @+1 {{yields 'tensor<4xf32>' but has results 'tensor<5xf32>'}}
  %0 = adapt.dispatch -> tensor<5xf32> {
    adapt.yield %x : tensor<4xf32>
  }
  return
}

// -----

func.func @template() {
  // expected-error @+1 {{template "layers.{layer}.w" uses 'layer', which is not among the function's adapt.indices}}
  %0 = adapt.param "layers.{layer}.w" : tensor<4xf32> {
    %1 = adapt.splat 0.0 : tensor<4xf32>
    adapt.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @braces() {
  %0 = adapt.param "w" : tensor<4xf32> {
    // expected-error @+1 {{template "a.{b" has unbalanced braces}}
    %1 = adapt.source "a.{b" : tensor<4xf32>
    adapt.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @recipe() {
  // expected-error @+1 {{holds adapt.exp, which no recipe can express}}
  %0 = adapt.param "w" : tensor<4xf32> {
    %1 = adapt.source "w" : tensor<4xf32>
    %2 = adapt.exp %1 : tensor<4xf32>
    adapt.yield %2 : tensor<4xf32>
  }
  return
}

// -----

func.func @pack() {
  %0 = adapt.param "w" : tensor<4x5xf32, #adapt.packed<16, 1>> {
    %1 = adapt.source "w" : tensor<4x4xf32>
    // expected-error @+1 {{keeps sizes and element type}}
    %2 = adapt.pack %1 : tensor<4x4xf32> -> tensor<4x5xf32, #adapt.packed<16, 1>>
    adapt.yield %2 : tensor<4x5xf32, #adapt.packed<16, 1>>
  }
  return
}
