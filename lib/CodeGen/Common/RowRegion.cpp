#include "RowRegion.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace adapt::codegen {
namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult decomposeAll(KernelOp kernel) {
  while (true) {
    SmallVector<DecomposeOpInterface> composites;
    kernel.walk([&](DecomposeOpInterface op) { composites.push_back(op); });
    if (composites.empty())
      return success();
    for (DecomposeOpInterface op : composites) {
      OpBuilder builder(op);
      auto values = op.decompose(builder);
      if (failed(values))
        return failure();
      op->replaceAllUsesWith(*values);
      op->erase();
    }
  }
}

} // namespace

std::unique_ptr<RowRegion> RowRegion::create(KernelOp kernel) {
  auto region = std::make_unique<RowRegion>();
  region->kernel = kernel;
  region->base = kernel.clone();
  if (failed(decomposeAll(*region->base)))
    return nullptr;
  for (Operation &op : region->base->getBody().front().without_terminator())
    if (!isa<LinalgOpLoweringInterface>(op))
      return nullptr;
  region->findRows();
  return region;
}

void RowRegion::findRows() {
  Block &body = base->getBody().front();
  ValueRange results = body.getTerminator()->getOperands();
  auto getOps = [&] {
    SmallVector<Operation *> ops;
    for (Operation &op : body.without_terminator())
      ops.push_back(&op);
    return ops;
  };
  size_t wanted = Rows::getWanted(results);
  rows = Rows::compute(getOps(), results, wanted);
  repeatCheapOperations();
  rows = Rows::compute(getOps(), results, wanted);
  if (!isSplit())
    return;
  for (const auto &[value, axes] : rows.axes) {
    int64_t count = 1;
    for (int64_t size : rows.getRowType(value).getShape())
      count = llvm::SaturatingMultiply<uint64_t>(
          count, ShapedType::isDynamic(size) ? 64 : std::max<int64_t>(size, 1));
    if (rows.isSplitInAll(value))
      elements = std::max(elements, std::min<int64_t>(count, 16384));
  }
}

/// A value whose size is not constant cannot be kept, so that every user computes it again: what
/// makes it becomes one loop with each user.
void RowRegion::repeatCheapOperations() {
  constexpr unsigned kMaxOps = 512;
  Block &body = base->getBody().front();
  unsigned count = std::distance(body.begin(), body.end());
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body))) {
    if (!isa<ElementwiseOpInterface, BroadcastOp>(op) || count > kMaxOps ||
        rows.getRowType(op.getResult(0)).hasStaticShape())
      continue;
    Operation *terminator = body.getTerminator();
    OpBuilder builder(&op);
    bool first = true;
    for (OpOperand &use : llvm::make_early_inc_range(op.getResult(0).getUses())) {
      if (!std::exchange(first, false) && use.getOwner() != terminator) {
        use.set(builder.clone(op)->getResult(0));
        ++count;
      }
    }
  }
}

AffineExpr RowRegion::getCount() const {
  AffineExpr count = getAffineConstantExpr(1, kernel->getContext());
  for (AffineExpr size : rows.sizes)
    count = count * size;
  return count;
}

//===----------------------------------------------------------------------===//
// One row
//===----------------------------------------------------------------------===//

/// A memref at a pointer: its descriptor, as the conversion to LLVM lays it out.
Value createMemRef(OpBuilder &builder, Location loc, Value pointer, MemRefType type,
                   ArrayRef<Value> sizes, ArrayRef<Value> strides) {
  int64_t rank = type.getRank();
  Type i64 = builder.getI64Type();
  SmallVector<Type> fields = {pointer.getType(), pointer.getType(), i64};
  if (rank > 0)
    fields.append(2, LLVM::LLVMArrayType::get(i64, rank));
  auto structType = LLVM::LLVMStructType::getLiteral(builder.getContext(), fields);
  Value descriptor = LLVM::PoisonOp::create(builder, loc, structType);
  auto set = [&](Value value, ArrayRef<int64_t> position) {
    descriptor = LLVM::InsertValueOp::create(builder, loc, descriptor, value, position);
  };
  set(pointer, {0});
  set(pointer, {1});
  set(arith::ConstantIntOp::create(builder, loc, 0, 64), {2});
  for (int64_t axis = 0; axis < rank; ++axis) {
    set(sizes[axis], {3, axis});
    set(strides[axis], {4, axis});
  }
  return UnrealizedConversionCastOp::create(builder, loc, type, descriptor).getResult(0);
}

