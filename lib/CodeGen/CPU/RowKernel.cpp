// Kernels without state, by way of linalg.
//
// Composites are decomposed. Where the rows of the results (dialects/Adapt/Rows.h) need nothing of
// each other, the kernel is specialised for one row: row axes are of size 1 in all types, so that
// as many shapes as possible are static, and a work item runs some rows one after the other.
// Otherwise the whole is one work item.
#include "KernelForm.h"
#include "dialects/Adapt/Rows.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace adapt::cpu {
namespace {
/// Of intermediate values, on a thread's stack.
constexpr int64_t kMaxStackBytes = 1 << 20;

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

class RowForm : public KernelForm {
public:
  static std::unique_ptr<KernelForm> create(KernelOp kernel);

  StringRef getName() const override { return "row"; }
  SmallVector<KernelVariant> getVariants() const override;
  LogicalResult emit(unsigned variant, CpuKernelBuilder &builder) const override;

private:
  void findRows();
  void repeatCheapOperations();
  FailureOr<func::FuncOp> emitRow(CpuKernelBuilder &b, KernelOp row) const;

  mutable KernelOp kernel;            ///< its accessors are not const
  mutable OwningOpRef<KernelOp> base; ///< decomposed
  Rows rows;
  int64_t itemRows = 1;
};

std::unique_ptr<KernelForm> RowForm::create(KernelOp kernel) {
  auto form = std::make_unique<RowForm>();
  form->kernel = kernel;
  form->base = kernel.clone();
  if (failed(decomposeAll(*form->base)))
    return nullptr;
  for (Operation &op : form->base->getBody().front().without_terminator())
    if (!isa<LinalgOpLoweringInterface>(op))
      return nullptr;
  form->findRows();
  return form;
}

void RowForm::findRows() {
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
  if (rows.count() == 0)
    return;
  // Enough elements for an item to outweigh its launch. Symbolic sizes count as some.
  int64_t elements = 1;
  for (const auto &[value, axes] : rows.axes) {
    int64_t count = 1;
    for (int64_t size : rows.getRowType(value).getShape())
      count = llvm::SaturatingMultiply<uint64_t>(
          count, ShapedType::isDynamic(size) ? 64 : std::max<int64_t>(size, 1));
    if (rows.isSplitInAll(value))
      elements = std::max(elements, std::min<int64_t>(count, 16384));
  }
  itemRows = std::clamp<int64_t>(16384 / elements, 1, 16);
}

/// A value whose size is not constant cannot be kept, so that every user computes it again: what
/// makes it becomes one loop with each user.
void RowForm::repeatCheapOperations() {
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

SmallVector<KernelVariant> RowForm::getVariants() const {
  KernelVariant variant;
  variant.symbol = "any";
  AffineExpr items = getAffineConstantExpr(1, kernel->getContext());
  for (AffineExpr size : rows.sizes)
    items = items * size;
  variant.grid.push_back(rows.count() ? items.ceilDiv(itemRows) : items);
  return {variant};
}

//===----------------------------------------------------------------------===//
// One row
//===----------------------------------------------------------------------===//

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

/// Buffers go to the stack of the function, linalg to loops.
LogicalResult lowerToLoops(func::FuncOp function, StringRef kernelName) {
  IRRewriter rewriter(function.getContext());
  int64_t bytes = 0;
  SmallVector<memref::AllocOp> allocs;
  SmallVector<memref::CopyOp> copies;
  function.walk([&](Operation *op) {
    if (auto alloc = dyn_cast<memref::AllocOp>(op))
      allocs.push_back(alloc);
    if (auto copy = dyn_cast<memref::CopyOp>(op))
      copies.push_back(copy);
    if (auto dealloc = dyn_cast<memref::DeallocOp>(op))
      rewriter.eraseOp(dealloc);
  });
  for (memref::AllocOp alloc : allocs) {
    MemRefType type = alloc.getType();
    if (!type.hasStaticShape())
      return function.emitError() << "kernel '" << kernelName << "' needs an intermediate " << type
                                  << ", but only such of constant size can be kept";
    bytes += llvm::divideCeil(type.getElementTypeBitWidth(), 8u) * type.getNumElements();
    rewriter.setInsertionPointToStart(&function.getBody().front());
    rewriter.replaceOp(alloc, memref::AllocaOp::create(rewriter, alloc.getLoc(), type,
                                                       rewriter.getI64IntegerAttr(64)));
  }
  if (bytes > kMaxStackBytes)
    return function.emitError() << "kernel '" << kernelName << "' needs " << bytes
                                << " bytes for intermediate values; at most " << kMaxStackBytes
                                << " can be kept";
  for (memref::CopyOp copy : copies) {
    rewriter.setInsertionPoint(copy);
    rewriter.replaceOpWithNewOp<linalg::CopyOp>(copy, copy.getSource(), copy.getTarget());
  }
  SmallVector<linalg::LinalgOp> loops;
  function.walk([&](linalg::LinalgOp op) { loops.push_back(op); });
  for (linalg::LinalgOp op : loops) {
    rewriter.setInsertionPoint(op);
    if (failed(linalg::linalgOpToLoops(rewriter, op)))
      return op.emitError("has no form as loops");
    rewriter.eraseOp(op);
  }
  return success();
}

// A function of pointers to the row of each tensor argument and result, and of the sizes.
FailureOr<func::FuncOp> RowForm::emitRow(CpuKernelBuilder &b, KernelOp row) const {
  Block &body = row.getBody().front();
  OpBuilder builder(row.getContext());
  Location loc = row.getLoc();
  ValueRange results = body.getTerminator()->getOperands();
  SmallVector<StringRef> names = row.getSymbols();
  SmallVector<Type> types(body.getNumArguments() + results.size(),
                          LLVM::LLVMPointerType::get(row.getContext()));
  types.append(names.size(), builder.getI64Type());
  func::FuncOp function = b.createFunction("row", types);
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
  if (failed(bufferize(function)) || failed(lowerToLoops(function, kernel.getSymName())))
    return failure();
  return function;
}

LogicalResult RowForm::emit(unsigned, CpuKernelBuilder &b) const {
  KernelOp baseOp = *base;
  Block &baseBody = baseOp.getBody().front();
  IRMapping toRow;
  OwningOpRef<KernelOp> row(cast<KernelOp>(baseOp->clone(toRow)));
  for (const auto &[value, axes] : rows.axes)
    toRow.lookup(value).setType(rows.getRowType(value));
  auto function = emitRow(b, *row);
  if (failed(function))
    return failure();

  auto callRow = [&](ArrayRef<Value> index) {
    SmallVector<Value> operands;
    auto push = [&](Pointer buffer, Value whole) {
      SmallVector<AffineExpr> strides = getStrides(getDims(typeOf(whole)), baseOp.getContext());
      for (auto [axis, at] : llvm::zip(rows.axes.lookup(whole), index))
        if (axis >= 0)
          buffer = b.at(buffer, b.mul(at, b.getSize(strides[axis])));
      operands.push_back(buffer.base);
    };
    for (BlockArgument argument : baseBody.getArguments())
      push(b.getArgument(argument.getArgNumber()), argument);
    for (auto [number, value] : llvm::enumerate(baseBody.getTerminator()->getOperands()))
      push(b.getResult(number), value);
    for (StringRef name : baseOp.getSymbols())
      operands.push_back(b.getSize(getSymbolExpr(baseOp.getContext(), name)));
    func::CallOp::create(b.getBuilder(), b.getLoc(), *function, operands);
  };
  if (rows.count() == 0) {
    callRow({});
    return success();
  }
  Value count = b.constant(1);
  for (AffineExpr size : rows.sizes)
    count = b.mul(count, b.getSize(size));
  Value begin = b.mul(b.getId(0), itemRows);
  Value end = b.min(b.add(begin, itemRows), count);
  b.createFor(begin, end, 1, [&](Value flat) {
    SmallVector<Value> index(rows.count());
    for (size_t axis = rows.count(); axis-- > 1;) {
      Value size = b.getSize(rows.sizes[axis]);
      index[axis] = arith::RemUIOp::create(b.getBuilder(), b.getLoc(), flat, size);
      flat = arith::DivUIOp::create(b.getBuilder(), b.getLoc(), flat, size);
    }
    index[0] = flat;
    callRow(index);
  });
  return success();
}
} // namespace

std::unique_ptr<KernelForm> createRowForm(KernelOp kernel, const CpuTarget &) {
  return RowForm::create(kernel);
}

} // namespace adapt::cpu
