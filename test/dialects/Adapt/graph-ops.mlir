// RUN: adapt-opt %s -split-input-file -verify-diagnostics
// RUN: adapt-opt %s --split-input-file --verify-diagnostics | adapt-opt --split-input-file --verify-diagnostics | FileCheck %s

// The operations that graphs add, printed as they are read.
// CHECK-LABEL: @elementwise
func.func @elementwise(%x: tensor<?x4xf32, #adapt.dims<[N, 4]>>, %i: tensor<3xi64>, %b: tensor<3xi1>)
    attributes {adapt.symbols = ["N"]} {
  // CHECK: adapt.compare le %{{.*}}, %{{.*}} : tensor<?x4xf32, #adapt.dims<[N, 4]>> -> tensor<?x4xi1, #adapt.dims<[N, 4]>>
  %0 = adapt.compare le %x, %x : tensor<?x4xf32, #adapt.dims<[N, 4]>> -> tensor<?x4xi1, #adapt.dims<[N, 4]>>
  // CHECK: adapt.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x4xi1, {{.*}}>, tensor<?x4xf32, {{.*}}>
  %1 = adapt.select %0, %x, %x : tensor<?x4xi1, #adapt.dims<[N, 4]>>, tensor<?x4xf32, #adapt.dims<[N, 4]>>
  %2 = adapt.rem %i, %i : tensor<3xi64>
  %3 = adapt.and %b, %b : tensor<3xi1>
  %4 = adapt.or %b, %b : tensor<3xi1>
  %5 = adapt.xor %b, %b : tensor<3xi1>
  %6 = adapt.pow %x, %x : tensor<?x4xf32, #adapt.dims<[N, 4]>>
  %7 = adapt.log %x : tensor<?x4xf32, #adapt.dims<[N, 4]>>
  // CHECK: adapt.gelu %
  %8 = adapt.gelu %x : tensor<?x4xf32, #adapt.dims<[N, 4]>>
  // CHECK: adapt.gelu tanh %
  %9 = adapt.gelu tanh %x : tensor<?x4xf32, #adapt.dims<[N, 4]>>
  return
}

// CHECK-LABEL: @others
func.func @others(%x: tensor<?x4x?xf32, #adapt.dims<[N, 4, M]>>, %y: tensor<?x?x6xf32, #adapt.dims<[N, M, 6]>>,
                  %v: tensor<f32>, %i: tensor<2xi64>) attributes {adapt.symbols = ["N", "M"]} {
  // CHECK: adapt.iota start = <[M - 1]> step = -1 : tensor<?xi64, #adapt.dims<[M]>>
  %0 = adapt.iota start = <[M - 1]> step = -1 : tensor<?xi64, #adapt.dims<[M]>>
  // CHECK: adapt.pad %{{.*}}, %{{.*}} low = [0, 1, 0]
  %1 = adapt.pad %x, %v low = [0, 1, 0] : tensor<?x4x?xf32, #adapt.dims<[N, 4, M]>>, tensor<f32>
      -> tensor<?x7x?xf32, #adapt.dims<[N, 7, M + 2]>>
  // CHECK: adapt.gather %{{.*}}[%{{.*}}] {axis = 1 : i64}
  %2 = adapt.gather %x[%i] {axis = 1 : i64} : tensor<?x4x?xf32, #adapt.dims<[N, 4, M]>>, tensor<2xi64>
      -> tensor<?x2x?xf32, #adapt.dims<[N, 2, M]>>
  // CHECK: adapt.batch_matmul
  %3 = adapt.batch_matmul %x, %y : tensor<?x4x?xf32, #adapt.dims<[N, 4, M]>>, tensor<?x?x6xf32, #adapt.dims<[N, M, 6]>>
      -> tensor<?x4x6xf32, #adapt.dims<[N, 4, 6]>>
  // CHECK: adapt.softmax %{{.*}} axis = 2
  %4 = adapt.softmax %x axis = 2 : tensor<?x4x?xf32, #adapt.dims<[N, 4, M]>>
  return
}

// CHECK-LABEL: @layers
func.func @layers(%x: tensor<2x3x8x8xf32>, %w: tensor<5x3x3x3xf32>, %s: tensor<8xf32>) {
  // CHECK: adapt.conv %{{.*}}, %{{.*}} strides = [2, 1] dilations = [1, 2] pads = [1, 2, 1, 2] groups = 1
  %0 = adapt.conv %x, %w strides = [2, 1] dilations = [1, 2] pads = [1, 2, 1, 2] groups = 1
      : tensor<2x3x8x8xf32>, tensor<5x3x3x3xf32> -> tensor<2x5x4x8xf32>
  // CHECK: adapt.layer_norm %{{.*}}, %{{.*}} epsilon = 1.000000e-05
  %1 = adapt.layer_norm %x, %s epsilon = 1.0e-5 : tensor<2x3x8x8xf32>, tensor<8xf32>
  // CHECK: adapt.layer_norm %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05
  %2 = adapt.layer_norm %x, %s, %s epsilon = 1.0e-5 : tensor<2x3x8x8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// Sizes are equal by the laws of arithmetic: N * (M + 1) elements are as many as N * M + N.
// CHECK-LABEL: @equal_sizes
func.func @equal_sizes(%x: tensor<?x?xf32, #adapt.dims<[N, M + 1]>>) attributes {adapt.symbols = ["N", "M"]} {
  %0 = adapt.reshape %x : tensor<?x?xf32, #adapt.dims<[N, M + 1]>> -> tensor<?xf32, #adapt.dims<[N * M + N]>>
  %1 = adapt.reshape %x : tensor<?x?xf32, #adapt.dims<[N, M + 1]>> -> tensor<?xf32, #adapt.dims<[M * N + N]>>
  // Of M + 1 elements the first M.
  %2 = adapt.slice %x offsets = [0, 0] strides = [1, 1] : tensor<?x?xf32, #adapt.dims<[N, M + 1]>>
      -> tensor<?x?xf32, #adapt.dims<[N, M]>>
  return
}

// -----

func.func @slice(%x: tensor<?xf32, #adapt.dims<[N]>>) {
  // expected-error @+1 {{axis 0 of symbolic size N does not have N + 1 elements from 0 in steps of 1}}
  %0 = adapt.slice %x offsets = [0] strides = [1] : tensor<?xf32, #adapt.dims<[N]>> -> tensor<?xf32, #adapt.dims<[N + 1]>>
  return
}

// -----

func.func @compare(%x: tensor<3xf32>) {
  // expected-error @+1 {{of 'tensor<3xf32>' must give as many i1, not 'tensor<2xi1>'}}
  %0 = adapt.compare eq %x, %x : tensor<3xf32> -> tensor<2xi1>
  return
}

// -----

func.func @select(%c: tensor<2xi1>, %x: tensor<3xf32>) {
  // expected-error @+1 {{needs a condition for each of [3], not 'tensor<2xi1>'}}
  %0 = adapt.select %c, %x, %x : tensor<2xi1>, tensor<3xf32>
  return
}

// -----

func.func @gather(%x: tensor<3x4xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{along axis 2 of a table of rank 2}}
  %0 = adapt.gather %x[%i] {axis = 2 : i64} : tensor<3x4xf32>, tensor<2xi64> -> tensor<3x2xf32>
  return
}

// -----

func.func @pad(%x: tensor<3xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{axis 0: 2 and 3 elements do not fit into 4; to take some away, slice}}
  %0 = adapt.pad %x, %v low = [2] : tensor<3xf32>, tensor<f32> -> tensor<4xf32>
  return
}

