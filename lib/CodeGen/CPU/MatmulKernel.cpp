// Matmuls with a packed weight and what follows element by element.
//
// Weights lie in panels of 16 rows. A tile of `rows` tokens by `panels` panels is accumulated in
// registers over all of K, put down on the stack, and finished row by row: each following operation
// works on 16 results at once.
#include "DotStep.h"
#include "KernelForm.h"
#include "dialects/Adapt/ToLinalg.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace adapt::cpu {
namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// How a variant cuts the result.
struct Tiling {
  StringRef name;
  int64_t maxRows;    ///< of the input, that it is made for; 0: any number
  int64_t rows;       ///< of a tile
  int64_t panels;     ///< of a tile
  int64_t itemPanels; ///< panels of a work item, a multiple of `panels`
  int64_t itemRows;   ///< rows of a work item; 0: all
  int64_t unroll;     ///< steps in one pass of the inner loop
};

class MatmulForm : public KernelForm {
public:
  static std::unique_ptr<KernelForm> create(KernelOp kernel, const CpuTarget &target);

  StringRef getName() const override { return "matmul"; }
  SmallVector<KernelVariant> getVariants() const override;
  LogicalResult emit(unsigned variant, CpuKernelBuilder &builder) const override;

private:
  struct Root {
    Value result;
    unsigned input, weight; ///< arguments of the kernel
    int64_t k;
    DotStep step;
  };
  struct Finish { // results of one group of 16 columns
    CpuKernelBuilder &b;
    Value row, column;                   ///< of the whole result
    Value valid;                         ///< columns that exist, or null: all 16
    llvm::DenseMap<Value, Value> values; ///< widened vectors
  };

  bool collect(KernelOp kernel, const CpuTarget &target);
  bool isEpilogue(Operation &op) const;
  void chooseTilings(const CpuTarget &target);

  void emitTile(CpuKernelBuilder &b, const Tiling &tiling, Value row, Value rowEnd, Value panel,
                int64_t panels) const;
  void emitProduct(CpuKernelBuilder &b, const Root &root, const Tiling &tiling, Value row,
                   Value rowEnd, Value panel, int64_t panels, Pointer tile) const;
  void finishColumns(Finish &finish) const;
  Value getOperand(Finish &finish, Value value) const;

  mutable KernelOp kernel; // its accessors are not const
  SmallVector<Root> roots;
  SmallVector<Operation *> epilogue;
  AffineExpr rows;
  int64_t n = 0;
  SmallVector<Tiling> tilings;
};

std::unique_ptr<KernelForm> MatmulForm::create(KernelOp kernel, const CpuTarget &target) {
  auto form = std::make_unique<MatmulForm>();
  if (!form->collect(kernel, target))
    return nullptr;
  form->chooseTilings(target);
  return form;
}

bool MatmulForm::collect(KernelOp op, const CpuTarget &target) {
  kernel = op;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    auto matmul = dyn_cast<MatmulOp>(op);
    if (!matmul) {
      epilogue.push_back(&op);
      continue;
    }
    auto input = dyn_cast<BlockArgument>(matmul.getInput());
    auto weight = dyn_cast<BlockArgument>(matmul.getWeight());
    auto layout = dyn_cast_or_null<PackedAttr>(typeOf(matmul.getWeight()).getEncoding());
    if (!input || !weight || !layout || layout.getN() != kLanes || typeOf(weight).getRank() != 2)
      return false;
    auto step = DotStep::get(target, typeOf(weight).getElementType(),
                             typeOf(input).getElementType(), layout.getK());
    if (!step || typeOf(matmul.getResult()).getElementType().isF64())
      return false;
    roots.push_back(
        {matmul, input.getArgNumber(), weight.getArgNumber(), typeOf(weight).getDimSize(1), *step});
  }
  if (roots.empty())
    return false;
  SmallVector<AffineExpr> dims = getDims(typeOf(roots[0].result));
  for (const Root &root : roots)
    if (getDims(typeOf(root.result)) != dims)
      return false;
  n = typeOf(roots[0].result).getShape().back();
  rows = getAffineConstantExpr(1, kernel.getContext());
  for (AffineExpr size : ArrayRef(dims).drop_back())
    rows = rows * size;
  return llvm::all_of(epilogue, [&](Operation *op) { return isEpilogue(*op); });
}

