// A language model over several ranks: in process, by adapt-run --ranks=local and by mpirun.
#include "ToyRanks.h"
#include "adapt/GraphModel.h"
#include "adapt/LanguageModel.h"
#include "adapt/Npy.h"

#include "gtest/gtest.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;
using std::chrono::milliseconds;

namespace {

using Rows = std::vector<std::vector<float>>;

constexpr Mesh kMeshes[] = {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {2, 4}};

/// A CPU whose memory is said to be out of the host's reach.
class FarDevice : public Device {
public:
  explicit FarDevice(std::unique_ptr<Device> device) : device(std::move(device)) {}
  absl::string_view name() const override { return device->name(); }
  bool hostAccessible() const override { return false; }
  absl::Status loadKernels(const std::string &path, absl::Span<const std::string> symbols,
                           uint64_t scratchBytes) override {
    return device->loadKernels(path, symbols, scratchBytes);
  }
  absl::StatusOr<Memory> allocate(uint64_t bytes, absl::string_view what) override {
    return device->allocate(bytes, what);
  }
  absl::Status write(void *to, const void *from, uint64_t bytes) override {
    ++copies;
    return device->write(to, from, bytes);
  }
  absl::Status read(void *to, const void *from, uint64_t bytes) override {
    ++copies;
    return device->read(to, from, bytes);
  }
  absl::Status run(const LaunchList &list) override { return device->run(list); }

  std::unique_ptr<Device> device;
  int copies = 0;
};

absl::StatusOr<std::unique_ptr<Device>> makeDevice(bool far) {
  CpuDeviceOptions options;
  options.threads = 1;
  ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, createCpuDevice(options));
  if (far)
    device = std::make_unique<FarDevice>(std::move(device));
  return device;
}

struct Outcome {
  absl::Status status;
  std::vector<absl::Status> followers;
};

/// Opens the bundle on threads as ranks; the body is rank 0's.
Outcome runRanks(const ToyRanks &toy,
                 const std::function<absl::Status(Bundle &, Communicator &)> &body,
                 bool far = false, milliseconds timeout = milliseconds(20000)) {
  Mesh mesh{toy.pp, toy.tp};
  auto transports = createLocalTransports(mesh.size(), timeout);
  std::vector<absl::Status> statuses(mesh.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < mesh.size(); ++rank)
    threads.emplace_back([&, rank] {
      Communicator ranks(*transports[rank], mesh);
      auto run = [&]() -> absl::Status {
        ADAPT_ASSIGN_OR_RETURN(Bundle bundle, Bundle::open(toy.root, {}));
        ADAPT_RETURN_IF_ERROR(handshake(ranks, bundle));
        if (rank)
          return follow(bundle, ranks, [&] { return makeDevice(far); });
        absl::Status status = body(bundle, ranks);
        dismiss(ranks);
        return status;
      };
      statuses[rank] = run();
      if (ranks.isBroken())
        transports[rank]->announce(statuses[rank]);
    });
  for (std::thread &thread : threads)
    thread.join();
  return {statuses[0], {statuses.begin() + 1, statuses.end()}};
}

std::vector<int32_t> someTokens(int count, int seed) {
  std::vector<int32_t> tokens(count);
  for (int i = 0; i < count; ++i)
    tokens[i] = (i * 5 + seed * 3 + i / 3) % 8;
  return tokens;
}

absl::StatusOr<std::vector<Rows>> step(LanguageModel &model,
                                       std::vector<LanguageModel::Chunk> batch) {
  std::vector<Rows> rows(batch.size());
  ADAPT_RETURN_IF_ERROR(model.step(batch, [&](size_t chunk, int64_t, absl::Span<const float> row) {
    rows[chunk].emplace_back(row.begin(), row.end());
    return absl::OkStatus();
  }));
  return rows;
}

