// RUN: adapt-interpret %s | FileCheck %s
// RUN: adapt-interpret %s --function layer --index layer=3 --size T=2 --weights %source_root/test/e2e/data/tiny-llama --random-inputs 1 | FileCheck %s --check-prefix=LAYER

// Calls pass sizes by name and bind indices; launches pass sizes by place.
func.func @main() -> (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>) {
  %x = adapt.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  // CHECK: result0 = tensor<3xf32> [11, 12, 13]
  %0 = adapt.call @add(%x) {which = 1} : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK: result1 = tensor<3xf32> [11, 12, 13]
  %1 = adapt.call @add(%x) {which = 2} : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK: result2 = tensor<f32> 14
  %2 = adapt.launch @square_sum(%x) sizes<[]> : (tensor<3xf32>) -> tensor<f32>
  // A dispatch uses values from above.
  // CHECK: result3 = tensor<f32> 28
  %3 = adapt.dispatch -> tensor<f32> {
    %4 = adapt.add %2, %2 : tensor<f32>
    adapt.yield %4 : tensor<f32>
  }
  return %0, %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>
}

func.func private @add(%x: tensor<3xf32>) -> tensor<3xf32> attributes {adapt.indices = ["which"]} {
  %w = adapt.param "ten.{which}" : tensor<3xf32> {
    %0 = adapt.splat 1.0e+01 : tensor<2xf32>
    %1 = adapt.splat 1.0e+01 : tensor<1xf32>
    %2 = adapt.concat axis 0 (%0, %1) : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
    adapt.yield %2 : tensor<3xf32>
  }
  %0 = adapt.add %x, %w : tensor<3xf32>
  return %0 : tensor<3xf32>
}

adapt.kernel @square_sum(%x: tensor<3xf32>) -> tensor<f32> attributes {adapt.symbols = []} {
  %0 = adapt.mul %x, %x : tensor<3xf32>
  %1 = adapt.reduce sum %0 axes = [0] : tensor<3xf32> -> tensor<f32>
  adapt.yield %1 : tensor<f32>
}

// Weights of layer 3 and rows 1 of k and 30 of v of layer 2 (a fixed name), by numpy from the file.
// LAYER: result0 = tensor<2x4xf32> {{\[\[}}0.94381285, 0.98420745, 1.1504259, 0.86049706], [0.94381285, 0.98420745, 1.1504259, 0.86049706]]
// LAYER: result1 = tensor<3x2xf32> {{\[\[}}-0.031905465, -0.019492526], [0.040855762, -0.046026062], [-0.029419824, -0.043707684]]
func.func @layer(%x: tensor<?x4xf32, #adapt.dims<[T, 4]>>)
    -> (tensor<?x4xf32, #adapt.dims<[T, 4]>>, tensor<3x2xf32>)
    attributes {adapt.symbols = ["T"], adapt.indices = ["layer"]} {
  %zero = adapt.sub %x, %x : tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %w = adapt.param "layers.{layer}.norm" : tensor<4xf32> {
    %0 = adapt.source "model.layers.{layer}.input_layernorm.weight" : tensor<64xf32>
    %1 = adapt.slice %0 offsets = [0] strides = [1] : tensor<64xf32> -> tensor<4xf32>
    adapt.yield %1 : tensor<4xf32>
  }
  %b = adapt.broadcast %w dims = [1] : tensor<4xf32> -> tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %0 = adapt.launch @add_rows(%zero, %b) sizes<[T]>
      : (tensor<?x4xf32, #adapt.dims<[T, 4]>>, tensor<?x4xf32, #adapt.dims<[T, 4]>>) -> tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %1 = adapt.param "kv" : tensor<3x2xf32> {
    %k = adapt.source "model.layers.2.self_attn.k_proj.weight" : tensor<32x64xf32>
    %v = adapt.source "model.layers.2.self_attn.v_proj.weight" : tensor<32x64xf32>
    %2 = adapt.slice %k offsets = [1, 2] strides = [1, 1] : tensor<32x64xf32> -> tensor<1x3xf32>
    %3 = adapt.slice %v offsets = [30, 2] strides = [1, 1] : tensor<32x64xf32> -> tensor<1x3xf32>
    %4 = adapt.concat axis 0 (%2, %3) : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
    %5 = adapt.transpose %4 [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    adapt.yield %5 : tensor<3x2xf32>
  }
  return %0, %1 : tensor<?x4xf32, #adapt.dims<[T, 4]>>, tensor<3x2xf32>
}

adapt.kernel @add_rows(%a: tensor<?x4xf32, #adapt.dims<[n, 4]>>, %b: tensor<?x4xf32, #adapt.dims<[n, 4]>>)
    -> tensor<?x4xf32, #adapt.dims<[n, 4]>> attributes {adapt.symbols = ["n"]} {
  %0 = adapt.add %a, %b : tensor<?x4xf32, #adapt.dims<[n, 4]>>
  adapt.yield %0 : tensor<?x4xf32, #adapt.dims<[n, 4]>>
}
