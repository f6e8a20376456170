// RUN: adapt-opt %s | adapt-opt | FileCheck %s

// CHECK-LABEL: func @shape
// CHECK: adapt.constant dense<1.000000e+00> : tensor<2x3xf32>
// CHECK: adapt.reshape %{{.*}} : tensor<2x3xf32> -> tensor<6xf32>
// CHECK: adapt.broadcast %{{.*}} dims = [1] : tensor<6xf32> -> tensor<?x6xf32, #adapt.dims<[T, 6]>>
// CHECK: adapt.transpose %{{.*}} [1, 0]
// CHECK: adapt.slice %{{.*}} offsets = [2, 0] strides = [2, 1]
// CHECK: adapt.concat axis 0(%{{.*}}, %{{.*}})
// CHECK: adapt.reduce max %{{.*}} axes = [0]
func.func @shape() -> tensor<?xf32, #adapt.dims<[T]>> attributes {adapt.symbols = ["T"]} {
  %0 = adapt.constant dense<1.0> : tensor<2x3xf32>
  %1 = adapt.reshape %0 : tensor<2x3xf32> -> tensor<6xf32>
  %2 = adapt.broadcast %1 dims = [1] : tensor<6xf32> -> tensor<?x6xf32, #adapt.dims<[T, 6]>>
  %3 = adapt.transpose %2 [1, 0] : tensor<?x6xf32, #adapt.dims<[T, 6]>> -> tensor<6x?xf32, #adapt.dims<[6, T]>>
  %4 = adapt.slice %3 offsets = [2, 0] strides = [2, 1] : tensor<6x?xf32, #adapt.dims<[6, T]>> -> tensor<2x?xf32, #adapt.dims<[2, T]>>
  %5 = adapt.concat axis 0(%4, %4) : (tensor<2x?xf32, #adapt.dims<[2, T]>>, tensor<2x?xf32, #adapt.dims<[2, T]>>) -> tensor<4x?xf32, #adapt.dims<[4, T]>>
  %6 = adapt.reduce max %5 axes = [0] : tensor<4x?xf32, #adapt.dims<[4, T]>> -> tensor<?xf32, #adapt.dims<[T]>>
  return %6 : tensor<?xf32, #adapt.dims<[T]>>
}

// CHECK-LABEL: func @gather
// CHECK: adapt.gather %{{.*}}[%{{.*}}] : tensor<8x4xf32>, tensor<?xi32, #adapt.dims<[T]>> -> tensor<?x4xf32, #adapt.dims<[T, 4]>>
func.func @gather(%table: tensor<8x4xf32>, %rows: tensor<?xi32, #adapt.dims<[T]>>)
    -> tensor<?x4xf32, #adapt.dims<[T, 4]>> attributes {adapt.symbols = ["T"]} {
  %0 = adapt.gather %table[%rows] : tensor<8x4xf32>, tensor<?xi32, #adapt.dims<[T]>> -> tensor<?x4xf32, #adapt.dims<[T, 4]>>
  return %0 : tensor<?x4xf32, #adapt.dims<[T, 4]>>
}

// CHECK-LABEL: func @matmul
// CHECK: adapt.matmul %{{.*}}, %{{.*}} : tensor<?x4xbf16, #adapt.dims<[T, 4]>>, tensor<8x4xbf16, #adapt.packed<16, 2>> -> tensor<?x8xf32, #adapt.dims<[T, 8]>>
func.func @matmul(%x: tensor<?x4xbf16, #adapt.dims<[T, 4]>>, %w: tensor<8x4xbf16, #adapt.packed<16, 2>>)
    -> tensor<?x8xf32, #adapt.dims<[T, 8]>> attributes {adapt.symbols = ["T"]} {
  %0 = adapt.matmul %x, %w : tensor<?x4xbf16, #adapt.dims<[T, 4]>>, tensor<8x4xbf16, #adapt.packed<16, 2>> -> tensor<?x8xf32, #adapt.dims<[T, 8]>>
  return %0 : tensor<?x8xf32, #adapt.dims<[T, 8]>>
}
