// The toy model of Kernels.c for a mesh of ranks, as a bundle. Along tp each layer's scale is a sum
// (so that the layer ends in an all-reduce) and the vocabulary is split (so that the logits are
// gathered); along pp the two layers are two stages.
#pragma once
#include "Programs.h"
#include "ToyBundle.h"

#include "absl/strings/str_replace.h"

namespace adapt::rt::test {

class ToyRanks {
public:
  /// pp is 1 or 2, tp is 1, 2 or 4.
  ToyRanks(const std::string &name, int pp, int tp)
      : root(std::filesystem::path(testing::TempDir()) /
             ("adapt_" + name + "_" + std::to_string(getpid()))),
        pp(pp), tp(tp) {
    std::filesystem::remove_all(root);
    manifest = nlohmann::json::parse(R"json({
      "format": "adaptc-bundle", "format_version": 1,
      "producer": {"version": "0.1.0", "commit": "abc", "llvm": "22.1.8"},
      "name": "Toy", "target": {"name": "cpu", "cpu": "x86-64", "features": []},
      "model": {"kind": "language_model", "family": "toy", "dtype": "float32", "vocab_size": 8,
                "max_seq_len": 30, "bos_token_ids": [], "eos_token_ids": []},
      "limits": {"max_num_tokens": 16, "max_batch_size": 4, "max_seq_len": 30, "block_tokens": 4}
      })json");
    manifest["parallel"] = {{"tp", tp}, {"pp", pp}, {"dp", 1}, {"ep", 1}};
    for (int rank = 0; rank < pp * tp; ++rank) {
      int stage = rank / tp;
      std::string folder = "rank" + std::to_string(rank);
      std::string first = "rank" + std::to_string(stage * tp);
      std::filesystem::create_directories(root / folder);
      if (rank % tp == 0)
        write(folder + "/program.pb", program(stage).SerializeAsString());
      writeWeights(rank);
      manifest["ranks"].push_back({{"directory", folder},
                                   {"pp_rank", stage},
                                   {"tp_rank", rank % tp},
                                   {"layers", {firstLayer(stage), lastLayer(stage)}},
                                   {"program", first + "/program.pb"},
                                   {"weights", folder + "/weights.pb"},
                                   {"kernels", "rank0/kernels.so"}});
    }
    std::filesystem::copy(ADAPT_TEST_KERNELS, root / "rank0/kernels.so");
    writeManifest();
  }
  ~ToyRanks() { std::filesystem::remove_all(root); }

  void write(const std::string &name, const std::string &text) {
    std::ofstream(root / name, std::ios::binary) << text;
  }

  void writeManifest() {
    manifest["files"] = nlohmann::json::array();
    for (const auto &entry : std::filesystem::recursive_directory_iterator(root)) {
      if (!entry.is_regular_file() || entry.path().filename() == "manifest.json")
        continue;
      std::string text = *readFile(entry.path(), uint64_t(1) << 30);
      manifest["files"].push_back({{"path", std::filesystem::relative(entry.path(), root).string()},
                                   {"bytes", text.size()},
                                   {"xxh3", xxh3(text)}});
    }
    write("manifest.json", manifest.dump());
  }

  int firstLayer(int stage) const { return stage * (2 / pp); }
  int lastLayer(int stage) const { return firstLayer(stage) + 2 / pp - 1; }