TEST(Ranks, RaggedBatchesOnAllMeshes) {
  for (bool far : {false, true})
    for (Mesh mesh : kMeshes) {
      ToyRanks toy("ranks", mesh.pp, mesh.tp);
      Outcome outcome = runRanks(
          toy,
          [&](Bundle &bundle, Communicator &ranks) -> absl::Status {
            ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, makeDevice(far));
            LanguageModel::Options options;
            options.poison = true;
            ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                                   LanguageModel::load(bundle, std::move(device), options, &ranks));
            EXPECT_EQ(model->vocabSize(), 8);
            // Prefill of three, 20 tokens in two runs; then decode beside another prefill.
            std::vector<std::vector<int32_t>> tokens = {someTokens(12, 1), someTokens(5, 2),
                                                        someTokens(9, 3)};
            std::vector<LanguageModel::SequenceId> ids;
            for (size_t s = 0; s < 3; ++s)
              ids.push_back(model->addSequence());
            auto part = [&](size_t s, size_t begin, size_t count, LanguageModel::Logits logits) {
              return LanguageModel::Chunk{
                  ids[s], absl::MakeConstSpan(tokens[s]).subspan(begin, count), logits};
            };
            using Logits = LanguageModel::Logits;
            ADAPT_ASSIGN_OR_RETURN(
                std::vector<Rows> rows,
                step(*model, {part(0, 0, 11, Logits::kAll), part(1, 0, 4, Logits::kLast),
                              part(2, 0, 5, Logits::kNone)}));
            Rows all = ToyBundle::reference(tokens[0]);
            EXPECT_EQ(rows[0], Rows(all.begin(), all.begin() + 11));
            EXPECT_EQ(rows[1], Rows{ToyBundle::reference(tokens[1])[3]});
            EXPECT_TRUE(rows[2].empty());
            ADAPT_ASSIGN_OR_RETURN(
                rows, step(*model, {part(1, 4, 1, Logits::kLast), part(0, 11, 1, Logits::kLast),
                                    part(2, 5, 4, Logits::kAll)}));
            EXPECT_EQ(rows[0], Rows{ToyBundle::reference(tokens[1])[4]});
            EXPECT_EQ(rows[1], Rows{all[11]});
            Rows third = ToyBundle::reference(tokens[2]);
            EXPECT_EQ(rows[2], Rows(third.begin() + 5, third.end()));
            return absl::OkStatus();
          },
          far);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      for (const absl::Status &status : outcome.followers)
        EXPECT_TRUE(status.ok()) << status;
    }
}

TEST(Ranks, BytesAreCountedByStep) {
  ToyRanks toy("traffic", 2, 4);
  Outcome outcome = runRanks(toy, [&](Bundle &bundle, Communicator &ranks) -> absl::Status {
    ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, makeDevice(false));
    ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                           LanguageModel::load(bundle, std::move(device), {}, &ranks));
    std::vector<int32_t> tokens = someTokens(10, 1);
    ADAPT_RETURN_IF_ERROR(
        step(*model, {{model->addSequence(), tokens, LanguageModel::Logits::kAll}}).status());
    ADAPT_ASSIGN_OR_RETURN(std::vector<Traffic> traffic, model->traffic());
    // By the definition of each operation, of all ranks together: a sum of 10 floats goes round
    // twice, a gathered [10, 8] has parts of [10, 2] that go to 3 others each, and each of 4 ranks
    // hands 10 floats on.
    std::map<std::pair<int, std::string>, std::pair<uint64_t, uint64_t>> found;
    for (const Traffic &entry : traffic)
      found[{entry.stage, absl::StrCat(toString(entry.kind), " ", entry.where)}] = {entry.times,
                                                                                    entry.bytes};
    std::map<std::pair<int, std::string>, std::pair<uint64_t, uint64_t>> wanted = {
        {{0, "all_reduce function 'layer' step 2"}, {1, 2 * 3 * 10 * 4}},
        {{1, "all_reduce function 'layer' step 2"}, {1, 2 * 3 * 10 * 4}},
        {{0, "send function 'main' step 2"}, {1, 4 * 10 * 4}},
        {{1, "receive function 'main' step 0"}, {1, 0}},
        {{1, "all_gather function 'main' step 3"}, {1, 3 * 10 * 8 * 4}}};
    EXPECT_EQ(found, wanted);
    return absl::OkStatus();
  });
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
}

TEST(Ranks, SeveralModelsOneAfterTheOther) {
  ToyRanks toy("again", 2, 2);
  Outcome outcome = runRanks(toy, [&](Bundle &bundle, Communicator &ranks) -> absl::Status {
    for (int round = 0; round < 3; ++round) {
      ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, makeDevice(false));
      ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                             LanguageModel::load(bundle, std::move(device), {}, &ranks));
      std::vector<int32_t> tokens = someTokens(10, round);
      ADAPT_ASSIGN_OR_RETURN(std::vector<Rows> rows,
                             step(*model, {{model->addSequence(), tokens}}));
      EXPECT_EQ(rows[0], Rows{ToyBundle::reference(tokens).back()});
    }
    return absl::CancelledError("enough"); // an error of rank 0's own
  });
  EXPECT_EQ(outcome.status.message(), "enough");
  for (const absl::Status &status : outcome.followers)
    EXPECT_TRUE(status.ok()) << status;
}

