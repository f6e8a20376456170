// What every device must do (Device.h), on each of deviceCases().
#include "DeviceCases.h"

#include <numeric>
#include <thread>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

enum Kernel : uint32_t {
  kRecord1,
  kRecord2,
  kRecord3,
  kReverseIncrement,
  kRowSum,
  kManyArguments,
  kFail
};
const std::vector<std::string> kKernels = {
    "record1", "record2", "record3", "reverse_increment", "row_sum", "many_arguments", "fail"};

class DeviceConformance : public testing::TestWithParam<DeviceCase> {
protected:
  void SetUp() override { open(device); }

  void open(std::unique_ptr<Device> &result, bool load = true) {
    absl::StatusOr<std::unique_ptr<Device>> created = GetParam().create();
    ASSERT_TRUE(created.ok()) << created.status();
    result = *std::move(created);
    if (!load)
      return;
    absl::Status status = result->loadKernels(GetParam().kernels, kKernels, 0);
    ASSERT_TRUE(status.ok()) << status;
  }

  Memory allocate(uint64_t bytes) {
    absl::StatusOr<Memory> memory = device->allocate(bytes, "test");
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.ok() ? *std::move(memory) : Memory();
  }

  Launches launches() const { return Launches(GetParam().threads); }

  void run(const Launches &launches) {
    absl::Status status = device->run(launches.list());
    ASSERT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<Device> device;
};

TEST_P(DeviceConformance, HasItsName) { EXPECT_EQ(device->name(), GetParam().name); }

TEST_P(DeviceConformance, MemoryIsAlignedAndZero) {
  std::vector<Memory> held;
  for (uint64_t bytes :
       {uint64_t(1), uint64_t(63), uint64_t(64), uint64_t(4097), uint64_t(3) << 20}) {
    Memory memory = allocate(bytes);
    ASSERT_NE(memory.data, nullptr);
    EXPECT_EQ(memory.bytes, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data) % 64, 0u);
    std::vector<char> found = get<char>(*device, memory, bytes);
    EXPECT_EQ(found, std::vector<char>(bytes, 0)) << bytes;
    put(*device, memory, std::vector<char>(bytes, 'x'));
    held.push_back(memory);
  }
  // Memory that is handed out again is zero again.
  held.clear();
  for (int i = 0; i < 3; ++i) {
    Memory memory = allocate(4097);
    EXPECT_EQ(get<char>(*device, memory, 4097), std::vector<char>(4097, 0));
    put(*device, memory, std::vector<char>(4097, 'y'));
  }
}

TEST_P(DeviceConformance, NoBytesAreNoError) {
  Memory memory = allocate(0);
  EXPECT_EQ(memory.bytes, 0u);
  EXPECT_TRUE(device->write(memory.data, nullptr, 0).ok());
  EXPECT_TRUE(device->read(nullptr, memory.data, 0).ok());
}

TEST_P(DeviceConformance, TooMuchMemoryIsAnErrorThatSaysWhatFor) {
  absl::Status status = device->allocate(uint64_t(1) << 60, "a lot").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(status.message().find("a lot: 1152921504606846976 bytes"), absl::string_view::npos)
      << status;
}

TEST_P(DeviceConformance, WritesAndReadsAnyRange) {
  Memory memory = allocate(10000);
  std::vector<unsigned char> wanted(10000);
  for (auto [begin, count] : {std::pair(0, 1), {1, 7}, {63, 130}, {4095, 2}, {9999, 1}, {5, 0}}) {
    std::vector<unsigned char> piece(count);
    std::iota(piece.begin(), piece.end(), static_cast<unsigned char>(begin + 1));
    std::copy(piece.begin(), piece.end(), wanted.begin() + begin);
    ASSERT_TRUE(device->write(memory.data + begin, piece.data(), piece.size()).ok());
    std::vector<unsigned char> back(count);
    ASSERT_TRUE(device->read(back.data(), memory.data + begin, back.size()).ok());
    EXPECT_EQ(back, piece);
  }
  EXPECT_EQ(get<unsigned char>(*device, memory, 10000), wanted);
}

TEST_P(DeviceConformance, MemoryMayOutliveItsDevice) {
  Memory memory = allocate(4096);
  device.reset();
  memory = Memory();
}

