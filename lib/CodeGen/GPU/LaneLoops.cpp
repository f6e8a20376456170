#include "LaneLoops.h"
#include "CodeGen/Common/RowRegion.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace adapt::gpu {
namespace {
/// The buffer that a view is of.
Value getRoot(Value memref) {
  while (Operation *op = memref.getDefiningOp()) {
    auto view = dyn_cast<ViewLikeOpInterface>(op);
    if (!view)
      break;
    memref = view.getViewSource();
  }
  return memref;
}

/// One operation as loops of the block's threads.
class Loops {
public:
  Loops(GpuKernelBuilder &b, linalg::LinalgOp op)
      : b(b), builder(b.getBuilder()), loc(op.getLoc()), op(op) {
    for (Range range : op.createLoopRanges(builder, loc))
      sizes.push_back(getValueOrCreateConstantIndexOp(builder, loc, range.size));
    for (auto [number, kind] : llvm::enumerate(op.getIteratorTypesArray()))
      (kind == utils::IteratorType::parallel ? parallel : reduced).push_back(number);
    staticSizes = op.getStaticLoopRanges();
    ivs.resize(sizes.size());
  }

  void emit() {
    if (reduced.empty()) {
      if (int64_t lanes = getVectorLanes())
        return emitVectors(lanes);
      return forEach(parallel, b.getThread(), b.getThreads(), [&] { emitBody({}); });
    }
    Operation *combiner = getCombiner();
    int64_t results = count(parallel), terms = count(reduced);
    bool isShared = combiner && !ShapedType::isDynamic(results) && results < b.getThreads() / 2 &&
                    (ShapedType::isDynamic(terms) || terms >= 8);
    if (!isShared)
      return forEach(parallel, b.getThread(), b.getThreads(), [&] { emitSum(); });
    int64_t warp = b.getTarget().warp;
    if (results < b.getWarps())
      return forEach(parallel, b.constant(0), 1,
                     [&] { emitSharedSum(combiner, b.getThread(), b.getThreads(), false); });
    forEach(parallel, b.getWarp(), b.getWarps(),
            [&] { emitSharedSum(combiner, b.getLane(), warp, true); });
  }

private:
  int64_t count(ArrayRef<unsigned> loops) const {
    int64_t product = 1;
    for (unsigned loop : loops) {
      if (ShapedType::isDynamic(staticSizes[loop]))
        return ShapedType::kDynamic;
      product *= staticSizes[loop];
    }
    return product;
  }

  Value toI64(Value index) {
    return arith::IndexCastOp::create(builder, loc, builder.getI64Type(), index);
  }
  Value toIndex(Value number) {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(), number);
  }
  Value getTotal(ArrayRef<unsigned> loops) {
    if (int64_t total = count(loops); !ShapedType::isDynamic(total))
      return b.constant(total);
    Value total = b.constant(1);
    for (unsigned loop : loops)
      total = b.mul(total, toI64(sizes[loop]));
    return total;
  }

  /// Sets the induction variables of these loops to those of a flat number, the last fastest.
  void setIndices(ArrayRef<unsigned> loops, Value flat) {
    for (unsigned loop : llvm::reverse(loops)) {
      if (staticSizes[loop] == 1) {
        ivs[loop] = arith::ConstantIndexOp::create(builder, loc, 0);
      } else if (loop == loops.front()) {
        ivs[loop] = toIndex(flat);
      } else if (ShapedType::isDynamic(staticSizes[loop])) {
        Value size = toI64(sizes[loop]);
        ivs[loop] = toIndex(arith::RemUIOp::create(builder, loc, flat, size));
        flat = arith::DivUIOp::create(builder, loc, flat, size);
      } else {
        ivs[loop] = toIndex(b.rem(flat, staticSizes[loop]));
        flat = b.div(flat, staticSizes[loop]);
      }
    }
  }

