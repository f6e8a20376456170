#include "adapt/Ranks.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "adapt/Version.h"

#include <cstring>
#include <map>

using namespace adapt;
using namespace adapt::rt;

namespace {

// Rank 0's messages: one letter, then what it says more.
constexpr char kLoad = 'L', kStep = 'S', kTraffic = 'T', kUnload = 'U', kDismiss = 'D';

/// Tag of the logits on their way to rank 0; beyond those of programs and of Communicator.
constexpr uint32_t kLogitsTag = Program::kMaxTag + 64;

/// What rank 0's user asks for, of a model.
struct LoadMessage {
  int64_t cacheTokens, maxSeqLen, poison;
};

std::string toMessage(const ModelStage::Options &options) {
  LoadMessage message{options.cacheTokens, options.maxSeqLen, options.poison};
  std::string bytes(1, kLoad);
  bytes.append(reinterpret_cast<const char *>(&message), sizeof(message));
  return bytes;
}

/// The logits of the last stage's first rank, where they are wanted.
int logitsRank(const Communicator &ranks) { return ranks.mesh().rank(ranks.mesh().pp - 1, 0); }

std::string serialize(int stage, absl::Span<const Executor::Traffic> traffic) {
  std::string bytes;
  for (const Executor::Traffic &entry : traffic)
    absl::StrAppend(&bytes, stage, "\t", entry.where, "\t", static_cast<int>(entry.kind), "\t",
                    entry.times, "\t", entry.bytes, "\n");
  return bytes;
}

/// One model on a follower, from its load to its end.
class Follower {
public:
  Follower(const Bundle &bundle, Communicator &ranks) : bundle(bundle), ranks(ranks) {}

  /// Errors end this rank; those that all have agreed on do not.
  absl::Status handle(const std::string &message,
                      absl::FunctionRef<absl::StatusOr<std::unique_ptr<Device>>()> createDevice);

private:
  absl::Status load(absl::string_view message,
                    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Device>>()> createDevice);
  absl::Status step(absl::string_view message);

  const Bundle &bundle;
  Communicator &ranks;
  std::unique_ptr<ModelStage> stage;
};

absl::Status
Follower::load(absl::string_view bytes,
               absl::FunctionRef<absl::StatusOr<std::unique_ptr<Device>>()> createDevice) {
  LoadMessage message;
  if (bytes.size() != sizeof(message))
    return absl::InternalError("rank 0 describes a model that is none");
  std::memcpy(&message, bytes.data(), sizeof(message));
  ModelStage::Options options;
  options.cacheTokens = message.cacheTokens;
  options.maxSeqLen = message.maxSeqLen;
  options.poison = message.poison != 0;
  stage.reset();
  auto tryLoad = [&]() -> absl::Status {
    ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, createDevice());
    ADAPT_ASSIGN_OR_RETURN(stage, ModelStage::load(bundle, std::move(device), options, &ranks));
    return absl::OkStatus();
  };
  absl::Status status = ranks.agree(tryLoad());
  if (!status.ok())
    stage.reset();
  return isReported(status) ? absl::OkStatus() : status;
}

absl::Status Follower::step(absl::string_view bytes) {
  ADAPT_ASSIGN_OR_RETURN(StepInputs inputs, StepInputs::parse(bytes));
  ADAPT_RETURN_IF_ERROR(stage->run(inputs));
  if (ranks.rank() != logitsRank(ranks) || inputs.wantedRows == 0)
    return absl::OkStatus();
  ADAPT_ASSIGN_OR_RETURN(absl::Span<const float> logits, stage->readLogits(inputs.wantedRows));
  return ranks.send(0, kLogitsTag,
                    {reinterpret_cast<const char *>(logits.data()), logits.size() * sizeof(float)});
}

absl::Status
Follower::handle(const std::string &message,
                 absl::FunctionRef<absl::StatusOr<std::unique_ptr<Device>>()> createDevice) {
  absl::string_view rest = absl::string_view(message).substr(1);
  if (message[0] == kLoad)
    return load(rest, createDevice);
  if (message[0] == kUnload) {
    stage.reset();
    return absl::OkStatus();
  }
  if (stage && message[0] == kStep)
    return step(rest);
  if (stage && message[0] == kTraffic)
    return ranks.gather(serialize(ranks.ppRank(), stage->traffic())).status();
  return absl::InternalError("rank 0 says what this rank does not know");
}

