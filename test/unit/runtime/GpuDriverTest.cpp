// The devices cuda and hip: drivers that are not there, devices that do not fit, errors in the
// driver's words. On the fake drivers; DeviceConformanceTest.cpp has what works.
#include "DeviceCases.h"

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

std::unique_ptr<Device> open(bool hip) {
  GpuDeviceOptions options;
  options.hip = hip;
  options.driver = hip ? ADAPT_TEST_FAKE_HIP : ADAPT_TEST_FAKE_CUDA;
  absl::StatusOr<std::unique_ptr<Device>> device = createGpuDevice(options);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

TEST(GpuDriver, NoDriverIsOneSentence) {
  for (bool hip : {false, true}) {
    GpuDeviceOptions options;
    options.hip = hip;
    options.driver = "/nowhere/libdriver.so";
    absl::Status status = createGpuDevice(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(
        status.message(),
        absl::StrCat("no ", hip ? "HIP runtime" : "CUDA driver",
                     " on this machine (/nowhere/libdriver.so: cannot open shared object file: No "
                     "such file or directory)"));
  }
}

TEST(GpuDriver, LibrariesThatAreNoDriver) {
  GpuDeviceOptions options;
  options.driver = ADAPT_TEST_FAKE_HIP;
  absl::Status status = createGpuDevice(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("the CUDA driver lacks cuInit, cuGetErrorName, "),
            absl::string_view::npos)
      << status;
}

TEST(GpuDriver, DevicesByIndex) {
  for (bool hip : {false, true})
    for (int index : {-1, 1}) {
      GpuDeviceOptions options;
      options.hip = hip;
      options.driver = hip ? ADAPT_TEST_FAKE_HIP : ADAPT_TEST_FAKE_CUDA;
      options.index = index;
      EXPECT_EQ(createGpuDevice(options).status().message(),
                absl::StrCat("no ", hip ? "HIP" : "CUDA", " device ", index,
                             ": there are 1 on this machine"));
    }
}

TEST(GpuDriver, Descriptions) {
  EXPECT_EQ(open(false)->description(), "fake NVIDIA (sm_90)");
  EXPECT_EQ(open(true)->description(), "fake AMD (gfx942)");
}

/// Of CUDA's rules: a cubin runs within its major version on devices that are not older, PTX on all
/// that are not older, "a" on its very device, "f" within its family.
TEST(GpuDriver, ArchitecturesThatFit) {
  std::unique_ptr<Device> cuda = open(false), hip = open(true);
  struct {
    const char *arch;
    bool cubin, ptx;
  } const cases[] = {{"sm_90", true, true},     {"sm_90a", true, true},   {"sm_80", false, true},
                     {"sm_89", false, true},    {"sm_80a", false, false}, {"sm_100", false, false},
                     {"sm_100f", false, false}, {"sm_91", false, false},  {"gfx942", false, false},
                     {"sm_", false, false},     {"", false, false}};
  for (const auto &test : cases) {
    EXPECT_EQ(cuda->checkArch(test.arch, false).ok(), test.cubin) << test.arch;
    EXPECT_EQ(cuda->checkArch(test.arch, true).ok(), test.ptx) << test.arch;
  }
  EXPECT_EQ(cuda->checkArch("sm_100", true).message(),
            "the bundle was compiled for sm_100, but the device fake NVIDIA is sm_90: compile with "
            "--target=cuda:sm_90");
  EXPECT_TRUE(hip->checkArch("gfx942", false).ok());
  EXPECT_EQ(hip->checkArch("gfx90a", false).message(),
            "the bundle was compiled for gfx90a, but the device fake AMD is gfx942: compile with "
            "--target=hip:gfx942");
}

TEST(GpuDriver, ErrorsAreInTheDriversWords) {
  std::unique_ptr<Device> cuda = open(false);
  EXPECT_EQ(cuda->allocate(uint64_t(1) << 50, "weights").status().message(),
            "weights: 1125899906842624 bytes of memory of fake NVIDIA (sm_90): cuMemAlloc: "
            "CUDA_ERROR_OUT_OF_MEMORY: a fake error");
  std::string path = testing::TempDir() + "/kernels-" + std::to_string(getpid()) + ".ptx";
  FILE *file = fopen(path.c_str(), "w");
  fputs(".version 99.0", file);
  fclose(file);
  EXPECT_EQ(
      cuda->loadKernels(path, {"k"}, 0).message(),
      absl::StrCat("kernel library ", path,
                   ": cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE: a fake error\nno ELF file"));
  remove(path.c_str());
  // A block too large for the device is an error of the launch itself.
  ASSERT_TRUE(cuda->loadKernels(ADAPT_TEST_DEVICE_KERNELS_32, {"record1"}, 0).ok());
  Memory memory = *cuda->allocate(64, "test");
  Launches list(2000);
  list.add(0, {1}, {memory.data}, {1});
  EXPECT_EQ(
      cuda->run(list.list()).message(),
      "launch 0 of 1: kernel 'record1': cuLaunchKernel: CUDA_ERROR_INVALID_VALUE: a fake error");
}

TEST(GpuDriver, RunsAreTimedByTheDevice) {
  for (bool hip : {false, true}) {
    std::unique_ptr<Device> device = open(hip);
    const char *kernels = hip ? ADAPT_TEST_DEVICE_KERNELS_64 : ADAPT_TEST_DEVICE_KERNELS_32;
    ASSERT_TRUE(device->loadKernels(kernels, {"record1"}, 0).ok());
    Memory memory = *device->allocate(32 * 2000, "test");
    Launches list(64);
    list.add(0, {2000}, {memory.data}, {2000});
    auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(device->run(list.list()).ok());
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_GT(device->runSeconds(), 0);
    EXPECT_LE(device->runSeconds(), seconds);
  }
}

TEST(GpuDriver, MemoryIsNoMemoryOfTheHost) {
  std::unique_ptr<Device> device = open(false);
  Memory memory = *device->allocate(64, "test");
  EXPECT_DEATH(std::fputc(*static_cast<volatile char *>(memory.data), stderr), "");
}

} // namespace