  void forEach(ArrayRef<unsigned> loops, Value from, int64_t step, function_ref<void()> body) {
    b.createFor(from, getTotal(loops), step, [&](Value flat) {
      setIndices(loops, flat);
      body();
    });
  }

  SmallVector<Value> getIndices(OpOperand *operand) {
    SmallVector<Value> indices;
    AffineMap map = op.getMatchingIndexingMap(operand);
    for (AffineExpr result : map.getResults()) {
      if (auto dim = dyn_cast<AffineDimExpr>(result)) {
        indices.push_back(ivs[dim.getPosition()]);
        continue;
      }
      AffineMap one = AffineMap::get(map.getNumDims(), map.getNumSymbols(), result);
      indices.push_back(
          affine::makeComposedAffineApply(builder, loc, one, getAsOpFoldResult(ivs)).getResult());
    }
    return indices;
  }

  Value load(OpOperand *operand) {
    if (!isa<MemRefType>(operand->get().getType()))
      return operand->get();
    return memref::LoadOp::create(builder, loc, operand->get(), getIndices(operand));
  }

  /// The body at the current indices; `carried` are the values of the outputs, loaded if there are
  /// none. Returns what it yields.
  SmallVector<Value> computeBody(ValueRange carried) {
    Block *body = op.getBlock();
    IRMapping mapping;
    for (OpOperand *input : op.getDpsInputOperands())
      if (BlockArgument argument = op.getMatchingBlockArgument(input); !argument.use_empty())
        mapping.map(argument, load(input));
    for (auto [index, output] : llvm::enumerate(op.getDpsInitsMutable()))
      if (BlockArgument argument = op.getMatchingBlockArgument(&output); !argument.use_empty())
        mapping.map(argument, carried.empty() ? load(&output) : carried[index]);
    for (Operation &inner : body->without_terminator()) {
      if (auto index = dyn_cast<linalg::IndexOp>(inner))
        mapping.map(index.getResult(), ivs[index.getDim()]);
      else
        builder.clone(inner, mapping);
    }
    SmallVector<Value> results;
    for (Value value : body->getTerminator()->getOperands())
      results.push_back(mapping.lookupOrDefault(value));
    return results;
  }

  void storeResults(ValueRange values) {
    for (auto [value, output] : llvm::zip_equal(values, op.getDpsInitsMutable()))
      memref::StoreOp::create(builder, loc, value, output.get(), getIndices(&output));
  }

  void emitBody(ValueRange carried) { storeResults(computeBody(carried)); }

  /// All terms of one result, one after the other.
  void emitSum() {
    SmallVector<Value> init;
    for (OpOperand &output : op.getDpsInitsMutable())
      init.push_back(load(&output));
    storeResults(
        b.createFor(b.constant(0), getTotal(reduced), 1, init, [&](Value flat, ValueRange carried) {
          setIndices(reduced, flat);
          return computeBody(carried);
        }));
  }

  /// What combines terms, if it is one operation that has a neutral element, on 32 bits.
  Operation *getCombiner() {
    if (op.getNumDpsInits() != 1)
      return nullptr;
    SmallVector<Operation *, 1> combiners;
    Type type = op.getRegionOutputArgs()[0].getType();
    if (!type.isIntOrFloat() || type.getIntOrFloatBitWidth() != 32 ||
        !matchReduction(op.getRegionOutputArgs(), 0, combiners) || combiners.size() != 1 ||
        combiners[0]->getNumOperands() != 2 || !arith::getNeutralElement(combiners[0]))
      return nullptr;
    return combiners[0];
  }