TEST_P(DeviceConformance, GridsOfOneToThreeExtents) {
  const std::vector<std::vector<uint32_t>> grids = {{1},       {7},       {1000},    {3, 5},
                                                    {1, 300},  {300, 1},  {2, 3, 4}, {1, 1, 9},
                                                    {9, 1, 1}, {1, 9, 1}, {6, 10, 7}};
  for (const std::vector<uint32_t> &grid : grids) {
    uint64_t items = 1;
    for (uint32_t extent : grid)
      items *= extent;
    Memory memory = allocate(items * 32);
    Launches list = launches();
    list.add(kRecord1 + static_cast<uint32_t>(grid.size()) - 1, grid, {memory.data},
             std::vector<int64_t>(grid.begin(), grid.end()));
    run(list);
    std::vector<int64_t> found = get<int64_t>(*device, memory, items * 4);
    uint32_t padded[3] = {1, 1, 1};
    std::copy(grid.begin(), grid.end(), padded);
    for (uint64_t item = 0; item < items; ++item) {
      std::vector<int64_t> wanted = {1, int64_t(item / (padded[1] * padded[2])),
                                     int64_t(item / padded[2] % padded[1]),
                                     int64_t(item % padded[2])};
      EXPECT_EQ(std::vector<int64_t>(&found[4 * item], &found[4 * item] + 4), wanted)
          << testing::PrintToString(grid);
    }
  }
}

TEST_P(DeviceConformance, NoItemsAreNoWork) {
  Memory memory = allocate(64);
  Launches list = launches();
  list.add(kRecord1, {0}, {memory.data}, {0});
  list.add(kRecord3, {4, 0, 3}, {memory.data}, {4, 0, 3});
  list.addCopy(memory.data, memory.data + 8, 0);
  run(list);
  EXPECT_EQ(get<int64_t>(*device, memory, 8), std::vector<int64_t>(8, 0));
  run(launches());
}

TEST_P(DeviceConformance, LaunchesSeeAllThatThoseBeforeThemWrote) {
  constexpr int64_t kCount = 37;
  Memory a = allocate(8 * kCount), b = allocate(8 * kCount);
  std::vector<int64_t> values(kCount);
  std::iota(values.begin(), values.end(), 0);
  put(*device, a, values);
  Launches list = launches();
  for (int i = 0; i < 50; ++i) {
    list.add(kReverseIncrement, {kCount}, {i % 2 ? b.data : a.data, i % 2 ? a.data : b.data},
             {kCount});
    if (i % 10 == 9) // the same values, by way of a copy
      list.addCopy(a.data, b.data, 8 * kCount);
  }
  run(list);
  for (int64_t &value : values)
    value += 50;
  EXPECT_EQ(get<int64_t>(*device, a, kCount), values);
  EXPECT_EQ(get<int64_t>(*device, b, kCount), values);
}

TEST_P(DeviceConformance, CopiesOfAnyLength) {
  constexpr size_t kBytes = 300001;
  Memory from = allocate(kBytes), to = allocate(kBytes);
  std::vector<unsigned char> values(kBytes);
  for (size_t i = 0; i < kBytes; ++i)
    values[i] = static_cast<unsigned char>(i * 7 + i / 256);
  put(*device, from, values);
  for (size_t bytes : {size_t(1), size_t(65535), size_t(65537), kBytes}) {
    Launches list = launches();
    list.addCopy(from.data, to.data, bytes);
    run(list);
    std::vector<unsigned char> found = get<unsigned char>(*device, to, kBytes);
    EXPECT_TRUE(std::equal(values.begin(), values.begin() + bytes, found.begin())) << bytes;
    EXPECT_TRUE(std::all_of(found.begin() + bytes, found.end(), [](int c) { return c == 0; }));
  }
}

TEST_P(DeviceConformance, BlocksWorkTogether) {
  // Sums of small integers are exact in any order.
  for (int64_t n : {1, 31, 64, 100, 1000}) {
    constexpr int64_t kRows = 9;
    Memory x = allocate(kRows * n * 4), out = allocate(kRows * 4);
    std::vector<float> values(kRows * n), wanted(kRows);
    for (int64_t i = 0; i < kRows * n; ++i) {
      values[i] = static_cast<float>(i % 17 - 3);
      wanted[i / n] += values[i];
    }
    put(*device, x, values);
    Launches list = launches();
    list.add(kRowSum, {kRows}, {x.data, out.data}, {n});
    run(list);
    EXPECT_EQ(get<float>(*device, out, kRows), wanted) << n;
  }
}

