// Bundles for a GPU: loaded onto devices whose memory the host cannot read, in process and by
// adapt-run.
#include "ToyBundle.h"
#include "adapt/LanguageModel.h"
#include "adapt/OpenDevice.h"
#include "adapt/adapt.h"

#include "gtest/gtest.h"

#include <cstddef>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

absl::StatusOr<std::unique_ptr<LanguageModel>> load(const ToyBundle &toy,
                                                    const OpenDeviceOptions &where,
                                                    const LanguageModel::Options &options = {}) {
  absl::StatusOr<Bundle> bundle = Bundle::open(toy.root, {});
  if (!bundle.ok())
    return bundle.status();
  absl::StatusOr<std::unique_ptr<Device>> device = openDevice(bundle->manifest(), where);
  if (!device.ok())
    return device.status();
  return LanguageModel::load(*bundle, *std::move(device), options);
}

OpenDeviceOptions on(const std::string &device, const std::string &order = "") {
  OpenDeviceOptions options;
  options.device = device;
  options.laneOrder = order;
  options.threads = 2;
  return options;
}

std::vector<std::vector<float>> logits(LanguageModel &model, const std::vector<int32_t> &tokens) {
  std::vector<std::vector<float>> rows;
  LanguageModel::SequenceId id = model.addSequence();
  absl::Status status = model.step({{id, tokens, LanguageModel::Logits::kAll}},
                                   [&](size_t, int64_t, absl::Span<const float> row) {
                                     rows.emplace_back(row.begin(), row.end());
                                     return absl::OkStatus();
                                   });
  EXPECT_TRUE(status.ok()) << status;
  model.removeSequence(id);
  return rows;
}

TEST(GpuLoad, SimulatedGpusInEveryOrder) {
  for (const char *target : {"cuda", "hip"}) {
    ToyBundle toy(target, target);
    for (const char *order : {"", "forward", "reverse", "permuted", "permuted:77"})
      for (bool poison : {false, true}) {
        LanguageModel::Options options;
        options.poison = poison;
        auto model = load(toy, on("sim", order), options);
        ASSERT_TRUE(model.ok()) << model.status();
        EXPECT_EQ((*model)->device().name(), absl::StrCat("sim-", target));
        EXPECT_EQ((*model)->uploadedBytes(), 3u * 64); // two scales and the head, 64-byte aligned
        for (const std::vector<int32_t> &tokens :
             {std::vector<int32_t>{3, 1, 4, 1, 5, 2, 6}, std::vector<int32_t>{7}})
          EXPECT_EQ(logits(**model, tokens), ToyBundle::reference(tokens)) << target << order;
      }
  }
}

TEST(GpuLoad, DriversRunWhatTheyAreGiven) {
  setenv("ADAPT_CUDA_DRIVER", ADAPT_TEST_FAKE_CUDA, 1);
  setenv("ADAPT_HIP_DRIVER", ADAPT_TEST_FAKE_HIP, 1);
  for (const char *target : {"cuda", "hip"}) {
    ToyBundle toy(absl::StrCat("driver_", target), target);
    for (const char *device : {"", target}) {
      auto model = load(toy, on(device));
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ((*model)->device().name(), target);
      EXPECT_EQ((*model)->uploadedBytes(), 3u * 64);
      std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 2, 6};
      EXPECT_EQ(logits(**model, tokens), ToyBundle::reference(tokens));
    }
    // For another device: what to compile for.
    toy.manifest["target"]["arch"] = absl::string_view(target) == "cuda" ? "sm_100" : "gfx90a";
    toy.writeManifest();
    EXPECT_NE(load(toy, on("")).status().message().find(": compile with --target="),
              absl::string_view::npos);
  }
  // A cubin of another device, and beside it PTX, which this newer one takes.
  ToyBundle toy("driver_ptx", "cuda");
  toy.manifest["target"]["arch"] = "sm_80";
  toy.writeManifest();
  EXPECT_FALSE(load(toy, on("")).ok());
  std::filesystem::copy(toy.root / "rank0/kernels.gpu", toy.root / "rank0/kernels.ptx");
  toy.manifest["ranks"][0]["ptx"] = "rank0/kernels.ptx";
  toy.writeManifest();
  auto model = load(toy, on(""));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(logits(**model, {5}), ToyBundle::reference({5}));
  unsetenv("ADAPT_CUDA_DRIVER");
  unsetenv("ADAPT_HIP_DRIVER");
}

