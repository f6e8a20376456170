// paged_attend: softmax(scale · q·k) v over the state's blocks. The tile body is in AttendTile.
//
// A warp is a row: one query head of one token. It takes as many keys at once as it has lanes, a
// key in each, and then mixes their values with a few elements of the value in each lane. The warps
// of a block are the query heads of one group, which read the same keys and values. A row's result
// does not depend on which rows are computed beside it.
#include "CodeGen/Common/AttendTile.h"
#include "CodeGen/Common/PagedState.h"
#include "KernelForm.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace adapt::gpu {
namespace {
constexpr int64_t kMaxThreads = 256;

class PagedAttendForm : public KernelForm {
public:
  PagedAttendForm(PagedAttendOp op, const GpuTarget &target)
      : op(op), keys(op.getState().getType().getPlanes()[0], true),
        values(op.getState().getType().getPlanes()[1], false), warp(target.warp) {
    heads = cast<RankedTensorType>(op.getQuery().getType()).getDimSize(1) / keys.groups;
    warps = std::min(heads, kMaxThreads / warp);
  }

  StringRef getName() const override { return "paged_attend"; }
  SmallVector<KernelVariant> getVariants() const override;
  LogicalResult emit(unsigned variant, GpuKernelBuilder &builder) const override;

private:
  mutable PagedAttendOp op; ///< its accessors are not const
  PagedPlane keys, values;
  int64_t warp;
  int64_t heads; ///< query heads of a group
  int64_t warps; ///< of a block
  friend class AttendEmitter;
};

SmallVector<KernelVariant> PagedAttendForm::getVariants() const {
  KernelVariant variant;
  variant.symbol = "any";
  auto count = [&](int64_t number) { return getAffineConstantExpr(number, op.getContext()); };
  variant.grid = {count(keys.groups), count(llvm::divideCeilSigned(heads, warps)),
                  getDims(cast<RankedTensorType>(op.getQuery().getType()))[0]};
  variant.threads = warps * warp;
  return {variant};
}

/// A key in each lane of a warp.
class WarpLanes : public AttendLanes {
public:
  explicit WarpLanes(GpuKernelBuilder &b) : b(b) {}
  Value broadcast(Value scalar) override { return scalar; }
  Value getMaximum(Value lanes) override {
    return b.reduceWarp(lanes, [&](Value a, Value c) -> Value {
      Value greater =
          arith::CmpFOp::create(b.getBuilder(), b.getLoc(), arith::CmpFPredicate::OGT, a, c);
      return arith::SelectOp::create(b.getBuilder(), b.getLoc(), greater, a, c);
    });
  }
  Value getSum(Value lanes) override { return b.addWarp(lanes); }

private:
  GpuKernelBuilder &b;
};

/// One score in each lane is a whole chunk.
class LaneScore : public AttendScores {
public:
  explicit LaneScore(Value score) : score(score) {}
  Value fold(Value init, Visit visit) override { return visit(score, Value(), init); }
  void keep(Value values, Value) override { weight = values; }
  Value weight;

private:
  Value score;
};

class AttendEmitter {
public:
  AttendEmitter(const PagedAttendForm &form, GpuKernelBuilder &b)
      : form(form), b(b), builder(b.getBuilder()), loc(b.getLoc()),
        step(b, form.op.getSeqStarts(), form.op.getKvLens(), form.op.getBlockTable()), lanes(b),
        tile(b, form.op, lanes) {
    unsigned state = getArgumentNumber(form.op.getState());
    group = b.getId(0);
    token = b.getId(2);
    keyPlane = b.at(b.getArgument(state, 0), b.mul(group, form.keys.getGroupElements()));
    valuePlane = b.at(b.getArgument(state, 1), b.mul(group, form.values.getGroupElements()));
    vectors = llvm::divideCeilSigned(form.values.size, form.warp);
    for (int64_t v = 0; v < vectors; ++v)
      elements.push_back(b.add(b.getLane(), v * form.warp));
  }

  void emit() {
    Value head = b.add(b.mul(b.getId(1), form.warps), b.getWarp());
    if (form.heads % form.warps == 0)
      return emitRow(head);
    b.createIf(b.less(head, b.constant(form.heads)), [&] { emitRow(head); });
  }

private:
  void emitRow(Value head) {
    Value sequence = step.findSequence(b, token);
    position = step.getPosition(b, sequence, token);
    Value end = b.add(position, 1);
    Value row = b.add(b.mul(b.add(b.mul(token, form.keys.groups), group), form.heads), head);
    Pointer query =
        b.at(b.getArgument(getArgumentNumber(form.op.getQuery())), b.mul(row, form.keys.size));

    SmallVector<Value> state = {b.floatConstant(b.f32(), kNoMaximum),
                                b.floatConstant(b.f32(), 0.0)};
    state.append(vectors, b.floatConstant(b.f32(), 0.0));
    state =
        b.createFor(tile.getFirstKey(position, form.warp), end, form.warp, state,
                    [&](Value first, ValueRange old) {
                      LaneScore score(computeScore(sequence, query, first));
                      AttendTile::Row next = tile.update(old[0], old[1], score);
                      SmallVector<Value> result = {next.maximum, next.sum};
                      SmallVector<Value> mixed;
                      for (Value value : old.drop_front(2))
                        mixed.push_back(arith::MulFOp::create(builder, loc, value, next.shrink));
                      result.append(mixValues(sequence, first, end, score.weight, mixed));
                      return result;
                    });

    Pointer result = b.getResult(0);
    Value total = tile.getTotal(state[1]);
    for (int64_t v = 0; v < vectors; ++v) {
      Value value = tile.finish(state[2 + v], total, result.element);
      auto store = [&] {
        b.store(value, result, b.add(b.mul(row, form.values.size), elements[v]));
      };
      if ((v + 1) * form.warp <= form.values.size)
        store();
      else
        b.createIf(b.less(elements[v], b.constant(form.values.size)), store);
    }
  }

