// Speed, beside what the memory gives at the same moment: shares of a limit mean something on a
// shared machine, tokens per second alone do not.
#include "Commands.h"

#include "nlohmann/json.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

using namespace adapt::rt;

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Vectors of 16, 32 and 64 bytes; in structs, since g++ drops the attributes of template arguments.
struct Wide16 {
  typedef uint64_t Vector __attribute__((vector_size(16), may_alias));
};
struct Wide32 {
  typedef uint64_t Vector __attribute__((vector_size(32), may_alias));
};
struct Wide64 {
  typedef uint64_t Vector __attribute__((vector_size(64), may_alias));
};

/// Sums memory in one stream; `data` is 64-byte aligned.
template <typename Wide>
inline __attribute__((always_inline)) uint64_t sum(const char *data, size_t bytes) {
  using Vector = typename Wide::Vector;
  constexpr size_t kStride = 8 * sizeof(Vector);
  Vector sums[8] = {};
  size_t at = 0;
  for (; at + kStride <= bytes; at += kStride)
    for (size_t i = 0; i < 8; ++i)
      sums[i] += *reinterpret_cast<const Vector *>(data + at + i * sizeof(Vector));
  uint64_t total = 0;
  for (const Vector &each : sums)
    for (size_t j = 0; j < sizeof(Vector) / 8; ++j)
      total += each[j];
  for (; at < bytes; ++at)
    total += static_cast<unsigned char>(data[at]);
  return total;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"), noinline)) uint64_t sum512(const char *data, size_t bytes) {
  return sum<Wide64>(data, bytes);
}
__attribute__((target("avx2"), noinline)) uint64_t sum256(const char *data, size_t bytes) {
  return sum<Wide32>(data, bytes);
}
#endif

uint64_t sumBest(const char *data, size_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return sum512(data, bytes);
  if (__builtin_cpu_supports("avx2"))
    return sum256(data, bytes);
#endif
  return sum<Wide16>(data, bytes);
}

class Bench {
public:
  Bench(LanguageModel &model, const RunOptions &options) : model(model), options(options) {
    for (const Region &region : model.params())
      weightBytes += region.bytes;
  }

  /// Seconds for all weights to be read once, each thread reading one contiguous share.
  /// Only where the host can read them.
  double plainRead() {
    int threads = model.device().threads();
    Clock::time_point begin = Clock::now();
    model.device().parallel([&](int thread) {
      uint64_t from = weightBytes / 64 * thread / threads * 64;
      uint64_t to =
          thread + 1 == threads ? weightBytes : weightBytes / 64 * (thread + 1) / threads * 64;
      uint64_t at = 0, total = 0;
      for (const Region &region : model.params()) {
        uint64_t first = std::max(at, from), last = std::min(at + region.bytes, to);
        if (first < last)
          total += sumBest(region.data + (first - at) / 64 * 64, last - first);
        at += region.bytes;
      }
      sink.fetch_add(total, std::memory_order_relaxed); // so that the reads are needed
    });
    return since(begin);
  }

  absl::StatusOr<double> prefill() {
    LanguageModel::SequenceId id = model.addSequence();
    std::vector<int32_t> tokens = makeTokens(options.benchPrompt);
    Clock::time_point begin = Clock::now();
    absl::Status status = model.step({{id, tokens}}, ignore());
    double seconds = since(begin);
    model.removeSequence(id);
    if (!status.ok())
      return status;
    return seconds;
  }

  absl::StatusOr<double> decode() {
    LanguageModel::SequenceId id = model.addSequence();
    std::vector<int32_t> tokens = makeTokens(options.benchContext);
    int32_t next = 0;
    auto greedy = [&](size_t, int64_t, absl::Span<const float> logits) {
      next = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      return absl::OkStatus();
    };
    absl::Status status = model.step({{id, tokens}}, greedy);
    Clock::time_point begin = Clock::now();
    double deviceSeconds = 0;
    for (int64_t t = 0; t < options.benchDecode && status.ok(); ++t) {
      int32_t token = next;
      status = model.step({{id, absl::MakeConstSpan(&token, 1)}}, greedy);
      deviceSeconds += model.device().runSeconds();
    }
    double seconds = since(begin);
    deviceBusy = deviceSeconds / seconds;
    model.removeSequence(id);
    if (!status.ok())
      return status;
    return seconds;
  }

