// What every communicator must do. The same tests run over threads, and, started by mpirun with
// ADAPT_TEST_TRANSPORT=mpi, over processes. Expected values come from the definition of each
// operation, element by element.
#include "adapt/Communicator.h"

#include "gtest/gtest.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include <sys/wait.h>

using namespace adapt;
using namespace adapt::rt;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kTimeout(20000);

/// The transport of this process, where it is one rank of several.
std::unique_ptr<Transport> process;

void runLocally(Mesh mesh, milliseconds timeout,
                const std::function<void(Transport &, Communicator &)> &body) {
  auto transports = createLocalTransports(mesh.size(), timeout);
  std::vector<std::thread> threads;
  for (auto &transport : transports)
    threads.emplace_back([&, raw = transport.get()] {
      Communicator communicator(*raw, mesh);
      body(*raw, communicator);
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// Calls the body on every rank, for meshes of one to four ranks.
void onAllRanks(const std::function<void(Communicator &)> &body) {
  for (Mesh mesh : {Mesh{1, 1}, {1, 2}, {2, 1}, {1, 3}, {3, 1}, {1, 4}, {2, 2}, {4, 1}}) {
    if (!process) {
      runLocally(mesh, kTimeout, [&](Transport &, Communicator &all) { body(all); });
    } else if (process->size() == mesh.size()) {
      Communicator all(*process, mesh);
      body(all);
    }
  }
}

template <typename T> char *bytesOf(std::vector<T> &values) {
  return reinterpret_cast<char *>(values.data());
}

/// Small whole numbers: exact in every type.
int valueAt(int rank, size_t index) { return static_cast<int>((rank * 7 + index * 3) % 11) - 5; }

uint16_t bf16Of(float value) { // exact ones only
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

TEST(Conformance, RanksAndGroups) {
  onAllRanks([](Communicator &all) {
    Mesh mesh = all.mesh();
    EXPECT_EQ(all.size(), mesh.pp * mesh.tp);
    EXPECT_EQ(all.rank(), all.ppRank() * mesh.tp + all.tpRank());
    Group tp = *all.group("tp"), pp = *all.group("pp");
    ASSERT_EQ(tp.ranks.size(), static_cast<size_t>(mesh.tp));
    ASSERT_EQ(pp.ranks.size(), static_cast<size_t>(mesh.pp));
    EXPECT_EQ(tp.ranks[tp.me], all.rank());
    EXPECT_EQ(pp.ranks[pp.me], all.rank());
    for (int t = 0; t < mesh.tp; ++t)
      EXPECT_EQ(tp.ranks[t], all.ppRank() * mesh.tp + t);
    for (int p = 0; p < mesh.pp; ++p)
      EXPECT_EQ(pp.ranks[p], p * mesh.tp + all.tpRank());
    EXPECT_EQ(all.group("ep").status().code(), absl::StatusCode::kInvalidArgument);
  });
}

TEST(Conformance, AllReduceSums) {
  onAllRanks([](Communicator &all) {
    Group group = *all.group("tp");
    size_t ranks = group.ranks.size();
    // Fewer elements than ranks, not divisible, and more than a message of any eager protocol.
    for (size_t count : {0, 1, 2, 3, 5, 64, 1000, 100003}) {
      std::vector<float> from(count), to(count, -1), wanted(count, 0);
      for (size_t i = 0; i < count; ++i) {
        from[i] = static_cast<float>(valueAt(group.me, i));
        for (size_t r = 0; r < ranks; ++r)
          wanted[i] += static_cast<float>(valueAt(static_cast<int>(r), i));
      }
      std::vector<float> unchanged = from;
      auto sent = all.allReduce(group, schema::F32, bytesOf(from), bytesOf(to), count);
      ASSERT_TRUE(sent.ok()) << sent.status();
      EXPECT_EQ(to, wanted);
      EXPECT_EQ(from, unchanged);
      // All ranks together send 2 (ranks - 1) times the tensor.
      std::vector<int32_t> bytes = {static_cast<int32_t>(*sent)}, total(1);
      ASSERT_TRUE(all.allReduce(group, schema::I32, bytesOf(bytes), bytesOf(total), 1).ok());
      EXPECT_EQ(static_cast<size_t>(total[0]), 2 * (ranks - 1) * count * sizeof(float));
      // In place.
      ASSERT_TRUE(all.allReduce(group, schema::F32, bytesOf(from), bytesOf(from), count).ok());
      EXPECT_EQ(from, wanted);
    }
  });
}

TEST(Conformance, SumsInTheOrderOfRanksRoundedOnce) {
  onAllRanks([](Communicator &all) {
    Group group = *all.group("tp");
    size_t ranks = group.ranks.size();
    if (ranks < 3)
      return;
    // (1e8 + 1) - 1e8 is 0 in f32, in any other order 1 or -... : rank 3 adds 0.
    const float parts[] = {1e8f, 1.0f, -1e8f, 0.0f};
    std::vector<float> from(9, parts[group.me]), to(9, -1);
    ASSERT_TRUE(all.allReduce(group, schema::F32, bytesOf(from), bytesOf(to), 9).ok());
    EXPECT_EQ(to, std::vector<float>(9, 0.0f));
    // 1 + 2^-8 + 2^-9 rounds to 1 + 2^-7 in bf16; rounded after each addition it would stay 1.
    const float small[] = {1.0f, 0x1p-8f, 0x1p-9f, 0.0f};
    std::vector<uint16_t> fromBf16(5, bf16Of(small[group.me])), toBf16(5);
    ASSERT_TRUE(all.allReduce(group, schema::BF16, bytesOf(fromBf16), bytesOf(toBf16), 5).ok());
    EXPECT_EQ(toBf16, std::vector<uint16_t>(5, bf16Of(1.0f + 0x1p-7f)));
    // The same in f16, whose last place of 1 is 2^-10: 1 + 2^-11 + 2^-12.
    const uint16_t half[] = {0x3c00, 0x1000, 0x0c00, 0x0000};
    std::vector<uint16_t> fromF16(5, half[group.me]), toF16(5);
    ASSERT_TRUE(all.allReduce(group, schema::F16, bytesOf(fromF16), bytesOf(toF16), 5).ok());
    EXPECT_EQ(toF16, std::vector<uint16_t>(5, 0x3c01));
  });
}

TEST(Conformance, SpecialValues) {
  onAllRanks([](Communicator &all) {
    Group group = *all.group("tp");
    float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> from = {-0.0f, group.me == 0 ? infinity : 1.0f,
                               group.me == 0 ? std::nanf("") : 1.0f};
    std::vector<float> to(3);
    ASSERT_TRUE(all.allReduce(group, schema::F32, bytesOf(from), bytesOf(to), 3).ok());
    EXPECT_TRUE(to[0] == 0 && std::signbit(to[0]));
    EXPECT_EQ(to[1], infinity);
    EXPECT_TRUE(std::isnan(to[2]));
    // Integers wrap around.
    std::vector<int32_t> ints = {INT32_MAX}, sum(1);
    ASSERT_TRUE(all.allReduce(group, schema::I32, bytesOf(ints), bytesOf(sum), 1).ok());
    EXPECT_EQ(sum[0], static_cast<int32_t>(static_cast<uint32_t>(INT32_MAX) *
                                           static_cast<uint32_t>(group.ranks.size())));
    EXPECT_FALSE(all.allReduce({{all.rank()}, 0}, schema::I8, bytesOf(from), bytesOf(to), 1).ok());
  });
}

TEST(Conformance, AllGatherPutsPartsInOrder) {
  onAllRanks([](Communicator &all) {
    for (const char *axis : {"tp", "pp"}) {
      Group group = *all.group(axis);
      size_t ranks = group.ranks.size();
      for (auto [outer, inner] :
           {std::pair<size_t, size_t>(1, 5), {3, 1}, {4, 7}, {0, 3}, {2, 0}, {300, 101}}) {
        std::vector<int32_t> from(outer * inner), to(outer * inner * ranks, -99), wanted;
        for (size_t i = 0; i < from.size(); ++i)
          from[i] = group.me * 1000000 + static_cast<int>(i);
        for (size_t o = 0; o < outer; ++o)
          for (size_t r = 0; r < ranks; ++r)
            for (size_t i = 0; i < inner; ++i)
              wanted.push_back(static_cast<int>(r * 1000000 + o * inner + i));
        auto sent = all.allGather(group, bytesOf(from), bytesOf(to), outer, inner * 4);
        ASSERT_TRUE(sent.ok()) << sent.status();
        EXPECT_EQ(to, wanted);
        EXPECT_EQ(*sent, outer * inner * 4 * (ranks - 1));
      }
    }
  });
}

TEST(Conformance, ReduceScatterGivesEachItsPart) {
  onAllRanks([](Communicator &all) {
    Group group = *all.group("tp");
    size_t ranks = group.ranks.size();
    for (auto [outer, inner] :
         {std::pair<size_t, size_t>(1, 5), {3, 1}, {4, 7}, {0, 3}, {50, 99}}) {
      std::vector<float> from(outer * inner * ranks), to(outer * inner, -1), wanted;
      for (size_t i = 0; i < from.size(); ++i)
        from[i] = static_cast<float>(valueAt(group.me, i));
      for (size_t o = 0; o < outer; ++o)
        for (size_t i = 0; i < inner; ++i) {
          float sum = 0;
          for (size_t r = 0; r < ranks; ++r)
            sum += static_cast<float>(
                valueAt(static_cast<int>(r), (o * ranks + group.me) * inner + i));
          wanted.push_back(sum);
        }
      auto sent = all.reduceScatter(group, schema::F32, bytesOf(from), bytesOf(to), outer, inner);
      ASSERT_TRUE(sent.ok()) << sent.status();
      EXPECT_EQ(to, wanted);
      EXPECT_EQ(*sent, outer * inner * 4 * (ranks - 1));
    }
  });
}

TEST(Conformance, MessagesOfATagArriveInOrder) {
  onAllRanks([](Communicator &all) {
    int next = (all.rank() + 1) % all.size(), before = (all.rank() + all.size() - 1) % all.size();
    if (all.size() == 1)
      return;
    // Every second rank begins with receiving, so that a blocking send finds its receiver.
    for (int round = 0; round < 20; ++round) {
      std::vector<int32_t> mine(1 + round * 5000, all.rank() * 100 + round), got(mine.size());
      auto send = [&] { ASSERT_TRUE(all.send(next, 3, {bytesOf(mine), mine.size() * 4}).ok()); };
      auto receive = [&] {
        ASSERT_TRUE(all.receive(before, 3, absl::MakeSpan(bytesOf(got), got.size() * 4)).ok());
      };
      if (all.rank() == 0) {
        send();
        receive();
      } else {
        receive();
        send();
      }
      EXPECT_EQ(got, std::vector<int32_t>(got.size(), before * 100 + round));
    }
  });
}

TEST(Conformance, TagsAreApart) {
  onAllRanks([](Communicator &all) {
    if (all.size() == 1)
      return;
    char a = 'a', b = 'b', first = 0, second = 0;
    if (all.rank() == 0) {
      ASSERT_TRUE(all.send(1, 5, {&a, 1}).ok());
      ASSERT_TRUE(all.send(1, 16383, {&b, 1}).ok());
    } else if (all.rank() == 1) {
      ASSERT_TRUE(all.receive(0, 16383, absl::MakeSpan(&first, 1)).ok());
      ASSERT_TRUE(all.receive(0, 5, absl::MakeSpan(&second, 1)).ok());
      EXPECT_EQ(first, 'b');
      EXPECT_EQ(second, 'a');
    }
  });
}

TEST(Conformance, BroadcastAndGatherStrings) {
  onAllRanks([](Communicator &all) {
    for (size_t length : {0, 1, 100, 1000000}) {
      std::string wanted(length, 'x');
      std::string bytes = all.rank() == 0 ? wanted : std::string("something else");
      ASSERT_TRUE(all.broadcast(bytes).ok());
      EXPECT_EQ(bytes, wanted);
      auto strings =
          all.gather(std::string(length + all.rank(), static_cast<char>('a' + all.rank())));
      ASSERT_TRUE(strings.ok());
      ASSERT_EQ(strings->size(), all.rank() == 0 ? static_cast<size_t>(all.size()) : 0);
      for (size_t r = 0; r < strings->size(); ++r)
        EXPECT_EQ((*strings)[r], std::string(length + r, static_cast<char>('a' + r)));
    }
  });
}

TEST(Conformance, RanksAgree) {
  onAllRanks([](Communicator &all) {
    EXPECT_TRUE(all.agree(absl::OkStatus()).ok());
    int last = all.size() - 1;
    absl::Status status =
        all.agree(all.rank() == last ? absl::NotFoundError("no such file") : absl::OkStatus());
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(isReported(status), all.rank() != 0);
    if (all.rank() == 0) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
      EXPECT_EQ(status.message(),
                last == 0 ? "no such file" : absl::StrCat("rank ", last, ": no such file"));
    }
    // What all say is said once.
    status = all.agree(absl::NotFoundError("no such bundle"));
    if (all.rank() == 0) {
      EXPECT_EQ(status.message(), "no such bundle");
    }
    EXPECT_TRUE(all.agree(absl::OkStatus()).ok());
  });
}

TEST(Conformance, HandshakeNamesRanksAndValues) {
  onAllRanks([](Communicator &all) {
    EXPECT_TRUE(all.checkEqual({{"version", "1"}, {"mesh", "pp=1"}}).ok());
    std::string hash = all.rank() == 1 ? "beef" : "cafe";
    absl::Status status = all.checkEqual({{"version", "1"}, {"bundle hash", hash}});
    EXPECT_EQ(status.ok(), all.size() == 1);
    if (all.size() > 1 && all.rank() == 0) {
      EXPECT_NE(status.message().find("bundle hash: rank 0 has cafe, rank 1 has beef"),
                absl::string_view::npos)
          << status;
      EXPECT_EQ(status.message().find("version"), absl::string_view::npos) << status;
    }
  });
}

TEST(Conformance, MixedTrafficForLong) {
  onAllRanks([](Communicator &all) {
    Group tp = *all.group("tp"), pp = *all.group("pp");
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> values(1 + round % 17, all.rank() + round), sums(values.size()),
          parts(values.size() * pp.ranks.size());
      ASSERT_TRUE(
          all.allReduce(tp, schema::I32, bytesOf(values), bytesOf(sums), values.size()).ok());
      ASSERT_TRUE(all.allGather(pp, bytesOf(values), bytesOf(parts), 1, values.size() * 4).ok());
      int wanted = 0;
      for (int rank : tp.ranks)
        wanted += rank + round;
      EXPECT_EQ(sums, std::vector<int32_t>(values.size(), wanted));
      EXPECT_EQ(parts.back(), pp.ranks.back() + round);
    }
  });
}

//===----------------------------------------------------------------------===//
// Faults, of threads
//===----------------------------------------------------------------------===//

TEST(LocalFaults, ATimeoutNamesTheSilentRankOnAllThatWait) {
  std::vector<absl::Status> statuses(3);
  runLocally({1, 3}, milliseconds(1000), [&](Transport &transport, Communicator &all) {
    if (all.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(2500));
      std::string bytes;
      statuses[1] = all.broadcast(bytes); // too late: it learns what happened
      return;
    }
    // 0 waits for 2, which waits for 1: only 1 is silent.
    char byte;
    statuses[all.rank()] = transport.exchange({}, {{all.rank() == 0 ? 2 : 1, 0, &byte, 1}});
  });
  for (const absl::Status &status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(status.message(), "rank 1 did not answer within 1 s");
  }
}

TEST(LocalFaults, RanksThatWaitForEachOther) {
  runLocally({1, 2}, milliseconds(1000), [&](Transport &transport, Communicator &all) {
    char byte;
    absl::Status status = transport.exchange({}, {{1 - all.rank(), 0, &byte, 1}});
    EXPECT_EQ(status.message(), "after 1 s all ranks still wait for each other");
  });
}

TEST(LocalFaults, AFailureEndsAllRanksWithOneError) {
  std::vector<char> reports(3);
  runLocally({1, 3}, kTimeout, [&](Transport &transport, Communicator &all) {
    char byte;
    absl::Status status = all.rank() == 2 ? absl::InternalError("kernel 'x' returned 3")
                                          : transport.exchange({}, {{2, 0, &byte, 1}});
    reports[all.rank()] = transport.announce(status);
    if (all.rank() != 2) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_EQ(status.message(), "rank 2: kernel 'x' returned 3");
    }
  });
  EXPECT_EQ(reports, (std::vector<char>{true, false, false}));
}