  schema::Program program(int stage) const {
    bool isFirst = stage == 0, isLast = stage + 1 == pp;
    std::string text = R"pb(
      version: 1
      symbols { name: "T" min: 1 max: 16 }
      symbols { name: "S" min: 1 max: 4 }
      symbols { name: "B" min: 1 max: 8 }
      symbols { name: "L" min: 0 max: 16 }
      symbols { name: "tp_rank" min: 0 max: $LAST_TP }
      kernels { name: "embed" sizes: "t" variants { symbol: "embed" grid { symbol: "t" } } }
      kernels { name: "append" sizes: "t" sizes: "s" sizes: "b"
                variants { symbol: "append" grid { symbol: "t" } } }
      kernels { name: "attend" sizes: "t" sizes: "s" sizes: "b"
                variants { symbol: "attend" grid { symbol: "t" } scratch_bytes: 64 } }
      kernels { name: "head" sizes: "l" sizes: "v" sizes: "first"
                variants { symbol: "head_part" grid { symbol: "l" } } }
      functions {
        name: "main" num_arguments: $ARGUMENTS arena_bytes: 16384
        buffers { name: "x" element: F32 shape { symbol: "T" } bytes: 4096 arena_offset: 0 }
        buffers { name: "positions" element: I32 shape { symbol: "T" } bytes: 4096 argument: 0 }
        buffers { name: "seq_starts" element: I32 bytes: 4096 argument: 1
                  shape { binary { kind: ADD lhs { symbol: "S" } rhs { constant: 1 } } } }
        buffers { name: "kv_lens" element: I32 shape { symbol: "S" } bytes: 4096 argument: 2 }
        buffers { name: "block_table" element: I32 shape { symbol: "S" } shape { symbol: "B" }
                  bytes: 4096 argument: 3 }
        buffers { name: "logit_rows" element: I32 shape { symbol: "L" } bytes: 4096 argument: 4 }
        buffers { name: "part" element: F32 shape { symbol: "L" } shape { constant: $PART }
                  bytes: 8192 arena_offset: 8192 }
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
        steps { collective { kind: ALL_REDUCE axis: "tp" from: 6 to: 0
                             outer { symbol: "T" } inner { constant: 1 } } }
      }
      entries {
        name: "main" kind: "language_model" function: 0 block_tokens: 4
        inputs { name: "positions" buffer: 1 } inputs { name: "seq_starts" buffer: 2 }
        inputs { name: "kv_lens" buffer: 3 } inputs { name: "block_table" buffer: 4 }
        inputs { name: "logit_rows" buffer: 5 }
      }
      arena_bytes: 16384)pb";
    schema::Program result =
        parseText(absl::StrReplaceAll(text, {{"$LAST_TP", std::to_string(tp - 1)},
                                             {"$ARGUMENTS", std::to_string(5 + isFirst + isLast)},
                                             {"$PART", std::to_string(8 / tp)}}));
    schema::Function &main = *result.mutable_functions(0);
    auto addBuffer = [&](const std::string &buffer) {
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(buffer, main.add_buffers()));
      return main.buffers_size() - 1;
    };
    auto addStep = [&](const std::string &step) {
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(step, main.add_steps()));
    };
    auto addPort = [](schema::EntryPoint::Port &port, const char *name, int buffer) {
      port.set_name(name);
      port.set_buffer(buffer);
    };
    schema::EntryPoint &entry = *result.mutable_entries(0);
    const char *transfer = R"pb(transfer { direction: $DIRECTION buffer: 0 peer_stage: $PEER tag: 7
                                bytes { binary { kind: MUL lhs { symbol: "T" }
                                                 rhs { constant: 4 } } } })pb";
    if (isFirst) {
      int ids = addBuffer(
          R"pb(name: "token_ids" element: I32 shape { symbol: "T" } bytes: 4096 argument: 5)pb");
      addPort(*entry.add_inputs(), "token_ids", ids);
      addStep(absl::StrReplaceAll(
          R"pb(launch { kernel: 0 buffers: [$IDS, 0] sizes { symbol: "T" } })pb",
          {{"$IDS", std::to_string(ids)}}));
    } else {
      addStep(absl::StrReplaceAll(
          transfer, {{"$DIRECTION", "RECEIVE"}, {"$PEER", std::to_string(stage - 1)}}));
    }
    for (int layer = firstLayer(stage); layer <= lastLayer(stage); ++layer) {
      schema::State &state = *result.add_states();
      state.set_name("kv." + std::to_string(layer));
      state.set_element(schema::F32);
      state.set_bytes_per_block(64);
      int plane =
          addBuffer(absl::StrReplaceAll(R"pb(name: "kv" element: F32 state: $STATE)pb",
                                        {{"$STATE", std::to_string(result.states_size() - 1)}}));
      addStep(absl::StrReplaceAll(
          R"pb(call { function: 1 bindings { key: "layer" value: $LAYER }
                      arguments: [0, 1, 2, 4, $KV] arena_offset: 4096 })pb",
          {{"$LAYER", std::to_string(layer)}, {"$KV", std::to_string(plane)}}));
    }
    if (isLast) {
      int logits = addBuffer(absl::StrReplaceAll(
          R"pb(name: "logits" element: F32 shape { symbol: "L" } shape { constant: 8 }
               bytes: 8192 argument: $ARGUMENT)pb",
          {{"$ARGUMENT", std::to_string(5 + isFirst)}}));
      int head = addBuffer(absl::StrReplaceAll(
          R"pb(name: "head" element: F32 shape { constant: $PART } param: "head")pb",
          {{"$PART", std::to_string(8 / tp)}}));
      addPort(*entry.add_outputs(), "logits", logits);
      addStep(absl::StrReplaceAll(
          R"pb(launch { kernel: 3 buffers: [0, 5, $HEAD, 6]
                        sizes { symbol: "L" } sizes { constant: $PART }
                        sizes { binary { kind: MUL lhs { symbol: "tp_rank" }
                                         rhs { constant: $PART } } } })pb",
          {{"$HEAD", std::to_string(head)}, {"$PART", std::to_string(8 / tp)}}));
      addStep(absl::StrReplaceAll(
          R"pb(collective { kind: ALL_GATHER axis: "tp" from: 6 to: $LOGITS
                            outer { symbol: "L" } inner { constant: $PART } })pb",
          {{"$LOGITS", std::to_string(logits)}, {"$PART", std::to_string(8 / tp)}}));
    } else {
      addStep(absl::StrReplaceAll(transfer,
                                  {{"$DIRECTION", "SEND"}, {"$PEER", std::to_string(stage + 1)}}));
    }
    return result;
  }

  std::filesystem::path root;
  nlohmann::json manifest;
  int pp, tp;

