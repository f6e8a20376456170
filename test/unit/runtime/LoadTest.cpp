// From a bundle on disk to logits: in process, and by adapt-run.
#include "ToyBundle.h"
#include "adapt/Generate.h"
#include "adapt/LanguageModel.h"
#include "adapt/Npy.h"

#include "gtest/gtest.h"

#include <cstdio>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

absl::StatusOr<std::unique_ptr<LanguageModel>> load(const ToyBundle &toy,
                                                    const Bundle::Options &options = {}) {
  absl::StatusOr<Bundle> bundle = Bundle::open(toy.root, options);
  if (!bundle.ok())
    return bundle.status();
  auto device = createCpuDevice({2, true, false});
  if (!device.ok())
    return device.status();
  return LanguageModel::load(*bundle, *std::move(device), {});
}

TEST(Load, BundleToLogits) {
  ToyBundle toy("load");
  Bundle::Options options;
  options.verifyHashes = true;
  auto model = load(toy, options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->vocabSize(), 8);
  EXPECT_EQ((*model)->maxSeqLen(), 30);
  std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 2, 6};
  std::vector<std::vector<float>> rows;
  absl::Status status =
      (*model)->step({{(*model)->addSequence(), tokens, LanguageModel::Logits::kAll}},
                     [&](size_t, int64_t, absl::Span<const float> row) {
                       rows.emplace_back(row.begin(), row.end());
                       return absl::OkStatus();
                     });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(rows, ToyBundle::reference(tokens));
}

TEST(Load, GeneratesGreedilyToTheContextsEnd) {
  ToyBundle toy("generate");
  auto model = load(toy);
  ASSERT_TRUE(model.ok()) << model.status();
  GenerationRequest request;
  request.prompt = {3, 1, 4};
  std::vector<int32_t> seen;
  auto collect = [&](int32_t id) {
    seen.push_back(id);
    return absl::OkStatus();
  };
  absl::StatusOr<GenerationResult> result = generate(**model, request, collect);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->tokens, seen);
  EXPECT_EQ(result->tokens.size(), 27u); // 30 in the context
  EXPECT_EQ(result->reason, FinishReason::kLength);
  // Every token is the largest of its logits, by the formula.
  std::vector<int32_t> all = request.prompt;
  for (int32_t token : seen) {
    std::vector<float> row = ToyBundle::reference(all).back();
    EXPECT_EQ(token, std::max_element(row.begin(), row.end()) - row.begin());
    all.push_back(token);
  }
  EXPECT_EQ((*model)->cache().blocks().numFree(), (*model)->cache().blocks().numBlocks());

  request.maxTokens = 5;
  request.endIds = {seen[2]};
  seen.clear();
  result = generate(**model, request, collect);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->reason, FinishReason::kStop);
  EXPECT_EQ(result->tokens.back(), request.endIds[0]);

  result = generate(**model, request, [](int32_t) { return absl::CancelledError("enough"); });
  EXPECT_EQ(result.status().message(), "enough");
  EXPECT_EQ((*model)->cache().blocks().numFree(), (*model)->cache().blocks().numBlocks());
}

TEST(Load, WhatDoesNotFitTheDevice) {
  ToyBundle toy("fit");
  toy.manifest["target"] = {{"name", "cuda"}, {"arch", "sm_90"}};
  toy.writeManifest();
  EXPECT_NE(load(toy).status().message().find(
                "compiled for target 'cuda', the device is 'cpu': compile with --target=cpu"),
            absl::string_view::npos)
      << load(toy).status();
  toy.manifest["target"] = {{"name", "cpu"}, {"cpu", "x86-64"}, {"features", {"avx2"}}};
  toy.manifest["parallel"]["tp"] = 2;
  toy.manifest["ranks"].push_back(toy.manifest["ranks"][0]);
  toy.manifest["ranks"][1]["directory"] = "rank1";
  toy.manifest["ranks"][1]["tp_rank"] = 1;
  toy.writeManifest();
  EXPECT_NE(load(toy).status().message().find("2 ranks"), absl::string_view::npos)
      << load(toy).status();
}

TEST(Load, PartsThatDoNotFitEachOther) {
  {
    ToyBundle toy("program");
    toy.write("rank0/program.pb", "no program");
    toy.writeManifest();
    EXPECT_NE(
        load(toy).status().message().find("program.pb: program: 10 bytes that are no message"),
        absl::string_view::npos)
        << load(toy).status();
  }
  {
    ToyBundle toy("params");
    schema::Program program = toyModel();
    program.mutable_functions(0)->mutable_buffers(8)->set_param("tail");
    toy.write("rank0/program.pb", program.SerializeAsString());
    toy.writeManifest();
    EXPECT_NE(load(toy).status().message().find("the weight table has no parameter 'tail'"),
              absl::string_view::npos)
        << load(toy).status();
  }
  {
    ToyBundle toy("kernels");
    toy.write("rank0/kernels.so", "no shared object");
    toy.writeManifest();
    EXPECT_NE(load(toy).status().message().find("kernels.so"), absl::string_view::npos)
        << load(toy).status();
  }
}

