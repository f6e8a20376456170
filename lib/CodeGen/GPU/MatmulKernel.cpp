// Matmuls with a row-major weight and what follows element by element, without tensor cores.
//
// For few rows a warp computes one column: its lanes read the weight's row side by side, in vectors
// along K, once for all rows, and add up by shuffles. For many rows a block computes a tile of 64 x
// 64 from slices of both operands in shared memory, 4 x 4 results in each thread.
#include "CodeGen/Common/MatmulRegion.h"
#include "KernelForm.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace adapt::gpu {
namespace {
constexpr int64_t kThreads = 256;
constexpr int64_t kTile = 64, kPart = 4, kSlice = 16;
// A row of a slice in shared memory: four more than the tile, so that the threads that store a
// column reach other banks.
constexpr int64_t kPitch = kTile + kPart;
constexpr int64_t kFewRows = 4;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

int64_t largestPowerOfTwo(int64_t divisor, int64_t limit) {
  int64_t power = 1;
  while (power < limit && divisor % (2 * power) == 0)
    power *= 2;
  return power;
}

class MatmulForm : public KernelForm {
public:
  MatmulForm(MatmulRegion region, const GpuTarget &target)
      : region(std::move(region)), warp(target.warp) {
    AffineExpr rows = this->region.getRows();
    if (auto count = dyn_cast<AffineConstantExpr>(rows)) {
      tilings = {count.getValue() <= kFewRows
                     ? std::pair<StringRef, int64_t>{"few", count.getValue()}
                     : std::pair<StringRef, int64_t>{"many", 0}};
      return;
    }
    if (isa<AffineSymbolExpr>(rows))
      tilings = {{"one", 1}, {"few", kFewRows}};
    tilings.push_back({"many", 0});
  }

  StringRef getName() const override { return "matmul"; }
  SmallVector<KernelVariant> getVariants() const override;
  LogicalResult emit(unsigned variant, GpuKernelBuilder &b) const override {
    if (int64_t rows = tilings[variant].second)
      emitColumns(b, rows);
    else
      emitTile(b);
    return success();
  }

private:
  void emitColumns(GpuKernelBuilder &b, int64_t rows) const;
  void emitTile(GpuKernelBuilder &b) const;