TEST(LocalFaults, SizesThatDiffer) {
  runLocally({1, 2}, kTimeout, [&](Transport &transport, Communicator &all) {
    char bytes[8] = {};
    if (all.rank() == 0) {
      ASSERT_TRUE(transport.exchange({{1, 0, bytes, 8}}, {}).ok());
    } else {
      EXPECT_EQ(transport.exchange({}, {{0, 0, bytes, 4}}).message(),
                "rank 0 sends 8 bytes where rank 1 waits for 4");
    }
  });
}

//===----------------------------------------------------------------------===//
// Faults, of processes: this program starts itself under mpirun.
//===----------------------------------------------------------------------===//

#ifdef ADAPT_MPIRUN
/// What a rank does after --fault=NAME.
int behave(const std::string &fault, int milliseconds) {
  auto opened = openTransport("mpi", std::chrono::milliseconds(milliseconds));
  if (!opened.ok()) {
    std::fprintf(stderr, "error: %s\n", std::string(opened.status().message()).c_str());
    return 1;
  }
  Transport &transport = **opened;
  int rank = transport.rank();
  Communicator all(transport, {1, transport.size()});
  std::string text = "begin";
  absl::Status status = all.broadcast(text);
  if (status.ok() && rank == 1 && fault == "stop")
    raise(SIGSTOP);
  if (status.ok() && rank == 1 && fault == "kill")
    raise(SIGKILL);
  char bytes[8] = {};
  int last = transport.size() - 1;
  if (!status.ok()) {
  } else if (fault == "fail" && rank == 1) {
    status = absl::InternalError("kernel 'x' returned 3");
  } else if (fault == "failall") {
    status = absl::InternalError(absl::StrCat("kernel of ", rank, " failed"));
  } else if (fault == "short") {
    status = transport.exchange({{rank ? 0 : 1, 0, bytes, 4}}, {{rank ? 0 : 1, 0, bytes, 8}});
  } else if (fault == "long") {
    status = transport.exchange({{rank ? 0 : 1, 0, bytes, 8}}, {{rank ? 0 : 1, 0, bytes, 4}});
  } else {
    // 0 waits for the last rank, which waits for 1 (or, in a deadlock, 1 for 0).
    int peer = rank == 0 ? last : rank == 1 ? 0 : 1;
    status = transport.exchange({}, {{peer, 0, bytes, 1}});
  }
  if (status.ok())
    return 0;
  if (transport.announce(status))
    std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  transport.end(1);
  return 1;
}

