// paged_attend: softmax(scale · q·k) v over the state's blocks, keys in chunks. The tile body is in
// AttendTile.
//
// A work item is one group (a head of keys and values) and a few query tokens; all query heads of
// the group and all its tokens are *rows* that share every load of keys and values. Chunks begin at
// multiples of their size whatever the rows are, so that a row's result does not depend on which
// rows are computed with it.
#include "CodeGen/Common/AttendTile.h"
#include "CodeGen/Common/PagedState.h"
#include "DotStep.h"
#include "KernelForm.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

using namespace mlir;

namespace adapt::cpu {
namespace {
constexpr int64_t kChunkBlocks = 8;
constexpr int64_t kAhead = 4; // blocks
constexpr int64_t kChunk = kChunkBlocks * kBlockTokens;

int64_t largestDivisor(int64_t number, int64_t limit) {
  for (int64_t d = std::min(number, limit); d > 1; --d)
    if (number % d == 0)
      return d;
  return 1;
}

class PagedAttendForm : public KernelForm {
public:
  static std::unique_ptr<KernelForm> create(PagedAttendOp op, const CpuTarget &target);

  StringRef getName() const override { return "paged_attend"; }
  SmallVector<KernelVariant> getVariants() const override;
  LogicalResult emit(unsigned variant, CpuKernelBuilder &builder) const override;

private:
  PagedAttendForm(PagedAttendOp op, DotStep score, DotStep mix, Type weight)
      : op(op), keys(op.getState().getType().getPlanes()[0], true),
        values(op.getState().getType().getPlanes()[1], false), score(score), mix(mix),
        weight(weight) {}

  AffineExpr getTokens() const {
    return getDims(cast<RankedTensorType>(op.getQuery().getType()))[0];
  }

  mutable PagedAttendOp op; ///< its accessors are not const
  PagedPlane keys, values;
  DotStep score, mix;
  Type weight;                           ///< of the softmax's numerators, as they meet the values
  int64_t heads = 0;                     ///< query heads of a group
  int64_t tokens = 0;                    ///< of a tile
  int64_t vectors = 0;                   ///< of 16 elements in a value
  int64_t scoreRows = 0, mixVectors = 0; ///< sums that registers hold
  friend class AttendEmitter;
};

std::unique_ptr<KernelForm> PagedAttendForm::create(PagedAttendOp op, const CpuTarget &target) {
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  ArrayRef<RankedTensorType> planes = op.getState().getType().getPlanes();
  if (!planes[0].hasStaticShape() || !planes[1].hasStaticShape() ||
      query.getElementType().isF64() || planes[0].getDimSize(0) == 0)
    return nullptr;
  PagedPlane keys(planes[0], true), values(planes[1], false);
  Type f32 = Float32Type::get(op.getContext());
  bool narrow = values.element.isBF16() && target.avx512bf16;
  Type weight = narrow ? values.element : f32;
  auto score = DotStep::get(target, keys.element, query.getElementType(), keys.depth);
  auto mix = DotStep::get(target, values.element, weight, values.depth);
  if (!score || !mix)
    return nullptr;
  std::unique_ptr<PagedAttendForm> form(new PagedAttendForm(op, *score, *mix, weight));
  form->heads = query.getDimSize(1) / keys.groups;
  form->tokens = std::clamp<int64_t>(24 / form->heads, 1, 16);
  form->vectors = llvm::divideCeilSigned(values.size, kLanes);
  form->scoreRows = target.avx512 ? 12 : target.fma ? 4 : 2;
  form->mixVectors = target.avx512 ? 24 : target.fma ? 4 : 2;
  return form;
}

SmallVector<KernelVariant> PagedAttendForm::getVariants() const {
  KernelVariant variant;
  variant.symbol = "any";
  variant.grid.push_back(getAffineConstantExpr(keys.groups, op.getContext()));
  variant.grid.push_back(getTokens().ceilDiv(tokens));
  return {variant};
}

/// 16 keys in a vector.
class VectorLanes : public AttendLanes {
public:
  explicit VectorLanes(CpuKernelBuilder &b) : b(b) {}
  Value broadcast(Value scalar) override { return b.broadcast(scalar, kLanes); }
  Value getMaximum(Value lanes) override {
    // No NaN arises here but from a NaN in the input, which may then spread as it likes.
    return vector::ReductionOp::create(b.getBuilder(), b.getLoc(), vector::CombiningKind::MAXNUMF,
                                       lanes, arith::FastMathFlags::nnan);
  }
  Value getSum(Value lanes) override {
    return vector::ReductionOp::create(b.getBuilder(), b.getLoc(), vector::CombiningKind::ADD,
                                       lanes, arith::FastMathFlags::reassoc);
  }

private:
  CpuKernelBuilder &b;
};

/// A row of scores in memory, and the weights that they become.
class StoredScores : public AttendScores {
public:
  StoredScores(CpuKernelBuilder &b, Pointer scores, Pointer weights, Value base, Value count)
      : b(b), scores(scores), weights(weights), base(base), count(count) {}