  MatmulRegion region;
  int64_t warp;
  SmallVector<std::pair<StringRef, int64_t>> tilings; ///< name, rows of a column's; 0: tiles
};

SmallVector<KernelVariant> MatmulForm::getVariants() const {
  SmallVector<KernelVariant> variants;
  AffineExpr rows = region.getRows();
  auto count = [&](int64_t number) { return getAffineConstantExpr(number, rows.getContext()); };
  for (auto [name, few] : tilings) {
    KernelVariant variant;
    variant.symbol = name;
    variant.threads = kThreads;
    if (few) {
      if (auto size = dyn_cast<AffineSymbolExpr>(rows))
        variant.guards.push_back({getSymbolName(size).str(), 1, few});
      variant.grid = {count(llvm::divideCeilSigned(region.getN(), kThreads / warp))};
    } else {
      variant.grid = {rows.ceilDiv(kTile), count(llvm::divideCeilSigned(region.getN(), kTile))};
      variant.sharedBytes = region.getRoots().size() * 2 * kSlice * kPitch * 4;
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

void MatmulForm::emitColumns(GpuKernelBuilder &b, int64_t rows) const {
  OpBuilder &builder = b.getBuilder();
  Location loc = b.getLoc();
  int64_t n = region.getN(), warps = b.getWarps();
  bool isSymbolic = !isa<AffineConstantExpr>(region.getRows());
  Value count = rows > 1 && isSymbolic ? b.getSize(region.getRows()) : b.constant(rows);
  Value column = b.add(b.mul(b.getId(0), warps), b.getWarp());

  auto emitColumn = [&] {
    SmallVector<SmallVector<Value>> products; // of each root and row
    for (const MatmulRegion::Root &root : region.getRoots()) {
      Pointer weight = b.getArgument(root.weight), input = b.getArgument(root.input);
      int64_t widest = std::max(getBytes(weight.element), getBytes(input.element));
      int64_t lanes = largestPowerOfTwo(root.k, 16 / widest);
      weight = b.at(weight, b.mul(column, root.k));
      SmallVector<Pointer> inputRows;
      for (int64_t r = 0; r < rows; ++r) { // rows beyond the end repeat the last one
        Value row = r == 0 ? b.constant(0) : b.min(b.constant(r), b.sub(count, b.constant(1)));
        inputRows.push_back(b.at(input, b.mul(row, root.k)));
      }
      auto loadWide = [&](Pointer pointer, Value index) {
        if (lanes == 1)
          return widen(builder, loc, b.load(pointer, index));
        return widen(builder, loc,
                     b.load(pointer, index, b.vector(lanes, pointer.element),
                            lanes * getBytes(pointer.element)));
      };
      Type sumType = lanes == 1 ? Type(b.f32()) : b.vector(lanes, b.f32());
      SmallVector<Value> sums(rows, b.floatConstant(sumType, 0.0));
      sums = b.createFor(b.mul(b.getLane(), lanes), b.constant(root.k), lanes * warp, sums,
                         [&](Value k, ValueRange iteration) {
                           SmallVector<Value> next;
                           Value w = loadWide(weight, k);
                           for (auto [row, sum] : llvm::zip_equal(inputRows, iteration)) {
                             Value product =
                                 arith::MulFOp::create(builder, loc, loadWide(row, k), w);
                             next.push_back(arith::AddFOp::create(builder, loc, sum, product));
                           }
                           return next;
                         });
      auto &results = products.emplace_back();
      for (Value sum : sums) {
        Value whole = sum;
        if (lanes > 1)
          whole = vector::ReductionOp::create(builder, loc, vector::CombiningKind::ADD, sum,
                                              arith::FastMathFlags::reassoc);
        results.push_back(b.addWarp(whole));
      }
    }

    // Lane r finishes row r.
    b.createIf(b.less(b.getLane(), count), [&] {
      SmallVector<Value> mine;
      for (ArrayRef<Value> results : products) {
        Value value = results[0];
        for (int64_t r = 1; r < rows; ++r)
          value = arith::SelectOp::create(builder, loc, b.equal(b.getLane(), b.constant(r)),
                                          results[r], value);
        mine.push_back(value);
      }
      region.finish(b, {b.getLane(), column, 0, Value()}, mine);
    });
  };
  if (n % warps == 0)
    return emitColumn();
  b.createIf(b.less(column, b.constant(n)), emitColumn);
}

void MatmulForm::emitTile(GpuKernelBuilder &b) const {
  OpBuilder &builder = b.getBuilder();
  Location loc = b.getLoc();
  int64_t n = region.getN();
  Value rows = b.getSize(region.getRows());
  Value firstRow = b.mul(b.getId(0), kTile), firstColumn = b.mul(b.getId(1), kTile);
  // Threads as 16 x 16, four rows and four columns each.
  Value threadRow = b.mul(b.div(b.getThread(), kTile / kPart), kPart);
  Value threadColumn = b.mul(b.rem(b.getThread(), kTile / kPart), kPart);
  // To load, a thread takes four elements along K of one row.
  Value loadRow = b.div(b.getThread(), kSlice / kPart);
  Value loadK = b.mul(b.rem(b.getThread(), kSlice / kPart), kPart);
  VectorType part = b.vector(kPart, b.f32());

  SmallVector<SmallVector<Value>> products;
  for (const MatmulRegion::Root &root : region.getRoots()) {
    Pointer inputs = b.createShared(b.f32(), kSlice * kPitch);
    Pointer weights = b.createShared(b.f32(), kSlice * kPitch);
    // Rows and columns beyond the end repeat the last one.
    Value last = b.sub(rows, b.constant(1));
    Pointer input =
        b.at(b.getArgument(root.input), b.mul(b.min(b.add(firstRow, loadRow), last), root.k));
    Pointer weight = b.at(b.getArgument(root.weight),
                          b.mul(b.min(b.add(firstColumn, loadRow), b.constant(n - 1)), root.k));

    auto loadSlice = [&](Pointer from, Pointer to, Value k) {
      auto keep = [&](Value value, int64_t i) {
        b.store(value, to, b.add(b.mul(b.add(loadK, i), kPitch), loadRow));
      };
      if (root.k % kPart == 0) {
        // Four elements exist or none.
        Value zero = b.floatConstant(part, 0.0);
        Value values = zero;
        auto load = [&](Value at) {
          return widen(
              builder, loc,
              b.load(from, at, b.vector(kPart, from.element), kPart * getBytes(from.element)));
        };
        Value at = b.add(k, loadK);
        if (root.k % kSlice == 0) {
          values = load(at);
        } else {
          Value exists = b.less(at, b.constant(root.k));
          values = load(b.min(at, b.constant(root.k - kPart)));
          values = arith::SelectOp::create(builder, loc, exists, values, zero);
        }
        for (int64_t i = 0; i < kPart; ++i)
          keep(vector::ExtractOp::create(builder, loc, values, i), i);
        return;
      }
      for (int64_t i = 0; i < kPart; ++i) {
        Value at = b.add(b.add(k, loadK), i);
        Value exists = b.less(at, b.constant(root.k));
        Value value = widen(builder, loc, b.load(from, b.min(at, b.constant(root.k - 1))));
        keep(arith::SelectOp::create(builder, loc, exists, value, b.floatConstant(b.f32(), 0.0)),
             i);
      }
    };

    SmallVector<Value> sums(kPart, b.floatConstant(part, 0.0)); // of each row
    sums = b.createFor(
        b.constant(0), b.constant(root.k), kSlice, sums, [&](Value k, ValueRange iteration) {
          b.barrier(); // the slices before may still be read
          loadSlice(input, inputs, k);
          loadSlice(weight, weights, k);
          b.barrier();
          return b.createFor(
              b.constant(0), b.constant(kSlice), 1, iteration, [&](Value i, ValueRange inner) {
                SmallVector<Value> next;
                Value line = b.mul(i, kPitch);
                Value x = b.load(inputs, b.add(line, threadRow), part, 16);
                Value w = b.load(weights, b.add(line, threadColumn), part, 16);
                for (auto [r, sum] : llvm::enumerate(inner)) {
                  Value scalar = vector::ExtractOp::create(builder, loc, x, r);
                  Value product =
                      arith::MulFOp::create(builder, loc, b.broadcast(scalar, kPart), w);
                  next.push_back(arith::AddFOp::create(builder, loc, sum, product));
                }
                return next;
              });
        });
    products.push_back(std::move(sums));
  }

  Value column = b.add(firstColumn, threadColumn);
  for (int64_t r = 0; r < kPart; ++r) {
    Value row = b.add(b.add(firstRow, threadRow), r);
    auto finish = [&](Value at, std::optional<int64_t> element) {
      SmallVector<Value> mine;
      for (ArrayRef<Value> sums : products)
        mine.push_back(element
                           ? vector::ExtractOp::create(builder, loc, sums[r], *element).getResult()
                           : sums[r]);
      MatmulRegion::Place place{row, at, element ? 0 : kPart, Value()};
      place.alignment = element ? 0 : kPart;
      region.finish(b, place, mine);
    };
    b.createIf(b.less(row, rows), [&] {
      if (n % kTile == 0)
        return finish(column, std::nullopt);
      if (n % kPart == 0)
        return b.createIf(b.less(column, b.constant(n)), [&] { finish(column, std::nullopt); });
      for (int64_t c = 0; c < kPart; ++c) {
        Value at = b.add(column, c);
        b.createIf(b.less(at, b.constant(n)), [&] { finish(at, c); });
      }
    });
  }
}
} // namespace

std::unique_ptr<KernelForm> createMatmulForm(KernelOp kernel, const GpuTarget &target) {
  auto region = MatmulRegion::match(kernel, [](MatmulOp matmul) {
    Type input = typeOf(matmul.getInput()).getElementType();
    Type weight = typeOf(matmul.getWeight()).getElementType();
    auto suits = [](Type type) { return isa<FloatType>(type) && !type.isF64(); };
    return !typeOf(matmul.getWeight()).getEncoding() && suits(input) && suits(weight) &&
           typeOf(matmul.getWeight()).getNumElements() > 0;
  });
  return region ? std::make_unique<MatmulForm>(std::move(*region), target) : nullptr;
}

} // namespace adapt::gpu
