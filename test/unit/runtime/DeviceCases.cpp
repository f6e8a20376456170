#include "DeviceCases.h"

using namespace adapt::rt;
using namespace adapt::rt::test;

std::vector<DeviceCase> adapt::rt::test::deviceCases() {
  auto cpu = [] { return createCpuDevice({3, false, false}); };
  auto sim = [](bool hip) {
    return [hip] {
      SimDeviceOptions options;
      options.hip = hip;
      options.threads = 2;
      return createSimDevice(options);
    };
  };
  auto gpu = [](bool hip, bool blocking) {
    return [hip, blocking] {
      GpuDeviceOptions options;
      options.hip = hip;
      options.driver = hip ? ADAPT_TEST_FAKE_HIP : ADAPT_TEST_FAKE_CUDA;
      options.blocking = blocking;
      return createGpuDevice(options);
    };
  };
  const char *late =
      "a driver reports the error of a kernel when the host waits for its stream, which is "
      "after all launches unless the device is blocking";
  return {{"cpu", cpu, ADAPT_TEST_DEVICE_KERNELS, 0},
          {"sim-cuda", sim(false), ADAPT_TEST_DEVICE_KERNELS_32, 96},
          {"sim-hip", sim(true), ADAPT_TEST_DEVICE_KERNELS_64, 128},
          {"cuda", gpu(false, false), ADAPT_TEST_DEVICE_KERNELS_32, 96, late},
          {"cuda", gpu(false, true), ADAPT_TEST_DEVICE_KERNELS_32, 96, "", " blocking"},
          {"hip", gpu(true, false), ADAPT_TEST_DEVICE_KERNELS_64, 128, late},
          {"hip", gpu(true, true), ADAPT_TEST_DEVICE_KERNELS_64, 128, "", " blocking"}};
}
