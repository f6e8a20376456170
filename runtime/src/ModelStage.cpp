#include "adapt/ModelStage.h"
#include "Poison.h"

#include "absl/container/flat_hash_map.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace adapt;
using namespace adapt::rt;

namespace {

struct PortSpec {
  absl::string_view name;
  int rank;
  schema::ElementType element;
};
// The first stage of a model has all inputs, a later one all but the token ids; only the last has
// the output.
constexpr PortSpec kTokenIds = {"token_ids", 1, schema::I32};
constexpr PortSpec kPositions = {"positions", 1, schema::I32};
constexpr PortSpec kSeqStarts = {"seq_starts", 1, schema::I32};
constexpr PortSpec kKvLens = {"kv_lens", 1, schema::I32};
constexpr PortSpec kBlockTable = {"block_table", 2, schema::I32};
constexpr PortSpec kLogitRows = {"logit_rows", 1, schema::I32};
constexpr PortSpec kLogits = {"logits", 2, schema::F32};

using Ports = google::protobuf::RepeatedPtrField<schema::EntryPoint::Port>;

/// The buffers of the ports by their names; reports what is missing, unknown or of another type.
absl::flat_hash_map<absl::string_view, const schema::Buffer *>
findPorts(const schema::Function &function, const Ports &ports, absl::Span<const PortSpec> specs,
          Problems &problems) {
  absl::flat_hash_map<absl::string_view, const schema::Buffer *> result;
  for (const schema::EntryPoint::Port &port : ports) {
    auto spec = std::find_if(specs.begin(), specs.end(),
                             [&](const PortSpec &spec) { return spec.name == port.name(); });
    if (spec == specs.end()) {
      problems.add("this stage of a language model has no port '", port.name(), "'");
      continue;
    }
    const schema::Buffer &buffer = function.buffers(port.buffer());
    if (buffer.shape_size() != spec->rank || buffer.element() != spec->element)
      problems.add("port '", port.name(), "' is ", schema::ElementType_Name(buffer.element()),
                   " of rank ", buffer.shape_size(), ", must be ",
                   schema::ElementType_Name(spec->element), " of rank ", spec->rank);
    result[spec->name] = &buffer;
  }
  for (const PortSpec &spec : specs)
    if (!result.contains(spec.name))
      problems.add("no port '", spec.name, "'");
  return result;
}

} // namespace

