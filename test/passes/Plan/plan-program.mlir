// RUN: adapt-opt %s --split-input-file --adapt-plan | FileCheck %s

// Buffers are as large as the limits let them get. What does not live at the same time shares its
// place: the first and the third temporary. The result is computed where it goes.
// CHECK-LABEL: func.func @chain
// CHECK:         program.symbol "T" from 1 to 16
// CHECK:         program.kernel @neg sizes ["s0"] {
// CHECK-NEXT:      program.variant "neg" grid<[1]> scratch 0
// CHECK:         program.function @chain indices [] arguments 0 arena
// CHECK-NEXT:      %x = program.arena "x" at {{[0-9]+}} bytes 256 : tensor<?x4xf32, #adapt.dims<[T, 4]>>
// CHECK-NEXT:      %y = program.arena "y" at {{[0-9]+}} bytes 256
// CHECK-NEXT:      %[[A:.*]] = program.arena "neg" at [[PLACE:[0-9]+]] bytes 256
// CHECK-NEXT:      %[[B:.*]] = program.arena "neg" at {{[0-9]+}} bytes 256
// CHECK-NEXT:      %[[C:.*]] = program.arena "neg" at [[PLACE]] bytes 256
// CHECK-NEXT:      program.launch @neg(%x, %[[A]]) sizes<[T]>
// CHECK-NEXT:      program.launch @neg(%[[A]], %[[B]]) sizes<[T]>
// CHECK-NEXT:      program.launch @neg(%[[B]], %[[C]]) sizes<[T]>
// CHECK-NEXT:      program.launch @neg(%[[C]], %y) sizes<[T]>
// CHECK:         program.entry "chain" calls @chain kind "graph" inputs (x = 0) outputs (y = 1) block_tokens 16
#x = #adapt.dims<[T, 4]>
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {T = 16}} {
  adapt.kernel @neg(%x: tensor<?x4xf32, #adapt.dims<[s0, 4]>>) -> tensor<?x4xf32, #adapt.dims<[s0, 4]>>
      attributes {adapt.symbols = ["s0"]} {
    %0 = adapt.neg %x : tensor<?x4xf32, #adapt.dims<[s0, 4]>>
    adapt.yield %0 : tensor<?x4xf32, #adapt.dims<[s0, 4]>>
  }
  func.func @chain(%x: tensor<?x4xf32, #x> {adapt.name = "x"}) -> (tensor<?x4xf32, #x> {adapt.name = "y"})
      attributes {adapt.symbols = ["T"]} {
    %0 = adapt.launch @neg(%x) sizes<[T]> : (tensor<?x4xf32, #x>) -> tensor<?x4xf32, #x>
    %1 = adapt.launch @neg(%0) sizes<[T]> : (tensor<?x4xf32, #x>) -> tensor<?x4xf32, #x>
    %2 = adapt.launch @neg(%1) sizes<[T]> : (tensor<?x4xf32, #x>) -> tensor<?x4xf32, #x>
    %3 = adapt.launch @neg(%2) sizes<[T]> : (tensor<?x4xf32, #x>) -> tensor<?x4xf32, #x>
    return %3 : tensor<?x4xf32, #x>
  }
}

// -----

// A weight, an input, or what is returned twice is copied to where the result goes. A reshape is the
// same buffer.
// CHECK-LABEL: func.func @copies
// CHECK:         program.function @copies
// CHECK:         %[[X:.*]] = program.arena "arg0"
// CHECK:         %[[R0:.*]] = program.arena "result0"
// CHECK:         %[[R1:.*]] = program.arena "result1"
// CHECK:         %[[R2:.*]] = program.arena "result2"
// CHECK:         %[[R3:.*]] = program.arena "result3"
// CHECK:         %[[W:.*]] = program.weight "w" : tensor<4xf32>
// CHECK-NEXT:    program.launch @neg(%[[X]], %[[R0]]) sizes<[]>
// CHECK-NEXT:    program.copy %[[R0]] to %[[R1]] bytes<[16]>
// CHECK-NEXT:    program.copy %[[X]] to %[[R2]] bytes<[16]>
// CHECK-NEXT:    program.copy %[[W]] to %[[R3]] bytes<[16]>
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {
  adapt.kernel @neg(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.symbols = []} {
    %0 = adapt.neg %x : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  func.func @copies(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>) {
    %w = adapt.param "w" : tensor<4xf32> {
      %1 = adapt.source "w" : tensor<4xf32>
      adapt.yield %1 : tensor<4xf32>
    }
    %0 = adapt.launch @neg(%x) sizes<[]> : (tensor<4xf32>) -> tensor<4xf32>
    %2 = adapt.reshape %x : tensor<4xf32> -> tensor<2x2xf32>
    return %0, %0, %2, %w : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>
  }
}

// -----

// A state is a buffer a plane, 64-byte aligned blocks; a layer takes it as arguments and the entry
// names it. The callee's part of the arena lies beside what lives in the caller during the call.
// CHECK-LABEL: func.func @main
// CHECK:         program.state @kv.3.k : tensor<1x2xf32> block 128
// CHECK:         program.state @kv.3.v : tensor<1x5xbf16> block 192
// CHECK:         program.function @layer indices ["layer"] arguments 4 arena 64
// CHECK-NEXT:      program.argument 0 "x" bytes 16
// CHECK-NEXT:      program.argument 1 "kv.k" bytes 0 : tensor<1x2xf32>
// CHECK-NEXT:      program.argument 2 "kv.v" bytes 0 : tensor<1x5xbf16>
// CHECK-NEXT:      program.argument 3 "y" bytes 16
// CHECK:           program.weight "w.{layer}"
// CHECK:         program.function @main
// CHECK:           %{{.*}} = program.plane @kv.3.k
// CHECK:           program.call @layer({{.*}}) {layer = 3 : i64} arena [[AT:[0-9]+]]
module attributes {adapt.target = {name = "cpu"}, adapt.limits = {}} {
  adapt.kernel @add(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.symbols = []} {
    %0 = adapt.add %x, %w : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  func.func @main(%x: tensor<4xf32>, %kv: !adapt.paged<tensor<1x2xf32>, tensor<1x5xbf16>>)
      -> (tensor<4xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x5xbf16>>) attributes {adapt.entry = "graph"} {
    %0, %1 = adapt.call @layer(%x, %kv) {layer = 3}
        : (tensor<4xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x5xbf16>>)
        -> (tensor<4xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x5xbf16>>)
    return %0, %1 : tensor<4xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x5xbf16>>
  }
  func.func private @layer(%x: tensor<4xf32> {adapt.name = "x"},
                           %kv: !adapt.paged<tensor<1x2xf32>, tensor<1x5xbf16>> {adapt.name = "kv"})
      -> (tensor<4xf32> {adapt.name = "y"}, !adapt.paged<tensor<1x2xf32>, tensor<1x5xbf16>>)
      attributes {adapt.indices = ["layer"]} {
    %w = adapt.param "w.{layer}" : tensor<4xf32> {
      %1 = adapt.source "w.{layer}" : tensor<4xf32>
      adapt.yield %1 : tensor<4xf32>
    }
    %0 = adapt.launch @add(%x, %w) sizes<[]> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = adapt.launch @add(%0, %w) sizes<[]> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %2, %kv : tensor<4xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x5xbf16>>
  }
}