struct Outcome {
  int code;
  std::string text;
  double seconds;
};

Outcome startRanks(int ranks, const std::string &fault, int milliseconds) {
  std::string command = absl::StrCat(ADAPT_MPIRUN, " -n ", ranks, " /proc/", getpid(),
                                     "/exe --fault=", fault, ",", milliseconds, " 2>&1"),
              text;
  auto begin = std::chrono::steady_clock::now();
  FILE *pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (size_t got = fread(buffer, 1, sizeof(buffer), pipe))
    text.append(buffer, got);
  int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

/// Errors of ours, not of mpirun's.
std::vector<std::string> errorsIn(const std::string &text) {
  std::vector<std::string> errors;
  for (size_t at = 0; (at = text.find("error: ", at)) != std::string::npos; ++at)
    if (at == 0 || text[at - 1] == '\n')
      errors.push_back(text.substr(at + 7, text.find('\n', at) - at - 7));
  return errors;
}

TEST(MpiFaults, AStoppedRankIsNamedByOneError) {
  for (int ranks : {2, 3, 4}) {
    Outcome outcome = startRanks(ranks, "stop", 1000);
    EXPECT_NE(outcome.code, 0);
    EXPECT_EQ(errorsIn(outcome.text), std::vector<std::string>{"rank 1 did not answer within 1 s"})
        << outcome.text;
    EXPECT_LT(outcome.seconds, 20) << outcome.text;
  }
}

TEST(MpiFaults, AKilledRankEndsAll) {
  Outcome outcome = startRanks(3, "kill", 60000);
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.text.find("rank 1"), std::string::npos) << outcome.text; // mpirun says it
  EXPECT_LT(outcome.seconds, 20);
}

