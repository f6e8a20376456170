#include "PagedState.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace adapt::codegen {

PagedPlane::PagedPlane(RankedTensorType plane, bool keys)
    : groups(plane.getDimSize(0)), size(plane.getDimSize(1)), element(plane.getElementType()),
      keys(keys) {
  // Pairs of a key's elements need an even number of them.
  depth = element.isBF16() && (!keys || size % 2 == 0) ? 2 : 1;
}

Value PagedPlane::getPlace(KernelBuilder &b, Value slot, Value index) const {
  Value paired = keys ? index : slot, other = keys ? slot : index;
  int64_t extent = keys ? kBlockTokens : size;
  Value place = b.add(b.mul(b.div(paired, depth), extent), other);
  return b.add(b.mul(place, depth), b.rem(paired, depth));
}

PagedStep::PagedStep(KernelBuilder &b, Value seqStarts, Value kvLens, Value blockTable)
    : seqStarts(b.getArgument(getArgumentNumber(seqStarts))),
      kvLens(b.getArgument(getArgumentNumber(kvLens))),
      blockTable(b.getArgument(getArgumentNumber(blockTable))) {
  sequences = getDims(cast<RankedTensorType>(kvLens.getType()))[0];
  tableWidth = getDims(cast<RankedTensorType>(blockTable.getType()))[1];
}

// As many sequences end at or before the token.
Value PagedStep::findSequence(KernelBuilder &b, Value token) const {
  return b.createFor(b.constant(0), b.getSize(sequences), 1, {b.constant(0)},
                     [&](Value s, ValueRange count) -> SmallVector<Value> {
                       Value end = b.loadIndex(seqStarts, b.add(s, 1));
                       Value before = b.less(token, end);
                       Value more = arith::SelectOp::create(b.getBuilder(), b.getLoc(), before,
                                                            count[0], b.add(count[0], 1));
                       return {more};
                     })[0];
}

Value PagedStep::getPosition(KernelBuilder &b, Value sequence, Value token) const {
  Value end = b.loadIndex(seqStarts, b.add(sequence, 1));
  return b.sub(b.loadIndex(kvLens, sequence), b.sub(end, token));
}

Value PagedStep::getBlock(KernelBuilder &b, Value sequence, Value index) const {
  return b.loadIndex(blockTable, b.add(b.mul(sequence, b.getSize(tableWidth)), index));
}

} // namespace adapt::codegen
