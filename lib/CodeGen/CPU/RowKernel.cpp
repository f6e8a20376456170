// Kernels without state, by way of linalg.
//
// Composites are decomposed. Where each row of the results (along their common leading size, the
// tokens) needs no other row of the arguments, the kernel is specialised for one row: its size is 1
// in all types, so that every shape is static, and a work item runs some rows one after the other.
// Otherwise the whole is one work item.
#include "KernelForm.h"
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

bool mentions(AffineExpr size, AffineExpr symbol) {
  bool found = false;
  size.walk([&](AffineExpr part) { found |= part == symbol; });
  return found;
}

bool mentions(Value value, AffineExpr symbol) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type &&
         llvm::any_of(getDims(type), [&](AffineExpr size) { return mentions(size, symbol); });
}

/// Whether the leading size is `rows` and no other mentions it.
bool isRowwise(Value value, AffineExpr rows) {
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  return !dims.empty() && dims[0] == rows &&
         llvm::none_of(ArrayRef(dims).drop_front(),
                       [&](AffineExpr size) { return mentions(size, rows); });
}

/// Whether row i of the operation's results needs only row i of its operands.
bool isRowwise(Operation *op, AffineExpr rows) {
  auto involved = [&](Value value) { return mentions(value, rows); };
  if (llvm::none_of(op->getOperands(), involved) && llvm::none_of(op->getResults(), involved))
    return true;
  auto sharding = dyn_cast<ShardingRuleOpInterface>(op);
  if (!sharding)
    return false;
  ShardingRule rule = sharding.getShardingRule();
  int factor = ShardingRule::kNone;
  for (auto [result, axes] : llvm::zip_equal(op->getResults(), rule.results)) {
    if (!isRowwise(result, rows) || axes[0] == ShardingRule::kNone ||
        (factor != ShardingRule::kNone && axes[0] != factor))
      return false;
    factor = axes[0];
  }
  for (auto [operand, axes] : llvm::zip_equal(op->getOperands(), rule.operands)) {
    bool leads = involved(operand);
    if (leads && (!isRowwise(operand, rows) || axes[0] != factor))
      return false;
    if (llvm::is_contained(ArrayRef(axes).drop_front(leads ? 1 : 0), factor))
      return false;
  }
  return true;
}

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
  FailureOr<func::FuncOp> emitRow(CpuKernelBuilder &b, KernelOp row) const;

  mutable KernelOp kernel;            ///< its accessors are not const
  mutable OwningOpRef<KernelOp> base; ///< decomposed
  AffineExpr rows;                    ///< null: one work item
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
  if (results.empty() || typeOf(results[0]).getRank() == 0)
    return;
  AffineExpr size = getDims(typeOf(results[0]))[0];
  if (!isa<AffineSymbolExpr>(size) ||
      !llvm::all_of(results, [&](Value result) { return isRowwise(result, size); }) ||
      !llvm::all_of(body.without_terminator(), [&](Operation &op) { return isRowwise(&op, size); }))
    return;
  rows = size;
  // Enough elements for an item to outweigh its launch.
  int64_t elements = 1;
  for (Operation &op : body)
    for (Value value : op.getOperands())
      if (auto type = dyn_cast<RankedTensorType>(value.getType()))
        if (isRowwise(value, rows)) {
          int64_t count = 1;
          for (int64_t size : type.getShape().drop_front())
            count *= ShapedType::isDynamic(size) ? 1 : std::max<int64_t>(size, 1);
          elements = std::max(elements, count);
        }
  itemRows = std::clamp<int64_t>(16384 / elements, 1, 16);
}

