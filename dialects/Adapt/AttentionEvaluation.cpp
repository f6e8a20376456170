// Evaluation of paged attention.
#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/AdaptDialect.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace adapt;

namespace {

/// Where a step's tokens lie.
class Step {
public:
  struct Token {
    int64_t sequence, position;
  };

  /// Checks the indices against `tokens` and the state; on failure an error was emitted.
  static FailureOr<Step> create(Operation *op, const interp::EvalContext &context, int64_t tokens,
                                const interp::State &state, const interp::Tensor &seqStarts,
                                const interp::Tensor &kvLens, const interp::Tensor &blockTable);

  ArrayRef<Token> getTokens() const { return tokens; }
  int64_t getSlot(int64_t sequence, int64_t position) const {
    int64_t block = blockTable.ints()[sequence * blockTable.getDim(1) + position / blockTokens];
    return block * blockTokens + position % blockTokens;
  }

private:
  int64_t blockTokens;
  interp::Tensor blockTable;
  SmallVector<Token> tokens;
};

FailureOr<Step> Step::create(Operation *op, const interp::EvalContext &context, int64_t tokens,
                             const interp::State &state, const interp::Tensor &seqStarts,
                             const interp::Tensor &kvLens, const interp::Tensor &blockTable) {
  Step step;
  step.blockTokens = context.blockTokens;
  step.blockTable = blockTable;
  ArrayRef<int64_t> starts = seqStarts.ints();
  if (starts.front() != 0 || starts.back() != tokens)
    return op->emitOpError("cannot be evaluated: seq_starts goes from ")
           << starts.front() << " to " << starts.back() << ", but there are " << tokens
           << " tokens";
  for (auto [sequence, length] : llvm::enumerate(kvLens.ints())) {
    int64_t count = starts[sequence + 1] - starts[sequence];
    int64_t capacity = blockTable.getDim(1) * context.blockTokens;
    if (count < 0 || length < count || length > capacity)
      return op->emitOpError("cannot be evaluated: sequence ")
             << sequence << " has " << count << " tokens in this step and " << length
             << " after it, of at most " << capacity << " that its blocks hold";
    int64_t slots = state.planes[0].getDim(0);
    for (int64_t position = 0; position < length; position += context.blockTokens) {
      int64_t slot = step.getSlot(sequence, position);
      if (slot < 0 || slot > slots - context.blockTokens)
        return op->emitOpError("cannot be evaluated: block ")
               << slot / context.blockTokens << " of sequence " << sequence << " is not among the "
               << slots / context.blockTokens << " of the state";
    }
    for (int64_t i = 0; i < count; ++i)
      step.tokens.push_back({int64_t(sequence), length - count + i});
  }
  return step;
}

/// Writes the step's keys or values into their slots, in the plane's type.
void append(const interp::EvalContext &context, const Step &step, const interp::Tensor &tensor,
            interp::Tensor &plane) {
  int64_t size = tensor.getDim(1) * tensor.getDim(2);
  const double *from = tensor.floats().data();
  MutableArrayRef<double> to = plane.mutableFloats();
  for (const Step::Token &token : step.getTokens()) {
    double *slot = &to[step.getSlot(token.sequence, token.position) * size];
    for (int64_t i = 0; i < size; ++i)
      slot[i] = context.mode == interp::Mode::Typed
                    ? interp::roundToType(plane.getElementType(), from[i])
                    : from[i];
    from += size;
  }
}

/// One head of one token over its keys; all of them in memory at once, no online softmax.
template <typename Accumulator>
void attendHead(const Step &step, Step::Token token, int64_t first, const double *query,
                const interp::Tensor &keys, const interp::Tensor &values, int64_t group,
                double scale, double *result) {
  int64_t groups = keys.getDim(1), keySize = keys.getDim(2), valueSize = values.getDim(2);
  SmallVector<Accumulator> weights;
  Accumulator largest = -std::numeric_limits<Accumulator>::infinity();
  for (int64_t j = first; j <= token.position; ++j) {
    int64_t row = step.getSlot(token.sequence, j) * groups + group;
    Accumulator score = Accumulator(scale) *
                        interp::dot<Accumulator>(query, &keys.floats()[row * keySize], keySize);
    weights.push_back(score);
    largest = std::max(largest, score);
  }
  Accumulator sum = 0;
  for (Accumulator &weight : weights)
    sum += weight = std::exp(weight - largest);
  for (int64_t e = 0; e < valueSize; ++e) {
    Accumulator total = 0;
    for (auto [i, weight] : llvm::enumerate(weights)) {
      int64_t row = step.getSlot(token.sequence, first + i) * groups + group;
      total += weight * Accumulator(values.floats()[row * valueSize + e]);
    }
    result[e] = total / sum;
  }
}

interp::Tensor attend(const interp::EvalContext &context, const Step &step,
                      const interp::Tensor &query, const interp::State &state, double scale,
                      std::optional<int64_t> window) {
  const interp::Tensor &keys = state.planes[0], &values = state.planes[1];
  int64_t heads = query.getDim(1), keySize = keys.getDim(2), valueSize = values.getDim(2);
  int64_t headsPerGroup = heads / keys.getDim(1);
  interp::Tensor result(query.getElementType(), {query.getDim(0), heads, valueSize});
  MutableArrayRef<double> out = result.mutableFloats();
  context.withAccumulator(query.getElementType(), [&](auto zero) {
    for (auto [t, token] : llvm::enumerate(step.getTokens())) {
      int64_t first = window.value_or(0) ? std::max<int64_t>(0, token.position - *window + 1) : 0;
      for (int64_t head = 0; head < heads; ++head)
        attendHead<decltype(zero)>(
            step, token, first, &query.floats()[(t * heads + head) * keySize], keys, values,
            head / headsPerGroup, scale, &out[(t * heads + head) * valueSize]);
    }
  });
  return result;
}
} // namespace