  Value fold(Value init, Visit visit) override {
    VectorType floats = b.vector(kLanes, b.f32());
    return b.createFor(b.constant(0), count, kLanes, {init},
                       [&](Value i, ValueRange iteration) -> SmallVector<Value> {
                         Value place = b.add(base, i);
                         return {visit(b.load(scores, place, floats), place, iteration[0])};
                       })[0];
  }
  void keep(Value values, Value place) override {
    b.store(narrow(b.getBuilder(), b.getLoc(), values, weights.element), weights, place);
  }

private:
  CpuKernelBuilder &b;
  Pointer scores, weights;
  Value base, count;
};

/// Writes the code for the query tokens [token, token + count) of one sequence.
class AttendEmitter {
public:
  AttendEmitter(const PagedAttendForm &form, CpuKernelBuilder &b, const PagedStep &step)
      : form(form), b(b), builder(b.getBuilder()), loc(b.getLoc()), step(step), lanes(b),
        tile(b, form.op, lanes) {
    auto queryType = cast<RankedTensorType>(form.op.getQuery().getType());
    int64_t rows = form.tokens * form.heads;
    group = b.getId(0);
    query = b.createLocal(queryType.getElementType(), rows * form.keys.size);
    scores = b.createLocal(b.f32(), rows * kChunk);
    weights = b.createLocal(form.weight, rows * kChunk);
    sums = b.createLocal(b.f32(), rows * kLanes);
    maxima = b.createLocal(b.f32(), rows);
    shrink = b.createLocal(b.f32(), rows);
    output = b.createLocal(b.f32(), rows * form.vectors * kLanes);
    positions = b.createLocal(b.i32(), rows);
    unsigned state = getArgumentNumber(form.op.getState());
    keyPlane = b.at(b.getArgument(state, 0), b.mul(group, form.keys.getGroupElements()));
    valuePlane = b.at(b.getArgument(state, 1), b.mul(group, form.values.getGroupElements()));
    floats = b.vector(kLanes, b.f32());
  }

  /// `tokens` are computed; `count` of them, at least one, exist.
  void emit(Value sequence, Value token, Value count, int64_t tokens) {
    int64_t rows = tokens * form.heads;
    Value position = step.getPosition(b, sequence, token);
    start(token, count, position, tokens);

    Value end = b.add(position, count); // of the keys that any row sees
    Value begin = tile.getFirstKey(position, kChunk);
    b.createFor(begin, end, kChunk, [&](Value first) {
      Value last = b.min(b.add(first, kChunk), end);
      Value blocks = b.ceilDiv(b.sub(last, first), kBlockTokens);
      computeScores(sequence, first, blocks, rows, tokens == 1 ? end : Value());
      computeWeights(blocks, rows);
      mixValues(sequence, first, last, rows);
    });
    finish(token, count);
  }

private:
  using Operand = DotStep::Operand;

