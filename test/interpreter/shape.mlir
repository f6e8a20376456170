// RUN: adapt-interpret %s | FileCheck %s
// RUN: adapt-interpret %s --function reduce | FileCheck %s --check-prefix=REDUCE
// RUN: adapt-interpret %s --function gather | FileCheck %s --check-prefix=GATHER

// Expected: by hand, from the operations' definitions.
func.func @main() -> (tensor<3x2xi32>, tensor<3x1x2xi32>, tensor<2x2x3xi32>, tensor<2x3xi32>,
                      tensor<1x2xi32>, tensor<2x5xi32>, tensor<0x3xi32>, tensor<i32>) {
  %x = adapt.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  // CHECK: result0 = tensor<3x2xi32> {{\[\[}}1, 2], [3, 4], [5, 6]]
  %0 = adapt.reshape %x : tensor<2x3xi32> -> tensor<3x2xi32>
  %x3 = adapt.reshape %x : tensor<2x3xi32> -> tensor<1x2x3xi32>
  // Result axis i is input axis permutation[i].
  // CHECK: result1 = tensor<3x1x2xi32> {{\[\[\[}}1, 4]], {{\[\[}}2, 5]], {{\[\[}}3, 6]]]
  %1 = adapt.transpose %x3 [2, 0, 1] : tensor<1x2x3xi32> -> tensor<3x1x2xi32>
  // CHECK: result2 = tensor<2x2x3xi32> {{\[\[\[}}1, 2, 3], [4, 5, 6]], {{\[\[}}1, 2, 3], [4, 5, 6]]]
  %2 = adapt.broadcast %x dims = [1, 2] : tensor<2x3xi32> -> tensor<2x2x3xi32>
  %column = adapt.constant dense<[[7], [8]]> : tensor<2x1xi32>
  // CHECK: result3 = tensor<2x3xi32> {{\[\[}}7, 7, 7], [8, 8, 8]]
  %3 = adapt.broadcast %column dims = [0, 1] : tensor<2x1xi32> -> tensor<2x3xi32>
  // CHECK: result4 = tensor<1x2xi32> {{\[\[}}4, 6]]
  %4 = adapt.slice %x offsets = [1, 0] strides = [1, 2] : tensor<2x3xi32> -> tensor<1x2xi32>
  %y = adapt.constant dense<[[10, 11], [12, 13]]> : tensor<2x2xi32>
  // CHECK: result5 = tensor<2x5xi32> {{\[\[}}1, 2, 3, 10, 11], [4, 5, 6, 12, 13]]
  %5 = adapt.concat axis 1 (%x, %y) : (tensor<2x3xi32>, tensor<2x2xi32>) -> tensor<2x5xi32>
  // CHECK: result6 = tensor<0x3xi32> []
  %6 = adapt.slice %x offsets = [2, 0] strides = [1, 1] : tensor<2x3xi32> -> tensor<0x3xi32>
  // CHECK: result7 = tensor<i32> 5
  %7 = adapt.constant dense<5> : tensor<i32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<3x2xi32>, tensor<3x1x2xi32>, tensor<2x2x3xi32>,
      tensor<2x3xi32>, tensor<1x2xi32>, tensor<2x5xi32>, tensor<0x3xi32>, tensor<i32>
}

func.func @reduce() -> (tensor<3xf32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<2xf32>,
                        tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xi8>) {
  %x = adapt.constant dense<[[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]]> : tensor<2x3xf32>
  // REDUCE: result0 = tensor<3xf32> [5, -3, 9]
  %0 = adapt.reduce sum %x axes = [0] : tensor<2x3xf32> -> tensor<3xf32>
  // REDUCE: result1 = tensor<2xf32> [2, 1.6666667]
  %1 = adapt.reduce mean %x axes = [1] : tensor<2x3xf32> -> tensor<2xf32>
  // REDUCE: result2 = tensor<f32> -720
  %2 = adapt.reduce prod %x axes = [0, 1] : tensor<2x3xf32> -> tensor<f32>
  // REDUCE: result3 = tensor<2xf32> [3, 6]
  %3 = adapt.reduce max %x axes = [1] : tensor<2x3xf32> -> tensor<2xf32>
  // REDUCE: result4 = tensor<2xf32> [1, -5]
  %4 = adapt.reduce min %x axes = [1] : tensor<2x3xf32> -> tensor<2xf32>
  // The empty sets of fault case A04.
  %e = adapt.constant dense<> : tensor<2x0xf32>
  // REDUCE: result5 = tensor<2xf32> [0, 0]
  %5 = adapt.reduce sum %e axes = [1] : tensor<2x0xf32> -> tensor<2xf32>
  // REDUCE: result6 = tensor<2xf32> [1, 1]
  %6 = adapt.reduce prod %e axes = [1] : tensor<2x0xf32> -> tensor<2xf32>
  // REDUCE: result7 = tensor<2xf32> [-inf, -inf]
  %7 = adapt.reduce max %e axes = [1] : tensor<2x0xf32> -> tensor<2xf32>
  %n = adapt.constant dense<[[0x7FC00000, 1.0], [1.0, 2.0]]> : tensor<2x2xf32>
  // REDUCE: result8 = tensor<2xf32> [nan, 2]
  %8 = adapt.reduce max %n axes = [1] : tensor<2x2xf32> -> tensor<2xf32>
  // The middle axis; integers wrap.
  %i = adapt.constant dense<[[[100, 1], [100, 2]], [[-3, 5], [3, 6]]]> : tensor<2x2x2xi8>
  // REDUCE: result9 = tensor<2x2xi8> {{\[\[}}-56, 3], [0, 11]]
  %9 = adapt.reduce sum %i axes = [1] : tensor<2x2x2xi8> -> tensor<2x2xi8>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<3xf32>, tensor<2xf32>, tensor<f32>,
      tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
      tensor<2x2xi8>
}

func.func @gather() -> tensor<2x2x2xf32> {
  %table = adapt.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %rows = adapt.constant dense<[[2, 0], [1, 2]]> : tensor<2x2xi32>
  // GATHER: result0 = tensor<2x2x2xf32> {{\[\[\[}}5, 6], [1, 2]], {{\[\[}}3, 4], [5, 6]]]
  %0 = adapt.gather %table[%rows] : tensor<3x2xf32>, tensor<2x2xi32> -> tensor<2x2x2xf32>
  return %0 : tensor<2x2x2xf32>
}
