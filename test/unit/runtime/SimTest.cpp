// The simulated GPU: what its operations give, by the PTX ISA and AMD's ISA, in each order of
// lanes; and that it finds planted faults.
#include "DeviceCases.h"

#include <cmath>
#include <numeric>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

using Words = std::vector<uint32_t>;

/// A device of SimKernels.c and one buffer of out.
class Sim {
public:
  Sim(bool hip, LaneOrder order = LaneOrder::kForward, uint64_t seed = 1, int threads = 1)
      : hip(hip) {
    SimDeviceOptions options;
    options.hip = hip;
    options.order = order;
    options.seed = seed;
    options.threads = threads;
    absl::StatusOr<std::unique_ptr<Device>> created = createSimDevice(options);
    EXPECT_TRUE(created.ok()) << created.status();
    device = *std::move(created);
    out = *device->allocate(1 << 20, "out");
  }

  absl::Status tryRun(const std::string &kernel, uint32_t threads, std::vector<int64_t> sizes = {},
                      std::vector<uint32_t> grid = {1}) {
    const char *path = hip ? ADAPT_TEST_SIM_KERNELS_64 : ADAPT_TEST_SIM_KERNELS_32;
    ADAPT_RETURN_IF_ERROR(device->loadKernels(path, {kernel}, 0));
    Launches list(threads);
    list.add(0, grid, {out.data}, std::move(sizes));
    return device->run(list.list());
  }

  template <typename T>
  std::vector<T> run(const std::string &kernel, uint32_t threads, size_t count,
                     std::vector<int64_t> sizes = {}, std::vector<uint32_t> grid = {1}) {
    absl::Status status = tryRun(kernel, threads, std::move(sizes), std::move(grid));
    EXPECT_TRUE(status.ok()) << status;
    return get<T>(*device, out, count);
  }

private:
  bool hip;
  std::unique_ptr<Device> device;
  Memory out;
};

struct OrderCase {
  const char *name;
  LaneOrder order;
  uint64_t seed;
};
constexpr OrderCase kOrders[] = {{"forward", LaneOrder::kForward, 0},
                                 {"reverse", LaneOrder::kReverse, 0},
                                 {"permuted", LaneOrder::kPermuted, 1},
                                 {"permuted", LaneOrder::kPermuted, 99}};

/// Calls test(hip, order) for all.
void forAll(const std::function<void(bool, const OrderCase &)> &test) {
  for (bool hip : {false, true})
    for (const OrderCase &order : kOrders) {
      SCOPED_TRACE(absl::StrCat(hip ? "sim-hip " : "sim-cuda ", order.name, " ", order.seed));
      test(hip, order);
    }
}

TEST(Sim, LanesKnowWhereTheyAre) {
  forAll([](bool hip, const OrderCase &order) {
    constexpr uint32_t kThreads = 96, kX = 4, kY = 3, kZ = 2;
    Words found =
        Sim(hip, order.order, order.seed, 2)
            .run<uint32_t>("identity", kThreads, 13 * kThreads * kX * kY * kZ, {}, {kZ, kY, kX});
    for (uint32_t block = 0; block < kX * kY * kZ; ++block)
      for (uint32_t lane = 0; lane < kThreads; ++lane) {
        Words wanted = {
            lane, 0,  0,  block % kX, block / kX % kY,       block / kX / kY, kThreads, 1,
            1,    kX, kY, kZ,         lane % (hip ? 64 : 32)};
        auto at = found.begin() + 13 * (block * kThreads + lane);
        ASSERT_EQ(Words(at, at + 13), wanted);
      }
  });
}

TEST(Sim, OrdersOfLanes) {
  auto run = [](bool hip, LaneOrder order, uint64_t seed) {
    Words found = Sim(hip, order, seed).run<uint32_t>("order", 160, 1 + 480, {}, {3});
    EXPECT_EQ(found[0], 480u);
    return Words(found.begin() + 1, found.end());
  };
  Words all(480);
  std::iota(all.begin(), all.end(), 0);
  for (bool hip : {false, true}) {
    EXPECT_EQ(run(hip, LaneOrder::kForward, 5), all);
    Words reversed(all.rbegin(), all.rend());
    EXPECT_EQ(run(hip, LaneOrder::kReverse, 5), reversed);
    Words one = run(hip, LaneOrder::kPermuted, 1), two = run(hip, LaneOrder::kPermuted, 2);
    EXPECT_EQ(one, run(hip, LaneOrder::kPermuted, 1)) << "not repeatable";
    EXPECT_NE(one, two);
    EXPECT_NE(one, all);
    EXPECT_NE(Words(one.begin(), one.begin() + 32), Words(one.begin() + 32, one.begin() + 64));
    std::sort(one.begin(), one.end());
    EXPECT_EQ(one, all);
  }
}