LogicalResult PagedAttentionOp::evaluate(interp::EvalContext &context,
                                         ArrayRef<interp::Value> operands,
                                         SmallVectorImpl<interp::Value> &results) {
  const interp::Tensor &query = operands[0].tensor();
  interp::State state = operands[3].state();
  FailureOr<Step> step = Step::create(*this, context, query.getDim(0), state, operands[4].tensor(),
                                      operands[5].tensor(), operands[6].tensor());
  if (failed(step))
    return failure();
  append(context, *step, operands[1].tensor(), state.planes[0]);
  append(context, *step, operands[2].tensor(), state.planes[1]);
  results.push_back(
      attend(context, *step, query, state, getScale().convertToDouble(), getWindow()));
  results.push_back(std::move(state));
  return success();
}

LogicalResult PagedAppendOp::evaluate(interp::EvalContext &context,
                                      ArrayRef<interp::Value> operands,
                                      SmallVectorImpl<interp::Value> &results) {
  interp::State state = operands[2].state();
  FailureOr<Step> step =
      Step::create(*this, context, operands[0].tensor().getDim(0), state, operands[3].tensor(),
                   operands[4].tensor(), operands[5].tensor());
  if (failed(step))
    return failure();
  append(context, *step, operands[0].tensor(), state.planes[0]);
  append(context, *step, operands[1].tensor(), state.planes[1]);
  results.push_back(std::move(state));
  return success();
}

LogicalResult PagedAttendOp::evaluate(interp::EvalContext &context,
                                      ArrayRef<interp::Value> operands,
                                      SmallVectorImpl<interp::Value> &results) {
  const interp::Tensor &query = operands[0].tensor();
  const interp::State &state = operands[1].state();
  FailureOr<Step> step = Step::create(*this, context, query.getDim(0), state, operands[2].tensor(),
                                      operands[3].tensor(), operands[4].tensor());
  if (failed(step))
    return failure();
  results.push_back(
      attend(context, *step, query, state, getScale().convertToDouble(), getWindow()));
  results.push_back(state);
  return success();
}
