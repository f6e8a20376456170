#include "MatmulRegion.h"
#include "dialects/Adapt/ToLinalg.h"

using namespace mlir;

namespace adapt::codegen {
namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
} // namespace

std::optional<MatmulRegion> MatmulRegion::match(KernelOp kernel,
                                                function_ref<bool(MatmulOp)> accepts) {
  MatmulRegion region;
  region.kernel = kernel;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    auto matmul = dyn_cast<MatmulOp>(op);
    if (!matmul) {
      region.epilogue.push_back(&op);
      continue;
    }
    auto input = dyn_cast<BlockArgument>(matmul.getInput());
    auto weight = dyn_cast<BlockArgument>(matmul.getWeight());
    if (!input || !weight || typeOf(weight).getRank() != 2 || !typeOf(weight).hasStaticShape() ||
        typeOf(matmul.getResult()).getElementType().isF64() || !accepts(matmul))
      return std::nullopt;
    region.roots.push_back(
        {matmul, input.getArgNumber(), weight.getArgNumber(), typeOf(weight).getDimSize(1)});
  }
  if (region.roots.empty())
    return std::nullopt;
  SmallVector<AffineExpr> dims = getDims(typeOf(region.roots[0].op.getResult()));
  for (Root &root : region.roots)
    if (getDims(typeOf(root.op.getResult())) != dims)
      return std::nullopt;
  region.n = typeOf(region.roots[0].op.getResult()).getShape().back();
  region.rows = getAffineConstantExpr(1, kernel.getContext());
  for (AffineExpr size : ArrayRef(dims).drop_back())
    region.rows = region.rows * size;
  if (!llvm::all_of(region.epilogue, [&](Operation *op) { return region.isEpilogue(*op); }))
    return std::nullopt;
  return region;
}

// Every value has the shape of the products, or is a constant of which all elements are equal.
bool MatmulRegion::isEpilogue(Operation &op) const {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue()) &&
           isa<FloatType, IntegerType>(constant.getValue().getElementType());
  MatmulOp first = roots[0].op;
  SmallVector<AffineExpr> dims = getDims(typeOf(first.getResult()));
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

/// Writes the code for one place.
class MatmulRegion::Finish {
public:
  Finish(const MatmulRegion &region, KernelBuilder &b, const Place &place)
      : region(region), b(b), builder(b.getBuilder()), loc(b.getLoc()), place(place) {}

  void run(ArrayRef<Value> products) {
    for (auto [root, product] : llvm::zip_equal(region.roots, products)) {
      MatmulOp op = root.op;
      Value result = op.getResult();
      // The product is rounded to its own type first.
      values[result] =
          widen(builder, loc, narrow(builder, loc, product, typeOf(result).getElementType()));
    }
    for (Operation *op : region.epilogue)
      values[op->getResult(0)] = compute(op);

    Operation *yield = region.kernel.getBody().front().getTerminator();
    for (auto [index, value] : llvm::enumerate(yield->getOperands())) {
      Value result = narrow(builder, loc, getOperand(value), typeOf(value).getElementType());
      Pointer to = b.getResult(index);
      Value at = b.add(b.mul(place.row, region.n), place.column);
      if (place.valid)
        b.storeMasked(result, to, at, place.valid);
      else
        b.store(result, to, at, getAlignment(to));
    }
  }

private:
  Type with(Type element) const {
    return place.lanes ? Type(b.vector(place.lanes, element)) : element;
  }
  int64_t getAlignment(Pointer pointer) const {
    return place.alignment * getBytes(pointer.element);
  }

  Value compute(Operation *op) {
    Type element = typeOf(op->getResult(0)).getElementType();
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto splat = cast<SplatElementsAttr>(constant.getValue());
      if (isa<FloatType>(element))
        return b.floatConstant(with(element.isF64() ? element : b.f32()),
                               splat.getSplatValue<FloatAttr>().getValueAsDouble());
      return b.intConstant(with(element), splat.getSplatValue<APInt>().getSExtValue());
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return getOperand(broadcast.getInput());
    SmallVector<Value> args;
    for (Value operand : op->getOperands())
      args.push_back(getOperand(operand));
    Value result = cast<ElementwiseOpInterface>(op).emitScalar(builder, loc, args);
    return widen(builder, loc, narrow(builder, loc, result, element));
  }

  Value getOperand(Value value) {
    if (Value known = values.lookup(value))
      return known;
    // An argument of the results' shape, or a vector over the columns.
    Pointer buffer = b.getArgument(cast<BlockArgument>(value).getArgNumber());
    Value index = place.column;
    MatmulOp first = region.roots[0].op;
    if (getDims(typeOf(value)) == getDims(typeOf(first.getResult())))
      index = b.add(b.mul(place.row, region.n), index);
    Type type = with(buffer.element);
    Value loaded = place.valid ? b.loadMasked(buffer, index, cast<VectorType>(type), place.valid)
                               : b.load(buffer, index, type, getAlignment(buffer));
    return values[value] = widen(builder, loc, loaded);
  }

  const MatmulRegion &region;
  KernelBuilder &b;
  OpBuilder &builder;
  Location loc;
  const Place &place;
  llvm::DenseMap<Value, Value> values; ///< widened
};

void MatmulRegion::finish(KernelBuilder &b, const Place &place, ArrayRef<Value> products) const {
  Finish(*this, b, place).run(products);
}

} // namespace adapt::codegen
