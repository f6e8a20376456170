#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "dialects/Adapt/Recipes.h"

using namespace mlir;
using namespace adapt;

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult verifyRanks(Operation *op, int64_t ranks) {
  if (ranks >= 2)
    return success();
  return op->emitOpError() << "needs at least 2 ranks, not " << ranks;
}

using RankValues = ArrayRef<SmallVector<interp::Value>>;
} // namespace

//===----------------------------------------------------------------------===//
// all_reduce
//===----------------------------------------------------------------------===//

LogicalResult AllReduceOp::verify() {
  if (failed(verifyRanks(*this, getRanks())))
    return failure();
  if (getKind() == ReduceKind::Mean || getKind() == ReduceKind::Prod)
    return emitOpError() << "combines by sum, max or min, not by "
                         << stringifyReduceKind(getKind());
  return success();
}

StringRef AllReduceOp::getMeshAxisName() { return getMeshAxis(); }

// In a ring each element goes round twice: once to be summed, once to be known.
AffineExpr AllReduceOp::getWireBytes() {
  return getNumBytes(typeOf(getInput())) * (2 * (int64_t(getRanks()) - 1));
}

LogicalResult AllReduceOp::evaluateRanks(ArrayRef<interp::EvalContext *> contexts,
                                         RankValues operands,
                                         MutableArrayRef<SmallVector<interp::Value>> results) {
  interp::Tensor sum = operands[0][0].tensor();
  auto combine = [&](auto out, auto get, auto zero) {
    using Accumulator = decltype(zero);
    for (size_t i = 0; i < out.size(); ++i) {
      Accumulator value = Accumulator(out[i]);
      for (const auto &rank : operands.drop_front()) {
        Accumulator other = Accumulator(get(rank[0].tensor())[i]);
        if (getKind() == ReduceKind::Sum)
          value += other;
        else if (getKind() == ReduceKind::Max)
          value = std::max(value, other);
        else
          value = std::min(value, other);
      }
      out[i] = value;
    }
  };
  if (sum.isFloat())
    contexts[0]->withAccumulator(sum.getElementType(), [&](auto zero) {
      combine(sum.mutableFloats(), [](const interp::Tensor &t) { return t.floats(); }, zero);
    });
  else
    combine(sum.mutableInts(), [](const interp::Tensor &t) { return t.ints(); }, int64_t(0));
  for (auto &rank : results)
    rank.push_back(sum);
  return success();
}

//===----------------------------------------------------------------------===//
// all_gather
//===----------------------------------------------------------------------===//

LogicalResult AllGatherOp::verify() {
  if (failed(verifyRanks(*this, getRanks())))
    return failure();
  RankedTensorType in = typeOf(getInput()), out = typeOf(getResult());
  int64_t axis = getAxis();
  if (axis < 0 || axis >= in.getRank())
    return emitOpError() << "axis " << axis << " of a tensor of rank " << in.getRank();
  SmallVector<AffineExpr> expected = getDims(in);
  if (!getOperation()->hasAttr(AdaptDialect::kPlacement))
    expected[axis] = expected[axis] * int64_t(getRanks());
  if (out != getTensorType(expected, in.getElementType()))
    return emitOpError() << "of " << getRanks() << " parts " << in << " along axis " << axis
                         << " must give " << getTensorType(expected, in.getElementType())
                         << ", not " << out;
  return success();
}

StringRef AllGatherOp::getMeshAxisName() { return getMeshAxis(); }

// Each rank's part goes to all others.
AffineExpr AllGatherOp::getWireBytes() {
  return getNumBytes(typeOf(getResult())) * (int64_t(getRanks()) - 1);
}