  /// Terms by lanes, of a warp or of all warps; then together.
  void emitSharedSum(Operation *combiner, Value first, int64_t step, bool byWarp) {
    auto combine = [&](Value a, Value c) -> Value {
      IRMapping mapping;
      mapping.map(combiner->getOperand(0), a);
      mapping.map(combiner->getOperand(1), c);
      return builder.clone(*combiner, mapping)->getResult(0);
    };
    Value neutral = arith::ConstantOp::create(builder, loc, *arith::getNeutralElement(combiner));
    SmallVector<Value> outer = ivs;
    Value part =
        b.createFor(first, getTotal(reduced), step, {neutral}, [&](Value flat, ValueRange carried) {
          setIndices(reduced, flat);
          return computeBody(carried);
        })[0];
    ivs = outer;
    Value whole = byWarp ? b.reduceWarp(part, combine) : b.reduceBlock(part, combine);
    b.createIf(b.equal(first, b.constant(0)), [&] {
      Value old = load(&op.getDpsInitsMutable()[0]);
      storeResults(combine(old, whole));
    });
  }

  //===--------------------------------------------------------------------===//
  // Vectors
  //===--------------------------------------------------------------------===//

  /// As many elements as every access can move at once, along the last loop; 0: not in vectors.
  int64_t getVectorLanes() {
    if (parallel.empty() || ShapedType::isDynamic(count(parallel)) || op.hasIndexSemantics())
      return 0;
    unsigned last = parallel.back();
    int64_t lanes = 16;
    auto divide = [&](int64_t number) {
      while (lanes > 1 && number % lanes != 0)
        lanes /= 2;
    };
    divide(staticSizes[last]);
    for (OpOperand &operand : op->getOpOperands()) {
      auto type = dyn_cast<MemRefType>(operand.get().getType());
      if (!type)
        continue;
      AffineMap map = op.getMatchingIndexingMap(&operand);
      AffineExpr dim = builder.getAffineDimExpr(last);
      unsigned uses = 0;
      for (AffineExpr result : map.getResults())
        uses += result.isFunctionOfDim(last);
      if (uses == 0 && op.isDpsInput(&operand))
        continue;
      SmallVector<int64_t> strides;
      int64_t offset;
      if (uses != 1 || map.getResults().back() != dim || !type.getElementType().isIntOrFloat() ||
          type.getElementType().isInteger(1) || failed(type.getStridesAndOffset(strides, offset)) ||
          strides.back() != 1 || ShapedType::isDynamic(offset))
        return 0;
      divide(offset);
      // Where a row of the buffer begins, counted from what is aligned.
      for (int64_t stride : ArrayRef(strides).drop_back())
        if (ShapedType::isDynamic(stride))
          return 0;
        else
          divide(stride);
      divide(getRootLast(operand.get()));
      while (lanes * getBytes(type.getElementType()) > 16)
        lanes /= 2;
    }
    for (Operation &inner : op.getBlock()->without_terminator())
      if (inner.getNumRegions() != 0 || !isMemoryEffectFree(&inner) ||
          !OpTrait::hasElementwiseMappableTraits(&inner))
        if (!isa<arith::ConstantOp>(inner))
          return 0;
    return lanes > 1 ? lanes : 0;
  }

  /// Rows of a kernel's buffer begin at multiples of its last size; other buffers are aligned.
  static int64_t getRootLast(Value memref) {
    auto type = cast<MemRefType>(getRoot(memref).getType());
    if (type.getRank() == 0)
      return 1;
    int64_t size = type.getShape().back();
    return ShapedType::isDynamic(size) ? 1 : size;
  }

  void emitVectors(int64_t lanes) {
    unsigned last = parallel.back();
    staticSizes[last] /= lanes;
    forEach(parallel, b.getThread(), b.getThreads(), [&] {
      ivs[last] = toIndex(b.mul(toI64(ivs[last]), lanes));
      storeVectors(lanes);
    });
  }

  bool isWide(OpOperand &operand) {
    return llvm::any_of(op.getMatchingIndexingMap(&operand).getResults(),
                        [&](AffineExpr result) { return result.isFunctionOfDim(parallel.back()); });
  }

  llvm::MaybeAlign getAlignment(Value memref, int64_t lanes) {
    return llvm::Align(lanes * getBytes(cast<MemRefType>(memref.getType()).getElementType()));
  }