TEST(GpuLoad, DevicesThatDoNotFit) {
  auto message = [](const ToyBundle &toy, const OpenDeviceOptions &where) {
    absl::Status status = load(toy, where).status();
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
    return std::string(status.message());
  };
  ToyBundle cpu("fit_cpu");
  EXPECT_EQ(message(cpu, on("sim")),
            "the bundle was compiled for target 'cpu', which is not simulated: compile with "
            "--target=cuda or --target=hip and --sim, or use --device=cpu");
  EXPECT_EQ(message(cpu, on("", "reverse")), "device 'cpu' has no lane order, only sim has one");
  ToyBundle cuda("fit_cuda", "cuda");
  EXPECT_EQ(message(cuda, on("cpu")), "the bundle was compiled for target 'cuda', the device is "
                                      "'cpu': compile with --target=cpu");
  EXPECT_EQ(message(cuda, on("sim", "backward")),
            "lane order 'backward': possible are forward, reverse, permuted and permuted:SEED");
  EXPECT_EQ(message(cuda, on("sim", "permuted:x")).substr(0, 23), "lane order 'permuted:x'");
  cuda.manifest["ranks"][0].erase("sim");
  cuda.writeManifest();
  EXPECT_EQ(message(cuda, on("sim")),
            "the bundle has no kernels for the simulated GPU: compile it with --target=cuda:sm_90 "
            "--sim");
}

TEST(GpuLoad, DevicesByTheCInterface) {
  ToyBundle toy("c_interface", "hip");
  adapt_load_options options = {};
  options.size = sizeof(options);
  options.threads = 1;
  options.device = "sim";
  options.lane_order = "permuted:3";
  adapt_model *model = nullptr;
  ASSERT_EQ(adapt_model_load(toy.root.c_str(), &options, &model), nullptr);
  uint64_t sequence = 0;
  ASSERT_EQ(adapt_language_add_sequence(model, &sequence), nullptr);
  std::vector<int32_t> tokens = {3, 1, 4};
  adapt_chunk chunk = {sequence, tokens.data(), tokens.size(), 1};
  std::vector<std::vector<float>> rows;
  auto collect = [](void *user, size_t, int64_t, const float *row) {
    static_cast<std::vector<std::vector<float>> *>(user)->emplace_back(row, row + 8);
    return 0;
  };
  EXPECT_EQ(adapt_language_step(model, &chunk, 1, collect, &rows), nullptr);
  EXPECT_EQ(rows, ToyBundle::reference(tokens));
  adapt_model_free(model);

  // A caller that was built before there were devices: the bundle's own, which is not there.
  options.size = offsetof(adapt_load_options, device);
  setenv("ADAPT_HIP_DRIVER", "/nowhere/libamdhip64.so", 1);
  adapt_status *status = adapt_model_load(toy.root.c_str(), &options, &model);
  unsetenv("ADAPT_HIP_DRIVER");
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(adapt_status_code(status), ADAPT_REFUSED);
  EXPECT_NE(std::string(adapt_status_message(status)).find("no HIP runtime on this machine"),
            std::string::npos);
  adapt_status_free(status);
}

TEST(GpuLoad, ManifestsOfGpus) {
  ToyBundle toy("gpu_manifest", "hip");
  toy.manifest["target"].erase("arch");
  toy.manifest["ranks"][0]["sim"] = "../kernels.sim.so";
  toy.writeManifest();
  absl::Status status = Bundle::open(toy.root, {}).status();
  EXPECT_NE(status.message().find("target.arch is missing"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("sim '../kernels.sim.so' is not a path within the bundle"),
            absl::string_view::npos)
      << status;
  // What is loaded is hashed.
  ToyBundle changed("gpu_hashes", "hip");
  std::filesystem::copy(ADAPT_TEST_KERNELS, changed.root / "rank0/kernels.sim.so",
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(Bundle::open(changed.root, {}).status().message().find("rank0/kernels.sim.so"),
            absl::string_view::npos);
}

} // namespace
