#include "adapt/ExecutionPlan.h"
#include "Programs.h"

#include "gtest/gtest.h"

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

/// A program with one function, one symbol N and one kernel; its buffers are arguments of 64 KiB.
struct Fixture {
  Memory memory[3];
  std::vector<Region> arguments;
  std::unique_ptr<Device> device;

  explicit Fixture(int threads = 2) {
    auto created = createCpuDevice({threads, true, false});
    EXPECT_TRUE(created.ok()) << created.status();
    device = *std::move(created);
    for (Memory &argument : memory) {
      argument = *device->allocate(1 << 16, "argument");
      arguments.push_back({argument.data, argument.bytes});
    }
  }

  int64_t *data(int argument) { return reinterpret_cast<int64_t *>(memory[argument].data); }

  absl::StatusOr<ExecutionPlan> build(const std::string &rest, int numArguments = 3) {
    std::string text = R"pb(
      version: 1
      symbols { name: "N" min: 0 max: 1000 }
      entries { name: "main" kind: "graph" function: 0
                inputs { name: "a" buffer: 0 } inputs { name: "b" buffer: 1 }
                outputs { name: "c" buffer: 2 } })pb";
    schema::Program proto = parseText(text + rest);
    schema::Function &main = *proto.mutable_functions(0);
    main.set_num_arguments(numArguments);
    for (int i = 0; i < numArguments; ++i) {
      schema::Buffer &buffer = *main.add_buffers();
      buffer.set_name(std::string(1, 'a' + i));
      buffer.set_element(schema::I64);
      buffer.set_bytes(1 << 16);
      buffer.set_argument(i);
    }
    absl::StatusOr<Program> program = Program::create(std::move(proto));
    if (!program.ok())
      return program.status();
    auto noParam = [](absl::string_view name) -> absl::StatusOr<Region> {
      return absl::NotFoundError(name);
    };
    MemoryMap map{noParam, {}, {}, arguments};
    absl::StatusOr<const schema::EntryPoint *> entry = program->findEntry("main");
    absl::StatusOr<ExecutionPlan> plan = ExecutionPlan::build(*program, **entry, map);
    if (!plan.ok())
      return plan.status();
    if (absl::Status status =
            device->loadKernels(ADAPT_TEST_KERNELS, plan->kernelSymbols(), plan->scratchBytes());
        !status.ok())
      return status;
    return plan;
  }

  absl::Status run(ExecutionPlan &plan, int64_t n) {
    absl::StatusOr<LaunchList> list = plan.prepare({n});
    return list.ok() ? device->run(*list) : list.status();
  }
};

TEST(ExecutionPlan, GridsAreWalkedOnceInOrder) {
  for (int threads : {1, 2, 5}) {
    Fixture fixture(threads);
    auto plan = fixture.build(R"pb(
      kernels { name: "record" sizes: "n" sizes: "g1" sizes: "g2"
                variants { symbol: "record" grid { symbol: "n" } grid { symbol: "g1" }
                           grid { symbol: "g2" } } }
      functions { name: "main"
                  steps { launch { kernel: 0 buffers: 0 sizes { symbol: "N" }
                                   sizes { constant: 3 } sizes { constant: 5 } } } })pb");
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (int64_t n : {0, 1, 7, 30}) {
      std::fill_n(fixture.data(0), 4 * 30 * 15, 0);
      ASSERT_TRUE(fixture.run(*plan, n).ok());
      for (int64_t item = 0; item < 30 * 15; ++item) {
        int64_t *out = fixture.data(0) + 4 * item;
        ASSERT_EQ(out[0], item < n * 15) << item;
        if (item < n * 15) {
          EXPECT_EQ(out[1], item / 15);
          EXPECT_EQ(out[2], item / 5 % 3);
          EXPECT_EQ(out[3], item % 5);
        }
      }
    }
  }
}

