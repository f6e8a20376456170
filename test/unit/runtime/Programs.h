// Programs for the tests, written as Protobuf text.
#pragma once
#include "adapt/Program.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace adapt::rt::test {

inline schema::Program parseText(const std::string &text) {
  schema::Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &program));
  return program;
}

/// The toy language model of Kernels.c: two layers, vocabulary of 8, blocks of 4 tokens.
/// maxT, maxS and maxL bound its symbols; tables are up to 8 blocks wide.
inline schema::Program toyModel(int maxT = 16, int maxS = 4, int maxL = 16) {
  std::string text = R"pb(
    version: 1
    symbols { name: "T" min: 1 max: $T }
    symbols { name: "S" min: 1 max: $S }
    symbols { name: "B" min: 1 max: 8 }
    symbols { name: "L" min: 0 max: $L }
    kernels { name: "embed" sizes: "t"
              variants { symbol: "embed" grid { symbol: "t" } } }
    kernels { name: "append" sizes: "t" sizes: "s" sizes: "b"
              variants { symbol: "append" grid { symbol: "t" } } }
    kernels { name: "attend" sizes: "t" sizes: "s" sizes: "b"
              variants { symbol: "attend" grid { symbol: "t" } scratch_bytes: 64 } }
    kernels { name: "head" sizes: "l" sizes: "v"
              variants { symbol: "head_one" guards { size: "l" min: 1 max: 1 }
                         grid { symbol: "v" } }
              variants { symbol: "head" grid { symbol: "l" }
                         grid { binary { kind: CEILDIV lhs { symbol: "v" } rhs { constant: 2 } } } } }
    states { name: "kv.0" element: F32 bytes_per_block: 64 }
    states { name: "kv.1" element: F32 bytes_per_block: 64 }
    functions {
      name: "main" num_arguments: 7 arena_bytes: 8192
      buffers { name: "token_ids" element: I32 shape { symbol: "T" } bytes: 4096 argument: 0 }
      buffers { name: "positions" element: I32 shape { symbol: "T" } bytes: 4096 argument: 1 }
      buffers { name: "seq_starts" element: I32 bytes: 4096 argument: 2
                shape { binary { kind: ADD lhs { symbol: "S" } rhs { constant: 1 } } } }
      buffers { name: "kv_lens" element: I32 shape { symbol: "S" } bytes: 4096 argument: 3 }
      buffers { name: "block_table" element: I32 shape { symbol: "S" } shape { symbol: "B" }
                bytes: 4096 argument: 4 }
      buffers { name: "logit_rows" element: I32 shape { symbol: "L" } bytes: 4096 argument: 5 }
      buffers { name: "logits" element: F32 shape { symbol: "L" } shape { constant: 8 }
                bytes: 8192 argument: 6 }
      buffers { name: "x" element: F32 shape { symbol: "T" } bytes: 4096 arena_offset: 0 }
      buffers { name: "head" element: F32 shape { constant: 8 } param: "head" }
      buffers { name: "kv.0" element: F32 state: 0 }
      buffers { name: "kv.1" element: F32 state: 1 }
      steps { launch { kernel: 0 buffers: [0, 7] sizes { symbol: "T" } } }
      steps { call { function: 1 bindings { key: "layer" value: 0 }
                     arguments: [7, 1, 2, 4, 9] arena_offset: 4096 } }
      steps { call { function: 1 bindings { key: "layer" value: 1 }
                     arguments: [7, 1, 2, 4, 10] arena_offset: 4096 } }
      steps { launch { kernel: 3 buffers: [7, 5, 8, 6] sizes { symbol: "L" } sizes { constant: 8 } } }
    }
    functions {
      name: "layer" indices: "layer" num_arguments: 5 arena_bytes: 4096
      buffers { name: "x" element: F32 shape { symbol: "T" } bytes: 4096 argument: 0 }
      buffers { name: "positions" element: I32 shape { symbol: "T" } bytes: 4096 argument: 1 }
      buffers { name: "seq_starts" element: I32 bytes: 4096 argument: 2 }
      buffers { name: "block_table" element: I32 bytes: 4096 argument: 3 }
      buffers { name: "kv" element: F32 argument: 4 }
      buffers { name: "scale" element: F32 shape { constant: 1 } param: "layers.{layer}.scale" }
      buffers { name: "y" element: F32 shape { symbol: "T" } bytes: 4096 arena_offset: 0 }
      steps { launch { kernel: 1 buffers: [0, 1, 2, 3, 4]
                       sizes { symbol: "T" } sizes { symbol: "S" } sizes { symbol: "B" } } }
      steps { launch { kernel: 2 buffers: [1, 2, 3, 4, 5, 6]
                       sizes { symbol: "T" } sizes { symbol: "S" } sizes { symbol: "B" } } }
      steps { copy { from: 6 to: 0 bytes { binary { kind: MUL lhs { symbol: "T" }
                                                    rhs { constant: 4 } } } } }
    }
    entries {
      name: "main" kind: "language_model" function: 0 block_tokens: 4
      inputs { name: "token_ids" buffer: 0 } inputs { name: "positions" buffer: 1 }
      inputs { name: "seq_starts" buffer: 2 } inputs { name: "kv_lens" buffer: 3 }
      inputs { name: "block_table" buffer: 4 } inputs { name: "logit_rows" buffer: 5 }
      outputs { name: "logits" buffer: 6 }
    }
    arena_bytes: 8192)pb";
  for (const auto &[name, value] : {std::pair("$T", maxT), {"$S", maxS}, {"$L", maxL}})
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, 2, std::to_string(value));
  return parseText(text);
}

/// A toy model whose layers end with a collective of their `y` into their `x`, then send it.
inline schema::Program exchangingModel() {
  schema::Program program = toyModel();
  schema::Symbol &rank = *program.add_symbols();
  rank.set_name("tp_rank");
  rank.set_max(1);
  schema::Function &layer = *program.mutable_functions(1);
  schema::Step::Collective &collective = *layer.add_steps()->mutable_collective();
  collective.set_axis("tp");
  collective.set_from(6);
  collective.set_to(0);
  collective.mutable_outer()->set_symbol("T");
  collective.mutable_inner()->set_constant(32); // 16 * 32 * 4 of 4096 bytes
  schema::Step::Transfer &transfer = *layer.add_steps()->mutable_transfer();
  transfer.set_buffer(0);
  transfer.mutable_bytes()->set_constant(4096);
  transfer.set_peer_stage(1);
  transfer.set_tag(16383);
  return program;
}

} // namespace adapt::rt::test