#ifdef ADAPT_RUN
/// Runs adapt-run; its exit code and all it wrote.
std::pair<int, std::string> adaptRun(const std::string &arguments) {
  std::string command = std::string(ADAPT_RUN) + " " + arguments + " 2>&1", output;
  FILE *pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (size_t got = fread(buffer, 1, sizeof(buffer), pipe))
    output.append(buffer, got);
  int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

void saveIds(const std::string &path, std::vector<int64_t> shape, std::vector<int64_t> ids) {
  absl::StatusOr<NpyWriter> writer = NpyWriter::create(path, "<i8", shape);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->write(0, ids.data(), ids.size()).ok());
  ASSERT_TRUE(writer->finish().ok());
}

/// The f32 values of an .npy file whose header is `header` bytes long in all.
std::vector<float> loadFloats(const std::string &path) {
  std::string bytes = *readFile(path, 1 << 20);
  size_t header =
      10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  std::vector<float> values((bytes.size() - header) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(float));
  return values;
}

class AdaptRun : public testing::Test {
protected:
  ToyBundle toy{"cli"};
  std::string ids = toy.root / "ids.npy", logits = toy.root / "logits.npy",
              output = toy.root / "output.npy";
};

TEST_F(AdaptRun, LogitsOfRaggedBatchesInChunks) {
  const std::vector<std::vector<int32_t>> rows = {{3, 1, 4, 1, 5}, {2}, {7, 1, 0}};
  saveIds(ids, {3, 5}, {3, 1, 4, 1, 5, 2, 99, 99, 99, 99, 7, 1, 0, -1, -1});
  std::vector<float> wanted(3 * 5 * 8, 0.0f);
  for (size_t row = 0; row < rows.size(); ++row) {
    std::vector<std::vector<float>> all = ToyBundle::reference(rows[row]);
    for (size_t t = 0; t < all.size(); ++t)
      std::copy(all[t].begin(), all[t].end(), wanted.begin() + (row * 5 + t) * 8);
  }
  for (const char *more : {"", "--chunk 1", "--chunk 2", "--chunk 100", "--threads 1",
                           "--threads 3", "--poison", "--verify-hashes"}) {
    auto [code, text] = adaptRun(toy.root.string() + " --lengths 5,1,3 --tokens " + ids +
                                 " --logits " + logits + " " + more);
    EXPECT_EQ(code, 0) << text;
    EXPECT_EQ(loadFloats(logits), wanted) << more;
  }
}

TEST(AdaptRunSim, LogitsInEveryOrderOfLanes) {
  for (const char *target : {"cuda", "hip"}) {
    ToyBundle toy(absl::StrCat("cli_", target), target);
    std::string ids = toy.root / "ids.npy", logits = toy.root / "logits.npy";
    saveIds(ids, {1, 4}, {3, 1, 4, 1});
    std::vector<float> wanted;
    for (const std::vector<float> &row : ToyBundle::reference({3, 1, 4, 1}))
      wanted.insert(wanted.end(), row.begin(), row.end());
    for (const char *more : {"", "--lane-order=reverse", "--lane-order=permuted:5 --threads=3",
                             "--chunk=1 --poison"}) {
      auto [code, text] = adaptRun(toy.root.string() + " --device=sim --tokens " + ids +
                                   " --logits " + logits + " " + more);
      ASSERT_EQ(code, 0) << text;
      EXPECT_EQ(loadFloats(logits), wanted) << target << " " << more;
    }
    auto [code, text] =
        adaptRun(toy.root.string() + " --device=sim --bench --bench-prompt=4 "
                                     "--bench-context=4 --bench-decode=2 --bench-repetitions=1");
    EXPECT_EQ(code, 0) << text;
    EXPECT_NE(text.find(absl::StrCat("Toy, sim-", target, ", ")), std::string::npos) << text;
    EXPECT_EQ(text.find("plain read"), std::string::npos) << text;
  }
}

