#include "adapt/LanguageModel.h"

#include "absl/container/flat_hash_set.h"

#include <algorithm>
#include <limits>

using namespace adapt;
using namespace adapt::rt;

namespace {

struct PortSpec {
  absl::string_view name;
  int rank;
  schema::ElementType element;
};
constexpr PortSpec kInputs[] = {{"token_ids", 1, schema::I32},   {"positions", 1, schema::I32},
                                {"seq_starts", 1, schema::I32},  {"kv_lens", 1, schema::I32},
                                {"block_table", 2, schema::I32}, {"logit_rows", 1, schema::I32}};
constexpr PortSpec kOutputs[] = {{"logits", 2, schema::F32}};

using Ports = google::protobuf::RepeatedPtrField<schema::EntryPoint::Port>;

/// The buffers of the ports in the order of `specs`; reports what is missing, unknown or of another
/// type.
std::vector<const schema::Buffer *> findPorts(const schema::Function &function, const Ports &ports,
                                              absl::Span<const PortSpec> specs,
                                              Problems &problems) {
  std::vector<const schema::Buffer *> result(specs.size(), nullptr);
  for (const schema::EntryPoint::Port &port : ports) {
    auto spec = std::find_if(specs.begin(), specs.end(),
                             [&](const PortSpec &spec) { return spec.name == port.name(); });
    if (spec == specs.end()) {
      problems.add("a language model has no port '", port.name(), "'");
      continue;
    }
    const schema::Buffer &buffer = function.buffers(port.buffer());
    if (buffer.shape_size() != spec->rank || buffer.element() != spec->element)
      problems.add("port '", port.name(), "' is ", schema::ElementType_Name(buffer.element()),
                   " of rank ", buffer.shape_size(), ", must be ",
                   schema::ElementType_Name(spec->element), " of rank ", spec->rank);
    result[spec - specs.begin()] = &buffer;
  }
  for (size_t i = 0; i < specs.size(); ++i)
    if (!result[i])
      problems.add("no port '", specs[i].name, "'");
  return result;
}

} // namespace

