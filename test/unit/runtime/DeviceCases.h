// The devices that the conformance suite runs on, and lists of launches for them.
#pragma once
#include "adapt/Device.h"

#include "gtest/gtest.h"

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace adapt::rt::test {

struct DeviceCase {
  const char *name;
  std::function<absl::StatusOr<std::unique_ptr<Device>>()> create;
  const char *kernels; // the library of DeviceKernels.c
  uint32_t threads;    // of a block; 0 on a CPU
  /// What the device cannot do, and why; empty if it can.
  const char *cannotNameKernel = "";
  const char *suffix = ""; // to tell cases of one device apart
};

inline void PrintTo(const DeviceCase &device, std::ostream *out) {
  *out << device.name << device.suffix;
}

std::vector<DeviceCase> deviceCases();

/// Launches over memory of a device, kept alive with all they point to.
class Launches {
public:
  explicit Launches(uint32_t threads) : threads(threads) {}

  void add(uint32_t kernel, std::vector<uint32_t> grid, std::vector<void *> arguments,
           std::vector<int64_t> values) {
    LaunchShape &shape = shapes.emplace_back();
    shape.kernel = kernel;
    shape.threads = threads;
    shape.gridRank = static_cast<uint32_t>(grid.size());
    shape.items = 1;
    for (size_t i = 0; i < grid.size(); ++i) {
      shape.grid[i] = grid[i];
      shape.items *= grid[i];
    }
    sizes.push_back(std::move(values));
    shape.sizes = sizes.back().data();
    shape.numSizes = static_cast<uint32_t>(sizes.back().size());
    addBuffers(arguments);
  }

  void addCopy(void *from, void *to, uint64_t bytes) {
    LaunchShape &shape = shapes.emplace_back();
    shape.kind = LaunchShape::Kind::kCopy;
    shape.copyBytes = bytes;
    shape.items = (bytes + 65535) / 65536; // as ExecutionPlan::prepare
    addBuffers({from, to});
  }

  LaunchList list() const {
    LaunchList result;
    result.shapes = shapes;
    result.launches = launches;
    result.buffers = buffers.data();
    return result;
  }

private:
  void addBuffers(const std::vector<void *> &arguments) {
    shapes.back().numBuffers = static_cast<uint32_t>(arguments.size());
    launches.push_back(
        {static_cast<uint32_t>(shapes.size() - 1), static_cast<uint32_t>(buffers.size())});
    buffers.insert(buffers.end(), arguments.begin(), arguments.end());
  }

  uint32_t threads;
  std::vector<LaunchShape> shapes;
  std::vector<Launch> launches;
  std::vector<void *> buffers;
  std::deque<std::vector<int64_t>> sizes; // does not move what it holds
};

template <typename T> void put(Device &device, const Memory &memory, const std::vector<T> &values) {
  absl::Status status = device.write(memory.data, values.data(), values.size() * sizeof(T));
  ASSERT_TRUE(status.ok()) << status;
}

template <typename T> std::vector<T> get(Device &device, const Memory &memory, size_t count) {
  std::vector<T> values(count);
  absl::Status status = device.read(values.data(), memory.data, count * sizeof(T));
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

} // namespace adapt::rt::test
