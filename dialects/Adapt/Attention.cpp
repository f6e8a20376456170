#include "dialects/Adapt/AdaptDialect.h"

using namespace mlir;
using namespace adapt;

//===----------------------------------------------------------------------===//
// What the three share
//===----------------------------------------------------------------------===//

namespace {

// The heads of a step: query [T, H, D] over a state of planes [G, D] and [G, E].
struct Heads {
  AffineExpr tokens;
  int64_t groups, keySize, valueSize;
};

FailureOr<Heads> verifyState(Operation *op, AffineExpr tokens, PagedType state) {
  ArrayRef<RankedTensorType> planes = state.getPlanes();
  if (planes.size() != 2 || planes[0].getRank() != 2 || planes[1].getRank() != 2 ||
      planes[0].getDimSize(0) != planes[1].getDimSize(0))
    return op->emitOpError() << "state must have two planes [groups, size] of as many groups, not "
                             << state;
  return Heads{tokens, planes[0].getDimSize(0), planes[0].getDimSize(1), planes[1].getDimSize(1)};
}

LogicalResult verifyStep(Operation *op, Value seqStarts, Value kvLens, Value blockTable) {
  auto starts = cast<RankedTensorType>(seqStarts.getType());
  auto lens = cast<RankedTensorType>(kvLens.getType());
  auto table = cast<RankedTensorType>(blockTable.getType());
  if (starts.getRank() != 1 || lens.getRank() != 1 || table.getRank() != 2)
    return op->emitOpError()
           << "seq_starts, kv_lens and block_table must have rank 1, 1 and 2, not "
           << starts.getRank() << ", " << lens.getRank() << " and " << table.getRank();
  AffineExpr sequences = getDims(lens)[0];
  if (!sequences || getDims(starts)[0] != sequences + 1 || getDims(table)[0] != sequences)
    return op->emitOpError() << "for " << toString(sequences) << " sequences seq_starts must have "
                             << toString(sequences ? sequences + 1 : sequences)
                             << " entries and block_table as many rows, not "
                             << toString(getDims(starts)[0]) << " and "
                             << toString(getDims(table)[0]);
  return success();
}

LogicalResult verifyAppended(Operation *op, Value key, Value value, const Heads &heads) {
  auto check = [&](Value tensor, int64_t size, StringRef name) -> LogicalResult {
    auto type = cast<RankedTensorType>(tensor.getType());
    if (type.getRank() != 3 || getDims(type)[0] != heads.tokens ||
        type.getDimSize(1) != heads.groups || type.getDimSize(2) != size)
      return op->emitOpError() << name << " must be [" << toString(heads.tokens) << ", "
                               << heads.groups << ", " << size << "] for this state, not "
                               << shapeToString(type);
    return success();
  };
  return failure(failed(check(key, heads.keySize, "key")) ||
                 failed(check(value, heads.valueSize, "value")));
}

LogicalResult verifyAttended(Operation *op, Value query, Value result, const Heads &heads,
                             std::optional<int64_t> window) {
  auto type = cast<RankedTensorType>(query.getType());
  if (type.getRank() != 3 || type.getDimSize(2) != heads.keySize ||
      ShapedType::isDynamic(type.getDimSize(1)) || type.getDimSize(1) % heads.groups != 0)
    return op->emitOpError() << "query must be [tokens, heads, " << heads.keySize
                             << "] with a multiple of " << heads.groups << " heads, not "
                             << shapeToString(type);
  SmallVector<AffineExpr> dims = getDims(type);
  dims[2] = getAffineConstantExpr(heads.valueSize, op->getContext());
  RankedTensorType expected = getTensorType(dims, type.getElementType());
  if (result.getType() != expected)
    return op->emitOpError() << "result must have type " << expected << ", not "
                             << result.getType();
  if (window && *window < 0)
    return op->emitOpError() << "window must not be negative, but is " << *window;
  return success();
}

AffineExpr getTokens(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return type.getRank() ? getDims(type)[0] : AffineExpr();
}

// Tokens stay whole (a sequence's tokens need each other); heads split in whole groups.
ShardingRule getHeadRule(Operation *op, PagedType state, int tensors, bool result) {
  ShardingRule rule;
  rule.factors.push_back(
      {getAffineConstantExpr(state.getPlanes()[0].getDimSize(0), op->getContext())});
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type) {
      rule.operands.push_back({0});
      continue;
    }
    SmallVector<int> axes(type.getRank(), ShardingRule::kNone);
    if (tensors-- > 0)
      axes[1] = 0;
    rule.operands.push_back(axes);
  }
  if (result)
    rule.results.push_back({ShardingRule::kNone, 0, ShardingRule::kNone});
  rule.results.push_back({0});
  return rule;
}
} // namespace