TEST(ExecutionPlan, LaunchesSeeThoseBeforeThem) {
  for (int threads : {1, 2, 4}) {
    Fixture fixture(threads);
    std::string steps;
    for (int i = 0; i < 100; ++i)
      steps += std::string("steps { launch { kernel: 0 buffers: ") + (i % 2 ? "[1, 0]" : "[0, 1]") +
               " sizes { symbol: 'N' } } } ";
    auto plan = fixture.build("kernels { name: 'r' sizes: 'n' variants { symbol: "
                              "'reverse_increment' grid { symbol: 'n' } } } "
                              "functions { name: 'main' " +
                              steps + "}");
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (int i = 0; i < 37; ++i)
      fixture.data(0)[i] = i;
    ASSERT_TRUE(fixture.run(*plan, 37).ok());
    for (int i = 0; i < 37; ++i)
      EXPECT_EQ(fixture.data(0)[i], i + 100);
  }
}

TEST(ExecutionPlan, FirstVariantWhoseGuardsHold) {
  Fixture fixture;
  auto plan = fixture.build(R"pb(
    kernels { name: "mark" sizes: "n"
              variants { symbol: "mark_small" guards { size: "n" min: 1 max: 1 }
                         grid { constant: 1 } }
              variants { symbol: "mark_medium" guards { size: "n" min: 0 max: 16 }
                         guards { size: "n" min: 2 max: 100 } grid { constant: 1 } }
              variants { symbol: "mark_large" grid { constant: 1 } } }
    functions { name: "main" steps { launch { kernel: 0 buffers: 0 sizes { symbol: "N" } } } })pb");
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (auto [n, mark] : {std::pair(0, 3), {1, 1}, {2, 2}, {16, 2}, {17, 3}, {1000, 3}, {1, 1}}) {
    ASSERT_TRUE(fixture.run(*plan, n).ok());
    EXPECT_EQ(fixture.data(0)[0], mark) << n;
  }
}

TEST(ExecutionPlan, GpuLaunchesSayTheirThreadsAndArguments) {
  Fixture fixture;
  auto plan = fixture.build(R"pb(
    kernels { name: "k" sizes: "n" sizes: "wide"
              variants { symbol: "record" threads: 96 grid { symbol: "n" } grid { symbol: "wide" } } }
    functions { name: "main"
      steps { launch { kernel: 0 buffers: [0, 1, 2] sizes { symbol: "N" }
        sizes { binary { kind: MUL lhs { constant: 200 } rhs { symbol: "N" } } } } }
      steps { launch { kernel: 0 buffers: [1, 2, 0] sizes { constant: 1 }
        sizes { binary { kind: MUL lhs { symbol: "N" } rhs { constant: 2150000 } } } } } })pb");
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto list = plan->prepare({900});
  ASSERT_TRUE(list.ok()) << list.status();
  const LaunchShape &shape = list->shapes[0];
  EXPECT_EQ(shape.threads, 96u);
  EXPECT_EQ(shape.numBuffers, 3u);
  EXPECT_EQ(shape.numSizes, 2u);
  EXPECT_EQ(shape.gridRank, 2u);
  EXPECT_EQ(shape.grid[0], 900u);
  EXPECT_EQ(shape.grid[1], 180000u);
  EXPECT_EQ(plan->prepare({1000}).status().message(),
            "function 'main' step 1: grid extent 1 of kernel 'k' is 2150000000 for sizes 1, "
            "2150000000, a GPU has at most 2147483647 blocks there");
}

TEST(ExecutionPlan, GpuGridsAreLimitedBeyondTheLastExtent) {
  Fixture fixture;
  auto plan = fixture.build(R"pb(
    kernels { name: "k" sizes: "n" variants { symbol: "record" threads: 32
              grid { symbol: "n" } grid { constant: 2 } } }
    functions { name: "main" steps { launch { kernel: 0 buffers: 0 sizes {
      binary { kind: MUL lhs { constant: 128 } rhs { symbol: "N" } } } } } })pb");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->prepare({511}).ok());
  EXPECT_EQ(
      plan->prepare({512}).status().message(),
      "function 'main' step 0: grid extent 0 of kernel 'k' is 65536 for sizes 65536, a GPU has "
      "at most 65535 blocks there");
}

