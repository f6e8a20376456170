// Evaluation of operations that move, gather and reduce elements.
#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/AdaptDialect.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace adapt;

LogicalResult ConstantOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value>,
                                   SmallVectorImpl<interp::Value> &results) {
  // The size is checked first: a splat of a huge type costs nothing but its text.
  if (failed(context.getShape(*this, getType())))
    return failure();
  std::optional<interp::Tensor> value = interp::getConstant(getValue());
  if (!value)
    return emitOpError("cannot be evaluated: its elements cannot be read");
  results.push_back(std::move(*value));
  return success();
}

LogicalResult ReshapeOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                  SmallVectorImpl<interp::Value> &results) {
  FailureOr<SmallVector<int64_t>> shape = context.getShape(*this, getType());
  if (failed(shape))
    return failure();
  const interp::Tensor &input = operands[0].tensor();
  interp::Tensor result = input.withShape(*shape);
  if (result.getNumElements() != input.getNumElements())
    return emitOpError("cannot be evaluated: it makes ")
           << result.getNumElements() << " elements of " << input.getNumElements();
  results.push_back(std::move(result));
  return success();
}

LogicalResult TransposeOp::evaluate(interp::EvalContext &, ArrayRef<interp::Value> operands,
                                    SmallVectorImpl<interp::Value> &results) {
  const interp::Tensor &input = operands[0].tensor();
  SmallVector<int64_t> from = interp::getStrides(input.getShape()), shape, strides;
  for (int64_t axis : getPermutation()) {
    shape.push_back(input.getDim(axis));
    strides.push_back(from[axis]);
  }
  results.push_back(interp::gatherStrided(input, shape, 0, strides));
  return success();
}

LogicalResult BroadcastOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                    SmallVectorImpl<interp::Value> &results) {
  FailureOr<SmallVector<int64_t>> shape = context.getShape(*this, getType());
  if (failed(shape))
    return failure();
  const interp::Tensor &input = operands[0].tensor();
  SmallVector<int64_t> from = interp::getStrides(input.getShape()), strides(shape->size(), 0);
  for (auto [axis, target] : llvm::enumerate(getDimensions()))
    if (input.getDim(axis) != 1)
      strides[target] = from[axis];
  results.push_back(interp::gatherStrided(input, *shape, 0, strides));
  return success();
}

LogicalResult SliceOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                SmallVectorImpl<interp::Value> &results) {
  FailureOr<SmallVector<int64_t>> shape = context.getShape(*this, getType());
  if (failed(shape))
    return failure();
  const interp::Tensor &input = operands[0].tensor();
  SmallVector<int64_t> strides = interp::getStrides(input.getShape());
  int64_t offset = 0;
  for (auto [axis, size] : llvm::enumerate(*shape)) {
    int64_t first = getOffsets()[axis], step = getStrides()[axis];
    int64_t rest = input.getDim(axis) - first;
    if (size > 0 && (first < 0 || step < 1 || rest < 1 || (size - 1) > (rest - 1) / step))
      return emitOpError("cannot be evaluated: on axis ")
             << axis << " it takes " << size << " elements from " << first << " in steps of "
             << step << " of " << input.getDim(axis);
    offset += first * strides[axis];
    strides[axis] *= step;
  }
  results.push_back(interp::gatherStrided(input, *shape, offset, strides));
  return success();
}

LogicalResult ConcatOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                 SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  int64_t axis = getAxis(), outer = 1, inner = 1, total = 0;
  for (auto [i, size] : llvm::enumerate(result->getShape()))
    (int64_t(i) < axis ? outer : inner) *= int64_t(i) == axis ? 1 : size;
  for (const interp::Value &operand : operands)
    total += operand.tensor().getDim(axis);
  if (total != result->getDim(axis))
    return emitOpError("cannot be evaluated: its inputs have ")
           << total << " elements on axis " << axis << " and its result has "
           << result->getDim(axis);
  int64_t place = 0;
  auto copy = [&](auto from, auto to, int64_t run) {
    for (int64_t i = 0; i < outer; ++i)
      llvm::copy(from.slice(i * run, run), to.begin() + i * total * inner + place);
  };
  for (const interp::Value &operand : operands) {
    int64_t run = operand.tensor().getDim(axis) * inner;
    if (result->isFloat())
      copy(operand.tensor().floats(), result->mutableFloats(), run);
    else
      copy(operand.tensor().ints(), result->mutableInts(), run);
    place += run;
  }
  results.push_back(std::move(*result));
  return success();
}

namespace {
/// The start of a reduction and what an element does to it.
template <typename T> T getNeutral(ReduceKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return 0;
  case ReduceKind::Prod:
    return 1;
  case ReduceKind::Max:
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  case ReduceKind::Min:
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  llvm_unreachable("unknown kind of reduction");
}

template <typename T> T combine(ReduceKind kind, T sum, T element) {
  // Integers wrap, which only unsigned ones may.
  using Ring = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return T(Ring(sum) + Ring(element));
  case ReduceKind::Prod:
    return T(Ring(sum) * Ring(element));
  // NaN wins.
  case ReduceKind::Max:
    return sum > element || sum != sum ? sum : element;
  case ReduceKind::Min:
    return sum < element || sum != sum ? sum : element;
  }
  llvm_unreachable("unknown kind of reduction");
}