namespace {
/// Sizes are the function's last arguments.
class RowContext : public LinalgContext {
public:
  explicit RowContext(llvm::StringMap<Value> sizes) : sizes(std::move(sizes)) {}
  Value getSize(OpBuilder &builder, Location loc, AffineExpr size) override {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      getInteger(builder, loc, size));
  }
  Value getInteger(OpBuilder &builder, Location loc, AffineExpr size) {
    return emitSize(builder, loc, size, [&](StringRef name) { return sizes.lookup(name); });
  }

private:
  llvm::StringMap<Value> sizes;
};

/// Row-major strides of a tensor in memory, in elements.
SmallVector<AffineExpr> getStrides(ArrayRef<AffineExpr> dims, MLIRContext *context) {
  SmallVector<AffineExpr> strides(dims.size());
  AffineExpr stride = getAffineConstantExpr(1, context);
  for (size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride = stride * dims[axis];
  }
  return strides;
}

/// Elementwise operations become one loop with their consumer, unless that would compute something
/// dear more than once; but what has no constant size must.
bool shouldFuse(OpOperand *operand) {
  Operation *producer = operand->get().getDefiningOp();
  if (!producer)
    return false;
  if (producer->hasOneUse() || !cast<RankedTensorType>(operand->get().getType()).hasStaticShape())
    return true;
  bool dear = false;
  producer->walk([&](Operation *op) {
    dear |= isa<math::ExpOp, math::TanhOp, math::ErfOp, math::SinOp, math::CosOp, math::SqrtOp,
                math::LogOp, math::PowFOp, arith::DivFOp, tensor::ExtractOp>(op);
  });
  return !dear;
}

/// An elementwise loop over a value of no constant size that nobody else reads writes where it
/// reads.
void writeOverInput(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getNumDpsInits() != 1 || generic.getNumReductionLoops() != 0)
    return;
  OpOperand &init = generic.getDpsInitsMutable()[0];
  AffineMap map = generic.getMatchingIndexingMap(&init);
  if (!init.get().getDefiningOp<tensor::EmptyOp>() ||
      cast<RankedTensorType>(init.get().getType()).hasStaticShape())
    return;
  for (OpOperand *input : generic.getDpsInputOperands())
    if (input->get().getType() == init.get().getType() && input->get().hasOneUse() &&
        generic.getMatchingIndexingMap(input) == map &&
        input->get().getDefiningOp<DestinationStyleOpInterface>())
      return init.set(input->get());
}

/// What becomes a result is computed in the result's buffer: the tensor.empty that it begins with
/// is that buffer.
void computeInPlace(func::FuncOp function) {
  SmallVector<bufferization::MaterializeInDestinationOp> stores;
  function.walk([&](bufferization::MaterializeInDestinationOp op) { stores.push_back(op); });
  for (bufferization::MaterializeInDestinationOp store : stores) {
    OpOperand *use = &store.getSourceMutable();
    while (Operation *producer = use->get().getDefiningOp()) {
      if (auto empty = dyn_cast<tensor::EmptyOp>(producer)) {
        OpBuilder builder(function.getContext());
        builder.setInsertionPointAfterValue(store.getDest());
        auto destination = bufferization::ToTensorOp::create(
            builder, store.getLoc(), empty.getType(), store.getDest(), /*restrict=*/true,
            /*writable=*/true);
        use->set(destination);
        break;
      }
      auto style = dyn_cast<DestinationStyleOpInterface>(producer);
      if (style)
        writeOverInput(producer);
      // Another reader would see what is written later.
      if (!style || llvm::any_of(use->get().getUsers(),
                                 [&](Operation *user) { return user != use->getOwner(); }))
        break;
      use = style.getTiedOpOperand(cast<OpResult>(use->get()));
    }
  }
}

