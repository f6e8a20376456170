// RUN: adapt-opt %s | adapt-opt | FileCheck %s

// CHECK-LABEL: func private @layer
// CHECK: adapt.param "layers.{layer}.up" : tensor<8x4xbf16, #adapt.packed<16, 2>> {
// CHECK-NEXT: adapt.source "model.layers.{layer}.up.weight" : tensor<8x4xf32>
// CHECK-NEXT: adapt.cast
// CHECK-NEXT: adapt.pack %{{.*}} : tensor<8x4xbf16> -> tensor<8x4xbf16, #adapt.packed<16, 2>>
// CHECK-NEXT: adapt.yield
// CHECK: adapt.param "zero" : tensor<4xf32>
// CHECK-NEXT: adapt.splat 0.000000e+00 : tensor<4xf32>
func.func private @layer(%x: tensor<?x4xf32, #adapt.dims<[T, 4]>>) -> tensor<?x4xf32, #adapt.dims<[T, 4]>>
    attributes {adapt.symbols = ["T"], adapt.indices = ["layer"]} {
  %0 = adapt.param "layers.{layer}.up" : tensor<8x4xbf16, #adapt.packed<16, 2>> {
    %3 = adapt.source "model.layers.{layer}.up.weight" : tensor<8x4xf32>
    %4 = adapt.cast %3 : tensor<8x4xf32> -> tensor<8x4xbf16>
    %5 = adapt.pack %4 : tensor<8x4xbf16> -> tensor<8x4xbf16, #adapt.packed<16, 2>>
    adapt.yield %5 : tensor<8x4xbf16, #adapt.packed<16, 2>>
  }
  %1 = adapt.param "zero" : tensor<4xf32> {
    %3 = adapt.splat 0.0 : tensor<4xf32>
    adapt.yield %3 : tensor<4xf32>
  }
  return %x : tensor<?x4xf32, #adapt.dims<[T, 4]>>
}

// CHECK-LABEL: adapt.kernel @double(
// CHECK-SAME: attributes {adapt.symbols = ["s0"]}
// CHECK: adapt.yield
adapt.kernel @double(%x: tensor<?xf32, #adapt.dims<[s0]>>) -> tensor<?xf32, #adapt.dims<[s0]>>
    attributes {adapt.symbols = ["s0"]} {
  %0 = adapt.add %x, %x : tensor<?xf32, #adapt.dims<[s0]>>
  adapt.yield %0 : tensor<?xf32, #adapt.dims<[s0]>>
}

// CHECK-LABEL: func @main
// CHECK: adapt.call @layer(%{{.*}}) {layer = 7 : i64}
// CHECK: adapt.launch @double(%{{.*}}) sizes<[T + 1]>
// CHECK: adapt.dispatch -> tensor<?xf32, #adapt.dims<[T + 1]>>
func.func @main(%x: tensor<?x4xf32, #adapt.dims<[T, 4]>>, %y: tensor<?xf32, #adapt.dims<[T + 1]>>)
    attributes {adapt.symbols = ["T"]} {
  %0 = adapt.call @layer(%x) {layer = 7 : i64} : (tensor<?x4xf32, #adapt.dims<[T, 4]>>) -> tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %1 = adapt.launch @double(%y) sizes<[T + 1]> : (tensor<?xf32, #adapt.dims<[T + 1]>>) -> tensor<?xf32, #adapt.dims<[T + 1]>>
  %2 = adapt.dispatch -> tensor<?xf32, #adapt.dims<[T + 1]>> {
    %3 = adapt.exp %1 : tensor<?xf32, #adapt.dims<[T + 1]>>
    adapt.yield %3 : tensor<?xf32, #adapt.dims<[T + 1]>>
  }
  return
}