TEST(Ranks, WhatOneRankCannotLoadRankZeroSays) {
  ToyRanks toy("unloadable", 1, 2);
  toy.write("rank1/weights.pb", "\xff");
  toy.writeManifest();
  Outcome outcome = runRanks(toy, [&](Bundle &bundle, Communicator &ranks) -> absl::Status {
    ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, makeDevice(false));
    return LanguageModel::load(bundle, std::move(device), {}, &ranks).status();
  });
  EXPECT_NE(outcome.status.message().find("rank 1: "), absl::string_view::npos) << outcome.status;
  EXPECT_NE(outcome.status.message().find("rank1/weights.pb"), absl::string_view::npos)
      << outcome.status;
  EXPECT_TRUE(outcome.followers[0].ok());
}

TEST(Ranks, AKernelThatFailsOnOneRankEndsAll) {
  for (int stage : {0, 1}) {
    ToyRanks toy("failing", 2, 2);
    // The stage's embed, or head, is a kernel that fails in its fourth item.
    schema::Program program = toy.program(stage);
    program.mutable_kernels(stage ? 3 : 0)->mutable_variants(0)->set_symbol("fail");
    toy.write(stage ? "rank2/program.pb" : "rank0/program.pb", program.SerializeAsString());
    toy.writeManifest();
    Outcome outcome = runRanks(toy, [&](Bundle &bundle, Communicator &ranks) -> absl::Status {
      ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, makeDevice(false));
      ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                             LanguageModel::load(bundle, std::move(device), {}, &ranks));
      std::vector<int32_t> tokens = someTokens(10, 1);
      return step(*model, {{model->addSequence(), tokens, LanguageModel::Logits::kAll}}).status();
    });
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal);
    EXPECT_NE(outcome.status.message().find("kernel 'fail' returned -7"), absl::string_view::npos)
        << outcome.status;
    for (const absl::Status &status : outcome.followers)
      EXPECT_FALSE(status.ok());
  }
}

TEST(Ranks, ProgramsThatDoNotFitTheMesh) {
  struct {
    std::function<void(schema::Program &)> change;
    const char *words;
  } cases[] = {
      {[](schema::Program &p) { p.mutable_symbols(4)->set_max(2); },
       "the program was made for 3 ranks along the axis 'tp', there are 2"},
      {[](schema::Program &p) {
         p.mutable_functions(0)->mutable_steps(2)->mutable_transfer()->set_peer_stage(5);
       },
       "function 'main' step 2: a transfer between stage 0 and stage 5 of 2"},
      {[](schema::Program &p) {
         p.mutable_functions(0)->mutable_steps(2)->mutable_transfer()->set_peer_stage(0);
       },
       "a transfer between stage 0 and stage 0 of 2"},
      {[](schema::Program &p) {
         p.mutable_functions(1)->mutable_steps(2)->mutable_collective()->set_axis("pp");
         schema::Symbol &symbol = *p.add_symbols();
         symbol.set_name("pp_rank");
         symbol.set_max(2);
       },
       "the program was made for 3 ranks along the axis 'pp', there are 2"},
      {[](schema::Program &p) { p.mutable_entries(0)->mutable_inputs(5)->set_name("ids"); },
       "this stage of a language model has no port 'ids'\n  no port 'token_ids'"},
  };
  for (const auto &test : cases) {
    ToyRanks toy("misfit", 2, 2);
    schema::Program program = toy.program(0);
    test.change(program);
    toy.write("rank0/program.pb", program.SerializeAsString());
    toy.writeManifest();
    Outcome outcome = runRanks(toy, [&](Bundle &bundle, Communicator &ranks) -> absl::Status {
      ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, makeDevice(false));
      return LanguageModel::load(bundle, std::move(device), {}, &ranks).status();
    });
    EXPECT_NE(outcome.status.message().find(test.words), absl::string_view::npos)
        << "wanted: " << test.words << "\ngot: " << outcome.status;
  }
}

TEST(Ranks, ABundleOfSeveralRanksOnOneSaysBothCommands) {
  ToyRanks toy("alone", 2, 2);
  absl::StatusOr<Bundle> bundle = Bundle::open(toy.root, {});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  absl::Status status = LanguageModel::load(*bundle, *makeDevice(false), {}).status();
  EXPECT_NE(status.message().find("made for 4 ranks (tp=2, pp=2): run them as threads with "
                                  "--ranks=local, or as processes with mpirun -n 4 adapt-run"),
            absl::string_view::npos)
      << status;
}