absl::Status ModelStage::bindPorts(const Program &program, const schema::EntryPoint &entry) {
  const schema::Program &proto = program.get();
  const schema::Function &function = proto.functions(entry.function());
  Problems problems;
  if (entry.kind() != "language_model")
    problems.add("entry point '", entry.name(), "' is of kind '", entry.kind(),
                 "', wanted is language_model");
  if (entry.block_tokens() == 0)
    problems.add("entry point '", entry.name(), "': block_tokens is 0");
  std::vector<PortSpec> inputSpecs = {kPositions, kSeqStarts, kKvLens, kBlockTable, kLogitRows};
  std::vector<PortSpec> outputSpecs;
  if (isFirst())
    inputSpecs.push_back(kTokenIds);
  if (isLast())
    outputSpecs.push_back(kLogits);
  auto ports = findPorts(function, entry.inputs(), inputSpecs, problems);
  ports.merge(findPorts(function, entry.outputs(), outputSpecs, problems));
  ADAPT_RETURN_IF_ERROR(problems.status("the program is no language model"));

  // T, S, B and L are what the shapes of these ports say, whatever the symbols are called.
  std::vector<bool> bound(proto.symbols_size(), false);
  ADAPT_RETURN_IF_ERROR(bindCoordinates(proto, bound));
  auto bind = [&](const PortSpec &spec, int axis, Dimension &dimension) {
    const schema::Expr &extent = ports[spec.name]->shape(axis);
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
  bind(isFirst() ? kTokenIds : kPositions, 0, tokensDim);
  bind(kKvLens, 0, sequencesDim);
  bind(kBlockTable, 1, tableDim);
  bind(kLogitRows, 0, rowsDim);
  for (int i = 0; i < proto.symbols_size(); ++i)
    if (!bound[i])
      problems.add("symbol '", proto.symbols(i).name(), "' is bound by no port");
  // Every step has at least one token of one sequence, and may want no logits but of one row.
  for (const auto &[name, dimension] :
       {std::pair("tokens", tokensDim), std::pair("sequences", sequencesDim),
        std::pair("block table width", tableDim), std::pair("logit rows", rowsDim)})
    if (dimension.max < 1 || dimension.max > (1 << 30))
      problems.add("at most ", dimension.max, " ", name, " are no useful limit");
  for (const auto &[name, dimension] :
       {std::pair("tokens", tokensDim), std::pair("sequences", sequencesDim),
        std::pair("logit rows", rowsDim)})
    if (dimension.min > 1)
      problems.add("at least ", dimension.min, " ", name,
                   " in a step, so that a single token cannot be decoded");
  ADAPT_RETURN_IF_ERROR(problems.status("the program is no language model"));

  // The other ports' sizes follow; compared at both ends of the symbols' bounds.
  auto check = [&](const PortSpec &spec, int axis, const Dimension &dimension, int64_t more) {
    for (bool atMax : {false, true}) {
      std::vector<int64_t> values;
      for (const schema::Symbol &symbol : proto.symbols())
        values.push_back(atMax ? symbol.max() : symbol.min());
      absl::StatusOr<SizeExpr> expr =
          SizeExpr::compile(ports[spec.name]->shape(axis),
                            [&](absl::string_view name) { return program.findSymbol(name); });
      std::optional<int64_t> size = expr.ok() ? expr->evaluate(values) : std::nullopt;
      int64_t wanted = (atMax ? dimension.max : dimension.min) + more;
      if (!size || *size != wanted) {
        problems.add("port '", spec.name, "' axis ", axis, " is ",
                     size ? absl::StrCat(*size) : "not computable", " where it must be ", wanted);
        return;
      }
    }
  };
  check(kPositions, 0, tokensDim, 0);
  check(kSeqStarts, 0, sequencesDim, 1);
  check(kBlockTable, 0, sequencesDim, 0);
  if (!isLast()) {
    if (vocab == 0)
      problems.add("the size of the vocabulary is not known");
    return problems.status("the program is no language model");
  }
  check(kLogits, 0, rowsDim, 0);
  const schema::Expr &width = ports[kLogits.name]->shape(1);
  if (!width.has_constant() || width.constant() < 1)
    problems.add("port 'logits': the size of the vocabulary is not a constant");
  else if (vocab != 0 && vocab != width.constant())
    problems.add("port 'logits' has ", width.constant(), " columns, the vocabulary ", vocab,
                 " entries");
  vocab = width.constant();
  return problems.status("the program is no language model");
}

absl::Status ModelStage::bindCoordinates(const schema::Program &program, std::vector<bool> &bound) {
  Problems problems;
  for (int i = 0; i < program.symbols_size(); ++i) {
    const schema::Symbol &symbol = program.symbols(i);
    std::optional<absl::string_view> axis = meshAxis(symbol.name());
    if (!axis)
      continue;
    bound[i] = true;
    int size = 1, mine = 0;
    if (ranks && *axis == "tp") {
      size = ranks->mesh().tp;
      mine = ranks->tpRank();
    } else if (ranks && *axis == "pp") {
      size = ranks->mesh().pp;
      mine = ranks->ppRank();
    }
    symbols[i] = mine;
    if (symbol.max() + 1 != size)
      problems.add("the program was made for ", symbol.max() + 1, " ranks along the axis '", *axis,
                   "', there are ", size);
  }
  return problems.status("the program does not fit the ranks");
}

absl::StatusOr<std::unique_ptr<ModelStage>>
ModelStage::create(std::unique_ptr<Device> device, const Program &program, ModelSource source,
                   const Options &options, Communicator *ranks) {
  std::unique_ptr<ModelStage> stage(new ModelStage());
  stage->dev = std::move(device);
  stage->ranks = ranks;
  stage->weights = std::move(source.weights);
  stage->uploaded = source.uploadedBytes;
  stage->vocab = source.vocabSize;
  stage->symbols.assign(program.get().symbols_size(), 0);
  ADAPT_ASSIGN_OR_RETURN(const schema::EntryPoint *entry, program.findEntry("main"));
  ADAPT_RETURN_IF_ERROR(stage->bindPorts(program, *entry));
  ADAPT_RETURN_IF_ERROR(stage->allocate(program, *entry, source, options));
  ADAPT_RETURN_IF_ERROR(stage->dev->loadKernels(source.kernels, stage->plan.kernelSymbols(),
                                                stage->plan.scratchBytes()));
  stage->executor = std::make_unique<Executor>(*stage->dev, ranks);
  ADAPT_RETURN_IF_ERROR(stage->executor->check(stage->plan));
  std::vector<std::pair<absl::string_view, Region *>> places = {{"positions", &stage->positions},
                                                                {"seq_starts", &stage->seqStarts},
                                                                {"kv_lens", &stage->kvLens},
                                                                {"block_table", &stage->blockTable},
                                                                {"logit_rows", &stage->logitRows}};
  if (stage->isFirst())
    places.push_back({"token_ids", &stage->tokenIds});
  if (stage->isLast())
    places.push_back({"logits", &stage->logits});
  for (auto [name, region] : places) {
    ADAPT_ASSIGN_OR_RETURN(*region, stage->plan.port(name));
  }
  if (options.poison)
    ADAPT_RETURN_IF_ERROR(stage->poisonMemory());
  return stage;
}

/// The cache, the arena and the arguments, and the plan that is bound to them.
absl::Status ModelStage::allocate(const Program &program, const schema::EntryPoint &entry,
                                  const ModelSource &source, const Options &options) {
  const schema::Program &proto = program.get();
  const schema::Function &function = proto.functions(entry.function());
  int64_t block = entry.block_tokens();
  // Positions are 32 bits wide.
  int64_t tableLimit = std::min<int64_t>(tableDim.max * block, std::numeric_limits<int32_t>::max());
  sequenceLimit = source.maxSeqLen ? std::min(source.maxSeqLen, tableLimit) : tableLimit;
  if (options.maxSeqLen < 0 || options.maxSeqLen > sequenceLimit)
    return absl::InvalidArgumentError(
        absl::StrCat("sequences of ", options.maxSeqLen, " tokens wanted, the bundle allows ",
                     sequenceLimit, ": compile with a greater --max-seq-len"));
  if (options.maxSeqLen)
    sequenceLimit = options.maxSeqLen;
  int64_t perSequence = (sequenceLimit + block - 1) / block;
  int64_t numBlocks = options.cacheTokens ? (options.cacheTokens + block - 1) / block
                                          : perSequence * sequencesDim.max;
  ADAPT_ASSIGN_OR_RETURN(KvCache cache,
                         KvCache::create(*dev, proto, numBlocks, entry.block_tokens()));
  kv = std::make_unique<KvCache>(std::move(cache));

  MemoryMap memory{source.param, kv->planes(), {}, {}};
  ADAPT_ASSIGN_OR_RETURN(arena, dev->allocate(proto.arena_bytes(), "activations"));
  memory.arena = {arena.data, arena.bytes};
  std::vector<Region> regions(function.num_arguments());
  arguments.resize(function.num_arguments());
  for (const schema::Buffer &buffer : function.buffers()) {
    if (buffer.storage_case() != schema::Buffer::kArgument)
      continue;
    Memory &held = arguments[buffer.argument()];
    if (held.bytes < buffer.bytes()) {
      ADAPT_ASSIGN_OR_RETURN(held, dev->allocate(buffer.bytes(), buffer.name()));
    }
    regions[buffer.argument()] = {held.data, held.bytes};
  }
  memory.arguments = regions;
  ADAPT_ASSIGN_OR_RETURN(plan, ExecutionPlan::build(program, entry, memory));
  return absl::OkStatus();
}

absl::Status ModelStage::poisonMemory() {
  for (const Region &plane : kv->planes())
    ADAPT_RETURN_IF_ERROR(poison(*dev, plane));
  return poison(*dev, {arena.data, arena.bytes});
}

absl::Status ModelStage::writeInput(const Region &region, absl::Span<const int32_t> values) {
  uint64_t bytes = values.size() * sizeof(int32_t);
  if (bytes > region.bytes)
    return absl::InternalError(
        absl::StrCat("an input of ", bytes, " bytes for a buffer of ", region.bytes));
  return dev->write(region.data, values.data(), bytes);
}

absl::Status ModelStage::run(const StepInputs &inputs) {
  auto set = [&](const Dimension &dimension, size_t value) {
    if (dimension.symbol >= 0)
      symbols[dimension.symbol] = static_cast<int64_t>(value);
  };
  set(tokensDim, inputs.tokenIds.size());
  set(sequencesDim, inputs.kvLens.size());
  set(tableDim, inputs.blockTable.size() / std::max<size_t>(1, inputs.kvLens.size()));
  set(rowsDim, inputs.logitRows.size());
  ADAPT_ASSIGN_OR_RETURN(LaunchList list, plan.prepare(symbols));
  if (isFirst())
    ADAPT_RETURN_IF_ERROR(writeInput(tokenIds, inputs.tokenIds));
  ADAPT_RETURN_IF_ERROR(writeInput(positions, inputs.positions));
  ADAPT_RETURN_IF_ERROR(writeInput(seqStarts, inputs.seqStarts));
  ADAPT_RETURN_IF_ERROR(writeInput(kvLens, inputs.kvLens));
  ADAPT_RETURN_IF_ERROR(writeInput(blockTable, inputs.blockTable));
  ADAPT_RETURN_IF_ERROR(writeInput(logitRows, inputs.logitRows));
  return executor->run(plan, list);
}

absl::StatusOr<absl::Span<const float>> ModelStage::readLogits(int64_t rows) {
  size_t count = static_cast<size_t>(rows * vocab);
  if (!isLast() || count * sizeof(float) > logits.bytes)
    return absl::InternalError(absl::StrCat("logits of ", rows, " rows are not here"));
  if (dev->hostAccessible())
    return absl::MakeConstSpan(reinterpret_cast<const float *>(logits.data), count);
  hostLogits.resize(count);
  ADAPT_RETURN_IF_ERROR(dev->read(hostLogits.data(), logits.data, count * sizeof(float)));
  return absl::MakeConstSpan(hostLogits);
}

//===----------------------------------------------------------------------===//
// Inputs as a message: seven counts, then the six arrays.
//===----------------------------------------------------------------------===//

std::string StepInputs::serialize() const {
  std::string bytes;
  auto append = [&](const void *data, size_t size) {
    bytes.append(static_cast<const char *>(data), size);
  };
  const std::vector<int32_t> *arrays[] = {&tokenIds, &positions,  &seqStarts,
                                          &kvLens,   &blockTable, &logitRows};
  for (const std::vector<int32_t> *array : arrays) {
    int64_t count = static_cast<int64_t>(array->size());
    append(&count, sizeof(count));
  }
  append(&wantedRows, sizeof(wantedRows));
  for (const std::vector<int32_t> *array : arrays)
    append(array->data(), array->size() * sizeof(int32_t));
  return bytes;
}

absl::StatusOr<StepInputs> StepInputs::parse(absl::string_view bytes) {
  StepInputs inputs;
  std::vector<int32_t> *arrays[] = {&inputs.tokenIds, &inputs.positions,  &inputs.seqStarts,
                                    &inputs.kvLens,   &inputs.blockTable, &inputs.logitRows};
  absl::Status damaged = absl::InternalError("rank 0 describes a step that is none");
  int64_t counts[7];
  if (bytes.size() < sizeof(counts))
    return damaged;
  std::memcpy(counts, bytes.data(), sizeof(counts));
  bytes.remove_prefix(sizeof(counts));
  inputs.wantedRows = counts[6];
  for (size_t i = 0; i < 6; ++i) {
    if (counts[i] < 0 || static_cast<uint64_t>(counts[i]) > bytes.size() / sizeof(int32_t))
      return damaged;
    arrays[i]->resize(counts[i]);
    std::copy_n(bytes.data(), counts[i] * sizeof(int32_t),
                reinterpret_cast<char *>(arrays[i]->data()));
    bytes.remove_prefix(counts[i] * sizeof(int32_t));
  }
  bool agree = inputs.positions.size() == inputs.tokenIds.size() &&
               inputs.seqStarts.size() == inputs.kvLens.size() + 1 && !inputs.kvLens.empty() &&
               inputs.blockTable.size() % inputs.kvLens.size() == 0 && counts[6] >= 0 &&
               counts[6] <= counts[5] && bytes.empty();
  return agree ? absl::StatusOr<StepInputs>(std::move(inputs)) : damaged;
}