TEST(AdaptRunGpu, DriversByTheEnvironment) {
  ToyBundle toy("cli_driver", "cuda");
  std::string ids = toy.root / "ids.npy", logits = toy.root / "logits.npy";
  saveIds(ids, {1, 2}, {3, 1});
  std::string arguments = toy.root.string() + " --tokens " + ids + " --logits " + logits;
  setenv("ADAPT_CUDA_DRIVER", "/nowhere/libcuda.so", 1);
  auto [code, text] = adaptRun(arguments);
  EXPECT_EQ(code, 1);
  EXPECT_EQ(text,
            "adapt-run: error: no CUDA driver on this machine (/nowhere/libcuda.so: cannot open "
            "shared object file: No such file or directory): --device=sim runs bundles that were "
            "compiled with --sim without one\n");
  setenv("ADAPT_CUDA_DRIVER", ADAPT_TEST_FAKE_CUDA, 1);
  std::tie(code, text) = adaptRun(arguments);
  EXPECT_EQ(code, 0) << text;
  std::vector<float> wanted;
  for (const std::vector<float> &row : ToyBundle::reference({3, 1}))
    wanted.insert(wanted.end(), row.begin(), row.end());
  EXPECT_EQ(loadFloats(logits), wanted);
  std::tie(code, text) = adaptRun(toy.root.string() + " --bench --bench-prompt=4 --bench-context=4 "
                                                      "--bench-decode=2 --bench-repetitions=1");
  EXPECT_EQ(code, 0) << text;
  EXPECT_NE(text.find("Toy, fake NVIDIA (sm_90), medians of 1"), std::string::npos) << text;
  EXPECT_NE(text.find("the device was busy for "), std::string::npos) << text;
  setenv("ADAPT_FAKE_DEVICES", "0", 1);
  std::tie(code, text) = adaptRun(arguments);
  EXPECT_EQ(code, 1);
  EXPECT_EQ(
      text.substr(0, text.find(": --device")),
      "adapt-run: error: no CUDA device: cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is "
      "detected");
  unsetenv("ADAPT_FAKE_DEVICES");
  setenv("ADAPT_FAKE_ARCH", "75", 1);
  std::tie(code, text) = adaptRun(arguments);
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("the device fake NVIDIA is sm_75: compile with --target=cuda:sm_75"),
            std::string::npos)
      << text;
  unsetenv("ADAPT_FAKE_ARCH");
  unsetenv("ADAPT_CUDA_DRIVER");
}

TEST_F(AdaptRun, GeneratesTokens) {
  saveIds(ids, {2, 3}, {3, 1, 4, 2, 5, 0});
  auto [code, text] = adaptRun(toy.root.string() + " --lengths 3,2 --tokens " + ids +
                               " --generate 6 --output-tokens " + output);
  ASSERT_EQ(code, 0) << text;
  absl::StatusOr<NpyIntegers> found = readNpyIntegers(output);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->shape, (std::vector<int64_t>{2, 6}));
  std::vector<std::vector<int32_t>> rows = {{3, 1, 4}, {2, 5}};
  for (size_t row = 0; row < 2; ++row)
    for (size_t n = 0; n < 6; ++n) {
      std::vector<float> last = ToyBundle::reference(rows[row]).back();
      int32_t best = std::max_element(last.begin(), last.end()) - last.begin();
      EXPECT_EQ(found->values[row * 6 + n], best);
      rows[row].push_back(best);
    }
}

TEST_F(AdaptRun, ExitCodes) {
  saveIds(ids, {1, 2}, {3, 1});
  std::string bundle = toy.root.string(), read = bundle + " --tokens " + ids;
  struct {
    std::string arguments;
    int code;
    std::string words;
  } cases[] = {
      {"--version", 0, "adapt-run 0."},
      {"--help", 0, "--lengths"},
      {"", 2, "bundle is required"},
      {bundle, 2, "one of --prompt, --tokens and --bench, or --input and --output-dir is required"},
      {bundle + " --no-such-option", 2, "--no-such-option"},
      {bundle + " --prompt a --bench", 2, "--prompt excludes --bench"},
      {bundle + " --prompt a --chunk 3", 2, "--chunk requires --tokens"},
      {read, 2, "one of --logits and --generate is required"},
      {read + " --generate 3", 2, "--generate requires --output-tokens"},
      {read + " --logits x.npy --chunk 0", 2, "--chunk"},
      {read + " --logits x.npy --threads -1", 2, "--threads"},
      {read + " --logits x.npy --device=tpu", 2, "--device"},
      {read + " --logits x.npy --device=sim", 1, "which is not simulated"},
      {read + " --logits x.npy --lane-order=reverse", 1, "device 'cpu' has no lane order"},
      {bundle + "x --prompt a", 1, "No such file"},
      {bundle + " --prompt a", 1, "has no tokenizer"},
      {bundle + " --tokens absent.npy --logits x.npy", 1, "absent.npy"},
      {read + " --logits /nowhere/x.npy", 1, "/nowhere/x.npy"},
      {read + " --logits x.npy --lengths 1,2", 1, "2 lengths for 1 rows"},
      {read + " --logits x.npy --lengths 3", 1, "length 3 does not lie in 1 to 2"},
      {read + " --logits x.npy --lengths 0", 1, "length 0 does not lie in 1 to 2"},
      {read + " --generate 29 --output-tokens x.npy", 1,
       "would have 31 tokens, the bundle allows 30"},
      {bundle + " --bench", 1, "sequences of 512 tokens wanted, the bundle allows 30"},
      {bundle + " --bench --bench-prompt 20 --bench-context 4 --bench-decode 8 --json", 0,
       "\"tokens_per_second\""},
  };
  for (const auto &test : cases) {
    auto [code, text] = adaptRun(test.arguments);
    EXPECT_EQ(code, test.code) << test.arguments << "\n" << text;
    EXPECT_NE(text.find(test.words), std::string::npos) << test.arguments << "\n" << text;
  }
  saveIds(ids, {1, 2}, {3, 8});
  auto [code, text] = adaptRun(read + " --logits " + logits);
  EXPECT_EQ(code, 1);
  EXPECT_NE(text.find("token 8 at 1 is outside the vocabulary of 8"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(logits));
}
#endif

} // namespace