//===----------------------------------------------------------------------===//
// paged_attention
//===----------------------------------------------------------------------===//

LogicalResult PagedAttentionOp::verify() {
  auto heads = verifyState(*this, getTokens(getQuery()), getState().getType());
  if (failed(heads) || failed(verifyStep(*this, getSeqStarts(), getKvLens(), getBlockTable())) ||
      failed(verifyAppended(*this, getKey(), getValue(), *heads)) ||
      failed(verifyAttended(*this, getQuery(), getResult(), *heads, getWindow())))
    return failure();
  if (getNewState().getType() != getState().getType())
    return emitOpError("must return the state's type");
  return success();
}

OpOperand &PagedAttentionOp::getTiedOperand(OpResult) { return getStateMutable(); }

ShardingRule PagedAttentionOp::getShardingRule() {
  ShardingRule rule = getHeadRule(*this, getState().getType(), 3, /*result=*/true);
  rule.stateLike = getKeyMutable().getOperandNumber();
  return rule;
}

// The keys that a token sees depend on data; at least its own step's are read once.
Cost PagedAttentionOp::getCost() {
  auto plane = getState().getType().getPlanes()[0];
  return getElementwiseCost(*this, 4 * plane.getDimSize(1));
}

FailureOr<SmallVector<Value>> PagedAttentionOp::decompose(OpBuilder &builder) {
  Value state = PagedAppendOp::create(builder, getLoc(), getState().getType(), getKey(), getValue(),
                                      getState(), getSeqStarts(), getKvLens(), getBlockTable());
  auto attend = PagedAttendOp::create(
      builder, getLoc(), getResult().getType(), getState().getType(), getQuery(), state,
      getSeqStarts(), getKvLens(), getBlockTable(), getScaleAttr(), getWindowAttr());
  return SmallVector<Value>{attend.getResult(), attend.getNewState()};
}

//===----------------------------------------------------------------------===//
// paged_append
//===----------------------------------------------------------------------===//

LogicalResult PagedAppendOp::verify() {
  auto heads = verifyState(*this, getTokens(getKey()), getState().getType());
  if (failed(heads) || failed(verifyStep(*this, getSeqStarts(), getKvLens(), getBlockTable())) ||
      failed(verifyAppended(*this, getKey(), getValue(), *heads)))
    return failure();
  if (getNewState().getType() != getState().getType())
    return emitOpError("must return the state's type");
  return success();
}

OpOperand &PagedAppendOp::getTiedOperand(OpResult) { return getStateMutable(); }

ShardingRule PagedAppendOp::getShardingRule() {
  ShardingRule rule = getHeadRule(*this, getState().getType(), 2, /*result=*/false);
  rule.stateLike = getKeyMutable().getOperandNumber();
  return rule;
}

Cost PagedAppendOp::getCost() { return getElementwiseCost(*this, 0); }

//===----------------------------------------------------------------------===//
// paged_attend
//===----------------------------------------------------------------------===//

LogicalResult PagedAttendOp::verify() {
  auto heads = verifyState(*this, getTokens(getQuery()), getState().getType());
  if (failed(heads) || failed(verifyStep(*this, getSeqStarts(), getKvLens(), getBlockTable())) ||
      failed(verifyAttended(*this, getQuery(), getResult(), *heads, getWindow())))
    return failure();
  if (getNewState().getType() != getState().getType())
    return emitOpError("must return the state's type");
  return success();
}

OpOperand &PagedAttendOp::getTiedOperand(OpResult) { return getStateMutable(); }

ShardingRule PagedAttendOp::getShardingRule() {
  return getHeadRule(*this, getState().getType(), 1, /*result=*/true);
}

Cost PagedAttendOp::getCost() {
  auto plane = getState().getType().getPlanes()[0];
  return getElementwiseCost(*this, 4 * plane.getDimSize(1));
}