  // Queries side by side, and each row's state. Rows beyond the last token repeat it.
  void start(Value token, Value count, Value position, int64_t tokens) {
    int64_t size = form.keys.size, heads = form.heads;
    Pointer source = b.getArgument(getArgumentNumber(form.op.getQuery()));
    Value last = b.sub(count, b.constant(1));
    b.createFor(b.constant(0), b.constant(tokens), 1, [&](Value t) {
      Value existing = b.min(t, last);
      Value row = b.mul(t, heads);
      Value from = b.mul(b.add(token, existing), form.keys.groups);
      from = b.mul(b.add(from, group), heads * size);
      Value to = b.mul(row, size);
      b.createFor(b.constant(0), b.constant(heads * size), 1,
                  [&](Value i) { b.store(b.load(source, b.add(from, i)), query, b.add(to, i)); });
      Value at = arith::TruncIOp::create(builder, loc, b.i32(), b.add(position, existing));
      b.createFor(row, b.add(row, heads), 1, [&](Value r) {
        b.store(at, positions, r);
        b.store(b.floatConstant(b.f32(), kNoMaximum), maxima, r);
        b.store(b.floatConstant(floats, 0.0), sums, b.mul(r, kLanes));
        for (int64_t v = 0; v < form.vectors; ++v)
          b.store(b.floatConstant(floats, 0.0), output,
                  b.mul(b.add(b.mul(r, form.vectors), v), kLanes));
      });
    });
  }

  // scores[row][key of the chunk], masked ones -infinity, in units of log2. A single token waits
  // for memory: then, up to key `end`, the keys some blocks on and the values of this block are
  // fetched, of which the processor cannot know (a group's part of a block is short).
  void computeScores(Value sequence, Value first, Value blocks, int64_t rows, Value end) {
    int64_t size = form.keys.size, depth = form.score.getDepth();
    int64_t together = largestDivisor(rows, form.scoreRows);
    Value firstBlock = b.div(first, kBlockTokens);
    b.createFor(b.constant(0), blocks, 1, [&](Value index) {
      Value block = step.getBlock(b, sequence, b.add(firstBlock, index));
      Pointer keys = b.at(keyPlane, b.mul(block, form.keys.getBlockElements()));
      Value key = b.add(first, b.mul(index, kBlockTokens));
      Pointer nextKeys, values;
      if (end) {
        Value last = b.div(b.sub(end, b.constant(1)), kBlockTokens);
        Value next = b.min(b.add(b.add(firstBlock, index), kAhead), last);
        nextKeys =
            b.at(keyPlane, b.mul(step.getBlock(b, sequence, next), form.keys.getBlockElements()));
        values = b.at(valuePlane, b.mul(block, form.values.getBlockElements()));
      }
      Value keyNumbers = numbers(key);
      b.createFor(b.constant(0), b.constant(rows), together, [&](Value row) {
        SmallVector<Value> products(together, b.floatConstant(floats, 0.0));
        Pointer queries = b.at(query, b.mul(row, size));
        products = b.createFor(b.constant(0), b.constant(size / depth), 1, products,
                               [&](Value s, ValueRange iteration) {
                                 SmallVector<Value> next = llvm::to_vector(iteration);
                                 Value line = b.mul(s, depth * kLanes);
                                 if (end) {
                                   b.prefetch(nextKeys, line);
                                   b.prefetch(values, line);
                                 }
                                 Operand lanes = form.score.loadLanes(b, keys, line);
                                 for (int64_t r = 0; r < together; ++r) {
                                   Value place = b.add(b.mul(s, depth), r * size);
                                   Operand scalars = form.score.loadScalars(b, queries, place);
                                   next[r] = form.score.accumulate(b, next[r], lanes, scalars);
                                 }
                                 return next;
                               });
        for (int64_t r = 0; r < together; ++r) {
          Value at = b.add(row, r);
          Value score = tile.getScores(products[r], keyNumbers, b.load(positions, at));
          b.store(score, scores, b.add(b.mul(at, kChunk), b.mul(index, kBlockTokens)));
        }
      });
    });
  }

