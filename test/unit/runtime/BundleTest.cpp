#include "adapt/Bundle.h"

#include "nlohmann/json.hpp"
#include "gtest/gtest.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace adapt::rt;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A bundle whose files hold arbitrary text: Bundle does not look into them.
class BundleTest : public testing::Test {
protected:
  fs::path root = fs::path(testing::TempDir()) / ("adapt_bundle_" + std::to_string(getpid()));
  json manifest;

  void SetUp() override {
    fs::remove_all(root);
    manifest = json::parse(R"json({
      "format": "adaptc-bundle", "format_version": 1,
      "producer": {"version": "0.1.0", "commit": "abc", "llvm": "22.1.8"},
      "name": "Toy",
      "target": {"name": "cpu", "cpu": "x86-64", "features": []},
      "parallel": {"tp": 1, "pp": 1, "dp": 1, "ep": 1},
      "model": {"kind": "language_model", "family": "llama", "dtype": "bfloat16", "vocab_size": 100,
                "max_seq_len": 64, "bos_token_ids": [1], "eos_token_ids": [2, 3]},
      "limits": {"max_num_tokens": 16, "max_batch_size": 4, "max_seq_len": 32, "block_tokens": 16},
      "tokenizer": {"file": "tokenizer/tokenizer.json"},
      "ranks": [{"directory": "rank0", "pp_rank": 0, "tp_rank": 0, "layers": [0, 1],
                 "program": "rank0/program.pb", "weights": "rank0/weights.pb",
                 "kernels": "rank0/kernels.so"}],
      "files": []})json");
    for (const char *name :
         {"rank0/kernels.so", "rank0/program.pb", "rank0/weights-00001.safetensors",
          "rank0/weights.pb", "tokenizer/tokenizer.json"})
      addFile(name, std::string("contents of ") + name);
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string &name, const std::string &text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name, std::ios::binary) << text;
  }
  void addFile(const std::string &name, const std::string &text) {
    write(name, text);
    manifest["files"].push_back({{"path", name}, {"bytes", text.size()}, {"xxh3", xxh3(text)}});
  }
  absl::StatusOr<Bundle> open(bool verify = false) {
    write("manifest.json", manifest.dump());
    Bundle::Options options;
    options.verifyHashes = verify;
    return Bundle::open(root, options);
  }
  void refuse(const std::string &words, bool verify = false) {
    absl::StatusOr<Bundle> bundle = open(verify);
    ASSERT_FALSE(bundle.ok()) << "wanted: " << words;
    EXPECT_NE(bundle.status().message().find(words), absl::string_view::npos)
        << "wanted: " << words << "\ngot: " << bundle.status();
  }
};