void say(Communicator &ranks, char what) {
  if (ranks.isBroken())
    return;
  std::string message(1, what);
  ranks.broadcast(message).IgnoreError(); // who waits for an answer will see
}

} // namespace

Mesh rt::meshOf(const Manifest &manifest) {
  return {static_cast<int>(manifest.pp), static_cast<int>(manifest.tp)};
}

absl::Status rt::handshake(Communicator &ranks, const Bundle &bundle) {
  const Mesh &mesh = ranks.mesh();
  return ranks.checkEqual({{"version of adapt-run", absl::StrCat(version(), " (", commit(), ")")},
                           {"hash of the bundle's manifest", bundle.hash()},
                           {"mesh", absl::StrCat("pp=", mesh.pp, " tp=", mesh.tp)}});
}

absl::Status rt::follow(const Bundle &bundle, Communicator &ranks,
                        absl::FunctionRef<absl::StatusOr<std::unique_ptr<Device>>()> createDevice) {
  Follower follower(bundle, ranks);
  while (true) {
    std::string message;
    ADAPT_RETURN_IF_ERROR(ranks.broadcast(message));
    if (message.empty())
      return absl::InternalError("rank 0 says nothing");
    if (message[0] == kDismiss)
      return absl::OkStatus();
    if (absl::Status status = follower.handle(message, createDevice); !status.ok()) {
      ranks.breakOff();
      return status;
    }
  }
}

void rt::dismiss(Communicator &ranks) { say(ranks, kDismiss); }

void rt::unloadOnAll(Communicator &ranks) { say(ranks, kUnload); }

absl::StatusOr<std::unique_ptr<ModelStage>> rt::loadOnAll(Communicator &ranks, const Bundle &bundle,
                                                          std::unique_ptr<Device> device,
                                                          const ModelStage::Options &options) {
  std::string message = toMessage(options);
  ADAPT_RETURN_IF_ERROR(ranks.broadcast(message));
  absl::StatusOr<std::unique_ptr<ModelStage>> stage =
      ModelStage::load(bundle, std::move(device), options, &ranks);
  ADAPT_RETURN_IF_ERROR(ranks.agree(stage.status()));
  return stage;
}

absl::StatusOr<absl::Span<const float>> rt::runOnAll(Communicator &ranks, ModelStage &stage,
                                                     const StepInputs &inputs,
                                                     std::vector<float> &buffer) {
  std::string message = std::string(1, kStep) + inputs.serialize();
  ADAPT_RETURN_IF_ERROR(ranks.broadcast(message));
  if (absl::Status status = stage.run(inputs); !status.ok()) {
    ranks.breakOff();
    return status;
  }
  if (logitsRank(ranks) == 0)
    return stage.readLogits(inputs.wantedRows);
  buffer.resize(static_cast<size_t>(inputs.wantedRows * stage.vocabSize()));
  if (!buffer.empty())
    ADAPT_RETURN_IF_ERROR(ranks.receive(
        logitsRank(ranks), kLogitsTag,
        absl::MakeSpan(reinterpret_cast<char *>(buffer.data()), buffer.size() * sizeof(float))));
  return absl::MakeConstSpan(buffer);
}

absl::StatusOr<std::vector<Traffic>> rt::trafficOfAll(Communicator &ranks,
                                                      const ModelStage &stage) {
  std::string message(1, kTraffic);
  ADAPT_RETURN_IF_ERROR(ranks.broadcast(message));
  ADAPT_ASSIGN_OR_RETURN(std::vector<std::string> all,
                         ranks.gather(serialize(ranks.ppRank(), stage.traffic())));
  std::map<std::pair<int, std::string>, Traffic> sums;
  for (const std::string &text : all)
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
      int stage = 0, kind = 0;
      uint64_t times = 0, bytes = 0;
      if (fields.size() != 5 || !absl::SimpleAtoi(fields[0], &stage) ||
          !absl::SimpleAtoi(fields[2], &kind) || !absl::SimpleAtoi(fields[3], &times) ||
          !absl::SimpleAtoi(fields[4], &bytes))
        return absl::InternalError("a rank counts what is no number");
      Traffic &sum = sums[{stage, std::string(fields[1])}];
      sum.stage = stage;
      sum.where = std::string(fields[1]);
      sum.kind = static_cast<ExchangeStep::Kind>(kind);
      sum.times = std::max(sum.times, times);
      sum.bytes += bytes;
    }
  std::vector<Traffic> result;
  for (auto &[key, sum] : sums)
    result.push_back(std::move(sum));
  return result;
}
