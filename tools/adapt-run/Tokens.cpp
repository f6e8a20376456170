#include "Commands.h"
#include "adapt/Npy.h"

#include <algorithm>
#include <limits>

using namespace adapt::rt;

namespace {

/// The rows of --tokens, without their padding.
absl::StatusOr<std::vector<std::vector<int32_t>>> readRows(const RunOptions &options,
                                                           int64_t &width) {
  ADAPT_ASSIGN_OR_RETURN(NpyIntegers array, readNpyIntegers(options.tokens));
  if (array.shape.size() != 2)
    return absl::InvalidArgumentError(absl::StrCat(options.tokens, ": shape (",
                                                   absl::StrJoin(array.shape, ", "),
                                                   "), wanted is [batch, seq]"));
  int64_t batch = array.shape[0];
  width = array.shape[1];
  if (batch == 0 || width == 0)
    return absl::InvalidArgumentError(absl::StrCat(options.tokens, ": there are no tokens in it"));
  std::vector<int64_t> lengths = options.lengths;
  if (lengths.empty())
    lengths.assign(batch, width);
  Problems problems;
  if (lengths.size() != static_cast<size_t>(batch))
    problems.add(lengths.size(), " lengths for ", batch, " rows");
  for (int64_t length : lengths)
    if (length < 1 || length > width)
      problems.add("length ", length, " does not lie in 1 to ", width);
  ADAPT_RETURN_IF_ERROR(problems.status("--lengths"));
  std::vector<std::vector<int32_t>> rows(batch);
  for (int64_t row = 0; row < batch; ++row)
    for (int64_t t = 0; t < lengths[row]; ++t) {
      int64_t id = array.values[row * width + t];
      // The model checks against its vocabulary; here only what 32 bits cannot hold.
      if (id < std::numeric_limits<int32_t>::min() || id > std::numeric_limits<int32_t>::max())
        problems.add("token ", id, " at [", row, ", ", t, "] is outside the vocabulary");
      rows[row].push_back(static_cast<int32_t>(id));
    }
  ADAPT_RETURN_IF_ERROR(problems.status(options.tokens));
  return rows;
}

int32_t argmax(absl::Span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

} // namespace

absl::Status adapt::rt::runTokens(const Session &session) {
  const Bundle &bundle = session.bundle;
  const RunOptions &options = session.options;
  int64_t width = 0;
  ADAPT_ASSIGN_OR_RETURN(std::vector<std::vector<int32_t>> rows, readRows(options, width));
  size_t batch = rows.size();
  int64_t longest = 0, cacheTokens = 0, block = bundle.manifest().blockTokens;
  for (const std::vector<int32_t> &row : rows) {
    int64_t tokens = static_cast<int64_t>(row.size()) + options.generate;
    longest = std::max(longest, tokens);
    cacheTokens += (tokens + block - 1) / block * block;
  }
  if (longest > bundle.manifest().maxSeqLen)
    return absl::OutOfRangeError(absl::StrCat("a sequence would have ", longest,
                                              " tokens, the bundle allows ",
                                              bundle.manifest().maxSeqLen));
  ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, openModel(session, cacheTokens));
  int64_t vocab = model->vocabSize();
  std::optional<NpyWriter> logits, output;
  if (!options.logits.empty()) {
    ADAPT_ASSIGN_OR_RETURN(
        NpyWriter writer,
        NpyWriter::create(options.logits, "<f4", {static_cast<int64_t>(batch), width, vocab}));
    logits.emplace(std::move(writer));
  }
  if (options.generate) {
    ADAPT_ASSIGN_OR_RETURN(NpyWriter writer,
                           NpyWriter::create(options.outputTokens, "<i8",
                                             {static_cast<int64_t>(batch), options.generate}));
    output.emplace(std::move(writer));
  }

  std::vector<LanguageModel::SequenceId> sequences;
  for (size_t row = 0; row < batch; ++row)
    sequences.push_back(model->addSequence());
  // Each step takes the next --chunk tokens of every row that has any.
  std::vector<int32_t> next(batch);
  int64_t chunk = options.chunk ? options.chunk : width;
  for (int64_t begin = 0; begin < width; begin += chunk) {
    std::vector<LanguageModel::Chunk> chunks;
    std::vector<size_t> rowOf;
    for (size_t row = 0; row < batch; ++row) {
      if (begin >= static_cast<int64_t>(rows[row].size()))
        continue;
      rowOf.push_back(row);
      chunks.push_back({sequences[row], absl::MakeConstSpan(rows[row]).subspan(begin, chunk),
                        logits ? LanguageModel::Logits::kAll : LanguageModel::Logits::kLast});
    }
    if (chunks.empty())
      break;
    ADAPT_RETURN_IF_ERROR(model->step(
        chunks, [&](size_t index, int64_t token, absl::Span<const float> values) -> absl::Status {
          size_t row = rowOf[index];
          if (begin + token + 1 == static_cast<int64_t>(rows[row].size()))
            next[row] = argmax(values);
          if (!logits)
            return absl::OkStatus();
          return logits->write((row * width + begin + token) * vocab, values.data(), vocab);
        }));
  }
  if (logits)
    ADAPT_RETURN_IF_ERROR(logits->finish());
  for (int64_t n = 0; n < options.generate; ++n) {
    std::vector<LanguageModel::Chunk> chunks;
    for (size_t row = 0; row < batch; ++row) {
      int64_t id = next[row];
      ADAPT_RETURN_IF_ERROR(output->write(row * options.generate + n, &id, 1));
      chunks.push_back({sequences[row], absl::MakeConstSpan(&next[row], 1)});
    }
    if (n + 1 == options.generate)
      break;
    std::vector<int32_t> following(batch);
    ADAPT_RETURN_IF_ERROR(
        model->step(chunks, [&](size_t row, int64_t, absl::Span<const float> values) {
          following[row] = argmax(values);
          return absl::OkStatus();
        }));
    next = following;
  }
  if (output)
    ADAPT_RETURN_IF_ERROR(output->finish());
  return writeStats(session, *model);
}