LogicalResult bufferize(func::FuncOp function) {
  IRRewriter rewriter(function.getContext());
  bufferization::OneShotBufferizationOptions options;
  options.bufferAlignment = 64;
  if (failed(bufferization::eliminateEmptyTensors(rewriter, function)))
    return failure();
  bufferization::BufferizationState bufferizationState;
  if (failed(bufferization::runOneShotBufferize(function, options, bufferizationState)))
    return failure();
  PassManager cleanup(function.getContext(), func::FuncOp::getOperationName());
  cleanup.addPass(createCSEPass());
  cleanup.addPass(createCanonicalizerPass()); // folds copies of a buffer to itself
  return cleanup.run(function);
}

} // namespace

FailureOr<func::FuncOp> RowRegion::emitRow(KernelBuilder &b, KernelOp row, bool noAlias) const {
  Block &body = row.getBody().front();
  OpBuilder builder(row.getContext());
  Location loc = row.getLoc();
  ValueRange results = body.getTerminator()->getOperands();
  SmallVector<StringRef> names = row.getSymbols();
  SmallVector<Type> types(body.getNumArguments() + results.size(),
                          LLVM::LLVMPointerType::get(row.getContext()));
  types.append(names.size(), builder.getI64Type());
  func::FuncOp function = b.createFunction("row", types, noAlias);
  Block &block = function.getBody().front();
  builder.setInsertionPoint(block.getTerminator());

  llvm::StringMap<Value> sizes;
  for (auto [index, name] : llvm::enumerate(names))
    sizes[name] = block.getArgument(body.getNumArguments() + results.size() + index);
  RowContext context(std::move(sizes));
  // `whole` is the value in the kernel, of which this function sees a row. Where a row axis has
  // axes before it that are none, the row does not lie in one piece.
  auto createBuffer = [&](unsigned argument, Value whole) {
    auto type = typeOf(whole);
    RankedTensorType rowType = rows.getRowType(whole);
    RankedTensorType storage = getStorageType(rowType);
    SmallVector<AffineExpr> dims = getDims(rowType), stridesOf;
    bool isPacked = type.getEncoding() && isa<PackedAttr>(type.getEncoding());
    if (isPacked)
      dims = getDims(storage);
    stridesOf = getStrides(isPacked ? dims : getDims(type), row.getContext());
    bool inOnePiece = true, seenOther = false;
    for (int64_t axis = 0; axis < storage.getRank(); ++axis) {
      bool isRowAxis = llvm::is_contained(rows.axes.lookup(whole), axis);
      inOnePiece &= !(isRowAxis && seenOther);
      seenOther |= !isRowAxis && storage.getDimSize(axis) != 1;
    }
    SmallVector<Value> extents, strides;
    SmallVector<int64_t> layout;
    if (inOnePiece)
      stridesOf = getStrides(dims, row.getContext());
    for (auto [size, stride] : llvm::zip_equal(dims, stridesOf)) {
      extents.push_back(context.getInteger(builder, loc, size));
      strides.push_back(context.getInteger(builder, loc, stride));
      auto constant = dyn_cast<AffineConstantExpr>(stride);
      layout.push_back(constant ? constant.getValue() : ShapedType::kDynamic);
    }
    auto memref = inOnePiece ? MemRefType::get(storage.getShape(), storage.getElementType())
                             : MemRefType::get(storage.getShape(), storage.getElementType(),
                                               StridedLayoutAttr::get(row.getContext(), 0, layout));
    return createMemRef(builder, loc, block.getArgument(argument), memref, extents, strides);
  };

  Block &baseBody = base->getBody().front();
  IRMapping mapping;
  for (BlockArgument argument : body.getArguments()) {
    Value buffer =
        createBuffer(argument.getArgNumber(), baseBody.getArgument(argument.getArgNumber()));
    mapping.map(argument, bufferization::ToTensorOp::create(
                              builder, loc, getStorageType(typeOf(argument)), buffer,
                              /*restrict=*/true, /*writable=*/false));
  }
  for (Operation &op : body.without_terminator()) {
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(mapping.lookup(operand));
    auto values = cast<LinalgOpLoweringInterface>(op).lowerToLinalg(builder, context, operands);
    if (failed(values))
      return failure();
    mapping.map(op.getResults(), *values);
  }
  for (auto [index, result] : llvm::enumerate(results)) {
    OpBuilder::InsertPoint end = builder.saveInsertionPoint();
    builder.setInsertionPointToStart(&block); // What the result begins with may be in it.
    Value buffer =
        createBuffer(body.getNumArguments() + index, baseBody.getTerminator()->getOperand(index));
    builder.restoreInsertionPoint(end);
    auto store = bufferization::MaterializeInDestinationOp::create(builder, loc,
                                                                   mapping.lookup(result), buffer);
    store.setRestrict(true);
    store.setWritable(true);
  }

  RewritePatternSet patterns(row.getContext());
  linalg::populateElementwiseOpsFusionPatterns(patterns, shouldFuse);
  if (failed(applyPatternsGreedily(function, std::move(patterns))))
    return row.emitError("fusion of elementwise operations does not end");
  PassManager cleanup(row.getContext(), func::FuncOp::getOperationName());
  cleanup.addPass(createCanonicalizerPass());
  cleanup.addPass(createCSEPass());
  if (failed(cleanup.run(function)))
    return failure();
  computeInPlace(function);
  if (failed(bufferize(function)))
    return failure();
  return function;
}