absl::Status LanguageModel::bindPorts(const Program &program, const schema::EntryPoint &entry) {
  const schema::Program &proto = program.get();
  const schema::Function &function = proto.functions(entry.function());
  Problems problems;
  if (entry.kind() != "language_model")
    problems.add("entry point '", entry.name(), "' is of kind '", entry.kind(),
                 "', wanted is language_model");
  if (entry.block_tokens() == 0)
    problems.add("entry point '", entry.name(), "': block_tokens is 0");
  auto inputs = findPorts(function, entry.inputs(), kInputs, problems);
  auto outputs = findPorts(function, entry.outputs(), kOutputs, problems);
  ADAPT_RETURN_IF_ERROR(problems.status("the program is no language model"));

  // T, S, B and L are what the shapes of these ports say, whatever the symbols are called.
  std::vector<bool> bound(proto.symbols_size(), false);
  auto bind = [&](const PortSpec &spec, const schema::Buffer &buffer, int axis,
                  Dimension &dimension) {
    const schema::Expr &extent = buffer.shape(axis);
    if (extent.has_constant()) {
      dimension.min = dimension.max = extent.constant();
    } else if (std::optional<uint32_t> symbol = program.findSymbol(extent.symbol());
               extent.kind_case() == schema::Expr::kSymbol && symbol) {
      dimension.symbol = static_cast<int32_t>(*symbol);
      dimension.min = proto.symbols(*symbol).min();
      dimension.max = proto.symbols(*symbol).max();
      if (bound[*symbol])
        problems.add("port '", spec.name, "': size '", extent.symbol(),
                     "' is another port's too, they must be independent");
      bound[*symbol] = true;
    } else {
      problems.add("port '", spec.name, "' axis ", axis, " is neither a symbol nor a constant");
    }
  };
  bind(kInputs[0], *inputs[0], 0, tokens);
  bind(kInputs[3], *inputs[3], 0, sequencesDim);
  bind(kInputs[4], *inputs[4], 1, tableWidth);
  bind(kInputs[5], *inputs[5], 0, rows);
  for (int i = 0; i < proto.symbols_size(); ++i)
    if (!bound[i])
      problems.add("symbol '", proto.symbols(i).name(), "' is bound by no port");
  // Every step has at least one token of one sequence, and may want no logits but of one row.
  for (const auto &[name, dimension] :
       {std::pair("tokens", tokens), std::pair("sequences", sequencesDim),
        std::pair("block table width", tableWidth), std::pair("logit rows", rows)})
    if (dimension.max < 1 || dimension.max > (1 << 30))
      problems.add("at most ", dimension.max, " ", name, " are no useful limit");
  for (const auto &[name, dimension] :
       {std::pair("tokens", tokens), std::pair("sequences", sequencesDim),
        std::pair("logit rows", rows)})
    if (dimension.min > 1)
      problems.add("at least ", dimension.min, " ", name,
                   " in a step, so that a single token cannot be decoded");
  ADAPT_RETURN_IF_ERROR(problems.status("the program is no language model"));

  // The other ports' sizes follow; compared at both ends of the symbols' bounds.
  auto check = [&](const PortSpec &spec, const schema::Buffer &buffer, int axis,
                   const Dimension &dimension, int64_t more) {
    for (bool atMax : {false, true}) {
      std::vector<int64_t> values;
      for (const schema::Symbol &symbol : proto.symbols())
        values.push_back(atMax ? symbol.max() : symbol.min());
      absl::StatusOr<SizeExpr> expr = SizeExpr::compile(
          buffer.shape(axis), [&](absl::string_view name) { return program.findSymbol(name); });
      std::optional<int64_t> size = expr.ok() ? expr->evaluate(values) : std::nullopt;
      int64_t wanted = (atMax ? dimension.max : dimension.min) + more;
      if (!size || *size != wanted) {
        problems.add("port '", spec.name, "' axis ", axis, " is ",
                     size ? absl::StrCat(*size) : "not computable", " where it must be ", wanted);
        return;
      }
    }
  };
  check(kInputs[1], *inputs[1], 0, tokens, 0);
  check(kInputs[2], *inputs[2], 0, sequencesDim, 1);
  check(kInputs[4], *inputs[4], 0, sequencesDim, 0);
  check(kOutputs[0], *outputs[0], 0, rows, 0);
  const schema::Expr &width = outputs[0]->shape(1);
  if (!width.has_constant() || width.constant() < 1)
    problems.add("port 'logits': the size of the vocabulary is not a constant");
  else if (vocab != 0 && vocab != width.constant())
    problems.add("port 'logits' has ", width.constant(), " columns, the vocabulary ", vocab,
                 " entries");
  vocab = width.constant();
  return problems.status("the program is no language model");
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LanguageModel::create(std::unique_ptr<Device> device,
                                                                     const Program &program,
                                                                     Source source,
                                                                     const Options &options) {
  std::unique_ptr<LanguageModel> model(new LanguageModel());
  model->dev = std::move(device);
  model->weights = std::move(source.weights);
  model->uploaded = source.uploadedBytes;
  model->vocab = source.vocabSize;
  ADAPT_ASSIGN_OR_RETURN(const schema::EntryPoint *entry, program.findEntry("main"));
  ADAPT_RETURN_IF_ERROR(model->bindPorts(program, *entry));

  const schema::Program &proto = program.get();
  const schema::Function &function = proto.functions(entry->function());
  int64_t block = entry->block_tokens();
  // Positions are 32 bits wide.
  int64_t tableLimit =
      std::min<int64_t>(model->tableWidth.max * block, std::numeric_limits<int32_t>::max());
  model->tokenLimit = model->tokens.max;
  model->batchLimit = model->sequencesDim.max;
  model->sequenceLimit = source.maxSeqLen ? std::min(source.maxSeqLen, tableLimit) : tableLimit;
  if (options.maxSeqLen < 0 || options.maxSeqLen > model->sequenceLimit)
    return absl::InvalidArgumentError(
        absl::StrCat("sequences of ", options.maxSeqLen, " tokens wanted, the bundle allows ",
                     model->sequenceLimit, ": compile with a greater --max-seq-len"));
  if (options.maxSeqLen)
    model->sequenceLimit = options.maxSeqLen;
  int64_t perSequence = (model->sequenceLimit + block - 1) / block;
  int64_t numBlocks = options.cacheTokens ? (options.cacheTokens + block - 1) / block
                                          : perSequence * model->batchLimit;
  ADAPT_ASSIGN_OR_RETURN(KvCache cache,
                         KvCache::create(*model->dev, proto, numBlocks, entry->block_tokens()));
  model->kv = std::make_unique<KvCache>(std::move(cache));

  MemoryMap memory{source.param, model->kv->planes(), {}, {}};
  ADAPT_ASSIGN_OR_RETURN(model->arena, model->dev->allocate(proto.arena_bytes(), "activations"));
  memory.arena = {model->arena.data, model->arena.bytes};
  std::vector<Region> arguments(function.num_arguments());
  model->arguments.resize(function.num_arguments());
  for (const schema::Buffer &buffer : function.buffers()) {
    if (buffer.storage_case() != schema::Buffer::kArgument)
      continue;
    Memory &held = model->arguments[buffer.argument()];
    if (held.bytes < buffer.bytes()) {
      ADAPT_ASSIGN_OR_RETURN(held, model->dev->allocate(buffer.bytes(), buffer.name()));
    }
    arguments[buffer.argument()] = {held.data, held.bytes};
  }
  memory.arguments = arguments;
  ADAPT_ASSIGN_OR_RETURN(model->plan, ExecutionPlan::build(program, *entry, memory));
  ADAPT_RETURN_IF_ERROR(model->dev->loadKernels(source.kernels, model->plan.kernelSymbols(),
                                                model->plan.scratchBytes()));
  for (auto [name, region] :
       {std::pair("token_ids", &model->tokenIds), std::pair("positions", &model->positions),
        std::pair("seq_starts", &model->seqStarts), std::pair("kv_lens", &model->kvLens),
        std::pair("block_table", &model->blockTable), std::pair("logit_rows", &model->logitRows),
        std::pair("logits", &model->logits)}) {
    ADAPT_ASSIGN_OR_RETURN(*region, model->plan.port(name));
  }
  model->symbols.assign(proto.symbols_size(), 0);
  if (options.poison)
    ADAPT_RETURN_IF_ERROR(model->poisonMemory());
  return model;
}

absl::Status LanguageModel::poisonMemory() {
  // All ones is a NaN in every floating-point type.
  std::vector<char> ones(1 << 20, '\xff');
  std::vector<Region> regions(kv->planes().begin(), kv->planes().end());
  regions.push_back({arena.data, arena.bytes});
  for (const Region &region : regions)
    for (uint64_t at = 0; at < region.bytes; at += ones.size())
      ADAPT_RETURN_IF_ERROR(dev->write(region.data + at, ones.data(),
                                       std::min<uint64_t>(ones.size(), region.bytes - at)));
  return absl::OkStatus();
}

LanguageModel::SequenceId LanguageModel::addSequence() {
  sequences.try_emplace(nextId);
  return nextId++;
}

void LanguageModel::removeSequence(SequenceId id) {
  auto it = sequences.find(id);
  if (it == sequences.end())
    return;
  kv->blocks().release(it->second.blocks);
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
      if (chunk.tokens[t] < 0 || chunk.tokens[t] >= vocab) {
        problems.add("chunk ", c, ": token ", chunk.tokens[t], " at ", t,
                     " is outside the vocabulary of ", vocab);
        break;
      }
    int64_t length = it->second.length + static_cast<int64_t>(chunk.tokens.size());
    if (length > sequenceLimit)
      tooLong.add("chunk ", c, ": the sequence would have ", length, " tokens");
  }
  ADAPT_RETURN_IF_ERROR(problems.status("the batch is not valid"));
  absl::Status status =
      tooLong.status(absl::StrCat("sequences have at most ", sequenceLimit, " tokens"));
  return status.ok() ? status : absl::OutOfRangeError(status.message());
}