// -----

func.func @batch_matmul(%x: tensor<2x3x4xf32>, %y: tensor<2x5x6xf32>) {
  // expected-error @+1 {{lhs has 4 columns, rhs 5 rows}}
  %0 = adapt.batch_matmul %x, %y : tensor<2x3x4xf32>, tensor<2x5x6xf32> -> tensor<2x3x6xf32>
  return
}

// -----

func.func @conv(%x: tensor<1x4x8xf32>, %w: tensor<6x3x3xf32>) {
  // expected-error @+1 {{with 2 groups: weight [6, 3, 3] does not fit 4 channels}}
  %0 = adapt.conv %x, %w strides = [1] dilations = [1] pads = [0, 0] groups = 2
      : tensor<1x4x8xf32>, tensor<6x3x3xf32> -> tensor<1x6x6xf32>
  return
}

// -----

func.func @conv_size(%x: tensor<1x4x8xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @+1 {{result's axis 2 must be 6, not 7}}
  %0 = adapt.conv %x, %w strides = [1] dilations = [1] pads = [0, 0] groups = 1
      : tensor<1x4x8xf32>, tensor<6x4x3xf32> -> tensor<1x6x7xf32>
  return
}

// -----

func.func @softmax(%x: tensor<3xf32>) {
  // expected-error @+1 {{along axis 1 of a tensor of rank 1}}
  %0 = adapt.softmax %x axis = 1 : tensor<3xf32>
  return
}

// -----

func.func @layer_norm(%x: tensor<3x4xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{weight must have the last sizes of the input, [3, 4], not [3]}}
  %0 = adapt.layer_norm %x, %w epsilon = 1.0e-5 : tensor<3x4xf32>, tensor<3xf32>
  return
}