LogicalResult AllGatherOp::evaluateRanks(ArrayRef<interp::EvalContext *> contexts,
                                         RankValues operands,
                                         MutableArrayRef<SmallVector<interp::Value>> results) {
  FailureOr<interp::Tensor> whole = contexts[0]->makeTensor(*this, getType());
  if (failed(whole))
    return failure();
  const interp::Tensor &first = operands[0][0].tensor();
  int64_t run = 1, outer = 1; // elements of a part's contiguous run, and the number of runs
  for (int64_t i = 0; i < first.getRank(); ++i)
    (i < int64_t(getAxis()) ? outer : run) *= first.getDim(i);
  int64_t stride = run * int64_t(operands.size());
  auto place = [&](auto out, auto get) {
    for (auto [rank, values] : llvm::enumerate(operands))
      for (int64_t i = 0; i < outer; ++i)
        llvm::copy(get(values[0].tensor()).slice(i * run, run),
                   out.begin() + i * stride + int64_t(rank) * run);
  };
  if (whole->isFloat())
    place(whole->mutableFloats(), [](const interp::Tensor &t) { return t.floats(); });
  else
    place(whole->mutableInts(), [](const interp::Tensor &t) { return t.ints(); });
  for (auto &rank : results)
    rank.push_back(*whole);
  return success();
}

//===----------------------------------------------------------------------===//
// transfer
//===----------------------------------------------------------------------===//

LogicalResult TransferOp::verify() {
  if (getFrom() >= getTo())
    return emitOpError() << "goes to a later stage, not from " << getFrom() << " to " << getTo();
  return success();
}

StringRef TransferOp::getMeshAxisName() { return "pp"; }

AffineExpr TransferOp::getWireBytes() { return getNumBytes(typeOf(getInput())); }

// All stages run in one module, one after the other.
LogicalResult TransferOp::evaluateRanks(ArrayRef<interp::EvalContext *>, RankValues operands,
                                        MutableArrayRef<SmallVector<interp::Value>> results) {
  for (auto [from, to] : llvm::zip_equal(operands, results))
    to.push_back(from[0]);
  return success();
}

//===----------------------------------------------------------------------===//
// shard_slice
//===----------------------------------------------------------------------===//

LogicalResult ShardSliceOp::verify() {
  RankedTensorType in = typeOf(getInput()), out = typeOf(getResult());
  ArrayRef<AffineExpr> offsets = getOffsets().getExprs();
  if (in.getElementType() != out.getElementType())
    return emitOpError() << "keeps the element type, but goes from " << in.getElementType()
                         << " to " << out.getElementType();
  if (in.getRank() != out.getRank() || int64_t(offsets.size()) != in.getRank())
    return emitOpError() << "of a tensor of rank " << in.getRank()
                         << " needs as many offsets and result axes, not " << offsets.size()
                         << " and " << out.getRank();
  for (auto [axis, from, to] : llvm::enumerate(getDims(in), getDims(out))) {
    auto a = dyn_cast<AffineConstantExpr>(from), b = dyn_cast<AffineConstantExpr>(to);
    bool fits = a && b ? b.getValue() <= a.getValue() : from == to;
    if (!fits)
      return emitOpError() << "takes " << toString(to) << " of " << toString(from) << " on axis "
                           << axis;
  }
  return success();
}

LogicalResult ShardSliceOp::toRecipe(schema::RecipeNode &node) {
  auto *slice = node.mutable_slice();
  for (auto [offset, size] :
       llvm::zip_equal(getOffsets().getExprs(), typeOf(getResult()).getShape())) {
    exportExpr(offset, *slice->add_offsets());
    slice->add_sizes(size);
    slice->add_strides(1);
  }
  return success();
}

LogicalResult ShardSliceOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                                     SmallVectorImpl<interp::Value> &results) {
  FailureOr<SmallVector<int64_t>> shape = context.getShape(*this, getType());
  if (failed(shape))
    return failure();
  const interp::Tensor &input = operands[0].tensor();
  SmallVector<int64_t> strides = interp::getStrides(input.getShape());
  int64_t start = 0;
  for (auto [axis, expr] : llvm::enumerate(getOffsets().getExprs())) {
    std::optional<int64_t> offset = context.getSize(expr);
    if (!offset || *offset < 0 || *offset > input.getDim(axis) - (*shape)[axis])
      return emitOpError("cannot be evaluated: offset ")
             << toString(expr) << " on axis " << axis
             << (offset ? " is " + std::to_string(*offset) + ", outside of the input"
                        : std::string(" is not known"));
    start += *offset * strides[axis];
  }
  results.push_back(interp::gatherStrided(input, *shape, start, strides));
  return success();
}
