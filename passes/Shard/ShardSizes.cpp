#include "passes/Shard/ShardSizes.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace adapt;

HeadSizes adapt::getHeadSizes(int64_t heads, int64_t queries, int64_t ranks) {
  if (ranks <= heads)
    return {int64_t(llvm::alignTo(heads, ranks)), 1, queries};
  int64_t base = heads;
  while (ranks % base != 0)
    ++base;
  int64_t copies = ranks / base;
  return {base, copies, int64_t(llvm::alignTo(queries, copies))};
}

bool adapt::needsPadding(ShardAttr shard, int64_t size, int64_t ranks) {
  if (!shard.getHeads())
    return size % ranks != 0;
  HeadSizes sizes = getHeadSizes(shard.getHeads(), shard.getQueries(), ranks);
  return sizes.base != shard.getHeads() || sizes.queries != shard.getQueries();
}

ShardAttr adapt::getPadded(ShardAttr shard, int64_t ranks) {
  if (!shard.getHeads())
    return shard;
  HeadSizes sizes = getHeadSizes(shard.getHeads(), shard.getQueries(), ranks);
  return ShardAttr::get(shard.getContext(), shard.getAxis(), sizes.getHeads(),
                        sizes.queries / sizes.copies);
}

namespace {
class Padder {
public:
  Padder(OpBuilder &builder, Value value) : builder(builder), value(value) {}

  SmallVector<int64_t> getShape() const {
    return SmallVector<int64_t>(cast<RankedTensorType>(value.getType()).getShape());
  }

  void reshape(ArrayRef<int64_t> shape) {
    if (shape != ArrayRef<int64_t>(getShape()))
      value = ReshapeOp::create(builder, loc(), getType(shape), value);
  }

  /// Zeros behind the axis's end.
  void pad(unsigned axis, int64_t size) {
    SmallVector<int64_t> shape = getShape();
    if (shape[axis] == size)
      return;
    int64_t before = std::exchange(shape[axis], size);
    SmallVector<int64_t> zeros = shape;
    zeros[axis] = size - before;
    Value padding = SplatOp::create(builder, loc(), getType(zeros), builder.getF64FloatAttr(0.0));
    value = ConcatOp::create(builder, loc(), getType(shape), ValueRange{value, padding},
                             builder.getI64IntegerAttr(axis));
  }

  /// The same so many times, along an axis of one element.
  void copy(unsigned axis, int64_t copies) {
    if (copies == 1)
      return;
    SmallVector<int64_t> shape = getShape();
    shape[axis] = copies;
    value = ConcatOp::create(builder, loc(), getType(shape), SmallVector<Value>(copies, value),
                             builder.getI64IntegerAttr(axis));
  }

  Value get() const { return value; }

private:
  Location loc() const { return value.getLoc(); }
  RankedTensorType getType(ArrayRef<int64_t> shape) const {
    return RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
  }

  OpBuilder &builder;
  Value value;
};
} // namespace

Value adapt::padWeight(OpBuilder &builder, Value weight, ShardAttr shard, int64_t ranks) {
  Padder padder(builder, weight);
  SmallVector<int64_t> shape = padder.getShape();
  unsigned axis = shard.getAxis();
  if (!shard.getHeads()) {
    padder.pad(axis, llvm::alignTo(shape[axis], ranks));
    return padder.get();
  }
  // […, heads, queries or copies, elements of one, …]
  HeadSizes sizes = getHeadSizes(shard.getHeads(), shard.getQueries(), ranks);
  int64_t queries = std::max<int64_t>(shard.getQueries(), 1);
  SmallVector<int64_t> split(shape.begin(), shape.begin() + axis);
  llvm::append_values(split, shard.getHeads(), queries, shape[axis] / (shard.getHeads() * queries));
  split.append(shape.begin() + axis + 1, shape.end());
  padder.reshape(split);
  padder.pad(axis, sizes.base);
  if (shard.getQueries())
    padder.pad(axis + 1, sizes.queries);
  else
    padder.copy(axis + 1, sizes.copies);
  SmallVector<int64_t> merged = padder.getShape();
  shape[axis] = merged[axis] * merged[axis + 1] * merged[axis + 2];
  padder.reshape(shape);
  return padder.get();
}
