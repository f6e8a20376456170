// Matmuls with a packed weight and what follows element by element.
//
// Weights lie in panels of 16 rows. A tile of `rows` tokens by `panels` panels is accumulated in
// registers over all of K, put down on the stack, and finished row by row: each following operation
// works on 16 results at once.
#include "CodeGen/Common/MatmulRegion.h"
#include "DotStep.h"
#include "KernelForm.h"

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
  MatmulForm(MatmulRegion region) : region(std::move(region)) {}
  void chooseTilings(const CpuTarget &target);

  void emitTile(CpuKernelBuilder &b, const Tiling &tiling, Value row, Value rowEnd, Value panel,
                int64_t panels) const;
  void emitProduct(CpuKernelBuilder &b, const MatmulRegion::Root &root, const DotStep &dot,
                   const Tiling &tiling, Value row, Value rowEnd, Value panel, int64_t panels,
                   Pointer tile) const;

  MatmulRegion region;
  SmallVector<DotStep> steps; ///< of each root
  SmallVector<Tiling> tilings;
};

std::unique_ptr<KernelForm> MatmulForm::create(KernelOp kernel, const CpuTarget &target) {
  SmallVector<DotStep> steps;
  auto region = MatmulRegion::match(kernel, [&](MatmulOp matmul) {
    RankedTensorType weight = typeOf(matmul.getWeight());
    auto layout = dyn_cast_or_null<PackedAttr>(weight.getEncoding());
    if (!layout || layout.getN() != kLanes)
      return false;
    auto step = DotStep::get(target, weight.getElementType(),
                             typeOf(matmul.getInput()).getElementType(), layout.getK());
    if (step)
      steps.push_back(*step);
    return step.has_value();
  });
  if (!region)
    return nullptr;
  std::unique_ptr<MatmulForm> form(new MatmulForm(std::move(*region)));
  form->steps = std::move(steps);
  form->chooseTilings(target);
  return form;
}

void MatmulForm::chooseTilings(const CpuTarget &target) {
  AffineExpr rows = region.getRows();
  int64_t n = region.getN();
  int64_t panels = llvm::divideCeilSigned(n, kLanes);
  // A stream of weights is cut into items of a few panels, equally for two and four threads.
  int64_t chunk = 1;
  for (int64_t c : {4, 3, 2})
    if (panels % (4 * c) == 0) {
      chunk = c;
      break;
    }
  bool one = rows == getAffineConstantExpr(1, rows.getContext());
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
  AffineExpr rows = region.getRows();
  AffineExpr panels =
      getAffineConstantExpr(llvm::divideCeilSigned(region.getN(), kLanes), rows.getContext());
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
  int64_t allPanels = llvm::divideCeilSigned(region.getN(), kLanes);
  Value first = b.mul(b.getId(0), tiling.itemPanels);
  Value panelEnd = b.min(b.add(first, tiling.itemPanels), b.constant(allPanels));
  Value allRows = tiling.maxRows == 1 ? b.constant(1) : b.getSize(region.getRows());
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
  int64_t width = panels * kLanes, n = region.getN();
  SmallVector<Pointer> tiles;
  for (auto [root, step] : llvm::zip_equal(region.getRoots(), steps)) {
    tiles.push_back(b.createLocal(b.f32(), tiling.rows * width));
    emitProduct(b, root, step, tiling, row, rowEnd, panel, panels, tiles.back());
  }

  auto finishRow = [&](Value tileRow, Value resultRow) {
    for (int64_t p = 0; p < panels; ++p) {
      MatmulRegion::Place place{resultRow, b.mul(b.add(panel, p), kLanes), kLanes, Value()};
      if (n % kLanes)
        place.valid = b.min(b.sub(b.constant(n), place.column), b.constant(kLanes));
      SmallVector<Value> products;
      for (Pointer tile : tiles)
        products.push_back(
            b.load(tile, b.add(b.mul(tileRow, width), p * kLanes), b.vector(kLanes, b.f32())));
      region.finish(b, place, products);
    }
  };
  if (tiling.rows == 1)
    return finishRow(b.constant(0), row);
  Value count = b.min(b.sub(rowEnd, row), b.constant(tiling.rows));
  b.createFor(b.constant(0), count, 1, [&](Value r) { finishRow(r, b.add(row, r)); });
}

void MatmulForm::emitProduct(CpuKernelBuilder &b, const MatmulRegion::Root &root,
                             const DotStep &dot, const Tiling &tiling, Value row, Value rowEnd,
                             Value panel, int64_t panels, Pointer tile) const {
  int64_t depth = dot.getDepth();
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
      lanes.push_back(dot.loadLanes(b, panel, place));
    for (int64_t r = 0; r < tiling.rows; ++r) {
      DotStep::Operand scalars = dot.loadScalars(b, inputRows[r], k, count);
      for (int64_t p = 0; p < panels; ++p) {
        Value &sum = sums[r * panels + p];
        sum = dot.accumulate(b, sum, lanes[p], scalars);
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

} // namespace

std::unique_ptr<KernelForm> createMatmulForm(KernelOp kernel, const CpuTarget &target) {
  return MatmulForm::create(kernel, target);
}

} // namespace adapt::cpu