TEST(MpiFaults, AFailureIsReportedOnce) {
  Outcome outcome = startRanks(3, "fail", 60000);
  EXPECT_NE(outcome.code, 0);
  EXPECT_EQ(errorsIn(outcome.text), std::vector<std::string>{"rank 1: kernel 'x' returned 3"})
      << outcome.text;
  outcome = startRanks(3, "failall", 60000);
  EXPECT_EQ(errorsIn(outcome.text), std::vector<std::string>{"kernel of 0 failed"}) << outcome.text;
}

TEST(MpiFaults, RanksThatWaitForEachOther) {
  Outcome outcome = startRanks(3, "deadlock", 1000);
  EXPECT_EQ(errorsIn(outcome.text),
            std::vector<std::string>{"after 1 s all ranks still wait for each other"})
      << outcome.text;
}

TEST(MpiFaults, SizesThatDiffer) {
  std::vector<std::string> errors = errorsIn(startRanks(2, "short", 5000).text);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("sends 4 bytes where rank"), std::string::npos) << errors[0];
  errors = errorsIn(startRanks(2, "long", 5000).text);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("sends more than 4 bytes where rank"), std::string::npos) << errors[0];
}

TEST(MpiFaults, NoPlugin) {
  setenv("ADAPT_PLUGIN_DIR", "/nowhere", 1);
  absl::Status status = openTransport("mpi", kTimeout).status();
  unsetenv("ADAPT_PLUGIN_DIR");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("no libadapt-mpi.so in /nowhere"), absl::string_view::npos)
      << status;
}
#endif

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
#ifdef ADAPT_MPIRUN
  if (argc == 2 && std::string(argv[1]).rfind("--fault=", 0) == 0) {
    std::string fault = argv[1] + 8;
    size_t comma = fault.find(',');
    return behave(fault.substr(0, comma), std::atoi(fault.c_str() + comma + 1));
  }
#endif
  if (const char *plugin = std::getenv("ADAPT_TEST_TRANSPORT")) {
    auto opened = openTransport(plugin, kTimeout);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
      return 1;
    }
    process = *std::move(opened);
  }
  int code = RUN_ALL_TESTS();
  process.reset();
  return code;
}