TEST(Ranks, AGraphOfSeveralRanksIsRefused) {
  schema::Program proto = parseText(R"pb(
    version: 1
    symbols { name: "tp_rank" max: 1 }
    functions { name: "main" arena_bytes: 128
                buffers { name: "x" element: F32 shape { constant: 4 } bytes: 64 arena_offset: 0 }
                steps { collective { axis: "tp" from: 0 to: 0
                                     outer { constant: 1 } inner { constant: 4 } } } }
    entries { name: "main" kind: "graph" function: 0 inputs { name: "x" buffer: 0 } }
    arena_bytes: 128)pb");
  absl::StatusOr<Program> program = Program::create(proto);
  ASSERT_TRUE(program.ok()) << program.status();
  absl::Status status = GraphModel::create(*makeDevice(false), *program, {}, {}).status();
  EXPECT_NE(status.message().find(
                "function 'main' step 0: exchanges with other ranks, but there are none"),
            absl::string_view::npos)
      << status;
}

TEST(StepInputs, ThereAndBack) {
  StepInputs inputs{{1, 2, 3}, {0, 1, 0}, {0, 2, 3}, {2, 1}, {5, 6, 7, 8}, {1, 2}, 2};
  absl::StatusOr<StepInputs> back = StepInputs::parse(inputs.serialize());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->tokenIds, inputs.tokenIds);
  EXPECT_EQ(back->positions, inputs.positions);
  EXPECT_EQ(back->seqStarts, inputs.seqStarts);
  EXPECT_EQ(back->kvLens, inputs.kvLens);
  EXPECT_EQ(back->blockTable, inputs.blockTable);
  EXPECT_EQ(back->logitRows, inputs.logitRows);
  EXPECT_EQ(back->wantedRows, 2);
  // Every damage is refused or gives a step that agrees with itself.
  std::string good = inputs.serialize();
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(StepInputs::parse(good.substr(0, length)).ok());
  EXPECT_FALSE(StepInputs::parse(good + "x").ok());
  for (size_t at = 0; at < 7 * sizeof(int64_t); ++at)
    for (char value : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string bytes = good;
      bytes[at] = value;
      absl::StatusOr<StepInputs> damaged = StepInputs::parse(bytes);
      if (damaged.ok()) {
        EXPECT_EQ(damaged->positions.size(), damaged->tokenIds.size());
        EXPECT_EQ(damaged->seqStarts.size(), damaged->kvLens.size() + 1);
      }
    }
}

//===----------------------------------------------------------------------===//
// adapt-run
//===----------------------------------------------------------------------===//

