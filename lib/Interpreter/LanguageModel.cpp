#include "adapt/Interpreter/LanguageModel.h"

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace adapt::interp {

static constexpr int64_t kMaxLogits = int64_t(1) << 30;

static int64_t getBlocksPerSequence(const TokenBatch &batch, int64_t blockTokens) {
  return std::max<int64_t>(1, llvm::divideCeil(batch.length, blockTokens));
}

int64_t getNumBlocks(const TokenBatch &batch, int64_t blockTokens) {
  return batch.batch * getBlocksPerSequence(batch, blockTokens);
}

static Tensor makeI32(MLIRContext *context, ArrayRef<int64_t> shape, ArrayRef<int64_t> values) {
  Tensor tensor(IntegerType::get(context, 32), shape);
  llvm::copy(values, tensor.mutableInts().begin());
  return tensor;
}

FailureOr<Tensor> runBatch(Location loc, const TokenBatch &batch, int64_t blockTokens,
                           StepFunction step) {
  SmallVector<int64_t> lengths(batch.lengths);
  if (lengths.empty())
    lengths.assign(batch.batch, batch.length);
  if (int64_t(lengths.size()) != batch.batch)
    return emitError(loc) << "there are " << lengths.size() << " lengths for " << batch.batch
                          << " sequences";
  for (auto [i, length] : llvm::enumerate(lengths))
    if (length < 1 || length > batch.length)
      return emitError(loc) << "sequence " << i << " has length " << length << ", not 1 to "
                            << batch.length;
  int64_t blocks = getBlocksPerSequence(batch, blockTokens);
  int64_t chunk = batch.chunk > 0 ? batch.chunk : batch.length;
  std::optional<Tensor> logits;
  for (int64_t first = 0; first < batch.length; first += chunk) {
    SmallVector<int64_t> ids, positions, starts{0}, kvLens, table, rows, places;
    for (auto [s, length] : llvm::enumerate(lengths)) {
      if (first >= length)
        continue;
      int64_t last = std::min(length, first + chunk);
      for (int64_t position = first; position < last; ++position) {
        places.push_back(s * batch.length + position);
        ids.push_back(batch.ids[places.back()]);
        rows.push_back(positions.size());
        positions.push_back(position);
      }
      starts.push_back(positions.size());
      kvLens.push_back(last);
      for (int64_t block = 0; block < blocks; ++block)
        table.push_back(block * batch.batch + s);
    }
    if (kvLens.empty())
      break;
    MLIRContext *context = loc.getContext();
    int64_t tokens = ids.size(), sequences = kvLens.size();
    Value inputs[] = {makeI32(context, {tokens}, ids),
                      makeI32(context, {tokens}, positions),
                      makeI32(context, {sequences + 1}, starts),
                      makeI32(context, {sequences}, kvLens),
                      makeI32(context, {sequences, blocks}, table),
                      makeI32(context, {tokens}, rows)};
    FailureOr<Tensor> result = step(inputs);
    if (failed(result))
      return failure();
    if (!result->isFloat() || result->getRank() != 2 || result->getDim(0) != tokens)
      return emitError(loc) << "the entry point must return logits [L, V]";
    int64_t vocabulary = result->getDim(1);
    if (logits && logits->getDim(2) != vocabulary)
      return emitError(loc) << "the entry point's vocabulary changes from step to step";
    if (vocabulary > kMaxLogits / (batch.batch * batch.length))
      return emitError(loc) << "the batch has more than " << kMaxLogits << " logits";
    if (!logits)
      logits.emplace(result->getElementType(),
                     ArrayRef<int64_t>{batch.batch, batch.length, vocabulary});
    MutableArrayRef<double> out = logits->mutableFloats();
    for (auto [i, place] : llvm::enumerate(places))
      llvm::copy(result->floats().slice(i * vocabulary, vocabulary),
                 out.begin() + place * vocabulary);
  }
  if (!logits)
    return emitError(loc) << "the batch has no tokens";
  return *logits;
}

FailureOr<Tensor> runLanguageModel(Interpreter &interpreter, FunctionOpInterface function,
                                   const TokenBatch &batch) {
  constexpr unsigned kInputs = 6;
  int64_t blockTokens = interpreter.getOptions().blockTokens;
  SmallVector<Value> arguments;
  SmallVector<unsigned> inputs, states;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    arguments.emplace_back();
    if (!isa<PagedType>(type)) {
      inputs.push_back(i);
      continue;
    }
    states.push_back(i);
    FailureOr<State> state =
        interpreter.makeState(function, type, getNumBlocks(batch, blockTokens));
    if (failed(state))
      return failure();
    arguments.back() = std::move(*state);
  }
  if (inputs.size() != kInputs)
    return function.emitOpError("is not the entry point of a language model: it has ")
           << inputs.size() << " inputs beside its states, not " << kInputs;
  // Ranks differ in their states only; the logits of rank 0 are those of all.
  std::vector<SmallVector<Value>> byRank(interpreter.getNumRanks(), arguments);
  return runBatch(function.getLoc(), batch, blockTokens,
                  [&](ArrayRef<Value> values) -> FailureOr<Tensor> {
                    for (SmallVector<Value> &ofRank : byRank)
                      for (auto [place, value] : llvm::zip_equal(inputs, values))
                        ofRank[place] = value;
                    auto results = interpreter.runRanks(function, byRank);
                    if (failed(results))
                      return failure();
                    std::optional<Tensor> logits;
                    for (auto [ofRank, mine] : llvm::zip_equal(byRank, *results)) {
                      unsigned state = 0;
                      for (Value &result : mine) {
                        if (!result.isState())
                          logits = logits ? logits : result.tensor();
                        else if (state < states.size())
                          ofRank[states[state++]] = std::move(result);
                      }
                      if (!logits || state != states.size())
                        return function.emitOpError("must return its logits and its states");
                    }
                    return *logits;
                  });
}

} // namespace adapt::interp
