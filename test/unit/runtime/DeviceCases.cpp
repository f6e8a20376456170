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
  return {{"cpu", cpu, ADAPT_TEST_DEVICE_KERNELS, 0},
          {"sim-cuda", sim(false), ADAPT_TEST_DEVICE_KERNELS_32, 96},
          {"sim-hip", sim(true), ADAPT_TEST_DEVICE_KERNELS_64, 128}};
}
