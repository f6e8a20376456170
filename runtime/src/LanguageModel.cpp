#include "adapt/LanguageModel.h"

#include "absl/container/flat_hash_set.h"

#include <algorithm>

using namespace adapt;
using namespace adapt::rt;

absl::StatusOr<std::unique_ptr<LanguageModel>> LanguageModel::create(std::unique_ptr<Device> device,
                                                                     const Program &program,
                                                                     ModelSource source,
                                                                     const Options &options) {
  ADAPT_ASSIGN_OR_RETURN(
      std::unique_ptr<ModelStage> stage,
      ModelStage::create(std::move(device), program, std::move(source), options, nullptr));
  return std::unique_ptr<LanguageModel>(new LanguageModel(std::move(stage), nullptr));
}

LanguageModel::~LanguageModel() {
  if (ranks)
    unloadOnAll(*ranks);
}

absl::StatusOr<std::vector<Traffic>> LanguageModel::traffic() {
  return ranks ? trafficOfAll(*ranks, *stage) : std::vector<Traffic>();
}

LanguageModel::SequenceId LanguageModel::addSequence() {
  sequences.try_emplace(nextId);
  return nextId++;
}

void LanguageModel::removeSequence(SequenceId id) {
  auto it = sequences.find(id);
  if (it == sequences.end())
    return;
  stage->cache().blocks().release(it->second.blocks);
  sequences.erase(it);
}

int64_t LanguageModel::length(SequenceId id) const {
  auto it = sequences.find(id);
  return it == sequences.end() ? 0 : it->second.length;
}

absl::Status LanguageModel::checkBatch(absl::Span<const Chunk> batch) {
  Problems problems, tooLong;
  absl::flat_hash_set<SequenceId> seen;
  for (size_t c = 0; c < batch.size(); ++c) {
    const Chunk &chunk = batch[c];
    auto it = sequences.find(chunk.sequence);
    if (it == sequences.end()) {
      problems.add("chunk ", c, ": no sequence ", chunk.sequence);
      continue;
    }
    if (!seen.insert(chunk.sequence).second)
      problems.add("chunk ", c, ": sequence ", chunk.sequence, " appears twice");
    if (chunk.tokens.empty())
      problems.add("chunk ", c, ": no tokens");
    for (size_t t = 0; t < chunk.tokens.size(); ++t)
      if (chunk.tokens[t] < 0 || chunk.tokens[t] >= vocabSize()) {
        problems.add("chunk ", c, ": token ", chunk.tokens[t], " at ", t,
                     " is outside the vocabulary of ", vocabSize());
        break;
      }
    int64_t length = it->second.length + static_cast<int64_t>(chunk.tokens.size());
    if (length > maxSeqLen())
      tooLong.add("chunk ", c, ": the sequence would have ", length, " tokens");
  }
  ADAPT_RETURN_IF_ERROR(problems.status("the batch is not valid"));
  absl::Status status =
      tooLong.status(absl::StrCat("sequences have at most ", maxSeqLen(), " tokens"));
  return status.ok() ? status : absl::OutOfRangeError(status.message());
}

/// Gives every sequence the blocks it needs after the batch, or none any.
absl::Status LanguageModel::reserve(absl::Span<const Chunk> batch) {
  int64_t wanted = 0;
  for (const Chunk &chunk : batch) {
    const Sequence &sequence = sequences.at(chunk.sequence);
    wanted += std::max<int64_t>(0, stage->cache().blocksFor(sequence.length + chunk.tokens.size()) -
                                       static_cast<int64_t>(sequence.blocks.size()));
  }
  if (wanted > stage->cache().blocks().numFree())
    return absl::ResourceExhaustedError(
        absl::StrCat("the cache is full: the batch needs ", wanted, " more blocks of ",
                     stage->cache().blockTokens(), " tokens, ", stage->cache().blocks().numFree(),
                     " of ", stage->cache().blocks().numBlocks(), " are free"));
  for (const Chunk &chunk : batch) {
    Sequence &sequence = sequences.at(chunk.sequence);
    int64_t more = stage->cache().blocksFor(sequence.length + chunk.tokens.size()) -
                   static_cast<int64_t>(sequence.blocks.size());
    if (more > 0)
      ADAPT_RETURN_IF_ERROR(stage->cache().blocks().allocate(more, sequence.blocks));
  }
  return absl::OkStatus();
}

