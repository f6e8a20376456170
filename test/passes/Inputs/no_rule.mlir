// A weight is packed in its recipe, not in a layer; packing has no sharding rule.
module attributes {adapt.mesh = {tp = 2}} {
  func.func private @layer(%x: tensor<4x8xf32>) -> tensor<4x6xf32, #adapt.packed<2, 1>> attributes {adapt.indices = ["layer"]} {
    %w = adapt.param "{layer}.w" : tensor<6x8xf32> {
      %0 = adapt.source "{layer}.w" : tensor<6x8xf32>
      adapt.yield %0 : tensor<6x8xf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %h = adapt.matmul %x, %w : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
    %k = adapt.pack %h : tensor<4x6xf32> -> tensor<4x6xf32, #adapt.packed<2, 1>>
    return %k : tensor<4x6xf32, #adapt.packed<2, 1>>
  }
}