TEST(Sim, EveryBlockRunsOnceInAnyOrder) {
  for (uint32_t blocks : {1u, 2u, 3u, 97u, 256u, 1000u})
    for (int threads : {1, 3}) {
      Words found = Sim(false, LaneOrder::kPermuted, 12345678901, threads)
                        .run<uint32_t>("identity", 1, 13 * blocks, {}, {blocks});
      for (uint32_t block = 0; block < blocks; ++block)
        ASSERT_EQ(found[13 * block + 3], block);
    }
}

TEST(Sim, SharedMemoryIsPoisonedForEachBlock) {
  forAll([](bool hip, const OrderCase &order) {
    for (float value :
         Sim(hip, order.order, order.seed).run<float>("unwritten", 256, 3 * 256, {}, {3}))
      ASSERT_TRUE(std::isnan(value));
  });
}

TEST(Sim, AMissingBarrierIsSeenInEveryOrder) {
  forAll([](bool hip, const OrderCase &order) {
    for (uint32_t threads : {32u, 64u, 100u, 256u}) {
      std::vector<float> wanted(2 * threads);
      for (uint32_t i = 0; i < 2 * threads; ++i)
        wanted[i] = static_cast<float>(threads - 1 - i % threads);
      EXPECT_EQ(
          Sim(hip, order.order, order.seed).run<float>("reversed", threads, 2 * threads, {}, {2}),
          wanted);
      EXPECT_NE(Sim(hip, order.order, order.seed)
                    .run<float>("reversed_unguarded", threads, 2 * threads, {}, {2}),
                wanted);
    }
  });
}

TEST(Sim, BarriersHoldManyTimes) {
  forAll([](bool hip, const OrderCase &order) {
    for (uint32_t threads : {1u, 33u, 256u})
      EXPECT_EQ(Sim(hip, order.order, order.seed).run<float>("many_barriers", threads, threads),
                std::vector<float>(threads, 100));
  });
}

TEST(Sim, StacksHoldWhatLanesKeep) {
  forAll([](bool hip, const OrderCase &order) {
    Words sums = Sim(hip, order.order, order.seed).run<uint32_t>("deep_stack", 1024, 1024);
    for (uint32_t lane = 0; lane < 1024; ++lane)
      ASSERT_EQ(sums[lane], static_cast<uint32_t>(uint64_t(lane) * (9999 * 5000)));
    std::vector<float> found = Sim(hip, order.order, order.seed).run<float>("vectors", 70, 280);
    for (uint32_t lane = 0; lane < 70; ++lane) {
      float x = static_cast<float>(lane);
      EXPECT_EQ(std::vector<float>(&found[4 * lane], &found[4 * lane] + 4),
                (std::vector<float>{x * x + x / 2, 1.5f, 5, 10.5f}));
    }
  });
}