// Every value has the shape of the products, or is a constant of which all elements are equal.
bool MatmulForm::isEpilogue(Operation &op) const {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue()) &&
           isa<FloatType, IntegerType>(constant.getValue().getElementType());
  SmallVector<AffineExpr> dims = getDims(typeOf(roots[0].result));
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    // Of a constant, or of one vector over the columns (a bias).
    RankedTensorType input = typeOf(broadcast.getInput());
    bool columns = isa<BlockArgument>(broadcast.getInput()) && input.getRank() == 1 &&
                   broadcast.getDimensions()[0] == static_cast<int64_t>(dims.size()) - 1 &&
                   getDims(input)[0] == dims.back();
    bool constant = broadcast.getInput().getDefiningOp<ConstantOp>() != nullptr;
    return (columns || constant) && getDims(typeOf(broadcast.getResult())) == dims;
  }
  if (!isa<ElementwiseOpInterface>(op) || op.getNumResults() != 1)
    return false;
  for (Value operand : op.getOperands())
    if (getDims(typeOf(operand)) != dims || typeOf(operand).getElementType().isInteger(1))
      return false;
  return getDims(typeOf(op.getResult(0))) == dims &&
         !typeOf(op.getResult(0)).getElementType().isInteger(1);
}

void MatmulForm::chooseTilings(const CpuTarget &target) {
  int64_t panels = llvm::divideCeilSigned(n, kLanes);
  // A stream of weights is cut into items of a few panels, equally for two and four threads.
  int64_t chunk = 1;
  for (int64_t c : {4, 3, 2})
    if (panels % (4 * c) == 0) {
      chunk = c;
      break;
    }
  bool one = rows == getAffineConstantExpr(1, kernel.getContext());
  if (one || isa<AffineSymbolExpr>(rows))
    tilings.push_back({"one", 1, 1, 1, chunk, 0, 2});
  if (one)
    return;
  if (isa<AffineSymbolExpr>(rows)) {
    tilings.push_back({"few", 4, 4, 1, chunk, 0, 1});
    // Still one stream, while tiles of three panels read three.
    if (target.avx512)
      tilings.push_back({"several", 8, 8, 1, chunk, 0, 1});
  }
  // 16 lanes are one register, two or four.
  if (target.avx512)
    tilings.push_back({"many", 0, 8, 3, 3, 128, 1});
  else if (target.fma)
    tilings.push_back({"many", 0, 6, 1, 1, 96, 1});
  else
    tilings.push_back({"many", 0, 3, 1, 1, 96, 1});
}

SmallVector<KernelVariant> MatmulForm::getVariants() const {
  SmallVector<KernelVariant> variants;
  AffineExpr panels = getAffineConstantExpr(llvm::divideCeilSigned(n, kLanes), rows.getContext());
  for (const Tiling &tiling : tilings) {
    KernelVariant variant;
    variant.symbol = tiling.name;
    if (auto size = dyn_cast<AffineSymbolExpr>(rows); size && tiling.maxRows)
      variant.guards.push_back({getSymbolName(size).str(), 1, tiling.maxRows});
    variant.grid.push_back(panels.ceilDiv(tiling.itemPanels));
    if (tiling.itemRows)
      variant.grid.push_back(rows.ceilDiv(tiling.itemRows));
    variants.push_back(std::move(variant));
  }
  return variants;
}