TEST(Xxh3, KnownValues) {
  // What xxhsum -H2 prints (xxhash 0.8.1).
  EXPECT_EQ(xxh3(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(xxh3("a"), "a96faf705af16834e6c632b61e964e1f");
}

TEST_F(BundleTest, Opens) {
  absl::StatusOr<Bundle> bundle = open(true);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  const Manifest &found = bundle->manifest();
  EXPECT_EQ(found.name, "Toy");
  EXPECT_EQ(found.vocabSize, 100);
  EXPECT_EQ(found.eosTokenIds, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(found.maxSeqLen, 32);
  EXPECT_EQ(found.blockTokens, 16);
  EXPECT_EQ(found.tokenizer, "tokenizer/tokenizer.json");
  absl::StatusOr<std::string> program = bundle->resolve(found.ranks[0].program);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(*program, bundle->root() + "/rank0/program.pb");
  EXPECT_EQ(*readFile(*program, 100), "contents of rank0/program.pb");
  EXPECT_FALSE(readFile(*program, 10).ok());
  manifest["tokenizer"] = nullptr;
  bundle = open();
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->manifest().tokenizer, "");
}

TEST_F(BundleTest, WhatIsNoBundle) {
  EXPECT_EQ(Bundle::open(root / "absent", {}).status().code(), absl::StatusCode::kNotFound);
  write("manifest.json", "[1, 2]");
  EXPECT_NE(Bundle::open(root, {}).status().message().find("not a JSON object"),
            absl::string_view::npos);
  write("manifest.json", "{\"format\": \"adaptc-bundle\", \"format\": \"x\"}");
  EXPECT_NE(Bundle::open(root, {}).status().message().find("key 'format' appears twice"),
            absl::string_view::npos);
  fs::remove(root / "manifest.json");
  EXPECT_NE(Bundle::open(root, {}).status().message().find("is no bundle"),
            absl::string_view::npos);
}

TEST_F(BundleTest, EveryFieldIsRequired) {
  const json good = manifest, flat = good.flatten();
  std::vector<json::json_pointer> fields;
  for (const auto &[pointer, value] : flat.items()) {
    json::json_pointer field(pointer);
    // Single elements of arrays of plain values may be absent, and the whole tokenizer too.
    std::string last = field.back();
    if (last.find_first_not_of("0123456789") != std::string::npos)
      fields.push_back(field);
  }
  ASSERT_GT(fields.size(), 20u);
  for (const json::json_pointer &field : fields) {
    manifest = good;
    manifest[field.parent_pointer()].erase(field.back());
    refuse(field.back() + " is missing");
    manifest = good;
    manifest[field] = json::object();
    refuse(field.back() + " is not ");
  }
}

TEST_F(BundleTest, ValuesOutOfRange) {
  json good = manifest;
  struct {
    const char *pointer;
    json value;
    const char *words;
  } cases[] = {
      {"/format", "other", "format is 'other'"},
      {"/format_version", 2,
       "bundle format version 2, but this runtime reads version 1: use the adapt-run that came"},
      {"/format_version", 0, "compile the model again"},
      {"/format_version", -1, "format_version is -1"},
      {"/model/vocab_size", 0, "model.vocab_size is 0, must lie in 1 to"},
      {"/model/vocab_size", uint64_t(1) << 63, "model.vocab_size is 9223372036854775808"},
      {"/model/vocab_size", 1.5, "model.vocab_size is not an integer"},
      {"/model/eos_token_ids/0", 100, "model.eos_token_ids[0] is 100, must lie in 0 to 99"},
      {"/model/eos_token_ids/0", "x", "model.eos_token_ids[0] is not an integer"},
      {"/target/features", json::array({1}), "target.features[0] is not a string"},
      {"/limits/block_tokens", 0, "limits.block_tokens is 0"},
      {"/parallel/tp", 2, "1 ranks, but tp * pp is 2"},
      {"/ranks", json::array(), "0 ranks"},
      {"/ranks/0/program", "../program.pb", "is not a path within the bundle"},
      {"/ranks/0/program", "/etc/passwd", "is not a path within the bundle"},
      {"/ranks/0/directory", "rank0/", "is not a path within the bundle"},
      {"/ranks/0/directory", "./rank0", "is not a path within the bundle"},
      {"/ranks/0/kernels", "rank0/other.so", "'rank0/other.so' is not in files"},
      {"/parallel/dp", 2, "parallel.dp is 2, this runtime reads bundles of dp 1"},
      {"/ranks/0/tp_rank", 1, "ranks[0].pp_rank and tp_rank are 0 and 1, must be 0 and 0"},
      {"/ranks/0/pp_rank", -1, "ranks[0].pp_rank is -1, must lie in 0 to"},
      {"/ranks/0/layers", 1, "ranks[0].layers is not an array"},
      {"/ranks/0/layers", json::array({0}), "ranks[0].layers is not [first, last]"},
      {"/ranks/0/layers", json::array({0, "x"}), "ranks[0].layers is not [first, last]"},
      {"/ranks/0/layers", json::array({1, 2}), "layers begin at 1, must begin at 0"},
      {"/ranks/0/layers", json::array({0, -1}), "ranks[0].layers[1] is -1, must lie in 0 to"},
      {"/tokenizer/file", "tokenizer/other.json", "'tokenizer/other.json' is not in files"},
      {"/files/0/path", "a/../../b", "is not a path within the bundle"},
      {"/files/0/bytes", -5, "files[0].bytes is -5"},
      {"/files/0/xxh3", "00", "files[0].xxh3 '00' is not 32 hexadecimal digits"},
      {"/files/1/path", "rank0/kernels.so", "path 'rank0/kernels.so' appears twice"},
  };
  for (const auto &test : cases) {
    manifest = good;
    manifest[json::json_pointer(test.pointer)] = test.value;
    refuse(test.words);
  }
}

TEST_F(BundleTest, RanksAreThoseOfTheMesh) {
  manifest["parallel"]["tp"] = manifest["parallel"]["pp"] = 2;
  json rank = manifest["ranks"][0];
  manifest["ranks"] = json::array();
  for (int r = 0; r < 4; ++r) {
    rank["directory"] = "rank" + std::to_string(r);
    rank["pp_rank"] = r / 2;
    rank["tp_rank"] = r % 2;
    rank["layers"] = {r / 2 * 3, r / 2 * 3 + 2};
    manifest["ranks"].push_back(rank);
  }
  absl::StatusOr<Bundle> bundle = open();
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->manifest().ranks[2].ppRank, 1);
  EXPECT_EQ(bundle->manifest().ranks[3].tpRank, 1);
  EXPECT_EQ(*bundle->manifest().ranks[3].layers, (std::pair<int64_t, int64_t>(3, 5)));
  const json good = manifest;
  struct {
    const char *pointer;
    json value;
    const char *words;
  } cases[] = {
      {"/ranks/2/tp_rank", 1, "ranks[2].pp_rank and tp_rank are 1 and 1, must be 1 and 0"},
      {"/ranks/2/directory", "rank1", "ranks[2].directory 'rank1' is another rank's too"},
      {"/ranks/3/program", "rank0/weights.pb",
       "ranks[3].program 'rank0/weights.pb' is not its stage's 'rank0/program.pb'"},
      {"/ranks/1/layers", json::array({0, 1}), "ranks[1].layers are not those of its stage"},
      {"/parallel/pp", 1 << 20, "4 ranks, but tp * pp is 2097152"},
  };
  for (const auto &test : cases) {
    manifest = good;
    manifest[json::json_pointer(test.pointer)] = test.value;
    refuse(test.words);
  }
  manifest = good;
  for (int r : {2, 3})
    manifest["ranks"][r]["layers"] = {4, 5};
  refuse("ranks[2].layers begin at 4, must begin at 3");
  for (int r : {2, 3})
    manifest["ranks"][r].erase("layers");
  refuse("ranks[2].layers are missing, unlike rank 0's");
  for (int r : {0, 1})
    manifest["ranks"][r].erase("layers");
  EXPECT_TRUE(open().ok()) << open().status();
}

TEST_F(BundleTest, AllProblemsAtOnce) {
  manifest["model"].erase("vocab_size");
  manifest["limits"]["max_seq_len"] = "many";
  manifest.erase("name");
  refuse("name is missing\n  model.vocab_size is missing");
  refuse("limits.max_seq_len is not an integer");
}

TEST_F(BundleTest, ChangedFiles) {
  write("rank0/program.pb", "contents of rank0/program.pX");
  refuse("rank0/program.pb: its hash is ");
  write("rank0/program.pb", "contents of rank0/program.pb");
  // A weight file's hash is only looked at on demand, its size always.
  write("rank0/weights-00001.safetensors", "contents of rank0/weights-00001.safetensorX");
  EXPECT_TRUE(open(false).ok());
  refuse("rank0/weights-00001.safetensors: its hash is ", true);
  write("rank0/weights-00001.safetensors", "short");
  refuse("rank0/weights-00001.safetensors: 5 bytes, the manifest says 43");
  fs::remove(root / "rank0/kernels.so");
  refuse("rank0/kernels.so: No such file");
  fs::create_directory(root / "rank0/kernels.so");
  refuse("rank0/kernels.so: not a regular file");
}

TEST_F(BundleTest, LinksOutAreRefused) {
  fs::path outside = root.string() + "_outside";
  std::ofstream(outside) << "contents of rank0/kernels.so";
  fs::remove(root / "rank0/kernels.so");
  fs::create_symlink(outside, root / "rank0/kernels.so");
  refuse("leads out of the bundle");
  fs::remove(outside);
  // A link within the bundle is fine.
  fs::remove(root / "rank0/kernels.so");
  write("rank0/real.so", "contents of rank0/kernels.so");
  fs::create_symlink("real.so", root / "rank0/kernels.so");
  EXPECT_TRUE(open().ok()) << open().status();
}

TEST_F(BundleTest, CpuFeaturesAreChecked) {
  manifest["target"]["features"] = {"sse9"};
  refuse("the bundle's kernels need sse9, which this CPU lacks: compile ");
  Bundle::Options options;
  options.checkCpu = false;
  EXPECT_TRUE(Bundle::open(root, options).ok());
}

} // namespace