/// Gives every sequence the blocks it needs after the batch, or none any.
absl::Status LanguageModel::reserve(absl::Span<const Chunk> batch) {
  int64_t wanted = 0;
  for (const Chunk &chunk : batch) {
    const Sequence &sequence = sequences.at(chunk.sequence);
    wanted += std::max<int64_t>(0, kv->blocksFor(sequence.length + chunk.tokens.size()) -
                                       static_cast<int64_t>(sequence.blocks.size()));
  }
  if (wanted > kv->blocks().numFree())
    return absl::ResourceExhaustedError(absl::StrCat(
        "the cache is full: the batch needs ", wanted, " more blocks of ", kv->blockTokens(),
        " tokens, ", kv->blocks().numFree(), " of ", kv->blocks().numBlocks(), " are free"));
  for (const Chunk &chunk : batch) {
    Sequence &sequence = sequences.at(chunk.sequence);
    int64_t more = kv->blocksFor(sequence.length + chunk.tokens.size()) -
                   static_cast<int64_t>(sequence.blocks.size());
    if (more > 0)
      ADAPT_RETURN_IF_ERROR(kv->blocks().allocate(more, sequence.blocks));
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
      int64_t count = std::min(total - begin, tokens.max - usedTokens);
      bool all = chunk.logits == Logits::kAll;
      if (all)
        count = std::min(count, rows.max - usedRows);
      bool last = chunk.logits == Logits::kLast && begin + count == total;
      if (last && usedRows == rows.max) {
        last = false;
        --count;
      }
      if (count <= 0 || static_cast<int64_t>(pieces.size()) == sequencesDim.max) {
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

absl::Status LanguageModel::writeInput(const Region &region, absl::Span<const int32_t> values) {
  uint64_t bytes = values.size() * sizeof(int32_t);
  if (bytes > region.bytes)
    return absl::InternalError(
        absl::StrCat("an input of ", bytes, " bytes for a buffer of ", region.bytes));
  return dev->write(region.data, values.data(), bytes);
}

absl::Status LanguageModel::runPieces(absl::Span<const Chunk> batch, absl::Span<const Piece> pieces,
                                      LogitsSink sink) {
  int64_t width = std::max<int64_t>(tableWidth.min, 1);
  for (const Piece &piece : pieces) {
    const Sequence &sequence = sequences.at(batch[piece.chunk].sequence);
    width = std::max(width, kv->blocksFor(sequence.length + piece.end - piece.begin));
  }
  hostTokens.clear();
  hostPositions.clear();
  hostStarts.assign(1, 0);
  hostLens.clear();
  hostRows.clear();
  hostTable.assign(width * pieces.size(), 0); // entries that nobody reads name a valid block
  for (size_t p = 0; p < pieces.size(); ++p) {
    const Piece &piece = pieces[p];
    const Chunk &chunk = batch[piece.chunk];
    const Sequence &sequence = sequences.at(chunk.sequence);
    int64_t count = piece.end - piece.begin;
    for (int64_t t = 0; t < count; ++t) {
      if (piece.allRows || (piece.lastRow && t + 1 == count))
        hostRows.push_back(static_cast<int32_t>(hostTokens.size()));
      hostTokens.push_back(chunk.tokens[piece.begin + t]);
      hostPositions.push_back(static_cast<int32_t>(sequence.length + t));
    }
    hostStarts.push_back(static_cast<int32_t>(hostTokens.size()));
    hostLens.push_back(static_cast<int32_t>(sequence.length + count));
    std::copy_n(sequence.blocks.begin(), kv->blocksFor(sequence.length + count),
                hostTable.begin() + p * width);
  }
  size_t wantedRows = hostRows.size();
  if (static_cast<int64_t>(hostRows.size()) < rows.min)
    hostRows.push_back(0); // the program cannot do without; nobody reads it

  auto set = [&](const Dimension &dimension, size_t value) {
    if (dimension.symbol >= 0)
      symbols[dimension.symbol] = static_cast<int64_t>(value);
  };
  set(tokens, hostTokens.size());
  set(sequencesDim, pieces.size());
  set(tableWidth, width);
  set(rows, hostRows.size());
  ADAPT_ASSIGN_OR_RETURN(LaunchList list, plan.prepare(symbols));
  ADAPT_RETURN_IF_ERROR(writeInput(tokenIds, hostTokens));
  ADAPT_RETURN_IF_ERROR(writeInput(positions, hostPositions));
  ADAPT_RETURN_IF_ERROR(writeInput(seqStarts, hostStarts));
  ADAPT_RETURN_IF_ERROR(writeInput(kvLens, hostLens));
  ADAPT_RETURN_IF_ERROR(writeInput(blockTable, hostTable));
  ADAPT_RETURN_IF_ERROR(writeInput(logitRows, hostRows));
  ADAPT_RETURN_IF_ERROR(dev->run(list));
  for (const Piece &piece : pieces)
    sequences.at(batch[piece.chunk].sequence).length += piece.end - piece.begin;

  if (wantedRows == 0)
    return absl::OkStatus();
  const float *row = reinterpret_cast<const float *>(logits.data);
  if (!dev->hostAccessible()) {
    hostLogits.resize(wantedRows * vocab);
    ADAPT_RETURN_IF_ERROR(
        dev->read(hostLogits.data(), logits.data, hostLogits.size() * sizeof(float)));
    row = hostLogits.data();
  }
  for (const Piece &piece : pieces)
    for (int64_t t = piece.begin; t < piece.end; ++t)
      if (piece.allRows || (piece.lastRow && t + 1 == piece.end)) {
        ADAPT_RETURN_IF_ERROR(
            sink(piece.chunk, t, absl::Span<const float>(row, static_cast<size_t>(vocab))));
        row += vocab;
      }
  return absl::OkStatus();
}