/// The message of a kernel's fault, in all orders the same but for the lane that trips over it.
void expectFault(bool hip, const std::string &kernel, uint32_t threads, std::vector<int64_t> sizes,
                 const std::string &words) {
  for (const OrderCase &order : kOrders) {
    absl::Status status = Sim(hip, order.order, order.seed).tryRun(kernel, threads, sizes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_NE(status.message().find(absl::StrCat("kernel '", kernel, "', block (0, 0, 0): ")),
              absl::string_view::npos)
        << status;
    EXPECT_NE(status.message().find(words), absl::string_view::npos)
        << order.name << ": " << status;
  }
}

TEST(Sim, BarriersInDivergentCodeAreReportedWithPlaces) {
  for (bool hip : {false, true}) {
    expectFault(hip, "two_barriers", 128, {40},
                "a barrier in divergent code: the block's lanes wait for each other\n"
                "  lanes 0-39: at the barrier 'two_barriers:then'\n"
                "  lanes 40-127: at the barrier 'two_barriers:else'");
    expectFault(hip, "some_return", 128, {127},
                "  lanes 0-126: at the barrier 'some_return:barrier'\n  lane 127: returned");
    expectFault(hip, "trapped", 96, {70}, "lane 70: index out of bounds at 'trapped:7'");
  }
  expectFault(
      false, "barrier_or_shuffle", 64, {5},
      "  lanes 0-4, 6-31: at bar.warp.sync 'barrier_or_shuffle:warp' with the mask 0xffffffff\n"
      "  lane 5: at the barrier 'barrier_or_shuffle:barrier'\n  lanes 32-63: returned");
  expectFault(true, "barrier_or_shuffle", 64, {5},
              "  lanes 0-4, 6-63: at wave.barrier 'barrier_or_shuffle:warp'\n"
              "  lane 5: at the barrier 'barrier_or_shuffle:barrier'");
}

TEST(Sim, OperationsOfTheOtherVendorAreFaults) {
  expectFault(false, "foreign", 32, {}, "wave.barrier at 'foreign:1' in a warp of 32 lanes");
  expectFault(true, "foreign", 64, {}, "bar.warp.sync at 'foreign:1' in a warp of 64 lanes");
}

TEST(Sim, ManyThreadsFindTheSameFault) {
  for (int repeat = 0; repeat < 5; ++repeat) {
    absl::Status status = Sim(false, LaneOrder::kForward, 0, 4).tryRun("trapped", 32, {3}, {100});
    EXPECT_EQ(status.message(),
              "launch 0 of 1: kernel 'trapped', block (0, 0, 0): lane 3: index out "
              "of bounds at 'trapped:7'");
  }
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

enum Mode { kUp, kDown, kButterfly, kIndex };

Words shuffled(int64_t mode, int64_t b, int64_t c, uint32_t threads = 32,
               int64_t mask = 0xffffffff) {
  Words first;
  for (const OrderCase &order : kOrders) {
    Words found = Sim(false, order.order, order.seed)
                      .run<uint32_t>("shuffle", threads, 2 * threads, {mode, b, c, mask});
    if (first.empty())
      first = found;
    EXPECT_EQ(found, first) << order.name;
  }
  return first;
}

/// For each lane the source, or -1 where it is out of range.
Words sources(const std::vector<int> &lanes) {
  Words result;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    result.push_back(100 + (lanes[lane] < 0 ? static_cast<uint32_t>(lane) : lanes[lane]));
    result.push_back(lanes[lane] >= 0);
  }
  return result;
}

TEST(Sim, ShufflesOfWholeWarps) {
  std::vector<int> up(32), down(32), butterfly(32), index(32), own(32);
  for (int lane = 0; lane < 32; ++lane) {
    up[lane] = lane < 3 ? -1 : lane - 3;
    down[lane] = lane > 24 ? -1 : lane + 7;
    butterfly[lane] = lane < 16 ? lane + 16 : lane - 16;
    index[lane] = 21;
    own[lane] = (lane * 3 + 1) % 32;
  }
  // As __shfl_*_sync of width 32 gives them: clamp 0 for up, 31 for the others.
  EXPECT_EQ(shuffled(kUp, 3, 0), sources(up));
  EXPECT_EQ(shuffled(kDown, 7, 0x1f), sources(down));
  EXPECT_EQ(shuffled(kButterfly, 16, 0x1f), sources(butterfly));
  EXPECT_EQ(shuffled(kIndex, 21, 0x1f), sources(index));
  EXPECT_EQ(shuffled(kIndex, 99, 0x1f), sources(own));
}

TEST(Sim, ShufflesOfSegments) {
  // Width 8: the mask of segments is 32 - 8 = 24.
  std::vector<int> up(32), down(32), butterfly(32), index(32);
  for (int lane = 0; lane < 32; ++lane) {
    int first = lane / 8 * 8;
    up[lane] = lane % 8 < 2 ? -1 : lane - 2;
    down[lane] = lane % 8 > 5 ? -1 : lane + 2;
    butterfly[lane] = first + (7 - lane % 8);
    index[lane] = first + 13 % 8;
  }
  EXPECT_EQ(shuffled(kUp, 2, 24 << 8), sources(up));
  EXPECT_EQ(shuffled(kDown, 2, 24 << 8 | 0x1f), sources(down));
  EXPECT_EQ(shuffled(kButterfly, 7, 24 << 8 | 0x1f), sources(butterfly));
  EXPECT_EQ(shuffled(kIndex, 13, 24 << 8 | 0x1f), sources(index));
}

TEST(Sim, ShufflesAmongSomeLanes) {
  Words found = shuffled(kButterfly, 1, 0x1f, 32, 0x0000f00f);
  for (uint32_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(found[2 * lane], 0xf00f >> lane & 1 ? 100 + (lane ^ 1) : 0);
  // Two warps, the second of 16 lanes.
  found = shuffled(kButterfly, 4, 0x1f, 48, 0xffffffff);
  for (uint32_t lane = 0; lane < 48; ++lane)
    EXPECT_EQ(found[2 * lane], 100 + (lane ^ 4));
  for (const OrderCase &order : kOrders) {
    found = Sim(false, order.order, order.seed).run<uint32_t>("halves", 32, 32);
    for (uint32_t lane = 0; lane < 32; ++lane)
      EXPECT_EQ(found[lane], lane < 16 ? (lane + 16) ^ 8 : (lane - 16) ^ 4);
  }
}

TEST(Sim, ReadingALaneThatDoesNotTakePartIsAFault) {
  expectFault(false, "shuffle", 32, {kButterfly, 8, 0x1f, 0xff},
              "shfl.sync at 'shuffle:1': lane 0 reads lane 8, which does not take part");
  expectFault(false, "shuffle", 20, {kIndex, 25, 0x1f, 0xffffffff},
              "shfl.sync at 'shuffle:1': lane 0 reads lane 25, which does not take part");
  expectFault(
      false, "outside_mask", 32, {0xfffffffe},
      "lane 0: bar.warp.sync at 'outside_mask:1' with the mask 0xfffffffe, in which this lane is "
      "not");
  expectFault(true, "reads_returned", 64, {10},
              "ds_bpermute at 'reads_returned:1': lane 9 reads lane 10, which does not take part");
}

TEST(Sim, DifferentMasksNeverMeet) {
  for (const OrderCase &order : kOrders) {
    absl::Status status = Sim(false, order.order, order.seed).tryRun("masks_differ", 31);
    EXPECT_NE(status.message().find("lanes of a warp wait for others that do not come"),
              absl::string_view::npos)
        << status;
    EXPECT_NE(status.message().find("at bar.warp.sync 'masks_differ:1' with the mask 0x7fffffff"),
              absl::string_view::npos)
        << status;
  }
}

TEST(Sim, Votes) {
  for (uint32_t yes : {0u, 0xfffffu, 0x00401u}) {
    Words found = Sim(false).run<uint32_t>("votes", 32, 32 * 4, {yes});
    for (uint32_t lane = 0; lane < 20; ++lane)
      EXPECT_EQ(Words(&found[4 * lane], &found[4 * lane] + 4),
                (Words{yes == 0xfffff, yes != 0, yes != 0x00401, yes}));
  }
}

//===----------------------------------------------------------------------===//
// AMD
//===----------------------------------------------------------------------===//

/// update.dpp of all rows and banks: for each lane its source, -1 where there is none.
void expectDpp(int64_t control, const std::function<int(int)> &source) {
  for (int64_t bound : {0, 1}) {
    Words wanted(64);
    for (uint32_t lane = 0; lane < 64; ++lane) {
      int from = source(static_cast<int>(lane));
      wanted[lane] = from >= 0 ? 100 + from : bound ? 0 : 1000 + lane;
    }
    for (const OrderCase &order : kOrders)
      EXPECT_EQ(
          Sim(true, order.order, order.seed).run<uint32_t>("dpp", 64, 64, {control, 15, 15, bound}),
          wanted)
          << std::hex << control;
  }
}

TEST(Sim, DppControls) {
  expectDpp(0x1b, [](int lane) { return lane / 4 * 4 + 3 - lane % 4; });     // quad_perm:[3,2,1,0]
  expectDpp(0x4e, [](int lane) { return lane ^ 2; });                        // quad_perm:[2,3,0,1]
  expectDpp(0x101, [](int lane) { return lane % 16 < 15 ? lane + 1 : -1; }); // row_shl:1
  expectDpp(0x108, [](int lane) { return lane % 16 < 8 ? lane + 8 : -1; });  // row_shl:8
  expectDpp(0x111, [](int lane) { return lane % 16 > 0 ? lane - 1 : -1; });  // row_shr:1
  expectDpp(0x118, [](int lane) { return lane % 16 >= 8 ? lane - 8 : -1; }); // row_shr:8
  expectDpp(0x124, [](int lane) { return lane / 16 * 16 + (lane + 12) % 16; });   // row_ror:4
  expectDpp(0x130, [](int lane) { return lane < 63 ? lane + 1 : -1; });           // wave_shl:1
  expectDpp(0x134, [](int lane) { return (lane + 1) % 64; });                     // wave_rol:1
  expectDpp(0x138, [](int lane) { return lane - 1; });                            // wave_shr:1
  expectDpp(0x13c, [](int lane) { return (lane + 63) % 64; });                    // wave_ror:1
  expectDpp(0x140, [](int lane) { return lane / 16 * 16 + 15 - lane % 16; });     // row_mirror
  expectDpp(0x141, [](int lane) { return lane / 8 * 8 + 7 - lane % 8; });         // row_half_mirror
  expectDpp(0x142, [](int lane) { return lane < 16 ? -1 : lane / 16 * 16 - 1; }); // row_bcast:15
  expectDpp(0x143, [](int lane) { return lane < 32 ? -1 : 31; });                 // row_bcast:31
  expectDpp(0x155, [](int lane) { return lane / 16 * 16 + 5; });                  // row_newbcast:5
}

TEST(Sim, DppMasksOfRowsAndBanks) {
  // Rows 1 and 3, banks 0 and 2 are written; the others keep the old value.
  Words found = Sim(true).run<uint32_t>("dpp", 64, 64, {0x111, 10, 5, 0});
  for (uint32_t lane = 0; lane < 64; ++lane) {
    bool on = lane / 16 % 2 == 1 && lane % 16 / 4 % 2 == 0;
    EXPECT_EQ(found[lane], on && lane % 16 ? 99 + lane : 1000 + lane) << lane;
  }
  expectFault(true, "dpp", 64, {0x110, 15, 15, 0}, "update.dpp with the control 0x110");
}

TEST(Sim, Swizzles) {
  auto expect = [](int64_t offset, const std::function<uint32_t(uint32_t)> &source) {
    Words wanted(64);
    for (uint32_t lane = 0; lane < 64; ++lane)
      wanted[lane] = 100 + source(lane);
    EXPECT_EQ(Sim(true).run<uint32_t>("swizzle", 64, 64, {offset}), wanted) << offset;
  };
  expect(0x041f, [](uint32_t lane) { return lane ^ 1; });                  // xor 1
  expect(0x401f, [](uint32_t lane) { return lane ^ 16; });                 // xor 16
  expect(0x0018, [](uint32_t lane) { return lane & ~7u; });                // and 0x18
  expect(0x001c | 3 << 5, [](uint32_t lane) { return (lane & ~3u) | 3; }); // and 0x1c, or 3
  expect(0x80b1, [](uint32_t lane) { return lane ^ 1; });                  // quad_perm:[1,0,3,2]
  expectFault(true, "swizzle", 64, {0xc020}, "rotations and FFT are not simulated");
}

TEST(Sim, MovesBetweenLanes) {
  for (const OrderCase &order : kOrders) {
    Words found = Sim(true, order.order, order.seed).run<uint32_t>("moves", 64, 5 * 64, {42});
    for (uint32_t lane = 0; lane < 64; ++lane) {
      Words wanted = {100 + (lane * 5 + 3) % 64, lane < 32 ? 101 + 2 * lane : 0, 142, 100,
                      0xaaaaaaaa};
      EXPECT_EQ(Words(&found[5 * lane], &found[5 * lane] + 5), wanted) << lane;
    }
  }
}

TEST(Sim, LibrariesThatDoNotFit) {
  SimDeviceOptions options;
  options.hip = true;
  auto device = createSimDevice(options);
  ASSERT_TRUE(device.ok());
  EXPECT_NE((*device)
                ->loadKernels(ADAPT_TEST_SIM_KERNELS_32, {}, 0)
                .message()
                .find("for warps of 32 lanes, the device has 64"),
            absl::string_view::npos);
  EXPECT_NE((*device)
                ->loadKernels(ADAPT_TEST_KERNELS, {}, 0)
                .message()
                .find("not made for the simulated GPU"),
            absl::string_view::npos);
}

TEST(Sim, MemoryIsNoMemoryOfTheHost) {
  SimDeviceOptions options;
  options.threads = 1; // the death test forks
  auto device = createSimDevice(options);
  ASSERT_TRUE(device.ok());
  ASSERT_TRUE((*device)->loadKernels(ADAPT_TEST_SIM_KERNELS_32, {"identity"}, 0).ok());
  Memory memory = *(*device)->allocate(4096, "test");
  EXPECT_DEATH(std::fputc(*static_cast<volatile char *>(memory.data), stderr), "");
  char byte = 0;
  EXPECT_NE(
      (*device)->write(memory.data + 4090, &byte, 7).message().find("not within one allocation"),
      absl::string_view::npos);
  EXPECT_FALSE((*device)->read(&byte, &byte, 1).ok());
  Launches list(32);
  list.add(0, {1}, {&byte}, {});
  EXPECT_EQ((*device)->run(list.list()).message(),
            "launch 0: buffer 0 is not memory of the device");
}

} // namespace
