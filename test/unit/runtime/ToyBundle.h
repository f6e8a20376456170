// A whole bundle of the toy model of Kernels.c, written to a folder.
#pragma once
#include "Programs.h"
#include "adapt/Bundle.h"
#include "weights/WeightWriter.h"

#include "nlohmann/json.hpp"

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace adapt::rt::test {

class ToyBundle {
public:
  /// For target cpu; or for cuda or hip, with kernels for the simulated GPU, and the same in place
  /// of the real one's, since fake drivers run those.
  explicit ToyBundle(const std::string &name, const std::string &target = "cpu")
      : root(std::filesystem::path(testing::TempDir()) /
             ("adapt_" + name + "_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root / "rank0");
    writeWeights();
    schema::Program program = toyModel(16, 4, 16);
    std::string simKernels =
        target == "hip" ? ADAPT_TEST_TOY_KERNELS_64 : ADAPT_TEST_TOY_KERNELS_32;
    if (target == "cpu") {
      std::filesystem::copy(ADAPT_TEST_KERNELS, root / "rank0/kernels.so");
    } else {
      std::filesystem::copy(simKernels, root / "rank0/kernels.gpu");
      std::filesystem::copy(simKernels, root / "rank0/kernels.sim.so");
      for (schema::Kernel &kernel : *program.mutable_kernels())
        for (schema::Kernel::Variant &variant : *kernel.mutable_variants()) {
          variant.set_threads(64);
          variant.clear_scratch_bytes();
        }
    }
    write("rank0/program.pb", program.SerializeAsString());
    write("rank0/weights.pb", table.SerializeAsString());
    manifest = nlohmann::json::parse(R"json({
      "format": "adaptc-bundle", "format_version": 1,
      "producer": {"version": "0.1.0", "commit": "abc", "llvm": "22.1.8"},
      "name": "Toy",
      "target": {"name": "cpu", "cpu": "x86-64", "features": []},
      "parallel": {"tp": 1, "pp": 1, "dp": 1, "ep": 1},
      "model": {"kind": "language_model", "family": "toy", "dtype": "float32", "vocab_size": 8,
                "max_seq_len": 30, "bos_token_ids": [], "eos_token_ids": []},
      "limits": {"max_num_tokens": 16, "max_batch_size": 4, "max_seq_len": 30, "block_tokens": 4},
      "ranks": [{"directory": "rank0", "pp_rank": 0, "tp_rank": 0, "layers": [0, 1],
                 "program": "rank0/program.pb", "weights": "rank0/weights.pb",
                 "kernels": "rank0/kernels.so"}]})json");
    if (target != "cpu") {
      manifest["target"] = {{"name", target}, {"arch", target == "hip" ? "gfx942" : "sm_90"}};
      manifest["ranks"][0]["kernels"] = "rank0/kernels.gpu";
      manifest["ranks"][0]["sim"] = "rank0/kernels.sim.so";
    }
    writeManifest();
  }
  ~ToyBundle() { std::filesystem::remove_all(root); }

  void write(const std::string &name, const std::string &text) {
    std::ofstream(root / name, std::ios::binary) << text;
  }

  /// With the sizes and hashes of the files as they are now.
  void writeManifest() {
    manifest["files"] = nlohmann::json::array();
    for (const auto &entry : std::filesystem::directory_iterator(root / "rank0")) {
      std::string text = *readFile(entry.path(), uint64_t(1) << 30);
      manifest["files"].push_back({{"path", "rank0/" + entry.path().filename().string()},
                                   {"bytes", text.size()},
                                   {"xxh3", xxh3(text)}});
    }
    write("manifest.json", manifest.dump());
  }

  /// Logits of every position of a sequence, by the formula stated in Kernels.c. Exact in f32 for
  /// small sequences.
  static std::vector<std::vector<float>> reference(const std::vector<int32_t> &tokens) {
    std::vector<float> x(tokens.begin(), tokens.end());
    for (float scale : {kScale0, kScale1}) {
      float sum = 0;
      for (size_t t = 0; t < x.size(); ++t) {
        sum += static_cast<float>(t + 1) * x[t];
        x[t] = scale * sum;
      }
    }
    std::vector<std::vector<float>> rows;
    for (float value : x) {
      rows.emplace_back();
      for (int v = 0; v < 8; ++v)
        rows.back().push_back(value * kHead[v] + static_cast<float>(v));
    }
    return rows;
  }

  static constexpr float kScale0 = 0.5f, kScale1 = 0.25f;
  static constexpr float kHead[8] = {1, -1, 0.5f, 2, 0, 3, -0.25f, 8};

  std::filesystem::path root;
  nlohmann::json manifest;
  schema::WeightTable table;

private:
  void addParam(const std::string &name, int64_t size, bool perLayer) {
    schema::WeightTable::Param &param = *table.add_params();
    param.set_name(name);
    param.mutable_type()->set_element(schema::F32);
    param.mutable_type()->add_shape(size);
    param.set_bytes(size * sizeof(float));
    schema::RecipeNode &node = *param.mutable_recipe()->add_nodes();
    *node.mutable_type() = param.type();
    node.mutable_source()->set_name(name);
    if (perLayer) {
      schema::WeightTable::Range &range = *param.add_indices();
      range.set_index("layer");
      range.add_values(0);
      range.add_values(1);
    }
  }

  void writeWeights() {
    addParam("layers.{layer}.scale", 1, true);
    addParam("head", 8, false);
    std::vector<weights::WeightItem> items = {{"layers.0.scale", table.params(0).type(), 0},
                                              {"layers.1.scale", table.params(0).type(), 1},
                                              {"head", table.params(1).type(), std::nullopt}};
    absl::StatusOr<weights::WeightWriter> writer = weights::WeightWriter::plan(items);
    ASSERT_TRUE(writer.ok()) << writer.status();
    absl::Status status =
        writer->write(root / "rank0", [&](size_t item, const weights::Evaluation::Sink &sink) {
          const float *data = item == 0 ? &kScale0 : item == 1 ? &kScale1 : kHead;
          return sink(absl::MakeConstSpan(reinterpret_cast<const std::byte *>(data),
                                          (item == 2 ? 8 : 1) * sizeof(float)));
        });
    ASSERT_TRUE(status.ok()) << status;
    writer->describe(table);
  }
};

} // namespace adapt::rt::test
