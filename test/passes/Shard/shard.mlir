// A column-parallel matmul with its bias, then a row-parallel one with its: the sum is combined once,
// before its bias is added, and the biases are on one side of it each.
// RUN: adapt-opt %s --adapt-shard | FileCheck %s

#x = #adapt.dims<[T, 8]>
module attributes {adapt.mesh = {tp = 2}} {
  // CHECK-LABEL: func.func @mlp
  func.func @mlp(%x: tensor<?x8xbf16, #x>) -> tensor<?x8xbf16, #x> attributes {adapt.symbols = ["T"]} {
    // CHECK: adapt.param "up" : tensor<6x8xbf16>
    // CHECK: adapt.shard_slice %{{.*}} offsets{{ ?}}<[tp_rank * 6, 0]> : tensor<12x8xbf16> -> tensor<6x8xbf16>
    // CHECK-NOT: adapt.shard
    %up = adapt.param "up" : tensor<12x8xbf16> {
      %0 = adapt.source "up" : tensor<12x8xbf16>
      adapt.yield %0 : tensor<12x8xbf16>
    } {adapt.shard = #adapt.shard<axis = 0>}
    // CHECK: adapt.param "up.bias" : tensor<6xbf16>
    %up_bias = adapt.param "up.bias" : tensor<12xbf16> {
      %0 = adapt.source "up.bias" : tensor<12xbf16>
      adapt.yield %0 : tensor<12xbf16>
    } {adapt.shard = #adapt.shard<axis = 0>}
    // CHECK: adapt.param "down" : tensor<8x6xbf16>
    // CHECK: adapt.shard_slice %{{.*}} offsets{{ ?}}<[0, tp_rank * 6]>
    %down = adapt.param "down" : tensor<8x12xbf16> {
      %0 = adapt.source "down" : tensor<8x12xbf16>
      adapt.yield %0 : tensor<8x12xbf16>
    } {adapt.shard = #adapt.shard<axis = 1>}
    // CHECK: adapt.param "down.bias" : tensor<8xbf16>
    %down_bias = adapt.param "down.bias" : tensor<8xbf16> {
      %0 = adapt.source "down.bias" : tensor<8xbf16>
      adapt.yield %0 : tensor<8xbf16>
    }
    // CHECK: %[[H:.*]] = adapt.matmul {{.*}} -> tensor<?x6xbf16
    // CHECK: %[[B:.*]] = adapt.broadcast {{.*}} : tensor<6xbf16> -> tensor<?x6xbf16
    // CHECK: %[[A:.*]] = adapt.add %[[H]], %[[B]]
    %h = adapt.matmul %x, %up : tensor<?x8xbf16, #x>, tensor<12x8xbf16> -> tensor<?x12xbf16, #adapt.dims<[T, 12]>>
    %b = adapt.broadcast %up_bias dims = [1] : tensor<12xbf16> -> tensor<?x12xbf16, #adapt.dims<[T, 12]>>
    %a = adapt.add %h, %b : tensor<?x12xbf16, #adapt.dims<[T, 12]>>
    // The pending sum is in f32, and rounded once.
    // CHECK: %[[P:.*]] = adapt.matmul %[[A]], {{.*}} -> tensor<?x8xf32
    // CHECK: %[[S:.*]] = adapt.all_reduce sum %[[P]] over "tp" of 2
    // CHECK-NEXT: adapt.cast %[[S]]
    // CHECK-NEXT: adapt.add
    // CHECK-NOT: adapt.all_reduce
    // CHECK-NOT: adapt.placement
    %y = adapt.matmul %a, %down : tensor<?x12xbf16, #adapt.dims<[T, 12]>>, tensor<8x12xbf16> -> tensor<?x8xbf16, #x>
    %c = adapt.broadcast %down_bias dims = [1] : tensor<8xbf16> -> tensor<?x8xbf16, #x>
    %z = adapt.add %y, %c : tensor<?x8xbf16, #x>
    return %z : tensor<?x8xbf16, #x>
  }

  // Two pending sums are added before they are combined, once.
  // CHECK-LABEL: func.func @parallel
  // CHECK:       %[[SUM:.*]] = adapt.add
  // CHECK-NEXT:  %[[ALL:.*]] = adapt.all_reduce sum %[[SUM]]
  // CHECK-NOT:   adapt.all_reduce
  // CHECK:       return %[[ALL]]
  func.func @parallel(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %v = adapt.param "v" : tensor<6x8xf32> {
      %0 = adapt.source "v" : tensor<6x8xf32>
      adapt.yield %0 : tensor<6x8xf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %w = adapt.param "w" : tensor<8x6xf32> {
      %0 = adapt.source "w" : tensor<8x6xf32>
      adapt.yield %0 : tensor<8x6xf32>
    } {adapt.shard = #adapt.shard<axis = 1>}
    %u = adapt.param "u" : tensor<8x6xf32> {
      %0 = adapt.source "u" : tensor<8x6xf32>
      adapt.yield %0 : tensor<8x6xf32>
    } {adapt.shard = #adapt.shard<axis = 1>}
    %h = adapt.matmul %x, %v : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
    %a = adapt.matmul %h, %w : tensor<4x6xf32>, tensor<8x6xf32> -> tensor<4x8xf32>
    %b = adapt.matmul %h, %u : tensor<4x6xf32>, tensor<8x6xf32> -> tensor<4x8xf32>
    %c = adapt.add %a, %b : tensor<4x8xf32>
    return %c : tensor<4x8xf32>
  }

  // What cannot be computed in parts is gathered.
  // CHECK-LABEL: func.func @norm
  // CHECK:       %[[PART:.*]] = adapt.matmul {{.*}} -> tensor<4x3xf32>
  // CHECK:       %[[WHOLE:.*]] = adapt.all_gather %[[PART]] axis 1 over "tp" of 2 : tensor<4x3xf32> -> tensor<4x6xf32>
  // CHECK:       adapt.rms_norm %[[WHOLE]]
  func.func @norm(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {
    %v = adapt.param "nv" : tensor<6x8xf32> {
      %0 = adapt.source "v" : tensor<6x8xf32>
      adapt.yield %0 : tensor<6x8xf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %n = adapt.param "n" : tensor<6xf32> {
      %0 = adapt.source "n" : tensor<6xf32>
      adapt.yield %0 : tensor<6xf32>
    }
    %h = adapt.matmul %x, %v : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
    %y = adapt.rms_norm %h, %n epsilon = 1.0e-6 : tensor<4x6xf32>, tensor<6xf32>
    return %y : tensor<4x6xf32>
  }

  // A part of a table gives zeros for the others' rows.
  // CHECK-LABEL: func.func @embed
  // CHECK-SAME:  adapt.symbols = ["tp_rank"]
  // CHECK:       %[[ROWS:.*]] = adapt.gather %{{.*}} first_row{{ ?}}<[tp_rank * 5]> : tensor<5x4xf32>
  // CHECK-NEXT:  adapt.all_reduce sum %[[ROWS]]
  func.func @embed(%i: tensor<3xi32>) -> tensor<3x4xf32> {
    %t = adapt.param "t" : tensor<10x4xf32> {
      %0 = adapt.source "t" : tensor<10x4xf32>
      adapt.yield %0 : tensor<10x4xf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %y = adapt.gather %t[%i] : tensor<10x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
    return %y : tensor<3x4xf32>
  }
}