  uint64_t weightBytes = 0;
  /// Of the last decode, the share in which the device ran kernels by its own clock; 0 if it has
  /// none.
  double deviceBusy = 0;

private:
  std::vector<int32_t> makeTokens(int64_t count) const {
    std::vector<int32_t> tokens(count);
    uint64_t state = 1;
    for (int32_t &token : tokens) {
      state = state * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
      token = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(model.vocabSize()));
    }
    return tokens;
  }

  static absl::Status nothing(size_t, int64_t, absl::Span<const float>) { return absl::OkStatus(); }
  LanguageModel::LogitsSink ignore() const { return nothing; }

  LanguageModel &model;
  const RunOptions &options;
  std::atomic<uint64_t> sink{0};
};

} // namespace

absl::Status adapt::rt::runBench(const Session &session) {
  const Bundle &bundle = session.bundle;
  const RunOptions &options = session.options;
  int64_t tokens = std::max(options.benchPrompt, options.benchContext + options.benchDecode);
  if (tokens > bundle.manifest().maxSeqLen)
    return absl::OutOfRangeError(absl::StrCat("sequences of ", tokens,
                                              " tokens wanted, the bundle allows ",
                                              bundle.manifest().maxSeqLen));
  ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, openModel(session, tokens));
  Bench bench(*model, options);
  // Once to warm up; then in turn, so that all see the same machine.
  std::vector<double> prefill, decode, reads;
  for (int64_t n = 0; n <= options.benchRepetitions; ++n) {
    ADAPT_ASSIGN_OR_RETURN(double prefillSeconds, bench.prefill());
    ADAPT_ASSIGN_OR_RETURN(double decodeSeconds, bench.decode());
    double readSeconds = model->device().hostAccessible() ? bench.plainRead() : 0;
    if (n == 0)
      continue;
    prefill.push_back(prefillSeconds);
    decode.push_back(decodeSeconds);
    reads.push_back(readSeconds);
  }
  ADAPT_RETURN_IF_ERROR(writeStats(session, *model));
  // A step of several ranks runs the device several times, and its clock knows the last.
  double deviceBusy = bundle.manifest().ranks.size() == 1 ? bench.deviceBusy : 0;
  double prefillRate = options.benchPrompt / median(prefill);
  double decodeRate = options.benchDecode / median(decode);
  double decodeBytes = decodeRate * bench.weightBytes, readSeconds = median(reads),
         readBytes = readSeconds ? bench.weightBytes / readSeconds : 0;
  if (options.json) {
    nlohmann::json json = {{"model", bundle.manifest().name},
                           {"device", model->device().description()},
                           {"threads", model->device().threads()},
                           {"repetitions", options.benchRepetitions},
                           {"launches_per_step", model->numLaunches()},
                           {"weight_bytes", bench.weightBytes},
                           {"prefill",
                            {{"tokens", options.benchPrompt},
                             {"tokens_per_second", prefillRate},
                             {"seconds", prefill}}},
                           {"decode",
                            {{"context", options.benchContext},
                             {"tokens", options.benchDecode},
                             {"tokens_per_second", decodeRate},
                             {"bytes_per_second", decodeBytes},
                             {"seconds", decode}}},
                           {"plain_read", {{"bytes_per_second", readBytes}, {"seconds", reads}}}};
    if (!readSeconds)
      json.erase("plain_read");
    if (deviceBusy)
      json["decode"]["device_busy"] = deviceBusy;
    std::printf("%s\n", json.dump(2).c_str());
    return absl::OkStatus();
  }
  std::printf("%s, %s, medians of %lld\n", bundle.manifest().name.c_str(),
              describeDevice(*model).c_str(), static_cast<long long>(options.benchRepetitions));
  std::printf("prefill %5lld tokens              %9.1f tokens/s\n",
              static_cast<long long>(options.benchPrompt), prefillRate);
  std::printf("decode  %5lld tokens after %5lld  %9.1f tokens/s  %6.2f GB/s of weights\n",
              static_cast<long long>(options.benchDecode),
              static_cast<long long>(options.benchContext), decodeRate, decodeBytes / 1e9);
  if (deviceBusy)
    std::printf("the device was busy for %.0f %% of the decode\n", 100 * deviceBusy);
  if (readSeconds)
    std::printf(
        "plain read of the same %.1f MB                        %6.2f GB/s (decode: %.0f %%)\n",
        bench.weightBytes / 1e6, readBytes / 1e9, 100 * decodeBytes / readBytes);
  return absl::OkStatus();
}
