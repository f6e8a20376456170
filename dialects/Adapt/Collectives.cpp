#include "dialects/Adapt/Collectives.h"
#include "adapt/Interpreter/Evaluation.h"
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

SmallVector<interp::Tensor> getTensors(RankValues operands) {
  SmallVector<interp::Tensor> tensors;
  for (const auto &rank : operands)
    tensors.push_back(rank[0].tensor());
  return tensors;
}
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

interp::Tensor adapt::combineRanks(const interp::EvalContext &context, ReduceKind kind,
                                   ArrayRef<interp::Tensor> parts) {
  interp::Tensor result = parts[0];
  auto combine = [&](auto out, auto get, auto zero) {
    using Accumulator = decltype(zero);
    for (size_t i = 0; i < out.size(); ++i) {
      Accumulator value = Accumulator(out[i]);
      for (const interp::Tensor &part : parts.drop_front()) {
        Accumulator other = Accumulator(get(part)[i]);
        if (kind == ReduceKind::Sum)
          value += other;
        else if (kind == ReduceKind::Max)
          value = std::max(value, other);
        else
          value = std::min(value, other);
      }
      out[i] = value;
    }
  };
  if (result.isFloat())
    context.withAccumulator(result.getElementType(), [&](auto zero) {
      combine(result.mutableFloats(), [](const interp::Tensor &t) { return t.floats(); }, zero);
    });
  else
    combine(result.mutableInts(), [](const interp::Tensor &t) { return t.ints(); }, int64_t(0));
  return result;
}

LogicalResult AllReduceOp::evaluateRanks(ArrayRef<interp::EvalContext *> contexts,
                                         RankValues operands,
                                         MutableArrayRef<SmallVector<interp::Value>> results) {
  interp::Tensor sum = combineRanks(*contexts[0], getKind(), getTensors(operands));
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

/// Copies between the whole and one of its parts along an axis.
template <typename Copy>
static void copyPart(ArrayRef<int64_t> partShape, unsigned axis, int64_t part, int64_t parts,
                     Copy copy) {
  int64_t run = 1, outer = 1; // elements of a part's contiguous run, and the number of runs
  for (auto [i, size] : llvm::enumerate(partShape))
    (i < axis ? outer : run) *= size;
  for (int64_t i = 0; i < outer; ++i)
    copy(/*inWhole=*/(i * parts + part) * run, /*inPart=*/i * run, run);
}

interp::Tensor adapt::gatherRanks(ArrayRef<interp::Tensor> parts, unsigned axis) {
  SmallVector<int64_t> shape(parts[0].getShape());
  shape[axis] *= parts.size();
  interp::Tensor whole(parts[0].getElementType(), shape);
  for (auto [rank, part] : llvm::enumerate(parts))
    copyPart(part.getShape(), axis, rank, parts.size(),
             [&, &part = part](int64_t inWhole, int64_t inPart, int64_t run) {
               if (whole.isFloat())
                 llvm::copy(part.floats().slice(inPart, run),
                            whole.mutableFloats().begin() + inWhole);
               else
                 llvm::copy(part.ints().slice(inPart, run), whole.mutableInts().begin() + inWhole);
             });
  return whole;
}

interp::Tensor adapt::takePart(const interp::Tensor &whole, unsigned axis, int64_t part,
                               int64_t parts) {
  SmallVector<int64_t> shape(whole.getShape());
  shape[axis] /= parts;
  interp::Tensor result(whole.getElementType(), shape);
  copyPart(shape, axis, part, parts, [&](int64_t inWhole, int64_t inPart, int64_t run) {
    if (whole.isFloat())
      llvm::copy(whole.floats().slice(inWhole, run), result.mutableFloats().begin() + inPart);
    else
      llvm::copy(whole.ints().slice(inWhole, run), result.mutableInts().begin() + inPart);
  });
  return result;
}

LogicalResult AllGatherOp::evaluateRanks(ArrayRef<interp::EvalContext *>, RankValues operands,
                                         MutableArrayRef<SmallVector<interp::Value>> results) {
  interp::Tensor whole = gatherRanks(getTensors(operands), getAxis());
  for (auto &rank : results)
    rank.push_back(whole);
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

// Axes that are whole.
ShardingRule ShardSliceOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int> axes;
  for (auto [from, to] :
       llvm::zip_equal(getDims(typeOf(getInput())), getDims(typeOf(getResult())))) {
    axes.push_back(from == to ? static_cast<int>(rule.factors.size()) : ShardingRule::kNone);
    if (from == to)
      rule.factors.push_back({from});
  }
  rule.operands = {axes};
  rule.results = {axes};
  rule.isLinear = true;
  return rule;
}

// Only what is taken is read.
Cost ShardSliceOp::getCost() {
  Cost cost = getElementwiseCost(*this, 0);
  cost.bytesRead = cost.bytesWritten;
  return cost;
}