  Value numbers(Value first) {
    SmallVector<int32_t> lanes = llvm::to_vector(llvm::seq<int32_t>(0, kLanes));
    Value offsets = arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(b.vector(kLanes, b.i32()), ArrayRef<int32_t>(lanes)));
    Value base = b.broadcast(arith::TruncIOp::create(builder, loc, b.i32(), first), kLanes);
    return arith::AddIOp::create(builder, loc, base, offsets);
  }

  void computeWeights(Value blocks, int64_t rows) {
    b.createFor(b.constant(0), b.constant(rows), 1, [&](Value row) {
      StoredScores stored(b, scores, weights, b.mul(row, kChunk), b.mul(blocks, kBlockTokens));
      Value sum = b.load(sums, b.mul(row, kLanes), floats);
      AttendTile::Row state = tile.update(b.load(maxima, row), sum, stored);
      b.store(state.maximum, maxima, row);
      b.store(state.shrink, shrink, row);
      b.store(state.sum, sums, b.mul(row, kLanes));
    });
  }

  // output[row] = output[row] * shrink + weights · values.
  void mixValues(Value sequence, Value first, Value last, int64_t rows) {
    int64_t depth = form.mix.getDepth(), size = form.values.size;
    // Columns in groups of as many vectors, and rows, as registers hold.
    int64_t columns = std::min(form.vectors, form.mixVectors);
    int64_t together = largestDivisor(rows, std::max<int64_t>(1, form.mixVectors / columns));
    Value firstBlock = b.div(first, kBlockTokens);
    Value blocks = b.ceilDiv(b.sub(last, first), kBlockTokens);
    for (int64_t column = 0; column < form.vectors; column += columns) {
      int64_t width = std::min(columns, form.vectors - column);
      b.createFor(b.constant(0), b.constant(rows), together, [&](Value row) {
        SmallVector<Value> mixed, places;
        for (int64_t r = 0; r < together; ++r) {
          Value at = b.add(row, r);
          Value factor = b.broadcast(b.load(shrink, at), kLanes);
          for (int64_t v = 0; v < width; ++v) {
            places.push_back(b.mul(b.add(b.mul(at, form.vectors), column + v), kLanes));
            mixed.push_back(
                arith::MulFOp::create(builder, loc, b.load(output, places.back(), floats), factor));
          }
        }
        mixed = b.createFor(
            b.constant(0), blocks, 1, mixed,
            [&](Value index, ValueRange outer) -> SmallVector<Value> {
              Value block = step.getBlock(b, sequence, b.add(firstBlock, index));
              Pointer values = b.at(valuePlane, b.mul(block, form.values.getBlockElements()));
              Value offset = b.mul(index, kBlockTokens);
              Value slots = b.min(b.sub(last, b.add(first, offset)), b.constant(kBlockTokens));
              return b.createFor(
                  b.constant(0), b.ceilDiv(slots, depth), 1, outer,
                  [&](Value s, ValueRange iteration) {
                    SmallVector<Value> next = llvm::to_vector(iteration);
                    SmallVector<Operand> lanes;
                    for (int64_t v = column; v < column + width; ++v)
                      lanes.push_back(form.mix.loadLanes(
                          b, values, b.add(b.mul(s, depth * size), v * depth * kLanes),
                          std::min(kLanes, size - v * kLanes)));
                    for (int64_t r = 0; r < together; ++r) {
                      Value place =
                          b.add(b.mul(b.add(row, r), kChunk), b.add(offset, b.mul(s, depth)));
                      Operand scalars = form.mix.loadScalars(b, weights, place);
                      for (int64_t v = 0; v < width; ++v)
                        next[r * width + v] =
                            form.mix.accumulate(b, next[r * width + v], lanes[v], scalars);
                    }
                    return next;
                  });
            });
        for (auto [place, value] : llvm::zip_equal(places, mixed))
          b.store(value, output, place);
      });
    }
  }