TEST_P(DeviceConformance, ManyBuffersAndSizes) {
  Memory memory = allocate(40 * 64);
  std::vector<void *> buffers;
  std::vector<int64_t> sizes;
  int64_t wanted = 0;
  for (int b = 0; b < 40; ++b) {
    buffers.push_back(memory.data + 64 * b);
    int64_t value = (int64_t(1) << 40) + b * 3;
    ASSERT_TRUE(device->write(buffers.back(), &value, 8).ok());
    wanted += b < 39 ? (b + 1) * value : 0;
  }
  for (int s = 0; s < 20; ++s) {
    sizes.push_back((int64_t(1) << 33) - s * 5);
    wanted += (s + 50) * sizes.back();
  }
  Launches list = launches();
  list.add(kManyArguments, {1}, buffers, sizes);
  run(list);
  int64_t found = 0;
  ASSERT_TRUE(device->read(&found, buffers[39], 8).ok());
  EXPECT_EQ(found, wanted);
}

TEST_P(DeviceConformance, AKernelThatFailsIsNamed) {
  Memory memory = allocate(4096);
  Launches list = launches();
  list.add(kRecord1, {5}, {memory.data}, {5});
  list.add(kFail, {10}, {}, {});
  list.add(kRecord1, {6}, {memory.data}, {6});
  absl::Status status = device->run(list.list());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  if (*GetParam().cannotNameKernel) {
    EXPECT_NE(status.message().find("$ADAPT_LAUNCH_BLOCKING=1 tells which"),
              absl::string_view::npos)
        << status << "; allowed since " << GetParam().cannotNameKernel;
    return;
  }
  EXPECT_NE(status.message().find("launch 1 of 3"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("kernel 'fail'"), absl::string_view::npos) << status;
}

TEST_P(DeviceConformance, MissingKernelsAreNamedTogether) {
  std::unique_ptr<Device> fresh;
  open(fresh, /*load=*/false);
  absl::Status status =
      fresh->loadKernels(GetParam().kernels, {"record1", "gone", "row_sum", "lost"}, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("2 of 4 kernels are missing: gone, lost"),
            absl::string_view::npos)
      << status;
  EXPECT_TRUE(fresh->loadKernels(GetParam().kernels, kKernels, 0).ok());
  EXPECT_EQ(fresh->loadKernels(GetParam().kernels, kKernels, 0).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(DeviceConformance, KernelsThatAreNoFileAreAnError) {
  std::unique_ptr<Device> fresh;
  open(fresh, /*load=*/false);
  EXPECT_NE(fresh->loadKernels("kernels.so", {}, 0).message().find("not an absolute path"),
            absl::string_view::npos);
  EXPECT_NE(fresh->loadKernels("/nowhere/kernels.so", {}, 0).message().find("/nowhere"),
            absl::string_view::npos);
  std::string path = testing::TempDir() + "/no-kernels-" + std::to_string(getpid());
  FILE *file = fopen(path.c_str(), "w");
  fputs("this is no library", file);
  fclose(file);
  absl::Status status = fresh->loadKernels(path, {"record1"}, 0);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
  remove(path.c_str());
}

TEST_P(DeviceConformance, TwoAtATimeOnThreadsOfTheirOwn) {
  std::unique_ptr<Device> other;
  open(other);
  auto work = [&](Device &mine, int64_t seed, std::vector<float> &sums) {
    constexpr int64_t kRows = 30, kWidth = 200;
    Memory x = *mine.allocate(kRows * kWidth * 4, "x"), out = *mine.allocate(kRows * 4, "out");
    std::vector<float> values(kRows * kWidth, static_cast<float>(seed));
    put(mine, x, values);
    Launches list = launches();
    for (int i = 0; i < 20; ++i)
      list.add(kRowSum, {kRows}, {x.data, out.data}, {kWidth});
    absl::Status status = mine.run(list.list());
    EXPECT_TRUE(status.ok()) << status;
    sums = get<float>(mine, out, kRows);
  };
  std::vector<float> first, second;
  std::thread thread([&] { work(*other, 5, second); });
  work(*device, 3, first);
  thread.join();
  EXPECT_EQ(first, std::vector<float>(30, 600));
  EXPECT_EQ(second, std::vector<float>(30, 1000));
}

TEST_P(DeviceConformance, ItsThreadsRunJobs) {
  std::vector<int> ran(std::max(1, device->threads()));
  device->parallel([&](int thread) { ran[thread] += 1; });
  EXPECT_EQ(ran, std::vector<int>(ran.size(), 1));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, testing::ValuesIn(deviceCases()),
                         [](const testing::TestParamInfo<DeviceCase> &info) {
                           std::string name = absl::StrCat(info.param.name, info.param.suffix);
                           for (char &c : name)
                             c = c == '-' || c == ' ' ? '_' : c;
                           return name;
                         });

} // namespace