private:
  /// Parts that add up to 1 exactly.
  float fraction(int tpRank) const {
    static constexpr float kOfTwo[] = {0.75f, 0.25f}, kOfFour[] = {0.5f, 0.25f, 0.125f, 0.125f};
    return tp == 1 ? 1.0f : tp == 2 ? kOfTwo[tpRank] : kOfFour[tpRank];
  }

  void writeWeights(int rank) {
    int stage = rank / tp, tpRank = rank % tp, part = 8 / tp;
    schema::WeightTable table;
    std::vector<weights::WeightItem> items;
    std::vector<std::vector<float>> values;
    auto add = [&](const std::string &name, std::vector<float> data) {
      schema::WeightTable::Param &param = *table.add_params();
      param.set_name(name);
      param.mutable_type()->set_element(schema::F32);
      param.mutable_type()->add_shape(static_cast<int64_t>(data.size()));
      param.set_bytes(data.size() * sizeof(float));
      schema::RecipeNode &node = *param.mutable_recipe()->add_nodes();
      *node.mutable_type() = param.type();
      node.mutable_source()->set_name(name);
      items.push_back({name, param.type(), std::nullopt});
      values.push_back(std::move(data));
    };
    for (int layer = firstLayer(stage); layer <= lastLayer(stage); ++layer)
      add("layers." + std::to_string(layer) + ".scale",
          {(layer == 0 ? ToyBundle::kScale0 : ToyBundle::kScale1) * fraction(tpRank)});
    if (stage + 1 == pp)
      add("head", {ToyBundle::kHead + tpRank * part, ToyBundle::kHead + (tpRank + 1) * part});
    std::string folder = "rank" + std::to_string(rank);
    absl::StatusOr<weights::WeightWriter> writer = weights::WeightWriter::plan(items);
    ASSERT_TRUE(writer.ok()) << writer.status();
    absl::Status status =
        writer->write(root / folder, [&](size_t item, const weights::Evaluation::Sink &sink) {
          return sink(absl::MakeConstSpan(reinterpret_cast<const std::byte *>(values[item].data()),
                                          values[item].size() * sizeof(float)));
        });
    ASSERT_TRUE(status.ok()) << status;
    writer->describe(table);
    write(folder + "/weights.pb", table.SerializeAsString());
  }
};

} // namespace adapt::rt::test