  // result = output / sum of weights.
  void finish(Value token, Value count) {
    Pointer result = b.getResult(0);
    int64_t size = form.values.size, heads = form.heads;
    b.createFor(b.constant(0), b.mul(count, heads), 1, [&](Value row) {
      Value total = tile.getTotal(b.load(sums, b.mul(row, kLanes), floats));
      Value to = b.mul(b.add(token, b.div(row, heads)), form.values.groups);
      to = b.add(b.mul(b.add(to, group), heads), b.rem(row, heads));
      to = b.mul(to, size);
      for (int64_t v = 0; v < form.vectors; ++v) {
        Value mixed = b.load(output, b.mul(b.add(b.mul(row, form.vectors), v), kLanes), floats);
        mixed = tile.finish(mixed, total, result.element);
        Value place = b.add(to, v * kLanes);
        if (int64_t lanes = std::min(kLanes, size - v * kLanes); lanes < kLanes)
          b.storeMasked(mixed, result, place, b.constant(lanes));
        else
          b.store(mixed, result, place);
      }
    });
  }

  const PagedAttendForm &form;
  CpuKernelBuilder &b;
  OpBuilder &builder;
  Location loc;
  const PagedStep &step;
  VectorLanes lanes;
  AttendTile tile;
  Value group;
  Pointer query, scores, weights, sums, maxima, shrink, output, positions;
  Pointer keyPlane, valuePlane;
  VectorType floats;
};

LogicalResult PagedAttendForm::emit(unsigned, CpuKernelBuilder &b) const {
  PagedStep step(b, op.getSeqStarts(), op.getKvLens(), op.getBlockTable());
  OpBuilder &builder = b.getBuilder();
  Location loc = b.getLoc();
  AttendEmitter emitter(*this, b, step);

  // Late tokens see more keys: tiles are taken from both ends, so that a run of items is a fair
  // share of the work.
  Value item = b.getId(1), last = b.sub(b.ceilDiv(b.getSize(getTokens()), tokens), b.constant(1));
  Value half = b.div(item, 2);
  Value tile = arith::SelectOp::create(builder, loc, b.equal(b.rem(item, 2), b.constant(0)), half,
                                       b.sub(last, half));
  Value begin = b.mul(tile, tokens);
  Value end = b.min(b.add(begin, tokens), b.getSize(getTokens()));

  // A tile may hold tokens of several sequences.
  auto loop = scf::WhileOp::create(builder, loc, TypeRange{b.i64()}, ValueRange{begin});
  OpBuilder::InsertionGuard guard(builder);
  Block *before = builder.createBlock(&loop.getBefore(), {}, {b.i64()}, {loc});
  scf::ConditionOp::create(builder, loc, b.less(before->getArgument(0), end),
                           before->getArguments());
  Block *after = builder.createBlock(&loop.getAfter(), {}, {b.i64()}, {loc});
  Value token = after->getArgument(0);
  Value sequence = step.findSequence(b, token);
  Value next = b.min(end, b.loadIndex(step.seqStarts, b.add(sequence, 1)));
  Value count = b.sub(next, token);
  if (tokens == 1)
    emitter.emit(sequence, token, count, 1);
  else
    b.createIf(
        b.equal(count, b.constant(1)), [&] { emitter.emit(sequence, token, count, 1); },
        [&] { emitter.emit(sequence, token, count, tokens); });
  scf::YieldOp::create(builder, loc, ValueRange{next});
  return success();
}
} // namespace

std::unique_ptr<KernelForm> createPagedAttendForm(KernelOp kernel, const CpuTarget &target) {
  auto op = getLoneOp<PagedAttendOp>(kernel);
  return op ? PagedAttendForm::create(op, target) : nullptr;
}

} // namespace adapt::cpu