LogicalResult MatmulForm::emit(unsigned variant, CpuKernelBuilder &b) const {
  const Tiling &tiling = tilings[variant];
  int64_t allPanels = llvm::divideCeilSigned(n, kLanes);
  Value first = b.mul(b.getId(0), tiling.itemPanels);
  Value panelEnd = b.min(b.add(first, tiling.itemPanels), b.constant(allPanels));
  Value allRows = tiling.maxRows == 1 ? b.constant(1) : b.getSize(rows);
  Value rowBegin = tiling.itemRows ? b.mul(b.getId(1), tiling.itemRows) : b.constant(0);
  Value rowEnd = tiling.itemRows ? b.min(b.add(rowBegin, tiling.itemRows), allRows) : allRows;
  auto emitRows = [&](Value panel, int64_t panels) {
    if (tiling.rows == 1)
      return emitTile(b, tiling, rowBegin, rowEnd, panel, panels);
    b.createFor(rowBegin, rowEnd, tiling.rows,
                [&](Value row) { emitTile(b, tiling, row, rowEnd, panel, panels); });
  };
  b.createFor(first, panelEnd, tiling.panels, [&](Value panel) {
    int64_t tail = allPanels % tiling.panels;
    if (tail == 0)
      return emitRows(panel, tiling.panels);
    if (allPanels < tiling.panels)
      return emitRows(panel, tail);
    b.createIf(
        b.less(b.constant(allPanels - tiling.panels), panel), [&] { emitRows(panel, tail); },
        [&] { emitRows(panel, tiling.panels); });
  });
  return success();
}

void MatmulForm::emitTile(CpuKernelBuilder &b, const Tiling &tiling, Value row, Value rowEnd,
                          Value panel, int64_t panels) const {
  int64_t width = panels * kLanes;
  SmallVector<Pointer> products;
  for (const Root &root : roots) {
    products.push_back(b.createLocal(b.f32(), tiling.rows * width));
    emitProduct(b, root, tiling, row, rowEnd, panel, panels, products.back());
  }

  auto finishRow = [&](Value tileRow, Value resultRow) {
    for (int64_t p = 0; p < panels; ++p) {
      Value column = b.mul(b.add(panel, p), kLanes);
      Finish finish{b, resultRow, column, Value(), llvm::DenseMap<Value, Value>()};
      if (n % kLanes)
        finish.valid = b.min(b.sub(b.constant(n), column), b.constant(kLanes));
      for (auto [root, tile] : llvm::zip_equal(roots, products)) {
        Value product =
            b.load(tile, b.add(b.mul(tileRow, width), p * kLanes), b.vector(kLanes, b.f32()));
        Value result = root.result;
        // The product is rounded to its own type first.
        finish.values[result] =
            widen(b.getBuilder(), b.getLoc(),
                  narrow(b.getBuilder(), b.getLoc(), product, typeOf(result).getElementType()));
      }
      finishColumns(finish);
    }
  };
  if (tiling.rows == 1)
    return finishRow(b.constant(0), row);
  Value count = b.min(b.sub(rowEnd, row), b.constant(tiling.rows));
  b.createFor(b.constant(0), count, 1, [&](Value r) { finishRow(r, b.add(row, r)); });
}