SmallVector<KernelVariant> RowForm::getVariants() const {
  KernelVariant variant;
  variant.symbol = "any";
  variant.grid.push_back(rows ? rows.ceilDiv(itemRows)
                              : getAffineConstantExpr(1, kernel->getContext()));
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

/// A dense memref at a pointer: its descriptor, as the conversion to LLVM lays it out.
Value createMemRef(OpBuilder &builder, Location loc, Value pointer, MemRefType type,
                   ArrayRef<Value> sizes) {
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
  Value stride = arith::ConstantIntOp::create(builder, loc, 1, 64);
  for (int64_t axis = rank - 1; axis >= 0; --axis) {
    set(sizes[axis], {3, axis});
    set(stride, {4, axis});
    stride = arith::MulIOp::create(builder, loc, stride, sizes[axis]);
  }
  return UnrealizedConversionCastOp::create(builder, loc, type, descriptor).getResult(0);
}

/// Elementwise operations become one loop with their consumer, unless that would compute something
/// dear more than once.
bool shouldFuse(OpOperand *operand) {
  Operation *producer = operand->get().getDefiningOp();
  if (!producer)
    return false;
  if (producer->hasOneUse())
    return true;
  bool dear = false;
  producer->walk([&](Operation *op) {
    dear |= isa<math::ExpOp, math::TanhOp, math::ErfOp, math::SinOp, math::CosOp, math::SqrtOp,
                arith::DivFOp, tensor::ExtractOp>(op);
  });
  return !dear;
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
  SmallVector<Type> types(body.getNumArguments() + results.size(), b.getArgument(0).base.getType());
  types.append(names.size(), builder.getI64Type());
  func::FuncOp function = b.createFunction("row", types);
  Block &block = function.getBody().front();
  builder.setInsertionPoint(block.getTerminator());

  llvm::StringMap<Value> sizes;
  for (auto [index, name] : llvm::enumerate(names))
    sizes[name] = block.getArgument(body.getNumArguments() + results.size() + index);
  RowContext context(std::move(sizes));
  auto createBuffer = [&](unsigned argument, RankedTensorType type) {
    RankedTensorType storage = getStorageType(type);
    SmallVector<Value> extents;
    if (storage.hasStaticShape())
      for (int64_t size : storage.getShape())
        extents.push_back(arith::ConstantIntOp::create(builder, loc, size, 64));
    else
      for (AffineExpr size : getDims(type))
        extents.push_back(context.getInteger(builder, loc, size));
    auto memref = MemRefType::get(storage.getShape(), storage.getElementType());
    return createMemRef(builder, loc, block.getArgument(argument), memref, extents);
  };

  IRMapping mapping;
  for (BlockArgument argument : body.getArguments()) {
    Value buffer = createBuffer(argument.getArgNumber(), typeOf(argument));
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
    Value buffer = createBuffer(body.getNumArguments() + index, typeOf(result));
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
  if (failed(cleanup.run(function)) || failed(bufferize(function)) ||
      failed(lowerToLoops(function, kernel.getSymName())))
    return failure();
  return function;
}

/// The type with `rows` taken as one.
Type specialise(Type type, AffineExpr rows) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.hasStaticShape())
    return type;
  AffineExpr one = getAffineConstantExpr(1, type.getContext());
  SmallVector<AffineExpr> dims;
  for (AffineExpr size : getDims(tensor))
    dims.push_back(size.replace(rows, one));
  return getTensorType(dims, tensor.getElementType());
}

LogicalResult RowForm::emit(unsigned, CpuKernelBuilder &b) const {
  KernelOp baseOp = *base;
  OwningOpRef<KernelOp> row(baseOp.clone());
  Block &body = row->getBody().front();
  if (rows) {
    for (BlockArgument argument : body.getArguments())
      argument.setType(specialise(argument.getType(), rows));
    for (Operation &op : body)
      for (Value result : op.getResults())
        result.setType(specialise(result.getType(), rows));
  }
  auto function = emitRow(b, *row);
  if (failed(function))
    return failure();

  auto callRow = [&](Value index) {
    SmallVector<Value> operands;
    auto push = [&](Pointer buffer, Type type) {
      auto tensor = cast<RankedTensorType>(type);
      SmallVector<AffineExpr> dims = getDims(tensor);
      if (index && !dims.empty() && dims[0] == rows) {
        Value elements = b.constant(1);
        for (AffineExpr size : ArrayRef(dims).drop_front())
          elements = b.mul(elements, b.getSize(size));
        buffer = b.at(buffer, b.mul(index, elements));
      }
      operands.push_back(buffer.base);
    };
    for (auto [number, type] : llvm::enumerate(baseOp.getArgumentTypes()))
      push(b.getArgument(number), type);
    for (auto [number, type] : llvm::enumerate(baseOp.getResultTypes()))
      push(b.getResult(number), type);
    for (StringRef name : baseOp.getSymbols())
      operands.push_back(b.getSize(getSymbolExpr(baseOp.getContext(), name)));
    func::CallOp::create(b.getBuilder(), b.getLoc(), *function, operands);
  };
  if (!rows) {
    callRow(Value());
    return success();
  }
  Value begin = b.mul(b.getId(0), itemRows);
  Value end = b.min(b.add(begin, itemRows), b.getSize(rows));
  b.createFor(begin, end, 1, callRow);
  return success();
}
} // namespace

std::unique_ptr<KernelForm> createRowForm(KernelOp kernel, const CpuTarget &) {
  return RowForm::create(kernel);
}

} // namespace adapt::cpu