TEST(ExecutionPlan, CopiesByAnyThreads) {
  for (int threads : {1, 3}) {
    Fixture fixture(threads);
    auto plan = fixture.build(R"pb(
      functions { name: "main"
        steps { copy { from: 0 to: 2 bytes { binary { kind: MUL lhs { symbol: "N" }
                                                      rhs { constant: 80 } } } } } })pb");
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (int i = 0; i < 8192; ++i)
      fixture.data(0)[i] = i;
    ASSERT_TRUE(fixture.run(*plan, 819).ok());
    for (int i = 0; i < 8190; ++i)
      ASSERT_EQ(fixture.data(2)[i], i);
    EXPECT_EQ(fixture.data(2)[8190], 0);
    absl::Status status = fixture.run(*plan, 820);
    EXPECT_NE(status.message().find("copy of 65600 bytes"), absl::string_view::npos) << status;
  }
}

TEST(ExecutionPlan, AKernelsErrorIsNamed) {
  for (int threads : {1, 4}) {
    Fixture fixture(threads);
    auto plan = fixture.build(R"pb(
      kernels { name: "f" sizes: "n" variants { symbol: "fail" grid { symbol: "n" } } }
      kernels { name: "m" variants { symbol: "mark_large" grid { constant: 1 } } }
      functions { name: "main" steps { launch { kernel: 0 sizes { symbol: "N" } } }
                  steps { launch { kernel: 1 buffers: 0 } } })pb");
    ASSERT_TRUE(plan.ok()) << plan.status();
    absl::Status status = fixture.run(*plan, 8);
    EXPECT_EQ(status.message(), "launch 0 of 2: kernel 'fail' returned -7");
    EXPECT_EQ(fixture.data(0)[0], 0) << "what follows is not run";
    EXPECT_TRUE(fixture.run(*plan, 3).ok()) << "the device works again";
    EXPECT_EQ(fixture.data(0)[0], 3);
  }
}

TEST(ExecutionPlan, SizesOutOfBounds) {
  Fixture fixture;
  auto plan = fixture.build(R"pb(
    kernels { name: "m" sizes: "n" variants { symbol: "mark_large" grid { symbol: "n" } } }
    functions { name: "main"
      steps { launch { kernel: 0 buffers: 0 sizes {
        binary { kind: SUB lhs { constant: 5 } rhs { symbol: "N" } } } } } })pb");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(fixture.run(*plan, 5).ok());
  EXPECT_NE(fixture.run(*plan, 6).message().find("grid extent 0 of kernel 'm' is -1"),
            absl::string_view::npos);
  EXPECT_NE(fixture.run(*plan, 1001)
                .message()
                .find("size 'N' is 1001, the program was made for 0 "
                      "to 1000"),
            absl::string_view::npos);
  EXPECT_FALSE(plan->prepare({1, 2}).ok());
  EXPECT_TRUE(fixture.run(*plan, 4).ok());
}

TEST(ExecutionPlan, ExponentialCallsAreRefused) {
  Fixture fixture;
  std::string functions;
  for (int i = 0; i < 40; ++i) {
    std::string call = "steps { call { function: " + std::to_string(i + 1) + " } } ";
    functions += "functions { name: 'f" + std::to_string(i) + "' " + (i ? call : "") + call + "} ";
  }
  auto plan = fixture.build(functions + "functions { name: 'leaf' }");
  EXPECT_EQ(plan.status().message(), "the program expands to more than 4194304 steps");
}

TEST(ExecutionPlan, MissingLibraryAndRelativePath) {
  auto device = createCpuDevice();
  ASSERT_TRUE(device.ok());
  EXPECT_NE((*device)->loadKernels("kernels.so", {}, 0).message().find("not an absolute path"),
            absl::string_view::npos);
  EXPECT_NE((*device)->loadKernels("/nowhere/kernels.so", {}, 0).message().find("/nowhere"),
            absl::string_view::npos);
}

} // namespace