void MatmulForm::emitProduct(CpuKernelBuilder &b, const Root &root, const Tiling &tiling, Value row,
                             Value rowEnd, Value panel, int64_t panels, Pointer tile) const {
  int64_t depth = root.step.getDepth();
  int64_t fullSteps = root.k / depth, allSteps = llvm::divideCeilSigned(root.k, depth);
  Pointer weight = b.getArgument(root.weight), input = b.getArgument(root.input);

  // Rows beyond the end repeat the last one.
  SmallVector<Pointer> inputRows, weightPanels;
  Value last = b.sub(rowEnd, b.constant(1));
  for (int64_t r = 0; r < tiling.rows; ++r) {
    Value index = r == 0 ? row : b.min(b.add(row, r), last);
    inputRows.push_back(b.at(input, b.mul(index, root.k)));
  }
  for (int64_t p = 0; p < panels; ++p)
    weightPanels.push_back(b.at(weight, b.mul(b.add(panel, p), allSteps * depth * kLanes)));

  SmallVector<Value> sums(tiling.rows * panels, b.floatConstant(b.vector(kLanes, b.f32()), 0.0));
  auto step = [&](Value s, MutableArrayRef<Value> sums, int64_t count) {
    SmallVector<DotStep::Operand> lanes;
    Value place = b.mul(s, depth * kLanes), k = b.mul(s, depth);
    for (Pointer panel : weightPanels)
      lanes.push_back(root.step.loadLanes(b, panel, place));
    for (int64_t r = 0; r < tiling.rows; ++r) {
      DotStep::Operand scalars = root.step.loadScalars(b, inputRows[r], k, count);
      for (int64_t p = 0; p < panels; ++p) {
        Value &sum = sums[r * panels + p];
        sum = root.step.accumulate(b, sum, lanes[p], scalars);
      }
    }
  };
  int64_t unrolled = fullSteps - fullSteps % tiling.unroll;
  sums = b.createFor(b.constant(0), b.constant(unrolled), tiling.unroll, sums,
                     [&](Value s, ValueRange iteration) {
                       SmallVector<Value> next = llvm::to_vector(iteration);
                       for (int64_t u = 0; u < tiling.unroll; ++u)
                         step(b.add(s, u), next, depth);
                       return next;
                     });
  for (int64_t s = unrolled; s < fullSteps; ++s)
    step(b.constant(s), sums, depth);
  if (fullSteps < allSteps)
    step(b.constant(fullSteps), sums, root.k % depth);

  for (auto [index, sum] : llvm::enumerate(sums))
    b.store(sum, tile, b.constant(index * kLanes));
}

Value MatmulForm::getOperand(Finish &finish, Value value) const {
  if (Value known = finish.values.lookup(value))
    return known;
  // An argument of the results' shape, or a vector over the columns.
  CpuKernelBuilder &b = finish.b;
  Pointer buffer = b.getArgument(cast<BlockArgument>(value).getArgNumber());
  Value index = finish.column;
  if (getDims(typeOf(value)) == getDims(typeOf(roots[0].result)))
    index = b.add(b.mul(finish.row, n), index);
  VectorType type = b.vector(kLanes, buffer.element);
  Value loaded =
      finish.valid ? b.loadMasked(buffer, index, type, finish.valid) : b.load(buffer, index, type);
  return finish.values[value] = widen(b.getBuilder(), b.getLoc(), loaded);
}

void MatmulForm::finishColumns(Finish &finish) const {
  CpuKernelBuilder &b = finish.b;
  OpBuilder &builder = b.getBuilder();
  for (Operation *op : epilogue) {
    Type element = typeOf(op->getResult(0)).getElementType();
    Value result;
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto splat = cast<SplatElementsAttr>(constant.getValue());
      if (isa<FloatType>(element)) {
        Type wide = element.isF64() ? element : b.f32();
        result = b.floatConstant(b.vector(kLanes, wide),
                                 splat.getSplatValue<FloatAttr>().getValueAsDouble());
      } else {
        result =
            b.intConstant(b.vector(kLanes, element), splat.getSplatValue<APInt>().getSExtValue());
      }
    } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      result = getOperand(finish, broadcast.getInput());
    } else {
      SmallVector<Value> args;
      for (Value operand : op->getOperands())
        args.push_back(getOperand(finish, operand));
      result = cast<ElementwiseOpInterface>(op).emitScalar(builder, b.getLoc(), args);
      result = widen(builder, b.getLoc(), narrow(builder, b.getLoc(), result, element));
    }
    finish.values[op->getResult(0)] = result;
  }

  Operation *yield = kernel.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(yield->getOperands())) {
    Value result =
        narrow(builder, b.getLoc(), getOperand(finish, value), typeOf(value).getElementType());
    Value place = b.add(b.mul(finish.row, n), finish.column);
    if (finish.valid)
      b.storeMasked(result, b.getResult(index), place, finish.valid);
    else
      b.store(result, b.getResult(index), place);
  }
}
} // namespace

std::unique_ptr<KernelForm> createMatmulForm(KernelOp kernel, const CpuTarget &target) {
  return MatmulForm::create(kernel, target);
}

} // namespace adapt::cpu
