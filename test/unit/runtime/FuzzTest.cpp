// Programs with damage at random: refused or taken, but never a crash, a hang or memory out of
// bounds (the sanitizer build looks).
#include "Programs.h"
#include "adapt/Bundle.h"
#include "adapt/ExecutionPlan.h"

#include "gtest/gtest.h"

#include <random>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

/// A few bytes changed, removed or doubled.
std::string damage(std::string bytes, std::mt19937 &random) {
  for (uint32_t edits = 1 + random() % 3; edits && !bytes.empty(); --edits) {
    size_t at = random() % bytes.size();
    switch (random() % 4) {
    case 0:
      bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 2:
      bytes.erase(at, 1 + random() % 4);
      break;
    default:
      bytes.insert(at, bytes.substr(at, 1 + random() % 16));
      break;
    }
  }
  return bytes;
}

TEST(Fuzz, Programs) {
  auto device = createCpuDevice({1, true, false});
  ASSERT_TRUE(device.ok());
  std::string alone = toyModel().SerializeAsString(),
              several = exchangingModel().SerializeAsString();
  std::mt19937 random(1);
  int taken = 0, exchanges = 0;
  for (int round = 0; round < 8000; ++round) {
    absl::StatusOr<Program> program = Program::parse(damage(round % 2 ? several : alone, random));
    if (!program.ok())
      continue;
    ++taken;
    const schema::EntryPoint &entry = program->get().entries(0);
    program->params(entry).IgnoreError();
    const schema::Function &function = program->get().functions(entry.function());
    Memory memory = *(*device)->allocate(1 << 20, "all");
    std::vector<Region> states(program->get().states_size(), {memory.data, memory.bytes});
    std::vector<Region> arguments(function.num_arguments(), {memory.data, memory.bytes});
    auto param = [&](absl::string_view) -> absl::StatusOr<Region> {
      return Region{memory.data, memory.bytes};
    };
    MemoryMap map{param, states, {memory.data, memory.bytes}, arguments};
    absl::StatusOr<ExecutionPlan> plan = ExecutionPlan::build(*program, entry, map);
    if (!plan.ok())
      continue;
    std::vector<int64_t> values;
    for (const schema::Symbol &symbol : program->get().symbols())
      values.push_back(symbol.min() + (symbol.max() - symbol.min()) / 2);
    absl::StatusOr<LaunchList> list = plan->prepare(values);
    if (!list.ok())
      continue;
    for (const Launch &launch : list->launches) {
      ASSERT_LT(launch.shape, list->shapes.size());
      if (list->shapes[launch.shape].kind == LaunchShape::Kind::kKernel) {
        ASSERT_LT(list->shapes[launch.shape].kernel, plan->kernelSymbols().size());
      }
    }
    // What is exchanged lies in the memory that was given.
    for (const Exchange &exchange : plan->exchanges()) {
      ASSERT_LT(exchange.step, plan->exchangeSteps().size());
      ASSERT_LE(exchange.numLaunches, list->launches.size());
      const ExchangeStep &step = plan->exchangeSteps()[exchange.step];
      uint64_t width = step.axis.empty() ? 1 : elementBytes(step.element);
      for (char *data : {exchange.from, exchange.to})
        if (data) {
          ASSERT_GE(data, memory.data);
          ASSERT_LE(step.outer * step.inner * width, uint64_t(memory.data + memory.bytes - data));
        }
      ++exchanges;
    }
  }
  EXPECT_GT(exchanges, 50) << "the damage is too great to test what ranks do together";
  EXPECT_GT(taken, 50) << "the damage is too great to test what follows parsing";
}

TEST(Fuzz, Manifests) {
  std::string good = R"json({"format": "adaptc-bundle", "format_version": 1,
    "producer": {"version": "0.1.0", "commit": "abc", "llvm": "22.1.8"}, "name": "Toy",
    "target": {"name": "cpu", "cpu": "x86-64", "features": ["avx2"]},
    "parallel": {"tp": 1, "pp": 1, "dp": 1, "ep": 1},
    "model": {"kind": "language_model", "family": "toy", "dtype": "float32", "vocab_size": 8,
              "max_seq_len": 30, "bos_token_ids": [1], "eos_token_ids": [2]},
    "limits": {"max_num_tokens": 16, "max_batch_size": 4, "max_seq_len": 30, "block_tokens": 4},
    "ranks": [{"directory": "rank0", "pp_rank": 0, "tp_rank": 0, "layers": [0, 1],
               "program": "rank0/p", "weights": "rank0/w", "kernels": "rank0/k"}],
    "files": [{"path": "rank0/p", "bytes": 1, "xxh3": "99aa06d3014798d86001c324468d497f"},
              {"path": "rank0/w", "bytes": 1, "xxh3": "99aa06d3014798d86001c324468d497f"},
              {"path": "rank0/k", "bytes": 1, "xxh3": "99aa06d3014798d86001c324468d497f"}]})json";
  ASSERT_TRUE(Manifest::parse(good).ok()) << Manifest::parse(good).status();
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round)
    Manifest::parse(damage(good, random)).IgnoreError();
  // Nesting without end.
  EXPECT_FALSE(Manifest::parse(std::string(1 << 20, '[')).ok());
  EXPECT_FALSE(Manifest::parse("{\"a\":" + std::string(1 << 20, '[')).ok());
}

} // namespace