absl::Status LanguageModel::step(absl::Span<const Chunk> batch, LogitsSink sink) {
  ADAPT_RETURN_IF_ERROR(checkBatch(batch));
  ADAPT_RETURN_IF_ERROR(reserve(batch));
  std::vector<Piece> pieces;
  int64_t usedTokens = 0, usedRows = 0;
  auto flush = [&]() -> absl::Status {
    absl::Status status = runPieces(batch, pieces, sink);
    pieces.clear();
    usedTokens = usedRows = 0;
    return status;
  };
  for (size_t c = 0; c < batch.size(); ++c) {
    const Chunk &chunk = batch[c];
    int64_t total = static_cast<int64_t>(chunk.tokens.size());
    for (int64_t begin = 0; begin < total;) {
      int64_t count = std::min(total - begin, stage->tokens().max - usedTokens);
      bool all = chunk.logits == Logits::kAll;
      if (all)
        count = std::min(count, stage->rows().max - usedRows);
      bool last = chunk.logits == Logits::kLast && begin + count == total;
      if (last && usedRows == stage->rows().max) {
        last = false;
        --count;
      }
      if (count <= 0 || static_cast<int64_t>(pieces.size()) == stage->sequences().max) {
        ADAPT_RETURN_IF_ERROR(flush());
        continue;
      }
      pieces.push_back({c, begin, begin + count, last, all});
      usedTokens += count;
      usedRows += all ? count : last ? 1 : 0;
      begin += count;
      // A sequence takes part in a run once: its next piece needs the next run.
      if (begin < total)
        ADAPT_RETURN_IF_ERROR(flush());
    }
  }
  return pieces.empty() ? absl::OkStatus() : flush();
}

/// What the program is given for these pieces.
StepInputs LanguageModel::describe(absl::Span<const Chunk> batch,
                                   absl::Span<const Piece> pieces) const {
  const KvCache &cache = stage->cache();
  int64_t width = std::max<int64_t>(stage->tableWidth().min, 1);
  for (const Piece &piece : pieces) {
    const Sequence &sequence = sequences.at(batch[piece.chunk].sequence);
    width = std::max(width, cache.blocksFor(sequence.length + piece.end - piece.begin));
  }
  StepInputs inputs;
  inputs.seqStarts.assign(1, 0);
  // Entries that nobody reads name a valid block.
  inputs.blockTable.assign(width * pieces.size(), 0);
  for (size_t p = 0; p < pieces.size(); ++p) {
    const Piece &piece = pieces[p];
    const Chunk &chunk = batch[piece.chunk];
    const Sequence &sequence = sequences.at(chunk.sequence);
    int64_t count = piece.end - piece.begin;
    for (int64_t t = 0; t < count; ++t) {
      if (piece.allRows || (piece.lastRow && t + 1 == count))
        inputs.logitRows.push_back(static_cast<int32_t>(inputs.tokenIds.size()));
      inputs.tokenIds.push_back(chunk.tokens[piece.begin + t]);
      inputs.positions.push_back(static_cast<int32_t>(sequence.length + t));
    }
    inputs.seqStarts.push_back(static_cast<int32_t>(inputs.tokenIds.size()));
    inputs.kvLens.push_back(static_cast<int32_t>(sequence.length + count));
    std::copy_n(sequence.blocks.begin(), cache.blocksFor(sequence.length + count),
                inputs.blockTable.begin() + p * width);
  }
  inputs.wantedRows = static_cast<int64_t>(inputs.logitRows.size());
  if (inputs.wantedRows < stage->rows().min)
    inputs.logitRows.push_back(0); // the program cannot do without; nobody reads it
  return inputs;
}

absl::Status LanguageModel::runPieces(absl::Span<const Chunk> batch, absl::Span<const Piece> pieces,
                                      LogitsSink sink) {
  StepInputs inputs = describe(batch, pieces);
  absl::Span<const float> logits;
  if (ranks) {
    ADAPT_ASSIGN_OR_RETURN(logits, runOnAll(*ranks, *stage, inputs, hostLogits));
  } else {
    ADAPT_RETURN_IF_ERROR(stage->run(inputs));
    ADAPT_ASSIGN_OR_RETURN(logits, stage->readLogits(inputs.wantedRows));
  }
  for (const Piece &piece : pieces)
    sequences.at(batch[piece.chunk].sequence).length += piece.end - piece.begin;

  size_t vocab = static_cast<size_t>(vocabSize());
  for (const Piece &piece : pieces)
    for (int64_t t = piece.begin; t < piece.end; ++t)
      if (piece.allRows || (piece.lastRow && t + 1 == piece.end)) {
        ADAPT_RETURN_IF_ERROR(sink(piece.chunk, t, logits.subspan(0, vocab)));
        logits.remove_prefix(vocab);
      }
  return absl::OkStatus();
}
