// RUN: adapt-opt %s | adapt-opt | FileCheck %s

// CHECK-LABEL: func @rms_norm
// CHECK: adapt.rms_norm %{{.*}}, %{{.*}} epsilon = 9.9{{.*}}E-7 : tensor<?x8xbf16, #adapt.dims<[T, 8]>>, tensor<8xbf16>
func.func @rms_norm(%x: tensor<?x8xbf16, #adapt.dims<[T, 8]>>, %w: tensor<8xbf16>)
    -> tensor<?x8xbf16, #adapt.dims<[T, 8]>> attributes {adapt.symbols = ["T"]} {
  %0 = adapt.rms_norm %x, %w epsilon = 1.0e-6 : tensor<?x8xbf16, #adapt.dims<[T, 8]>>, tensor<8xbf16>
  return %0 : tensor<?x8xbf16, #adapt.dims<[T, 8]>>
}

// CHECK-LABEL: func @rope
// CHECK: adapt.rope_table %{{.*}} inverse_frequencies = dense<[1.000000e+00, 5.000000e-01]> : tensor<2xf32>
// CHECK: adapt.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x3x4xf32, #adapt.dims<[T, 3, 4]>>, tensor<?x2xf32, #adapt.dims<[T, 2]>>
// CHECK: adapt.rope %{{.*}}, %{{.*}}, %{{.*}} interleaved
func.func @rope(%x: tensor<?x3x4xf32, #adapt.dims<[T, 3, 4]>>, %p: tensor<?xi32, #adapt.dims<[T]>>)
    -> tensor<?x3x4xf32, #adapt.dims<[T, 3, 4]>> attributes {adapt.symbols = ["T"]} {
  %c, %s = adapt.rope_table %p inverse_frequencies = dense<[1.0, 0.5]> : tensor<2xf32> {scale = 2.0 : f64}
      : tensor<?xi32, #adapt.dims<[T]>> -> tensor<?x2xf32, #adapt.dims<[T, 2]>>
  %0 = adapt.rope %x, %c, %s : tensor<?x3x4xf32, #adapt.dims<[T, 3, 4]>>, tensor<?x2xf32, #adapt.dims<[T, 2]>>
  %1 = adapt.rope %0, %c, %s interleaved : tensor<?x3x4xf32, #adapt.dims<[T, 3, 4]>>, tensor<?x2xf32, #adapt.dims<[T, 2]>>
  return %1 : tensor<?x3x4xf32, #adapt.dims<[T, 3, 4]>>
}

!state = !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>
!q = tensor<?x6x4xf32, #adapt.dims<[T, 6, 4]>>
!kv = tensor<?x2x4xf32, #adapt.dims<[T, 2, 4]>>
!starts = tensor<?xi32, #adapt.dims<[S + 1]>>
!lens = tensor<?xi32, #adapt.dims<[S]>>
!table = tensor<?x?xi32, #adapt.dims<[S, B]>>

// CHECK-LABEL: func @paged
// CHECK: adapt.paged_attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}}, %{{.*}}, %{{.*}} scale = 5.000000e-01 window = 8
// CHECK: adapt.paged_append %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}}, %{{.*}}, %{{.*}}
// CHECK: adapt.paged_attend %{{.*}}, %{{.*}} at %{{.*}}, %{{.*}}, %{{.*}} scale = 5.000000e-01
func.func @paged(%q: !q, %k: !kv, %v: !kv, %state: !state, %starts: !starts, %lens: !lens, %table: !table)
    -> (!q, !state) attributes {adapt.symbols = ["T", "S", "B"]} {
  %0, %1 = adapt.paged_attention %q, %k, %v, %state at %starts, %lens, %table scale = 0.5 window = 8
      : (!q, !kv, !kv, !state, !starts, !lens, !table) -> (!q, !state)
  %2 = adapt.paged_append %k, %v, %1 at %starts, %lens, %table
      : (!kv, !kv, !state, !starts, !lens, !table) -> !state
  %3, %4 = adapt.paged_attend %0, %2 at %starts, %lens, %table scale = 0.5
      : (!q, !state, !starts, !lens, !table) -> (!q, !state)
  return %3, %4 : !q, !state
}