#ifdef ADAPT_RUN
/// Exit status and output, without what MPI's hwloc says where no /sys is mounted.
std::pair<int, std::string> shell(const std::string &command) {
  std::string output;
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (size_t got = fread(buffer, 1, sizeof(buffer), pipe))
    output.append(buffer, got);
  int status = pclose(pipe);
  for (size_t at; (at = output.find("[hwloc/")) != std::string::npos;) {
    size_t end = output.find('\n', at);
    output.erase(at, end == std::string::npos ? end : end + 1 - at);
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

/// How to start adapt-run for so many ranks: as threads, and as processes where there is MPI.
std::vector<std::string> waysToRun(int ranks) {
  std::vector<std::string> ways = {std::string(ADAPT_RUN) + " --ranks=local "};
#ifdef ADAPT_MPIRUN
  ways.push_back(absl::StrCat(ADAPT_MPIRUN, " -n ", ranks, " ", ADAPT_RUN, " "));
#endif
  (void)ranks;
  return ways;
}

class AdaptRunRanks : public testing::Test {
protected:
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("adapt_ranks_cli_" + std::to_string(getpid()));
  void SetUp() override {
    std::filesystem::create_directories(folder);
    const int64_t ids[] = {3, 1, 4, 1, 5, 2, 99, 99, 99, 99};
    absl::StatusOr<NpyWriter> writer = NpyWriter::create(folder / "ids.npy", "<i8", {2, 5});
    ASSERT_TRUE(writer.ok() && writer->write(0, ids, 10).ok() && writer->finish().ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string tokens(const ToyRanks &toy) const {
    return absl::StrCat(toy.root.string(), " --lengths 5,1 --tokens ",
                        (folder / "ids.npy").string(), " --logits ",
                        (folder / "logits.npy").string());
  }
};

TEST_F(AdaptRunRanks, LogitsAndStats) {
  std::vector<float> wanted(2 * 5 * 8, 0.0f);
  Rows first = ToyBundle::reference({3, 1, 4, 1, 5}), second = ToyBundle::reference({2});
  for (size_t t = 0; t < 5; ++t)
    std::copy(first[t].begin(), first[t].end(), wanted.begin() + t * 8);
  std::copy(second[0].begin(), second[0].end(), wanted.begin() + 5 * 8);
  for (Mesh mesh : {Mesh{1, 2}, {2, 1}, {2, 2}}) {
    ToyRanks toy("cli", mesh.pp, mesh.tp);
    for (const std::string &way : waysToRun(mesh.size())) {
      auto [code, text] =
          shell(way + tokens(toy) + " --chunk 2 --stats " + (folder / "stats.json").string());
      ASSERT_EQ(code, 0) << way << text;
      EXPECT_EQ(text, "") << way; // output of rank 0 only, which has none
      std::string bytes = *readFile(folder / "logits.npy", 1 << 20);
      size_t header =
          10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
      std::vector<float> values((bytes.size() - header) / sizeof(float));
      std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(float));
      EXPECT_EQ(values, wanted) << way;
      nlohmann::json stats = nlohmann::json::parse(*readFile(folder / "stats.json", 1 << 20));
      EXPECT_EQ(stats["mesh"], (nlohmann::json{{"pp", mesh.pp}, {"tp", mesh.tp}}));
      // Six tokens: 2 sums of 6 floats, 6 gathered rows of 8, 6 floats handed on by each.
      uint64_t others = mesh.tp - 1;
      EXPECT_EQ(stats["bytes"],
                2 * 2 * others * 6 * 4 + others * 6 * 8 * 4 + (mesh.pp - 1) * mesh.tp * 6 * 4)
          << stats.dump(2);
    }
  }
}

TEST_F(AdaptRunRanks, OneErrorOnStderr) {
  ToyRanks toy("errors", 1, 2);
  auto count = [](const std::string &text) {
    size_t errors = 0;
    for (size_t at = 0; (at = text.find("adapt-run: error: ", at)) != std::string::npos; ++at)
      ++errors;
    return errors;
  };
  auto check = [&](const std::string &command, int wantedCode, const std::string &words) {
    auto [code, text] = shell(command);
    EXPECT_EQ(code, wantedCode) << command << text;
    EXPECT_EQ(count(text), 1u) << command << text;
    EXPECT_NE(text.find(words), std::string::npos) << command << text;
  };
  std::string both = "run them as threads with --ranks=local, or as processes with mpirun -n 2";
  check(std::string(ADAPT_RUN) + " " + tokens(toy), 1, both);
  for (const std::string &way : waysToRun(2)) {
    check(way + tokens(toy) + "x --bench-prompt 1 2>/dev/null; " + way + toy.root.string() +
              "x --prompt a",
          1, "No such file");
    check(way + toy.root.string() + " --prompt a", 1, "has no tokenizer");
    check(way + toy.root.string() + " --tokens absent.npy --logits x.npy", 1, "absent.npy");
  }
  {
    ToyRanks failing("errors2", 1, 2);
    schema::Program program = failing.program(0);
    program.mutable_kernels(0)->mutable_variants(0)->set_symbol("fail");
    failing.write("rank0/program.pb", program.SerializeAsString());
    failing.writeManifest();
    for (const std::string &way : waysToRun(2))
      check(way + tokens(failing), 3, "kernel 'fail' returned -7");
  }
  {
    ToyRanks damaged("errors3", 1, 2);
    damaged.write("rank1/weights.pb", "\xff");
    damaged.writeManifest();
    for (const std::string &way : waysToRun(2))
      check(way + tokens(damaged), 1, "rank1/weights.pb");
  }
#ifdef ADAPT_MPIRUN
  auto [usage, complaint] =
      shell(absl::StrCat(ADAPT_MPIRUN, " -n 2 ", ADAPT_RUN, " --no-such-option"));
  EXPECT_EQ(usage, 2);
  EXPECT_EQ(complaint.find("--no-such-option"), complaint.rfind("--no-such-option")) << complaint;
  check(absl::StrCat(ADAPT_MPIRUN, " -n 3 ", ADAPT_RUN, " ", tokens(toy)), 1,
        "made for 2 ranks (tp=2, pp=1), but 3 were started: mpirun -n 2 adapt-run");
  // Two bundles that differ: each process is given its own.
  ToyRanks other("errors4", 1, 2);
  other.manifest["name"] = "Other";
  other.writeManifest();
  check(absl::StrCat(ADAPT_MPIRUN, " -n 1 ", ADAPT_RUN, " ", tokens(toy), " : -n 1 ", ADAPT_RUN,
                     " ", tokens(other)),
        1, "hash of the bundle's manifest: rank 0 has ");
#endif
}
#endif

} // namespace
