// RUN: adapt-opt %s -split-input-file -verify-diagnostics

func.func @reshape(%x: tensor<?x6xf32, #adapt.dims<[T, 6]>>) {
  // expected-error @+1 {{keeps the number of elements, but goes from T * 6 to T * 4}}
  %0 = adapt.reshape %x : tensor<?x6xf32, #adapt.dims<[T, 6]>> -> tensor<?x4xf32, #adapt.dims<[T, 4]>>
  return
}

// -----

func.func @reshape_element(%x: tensor<4xf32>) {
  // expected-error @+1 {{keeps the element type, but goes from 'f32' to 'bf16'}}
  %0 = adapt.reshape %x : tensor<4xf32> -> tensor<2x2xbf16>
  return
}

// -----

func.func @transpose_twice(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{permutation has axis 0 twice}}
  %0 = adapt.transpose %x [0, 0] : tensor<2x3xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @transpose_axis(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{permutation has axis -1 of a tensor of rank 2}}
  %0 = adapt.transpose %x [0, -1] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

// All axes that differ.
func.func @transpose_sizes(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{result's axis 0 must be 3, not 2}}
  // expected-error @+1 {{result's axis 1 must be 2, not 3}}
  %0 = adapt.transpose %x [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast(%x: tensor<3xf32>) {
  // expected-error @+1 {{input's axis 0 is 3; to become 4 it must be that or 1}}
  %0 = adapt.broadcast %x dims = [1] : tensor<3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @broadcast_order(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{dims must increase}}
  %0 = adapt.broadcast %x dims = [1, 0] : tensor<3x4xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @slice_past_end(%x: tensor<5xf32>) {
  // expected-error @+1 {{axis 0 reads element 5 of 5}}
  %0 = adapt.slice %x offsets = [1] strides = [2] : tensor<5xf32> -> tensor<3xf32>
  return
}

// -----

func.func @slice_negative(%x: tensor<5xf32>) {
  // expected-error @+1 {{axis 0 has offset -1 and stride 1}}
  %0 = adapt.slice %x offsets = [-1] strides = [1] : tensor<5xf32> -> tensor<3xf32>
  return
}

// -----

func.func @slice_symbolic(%x: tensor<?xf32, #adapt.dims<[T]>>) {
  // expected-error @+1 {{axis 0 of symbolic size T does not have T elements from 2 in steps of 1}}
  %0 = adapt.slice %x offsets = [2] strides = [1] : tensor<?xf32, #adapt.dims<[T]>> -> tensor<?xf32, #adapt.dims<[T]>>
  return
}

// -----

func.func @concat(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error @+1 {{input 1 has 4 on axis 1, the result 3}}
  %0 = adapt.concat axis 0(%x, %y) : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @concat_size(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result's axis 0 must be 4, not 5}}
  %0 = adapt.concat axis 0(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  return
}

// -----

func.func @reduce(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result must have rank 1, not 2}}
  %0 = adapt.reduce sum %x axes = [1] : tensor<2x3xf32> -> tensor<2x1xf32>
  return
}

// -----

func.func @gather(%table: tensor<8x4xf32>, %rows: tensor<2xi32>) {
  // expected-error @+1 {{result's axis 1 must be 4, not 5}}
  %0 = adapt.gather %table[%rows] : tensor<8x4xf32>, tensor<2xi32> -> tensor<2x5xf32>
  return
}

// -----

func.func @matmul_k(%x: tensor<2x4xf32>, %w: tensor<8x5xf32>) {
  // expected-error @+1 {{input's last size 4 is not the weight's K = 5}}
  %0 = adapt.matmul %x, %w : tensor<2x4xf32>, tensor<8x5xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @matmul_leading(%x: tensor<2x4xf32>, %w: tensor<8x4xf32>) {
  // expected-error @+1 {{leading sizes differ: input [2, 4], result [3, 8]}}
  %0 = adapt.matmul %x, %w : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<3x8xf32>
  return
}