/// Reduces runs of `count` elements.
template <typename Accumulator, typename T>
void reduceRuns(ReduceKind kind, ArrayRef<T> from, MutableArrayRef<T> to, int64_t count) {
  for (auto [i, result] : llvm::enumerate(to)) {
    Accumulator sum = getNeutral<Accumulator>(kind);
    for (T element : from.slice(i * count, count))
      sum = combine<Accumulator>(kind, sum, Accumulator(element));
    result = kind == ReduceKind::Mean ? T(sum / Accumulator(count)) : T(sum);
  }
}
} // namespace

LogicalResult ReduceOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                 SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  const interp::Tensor &input = operands[0].tensor();
  // The reduced axes last, so that each result element is a run.
  SmallVector<int64_t> from = interp::getStrides(input.getShape()), shape, strides;
  int64_t count = 1;
  for (bool reduced : {false, true})
    for (int64_t axis = 0; axis < input.getRank(); ++axis)
      if (llvm::is_contained(getAxes(), axis) == reduced) {
        shape.push_back(input.getDim(axis));
        strides.push_back(from[axis]);
        count *= reduced ? input.getDim(axis) : 1;
      }
  interp::Tensor runs = interp::gatherStrided(input, shape, 0, strides);
  if (result->isFloat())
    context.withAccumulator(result->getElementType(), [&](auto zero) {
      reduceRuns<decltype(zero)>(getKind(), runs.floats(), result->mutableFloats(), count);
    });
  else if (getKind() == ReduceKind::Mean && count == 0)
    return emitOpError("cannot be evaluated: the mean of no integers");
  else
    reduceRuns<int64_t>(getKind(), runs.ints(), result->mutableInts(), count);
  results.push_back(std::move(*result));
  return success();
}

LogicalResult GatherOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                 SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  const interp::Tensor &table = operands[0].tensor(), &indices = operands[1].tensor();
  uint64_t along = getAxis();
  int64_t rows = table.getDim(along), outer = 1, size = 1, first = 0;
  for (auto [axis, dim] : llvm::enumerate(table.getShape()))
    if (axis != along)
      (axis < along ? outer : size) *= dim;
  if (std::optional<DimsAttr> firstRow = getFirstRow()) {
    std::optional<int64_t> value = context.getSize(firstRow->getExprs()[0]);
    if (!value)
      return emitOpError("cannot be evaluated: first_row ")
             << toString(firstRow->getExprs()[0]) << " is not known";
    first = *value;
  } else {
    for (auto [i, row] : llvm::enumerate(indices.ints()))
      if (row < 0 || row >= rows)
        return emitOpError("cannot be evaluated: index ")
               << i << " is " << row << ", but the table has " << rows << " rows";
  }
  auto copy = [&](auto from, auto to) {
    auto place = to.begin();
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t row : indices.ints()) {
        if (row >= first && row - first < rows)
          llvm::copy(from.slice((i * rows + row - first) * size, size), place);
        place += size;
      }
  };
  if (result->isFloat())
    copy(table.floats(), result->mutableFloats());
  else
    copy(table.ints(), result->mutableInts());
  results.push_back(std::move(*result));
  return success();
}

LogicalResult IotaOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value>,
                               SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  std::optional<int64_t> start = context.getSize(getStart().getExprs().front());
  if (failed(result))
    return failure();
  if (!start)
    return emitOpError("cannot be evaluated: its start is not known");
  for (auto [i, value] : llvm::enumerate(result->mutableInts()))
    value = *start + static_cast<int64_t>(i) * static_cast<int64_t>(getStep());
  results.push_back(std::move(*result));
  return success();
}

LogicalResult PadOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                              SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  const interp::Tensor &input = operands[0].tensor(), &value = operands[1].tensor();
  for (int64_t axis = 0; axis < input.getRank(); ++axis)
    if (getLow()[axis] + input.getDim(axis) > result->getDim(axis))
      return emitOpError("cannot be evaluated: on axis ")
             << axis << " " << getLow()[axis] << " and " << input.getDim(axis)
             << " elements do not fit into " << result->getDim(axis);
  SmallVector<int64_t> strides = interp::getStrides(result->getShape());
  auto fill = [&](auto from, auto to, auto filler) {
    llvm::fill(to, filler);
    for (int64_t i = 0; i < input.getNumElements(); ++i) {
      int64_t rest = i, place = 0;
      for (int64_t axis = input.getRank() - 1; axis >= 0; --axis) {
        place += (rest % input.getDim(axis) + getLow()[axis]) * strides[axis];
        rest /= input.getDim(axis);
      }
      to[place] = from[i];
    }
  };
  if (result->isFloat())
    fill(input.floats(), result->mutableFloats(), value.floats()[0]);
  else
    fill(input.ints(), result->mutableInts(), value.ints()[0]);
  results.push_back(std::move(*result));
  return success();
}