FailureOr<func::FuncOp> RowRegion::emitRow(KernelBuilder &b, bool noAlias) const {
  IRMapping toRow;
  KernelOp baseOp = *base;
  OwningOpRef<KernelOp> row(cast<KernelOp>(baseOp->clone(toRow)));
  for (const auto &[value, axes] : rows.axes)
    toRow.lookup(value).setType(rows.getRowType(value));
  return emitRow(b, *row, noAlias);
}

SmallVector<Value> RowRegion::getOperands(KernelBuilder &b, Value row) const {
  KernelOp baseOp = *base;
  Block &body = baseOp.getBody().front();
  SmallVector<Value> index(rows.count()), operands;
  for (size_t axis = rows.count(); axis-- > 1;) {
    Value size = b.getSize(rows.sizes[axis]);
    index[axis] = arith::RemUIOp::create(b.getBuilder(), b.getLoc(), row, size);
    row = arith::DivUIOp::create(b.getBuilder(), b.getLoc(), row, size);
  }
  if (isSplit())
    index[0] = row;
  auto push = [&](Pointer buffer, Value whole) {
    SmallVector<AffineExpr> strides = getStrides(getDims(typeOf(whole)), baseOp.getContext());
    for (auto [axis, at] : llvm::zip(rows.axes.lookup(whole), index))
      if (axis >= 0)
        buffer = b.at(buffer, b.mul(at, b.getSize(strides[axis])));
    operands.push_back(buffer.base);
  };
  for (BlockArgument argument : body.getArguments())
    push(b.getArgument(argument.getArgNumber()), argument);
  for (auto [number, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    push(b.getResult(number), value);
  for (StringRef name : baseOp.getSymbols())
    operands.push_back(b.getSize(getSymbolExpr(baseOp.getContext(), name)));
  return operands;
}

} // namespace adapt::codegen
