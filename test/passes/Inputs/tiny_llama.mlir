// A llama of two layers as `import` leaves it: hidden 64, 4 query heads on 2 key/value heads of 16,
// MLP of 96, a vocabulary of 256, embedding and head tied.
#tokens = #adapt.dims<[T]>
#hidden = #adapt.dims<[T, 64]>
#rope = #adapt.dims<[T, 8]>
module @tiny attributes {
  adapt.target = {name = "cpu", cpu = "x86-64-v4", features = [], block_tokens = 16, ops = "all",
    keeps = ["rms_norm", "rope", "rope_table", "gated_activation", "paged_append", "paged_attend"],
    weight_layouts = {bf16 = #adapt.packed<16, 2>, f16 = #adapt.packed<16, 1>,
                      f32 = #adapt.packed<16, 1>}},
  adapt.limits = {T = 32, S = 4, B = 8, L = [0, 32]}
} {
  func.func @main(
      %token_ids: tensor<?xi32, #tokens> {adapt.name = "token_ids"},
      %positions: tensor<?xi32, #tokens> {adapt.name = "positions"},
      %seq_starts: tensor<?xi32, #adapt.dims<[S + 1]>> {adapt.name = "seq_starts"},
      %kv_lens: tensor<?xi32, #adapt.dims<[S]>> {adapt.name = "kv_lens"},
      %block_table: tensor<?x?xi32, #adapt.dims<[S, B]>> {adapt.name = "block_table"},
      %logit_rows: tensor<?xi32, #adapt.dims<[L]>> {adapt.name = "logit_rows"},
      %kv0: !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>> {adapt.name = "kv.0"},
      %kv1: !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>> {adapt.name = "kv.1"})
      -> (tensor<?x256xf32, #adapt.dims<[L, 256]>> {adapt.name = "logits"},
          !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>,
          !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>)
      attributes {adapt.symbols = ["T", "S", "B", "L"]} {
    %cosines, %sines = adapt.rope_table %positions inverse_frequencies = dense<[1.0, 0.316227764, 0.1, 0.0316227749, 0.01, 0.00316227763, 1.0e-03, 3.162278e-04]> : tensor<8xf32>
        : tensor<?xi32, #tokens> -> tensor<?x8xf32, #rope>
    %embed = adapt.param "embed" : tensor<256x64xf32> {
      %0 = adapt.source "model.embed_tokens.weight" : tensor<256x64xf32>
      adapt.yield %0 : tensor<256x64xf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %x0 = adapt.gather %embed[%token_ids] : tensor<256x64xf32>, tensor<?xi32, #tokens> -> tensor<?x64xf32, #hidden>
    %x1, %kv0_out = adapt.call @layer(%x0, %cosines, %sines, %seq_starts, %kv_lens, %block_table, %kv0) {layer = 0}
        : (tensor<?x64xf32, #hidden>, tensor<?x8xf32, #rope>, tensor<?x8xf32, #rope>,
           tensor<?xi32, #adapt.dims<[S + 1]>>, tensor<?xi32, #adapt.dims<[S]>>,
           tensor<?x?xi32, #adapt.dims<[S, B]>>, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>)
        -> (tensor<?x64xf32, #hidden>, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>)
    %x2, %kv1_out = adapt.call @layer(%x1, %cosines, %sines, %seq_starts, %kv_lens, %block_table, %kv1) {layer = 1}
        : (tensor<?x64xf32, #hidden>, tensor<?x8xf32, #rope>, tensor<?x8xf32, #rope>,
           tensor<?xi32, #adapt.dims<[S + 1]>>, tensor<?xi32, #adapt.dims<[S]>>,
           tensor<?x?xi32, #adapt.dims<[S, B]>>, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>)
        -> (tensor<?x64xf32, #hidden>, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>)
    %picked = adapt.gather %x2[%logit_rows] : tensor<?x64xf32, #hidden>, tensor<?xi32, #adapt.dims<[L]>> -> tensor<?x64xf32, #adapt.dims<[L, 64]>>
    %norm = adapt.param "norm" : tensor<64xf32> {
      %0 = adapt.source "model.norm.weight" : tensor<64xf32>
      adapt.yield %0 : tensor<64xf32>
    }
    %normed = adapt.rms_norm %picked, %norm epsilon = 1.000000e-06 : tensor<?x64xf32, #adapt.dims<[L, 64]>>, tensor<64xf32>
    %head = adapt.param "head" : tensor<256x64xf32> {
      %0 = adapt.source "model.embed_tokens.weight" : tensor<256x64xf32>
      adapt.yield %0 : tensor<256x64xf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %logits = adapt.matmul %normed, %head : tensor<?x64xf32, #adapt.dims<[L, 64]>>, tensor<256x64xf32> -> tensor<?x256xf32, #adapt.dims<[L, 256]>>
    return %logits, %kv0_out, %kv1_out : tensor<?x256xf32, #adapt.dims<[L, 256]>>,
        !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>
  }

  func.func private @layer(
      %hidden: tensor<?x64xf32, #hidden> {adapt.name = "hidden"},
      %cosines: tensor<?x8xf32, #rope> {adapt.name = "cosines"},
      %sines: tensor<?x8xf32, #rope> {adapt.name = "sines"},
      %seq_starts: tensor<?xi32, #adapt.dims<[S + 1]>> {adapt.name = "seq_starts"},
      %kv_lens: tensor<?xi32, #adapt.dims<[S]>> {adapt.name = "kv_lens"},
      %block_table: tensor<?x?xi32, #adapt.dims<[S, B]>> {adapt.name = "block_table"},
      %kv: !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>> {adapt.name = "kv"})
      -> (tensor<?x64xf32, #hidden> {adapt.name = "hidden"}, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>)
      attributes {adapt.symbols = ["T", "S", "B"], adapt.indices = ["layer"]} {
    %w_in = adapt.param "layers.{layer}.input_norm" : tensor<64xf32> {
      %0 = adapt.source "model.layers.{layer}.input_layernorm.weight" : tensor<64xf32>
      adapt.yield %0 : tensor<64xf32>
    }
    %n1 = adapt.rms_norm %hidden, %w_in epsilon = 1.000000e-06 : tensor<?x64xf32, #hidden>, tensor<64xf32>
    %w_q = adapt.param "layers.{layer}.q" : tensor<64x64xf32> {
      %0 = adapt.source "model.layers.{layer}.self_attn.q_proj.weight" : tensor<64x64xf32>
      adapt.yield %0 : tensor<64x64xf32>
    } {adapt.shard = #adapt.shard<axis = 0, heads = 2, queries = 2>}
    %q2 = adapt.matmul %n1, %w_q : tensor<?x64xf32, #adapt.dims<[T, 64]>>, tensor<64x64xf32> -> tensor<?x64xf32, #adapt.dims<[T, 64]>>
    %q3 = adapt.reshape %q2 : tensor<?x64xf32, #adapt.dims<[T, 64]>> -> tensor<?x4x16xf32, #adapt.dims<[T, 4, 16]>>
    %w_k = adapt.param "layers.{layer}.k" : tensor<32x64xf32> {
      %0 = adapt.source "model.layers.{layer}.self_attn.k_proj.weight" : tensor<32x64xf32>
      adapt.yield %0 : tensor<32x64xf32>
    } {adapt.shard = #adapt.shard<axis = 0, heads = 2>}
    %k2 = adapt.matmul %n1, %w_k : tensor<?x64xf32, #adapt.dims<[T, 64]>>, tensor<32x64xf32> -> tensor<?x32xf32, #adapt.dims<[T, 32]>>
    %k3 = adapt.reshape %k2 : tensor<?x32xf32, #adapt.dims<[T, 32]>> -> tensor<?x2x16xf32, #adapt.dims<[T, 2, 16]>>
    %w_v = adapt.param "layers.{layer}.v" : tensor<32x64xf32> {
      %0 = adapt.source "model.layers.{layer}.self_attn.v_proj.weight" : tensor<32x64xf32>
      adapt.yield %0 : tensor<32x64xf32>
    } {adapt.shard = #adapt.shard<axis = 0, heads = 2>}
    %v2 = adapt.matmul %n1, %w_v : tensor<?x64xf32, #adapt.dims<[T, 64]>>, tensor<32x64xf32> -> tensor<?x32xf32, #adapt.dims<[T, 32]>>
    %v3 = adapt.reshape %v2 : tensor<?x32xf32, #adapt.dims<[T, 32]>> -> tensor<?x2x16xf32, #adapt.dims<[T, 2, 16]>>
    %q4 = adapt.rope %q3, %cosines, %sines : tensor<?x4x16xf32, #adapt.dims<[T, 4, 16]>>, tensor<?x8xf32, #rope>
    %k4 = adapt.rope %k3, %cosines, %sines : tensor<?x2x16xf32, #adapt.dims<[T, 2, 16]>>, tensor<?x8xf32, #rope>
    %a, %kv1 = adapt.paged_attention %q4, %k4, %v3, %kv at %seq_starts, %kv_lens, %block_table scale = 2.500000e-01
        : (tensor<?x4x16xf32, #adapt.dims<[T, 4, 16]>>, tensor<?x2x16xf32, #adapt.dims<[T, 2, 16]>>, tensor<?x2x16xf32, #adapt.dims<[T, 2, 16]>>, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>,
           tensor<?xi32, #adapt.dims<[S + 1]>>, tensor<?xi32, #adapt.dims<[S]>>, tensor<?x?xi32, #adapt.dims<[S, B]>>)
        -> (tensor<?x4x16xf32, #adapt.dims<[T, 4, 16]>>, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>)
    %a2 = adapt.reshape %a : tensor<?x4x16xf32, #adapt.dims<[T, 4, 16]>> -> tensor<?x64xf32, #hidden>
    %w_o = adapt.param "layers.{layer}.o" : tensor<64x64xf32> {
      %0 = adapt.source "model.layers.{layer}.self_attn.o_proj.weight" : tensor<64x64xf32>
      adapt.yield %0 : tensor<64x64xf32>
    } {adapt.shard = #adapt.shard<axis = 1, heads = 2, queries = 2>}
    %o = adapt.matmul %a2, %w_o : tensor<?x64xf32, #adapt.dims<[T, 64]>>, tensor<64x64xf32> -> tensor<?x64xf32, #adapt.dims<[T, 64]>>
    %h1 = adapt.add %hidden, %o : tensor<?x64xf32, #hidden>
    %w_post = adapt.param "layers.{layer}.post_norm" : tensor<64xf32> {
      %0 = adapt.source "model.layers.{layer}.post_attention_layernorm.weight" : tensor<64xf32>
      adapt.yield %0 : tensor<64xf32>
    }
    %n2 = adapt.rms_norm %h1, %w_post epsilon = 1.000000e-06 : tensor<?x64xf32, #hidden>, tensor<64xf32>
    %w_gate = adapt.param "layers.{layer}.gate" : tensor<96x64xf32> {
      %0 = adapt.source "model.layers.{layer}.mlp.gate_proj.weight" : tensor<96x64xf32>
      adapt.yield %0 : tensor<96x64xf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %gate = adapt.matmul %n2, %w_gate : tensor<?x64xf32, #adapt.dims<[T, 64]>>, tensor<96x64xf32> -> tensor<?x96xf32, #adapt.dims<[T, 96]>>
    %w_up = adapt.param "layers.{layer}.up" : tensor<96x64xf32> {
      %0 = adapt.source "model.layers.{layer}.mlp.up_proj.weight" : tensor<96x64xf32>
      adapt.yield %0 : tensor<96x64xf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %up = adapt.matmul %n2, %w_up : tensor<?x64xf32, #adapt.dims<[T, 64]>>, tensor<96x64xf32> -> tensor<?x96xf32, #adapt.dims<[T, 96]>>
    %g = adapt.gated_activation silu %gate, %up : tensor<?x96xf32, #adapt.dims<[T, 96]>>
    %w_down = adapt.param "layers.{layer}.down" : tensor<64x96xf32> {
      %0 = adapt.source "model.layers.{layer}.mlp.down_proj.weight" : tensor<64x96xf32>
      adapt.yield %0 : tensor<64x96xf32>
    } {adapt.shard = #adapt.shard<axis = 1>}
    %d = adapt.matmul %g, %w_down : tensor<?x96xf32, #adapt.dims<[T, 96]>>, tensor<64x96xf32> -> tensor<?x64xf32, #adapt.dims<[T, 64]>>
    %h2 = adapt.add %h1, %d : tensor<?x64xf32, #hidden>
    return %h2, %kv1 : tensor<?x64xf32, #hidden>, !adapt.paged<tensor<2x16xf32>, tensor<2x16xf32>>
  }
}