  // Of the lane's key. A lane beyond the last key takes that again; its score is masked.
  Value computeScore(Value sequence, Pointer query, Value first) {
    int64_t depth = form.keys.depth;
    Value number = b.add(first, b.getLane());
    Value key = b.min(number, position);
    Value block = step.getBlock(b, sequence, b.div(key, kBlockTokens));
    Pointer keys = b.at(keyPlane, b.add(b.mul(block, form.keys.getBlockElements()),
                                        b.mul(b.rem(key, kBlockTokens), depth)));
    Value product = b.createFor(
        b.constant(0), b.constant(form.keys.size / depth), 1, {b.floatConstant(b.f32(), 0.0)},
        [&](Value s, ValueRange sum) -> SmallVector<Value> {
          SmallVector<Value, 2> key = loadDeep(keys, b.mul(s, depth * kBlockTokens), depth);
          SmallVector<Value, 2> other = loadDeep(query, b.mul(s, depth), depth);
          Value next = sum[0];
          for (auto [k, q] : llvm::zip_equal(key, other))
            next = multiplyAdd(k, q, next);
          return {next};
        })[0];
    return tile.getScores(product, b.toI32(number), b.toI32(position));
  }

  // mixed + weights · values, for the chunk's keys below `end`.
  SmallVector<Value> mixValues(Value sequence, Value first, Value end, Value weight,
                               ValueRange mixed) {
    int64_t depth = form.values.depth, size = form.values.size;
    Value last = b.min(b.add(first, form.warp), end);
    Value blocks = b.ceilDiv(b.sub(last, first), kBlockTokens);
    return b.createFor(b.constant(0), blocks, 1, mixed, [&](Value index, ValueRange outer) {
      Value block = step.getBlock(b, sequence, b.add(b.div(first, kBlockTokens), index));
      Pointer values = b.at(valuePlane, b.mul(block, form.values.getBlockElements()));
      Value offset = b.mul(index, kBlockTokens);
      Value slots = b.min(b.sub(last, b.add(first, offset)), b.constant(kBlockTokens));
      return b.createFor(
          b.constant(0), b.ceilDiv(slots, depth), 1, outer, [&](Value s, ValueRange sums) {
            SmallVector<Value> next = llvm::to_vector(sums);
            SmallVector<Value, 2> weights;
            for (int64_t d = 0; d < depth; ++d)
              weights.push_back(b.shuffleIndex(weight, b.add(offset, b.add(b.mul(s, depth), d))));
            for (int64_t v = 0; v < vectors; ++v) {
              // A lane beyond the value takes its last element, which it does not store.
              bool exists = (v + 1) * form.warp <= size;
              Value element = exists ? b.getLane() : b.min(elements[v], b.constant(size - 1));
              Value at = b.mul(b.add(b.mul(s, size), element), depth);
              at = b.add(at, exists ? v * form.warp * depth : 0);
              for (auto [value, w] : llvm::zip_equal(loadDeep(values, at, depth), weights))
                next[v] = multiplyAdd(value, w, next[v]);
            }
            return next;
          });
    });
  }

  Value multiplyAdd(Value a, Value c, Value sum) {
    return arith::AddFOp::create(builder, loc, sum, arith::MulFOp::create(builder, loc, a, c));
  }

  /// One element or a pair, widened.
  SmallVector<Value, 2> loadDeep(Pointer pointer, Value index, int64_t depth) {
    if (depth == 1)
      return {widen(builder, loc, b.load(pointer, index))};
    int64_t bytes = getBytes(pointer.element);
    Value pair = b.load(pointer, index, b.vector(depth, pointer.element), depth * bytes);
    pair = widen(builder, loc, pair);
    SmallVector<Value, 2> result;
    for (int64_t d = 0; d < depth; ++d)
      result.push_back(vector::ExtractOp::create(builder, loc, pair, d));
    return result;
  }

  const PagedAttendForm &form;
  GpuKernelBuilder &b;
  OpBuilder &builder;
  Location loc;
  PagedStep step;
  WarpLanes lanes;
  AttendTile tile;
  Value group, token, position;
  Pointer keyPlane, valuePlane;
  int64_t vectors;             ///< elements of a value in each lane
  SmallVector<Value> elements; ///< their numbers
};

LogicalResult PagedAttendForm::emit(unsigned, GpuKernelBuilder &b) const {
  AttendEmitter(*this, b).emit();
  return success();
}
} // namespace

std::unique_ptr<KernelForm> createPagedAttendForm(KernelOp kernel, const GpuTarget &target) {
  auto op = getLoneOp<PagedAttendOp>(kernel);
  if (!op)
    return nullptr;
  ArrayRef<RankedTensorType> planes = op.getState().getType().getPlanes();
  if (cast<RankedTensorType>(op.getQuery().getType()).getElementType().isF64())
    return nullptr;
  for (RankedTensorType plane : planes)
    if (plane.getElementType().isF64() || !isa<FloatType>(plane.getElementType()) ||
        !plane.hasStaticShape() || plane.getNumElements() == 0)
      return nullptr;
  return std::make_unique<PagedAttendForm>(op, target);
}

} // namespace adapt::gpu
