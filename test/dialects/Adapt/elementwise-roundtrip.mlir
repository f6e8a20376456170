// RUN: adapt-opt %s | adapt-opt | FileCheck %s

// CHECK-LABEL: func @binary
// CHECK: adapt.add %{{.*}}, %{{.*}} : tensor<?x4xf32, #adapt.dims<[T, 4]>>
// CHECK: adapt.sub
// CHECK: adapt.mul
// CHECK: adapt.div
// CHECK: adapt.maximum
// CHECK: adapt.minimum
func.func @binary(%a: tensor<?x4xf32, #adapt.dims<[T, 4]>>, %b: tensor<?x4xf32, #adapt.dims<[T, 4]>>)
    -> tensor<?x4xf32, #adapt.dims<[T, 4]>> attributes {adapt.symbols = ["T"]} {
  %0 = adapt.add %a, %b : tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %1 = adapt.sub %0, %b : tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %2 = adapt.mul %1, %b : tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %3 = adapt.div %2, %b : tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %4 = adapt.maximum %3, %b : tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %5 = adapt.minimum %4, %b : tensor<?x4xf32, #adapt.dims<[T, 4]>>
  return %5 : tensor<?x4xf32, #adapt.dims<[T, 4]>>
}

// CHECK-LABEL: func @unary
// CHECK: adapt.neg
// CHECK: adapt.exp
// CHECK: adapt.sqrt
// CHECK: adapt.rsqrt
// CHECK: adapt.tanh
// CHECK: adapt.erf
// CHECK: adapt.sin
// CHECK: adapt.cos
// CHECK: adapt.sigmoid
func.func @unary(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = adapt.neg %x : tensor<4xbf16>
  %1 = adapt.exp %0 : tensor<4xbf16>
  %2 = adapt.sqrt %1 : tensor<4xbf16>
  %3 = adapt.rsqrt %2 : tensor<4xbf16>
  %4 = adapt.tanh %3 : tensor<4xbf16>
  %5 = adapt.erf %4 : tensor<4xbf16>
  %6 = adapt.sin %5 : tensor<4xbf16>
  %7 = adapt.cos %6 : tensor<4xbf16>
  %8 = adapt.sigmoid %7 : tensor<4xbf16>
  return %8 : tensor<4xbf16>
}

// CHECK-LABEL: func @cast
// CHECK: adapt.cast %{{.*}} : tensor<4xf32> -> tensor<4xi8>
func.func @cast(%x: tensor<4xf32>) -> tensor<4xi8> {
  %0 = adapt.cast %x : tensor<4xf32> -> tensor<4xi8>
  return %0 : tensor<4xi8>
}

// CHECK-LABEL: func @gated_activation
// CHECK: adapt.gated_activation silu %{{.*}}, %{{.*}} : tensor<4xf32>
// CHECK: adapt.gated_activation gelu_erf
// CHECK: adapt.gated_activation gelu_tanh
func.func @gated_activation(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = adapt.gated_activation silu %a, %b : tensor<4xf32>
  %1 = adapt.gated_activation gelu_erf %0, %b : tensor<4xf32>
  %2 = adapt.gated_activation gelu_tanh %1, %b : tensor<4xf32>
  return %2 : tensor<4xf32>
}