  void storeVectors(int64_t lanes) {
    DenseMap<Value, Value> values;
    auto spread = [&](Value value) -> Value {
      if (isa<VectorType>(value.getType()))
        return value;
      return vector::BroadcastOp::create(builder, loc, VectorType::get({lanes}, value.getType()),
                                         value);
    };
    for (OpOperand &operand : op->getOpOperands()) {
      BlockArgument argument = op.getMatchingBlockArgument(&operand);
      if (argument.use_empty())
        continue;
      if (isa<MemRefType>(operand.get().getType()) && isWide(operand))
        values[argument] = vector::LoadOp::create(
            builder, loc, VectorType::get({lanes}, argument.getType()), operand.get(),
            getIndices(&operand), /*nontemporal=*/false, getAlignment(operand.get(), lanes));
      else
        values[argument] = spread(load(&operand));
    }
    auto lookup = [&](Value value) {
      Value &known = values[value];
      if (!known)
        known = spread(value);
      return known;
    };
    for (Operation &inner : op.getBlock()->without_terminator()) {
      if (isa<arith::ConstantOp>(inner)) {
        values[inner.getResult(0)] = spread(builder.clone(inner)->getResult(0));
        continue;
      }
      OperationState state(loc, inner.getName());
      state.addAttributes(inner.getAttrs());
      state.propertiesAttr = inner.getPropertiesAsAttribute();
      for (Value operand : inner.getOperands())
        state.operands.push_back(lookup(operand));
      for (Type type : inner.getResultTypes())
        state.types.push_back(VectorType::get({lanes}, type));
      Operation *made = builder.create(state);
      for (auto [old, value] : llvm::zip_equal(inner.getResults(), made->getResults()))
        values[old] = value;
    }
    for (auto [value, output] :
         llvm::zip_equal(op.getBlock()->getTerminator()->getOperands(), op.getDpsInitsMutable()))
      vector::StoreOp::create(builder, loc, lookup(value), output.get(), getIndices(&output),
                              /*nontemporal=*/false, getAlignment(output.get(), lanes));
  }

  GpuKernelBuilder &b;
  OpBuilder &builder;
  Location loc;
  linalg::LinalgOp op;
  SmallVector<Value> sizes; ///< of all loops; index
  SmallVector<int64_t> staticSizes;
  SmallVector<unsigned> parallel, reduced;
  SmallVector<Value> ivs;
};

/// Walks a block in order, keeping count of what threads wrote and read since the last barrier.
class Lowering {
public:
  Lowering(GpuKernelBuilder &b, StringRef kernelName) : b(b), kernelName(kernelName) {}

  LogicalResult run(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      b.getBuilder().setInsertionPoint(&op);
      if (failed(lower(op)))
        return failure();
    }
    return success();
  }

private:
  LogicalResult lower(Operation &op) {
    if (auto alloc = dyn_cast<memref::AllocOp>(op))
      return lowerAlloc(alloc);
    if (isa<memref::DeallocOp>(op)) {
      op.erase();
      return success();
    }
    if (auto copy = dyn_cast<memref::CopyOp>(op)) {
      auto generic =
          linalg::CopyOp::create(b.getBuilder(), op.getLoc(), copy.getSource(), copy.getTarget());
      op.erase();
      b.getBuilder().setInsertionPoint(generic);
      return lower(*generic);
    }
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
      note(linalgOp);
      Loops(b, linalgOp).emit();
      op.erase();
      return success();
    }
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      synchronize({getRoot(load.getMemRef())}, {});
      return success();
    }
    if (auto store = dyn_cast<memref::StoreOp>(op)) {
      // One thread does it.
      synchronize({}, {getRoot(store.getMemRef())});
      b.createIf(b.equal(b.getThread(), b.constant(0)), [&] {
        op.moveBefore(b.getBuilder().getBlock(), b.getBuilder().getInsertionPoint());
      });
      return success();
    }
    if (op.getNumRegions() != 0) {
      // All threads take the same way: what steers it are sizes and what all read alike.
      bool touches = false;
      op.walk([&](Operation *inner) {
        touches |=
            isa<memref::AllocOp, memref::CopyOp, linalg::LinalgOp, memref::LoadOp, memref::StoreOp>(
                inner);
      });
      if (!touches)
        return success();
      flush();
      for (Region &region : op.getRegions())
        for (Block &block : region) {
          if (failed(run(block)))
            return failure();
          b.getBuilder().setInsertionPoint(block.mightHaveTerminator() ? block.getTerminator()
                                                                       : &block.back());
          flush();
        }
      b.getBuilder().setInsertionPointAfter(&op);
      return success();
    }
    if (isMemoryEffectFree(&op) || isa<ViewLikeOpInterface>(op) ||
        op.hasTrait<OpTrait::IsTerminator>())
      return success();
    return op.emitError() << "kernel '" << kernelName << "' has an operation, " << op.getName()
                          << ", that has no form on threads";
  }

  LogicalResult lowerAlloc(memref::AllocOp alloc) {
    MemRefType type = alloc.getType();
    if (!type.hasStaticShape())
      return alloc.emitError() << "kernel '" << kernelName << "' needs an intermediate " << type
                               << ", but only such of constant size can be kept";
    int64_t most = b.getTarget().maxShared, bytes = getBytes(type.getElementType());
    if (type.getNumElements() * bytes + b.getSharedBytes() > most)
      return alloc.emitError() << "kernel '" << kernelName << "' needs "
                               << type.getNumElements() * bytes + b.getSharedBytes()
                               << " bytes of shared memory for intermediate values; there are "
                               << most;
    OpBuilder &builder = b.getBuilder();
    Location loc = alloc.getLoc();
    Pointer memory = b.createShared(type.getElementType(), type.getNumElements());
    builder.setInsertionPoint(alloc);
    SmallVector<Value> sizes, strides;
    int64_t stride = type.getNumElements();
    for (int64_t size : type.getShape()) {
      stride = size ? stride / size : 0;
      sizes.push_back(b.constant(size));
      strides.push_back(b.constant(stride));
    }
    Value memref = createMemRef(builder, loc, memory.base, type, sizes, strides);
    alloc.replaceAllUsesWith(memref);
    alloc.erase();
    return success();
  }

  void note(linalg::LinalgOp op) {
    SmallVector<Value> reads, writes;
    for (OpOperand &operand : op->getOpOperands())
      if (isa<MemRefType>(operand.get().getType()))
        (op.isDpsInit(&operand) ? writes : reads).push_back(getRoot(operand.get()));
    op->walk([&](memref::LoadOp load) { reads.push_back(getRoot(load.getMemRef())); });
    synchronize(reads, writes);
  }

  /// A barrier, if another thread may have touched what is read or written now.
  void synchronize(ArrayRef<Value> reads, ArrayRef<Value> writes) {
    bool depends = false;
    for (Value buffer : reads)
      depends |= written.contains(buffer);
    for (Value buffer : writes)
      depends |= written.contains(buffer) || read.contains(buffer);
    if (depends)
      flush();
    read.insert(reads.begin(), reads.end());
    written.insert(writes.begin(), writes.end());
  }

  void flush() {
    if (!read.empty() || !written.empty())
      b.barrier();
    read.clear();
    written.clear();
  }

  GpuKernelBuilder &b;
  StringRef kernelName;
  llvm::SmallPtrSet<Value, 8> read, written;
};
} // namespace

LogicalResult lowerToLanes(GpuKernelBuilder &b, Block &block, StringRef kernelName) {
  OpBuilder::InsertionGuard guard(b.getBuilder());
  return Lowering(b, kernelName).run(block);
}

} // namespace adapt::gpu
