// ONNX operators that combine elements along axes.
#include "Node.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

namespace {

void importReduce(Node &node) {
  StringRef op = node.op();
  bool keepAxes = node.integer("keepdims", 1) != 0;
  bool emptyMeansNone = node.integer("noop_with_empty_axes", 0) != 0;
  auto given = node.optionalAxes(op == "ReduceSum" ? 13 : 18);
  RankedTensorType type = node.type(0);
  if (node.failed())
    return;
  SmallVector<int64_t> axes;
  if (given && !given->empty())
    axes = node.axes(*given, type.getRank());
  else if (!emptyMeansNone)
    axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  if (op == "ReduceProd")
    if (const Contents *contents = node.knownContents(0); contents && type.getRank() == 1) {
      AffineExpr product = node.size(1);
      for (AffineExpr size : *contents)
        product = product * size;
      SmallVector<int64_t> shape(keepAxes ? 1 : 0, 1);
      return node.setContents(0, {product}, RankedTensorType::get(shape, type.getElementType()));
    }
  Value value = node.tensor(0);
  if (node.failed())
    return;
  bool isFloating = isFloat(value);
  if (!isFloating && (op == "ReduceL2" || op.starts_with("ReduceLog")))
    return node.fail("of integers is not supported");
  if (type.getElementType().isInteger(1))
    return node.fail("of booleans is not supported");
  auto reduce = [&](Value from, ReduceKind kind) {
    return node.reduce(from, kind, axes, keepAxes);
  };
  auto absolute = [&](Value from) {
    return isFloating ? node.unary<AbsOp>(from)
                      : node.binary<MaximumOp>(from, node.binary<SubOp>(node.splat(from, 0), from));
  };
  Value result;
  if (op == "ReduceSum")
    result = reduce(value, ReduceKind::Sum);
  else if (op == "ReduceMean")
    result = reduce(value, ReduceKind::Mean);
  else if (op == "ReduceMax")
    result = reduce(value, ReduceKind::Max);
  else if (op == "ReduceMin")
    result = reduce(value, ReduceKind::Min);
  else if (op == "ReduceProd")
    result = reduce(value, ReduceKind::Prod);
  else if (op == "ReduceSumSquare")
    result = reduce(node.binary<MulOp>(value, value), ReduceKind::Sum);
  else if (op == "ReduceL1")
    result = reduce(absolute(value), ReduceKind::Sum);
  else if (op == "ReduceL2")
    result = node.unary<SqrtOp>(reduce(node.binary<MulOp>(value, value), ReduceKind::Sum));
  else if (op == "ReduceLogSum")
    result = node.unary<LogOp>(reduce(value, ReduceKind::Sum));
  else
    result = node.unary<LogOp>(reduce(node.unary<ExpOp>(value), ReduceKind::Sum));
  node.set(0, result);
}

void importGlobalAveragePool(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  if (typeOf(value).getRank() < 3 || !isFloat(value))
    return node.fail("needs [N, C, x…] of floating-point numbers");
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(2, typeOf(value).getRank()));
  bool isMax = node.op() == "GlobalMaxPool";
  node.set(0, node.reduce(value, isMax ? ReduceKind::Max : ReduceKind::Mean, axes, true));
}

/// result[…, i, …] sums what stands at the places up to i: a sum over all places j of the elements
/// with j <= i.
void importCumSum(Node &node) {
  Value value = node.tensor(0);
  SmallVector<int64_t> given = node.integers(1);
  bool exclusive = node.integer("exclusive", 0) != 0, reverse = node.integer("reverse", 0) != 0;
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  if (given.size() != 1)
    return node.fail("needs one axis");
  int64_t axis = node.axis(given[0], dims.size());
  if (node.failed())
    return;
  // [a, n, b] -> [a, n(i), b, n(j)]: the summed places last.
  AffineExpr outer = node.size(1), inner = node.size(1), n = dims[axis];
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i)
    if (i != axis)
      (i < axis ? outer : inner) = (i < axis ? outer : inner) * dims[i];
  outer = canonicalizeSize(outer);
  inner = canonicalizeSize(inner);
  Value flat = node.transpose(node.reshape(value, {outer, n, inner}), {0, 2, 1});
  SmallVector<AffineExpr> spread = {outer, n, inner, n};
  Value all = node.create<BroadcastOp>(getTensorType(spread, typeOf(value).getElementType()), flat,
                                       ArrayRef<int64_t>{0, 2, 3});
  Type i64 = node.builder().getI64Type();
  Value i = node.iotaAlong(spread, 1, i64, node.size(0));
  Value j = node.iotaAlong(spread, 3, i64, node.size(0));
  Predicate predicate = reverse ? (exclusive ? Predicate::Greater : Predicate::GreaterEqual)
                                : (exclusive ? Predicate::Less : Predicate::LessEqual);
  Value taken = node.select(node.compare(predicate, j, i), all, node.splat(all, 0));
  Value sums = node.reduce(taken, ReduceKind::Sum, {3}, /*keepAxes=*/false);
  node.set(0, node.reshape(sums, dims));
}
} // namespace

ArrayRef<Handler> import::getReductionHandlers() {
  static constexpr Handler kHandlers[] = {
      {"CumSum", 11, importCumSum},
      {"GlobalAveragePool", 1, importGlobalAveragePool},
      {"GlobalMaxPool", 1, importGlobalAveragePool},
      {"ReduceL1", 1, importReduce},
      {"ReduceL1", 18, importReduce},
      {"ReduceL2", 1, importReduce},
      {"ReduceL2", 18, importReduce},
      {"ReduceLogSum", 1, importReduce},
      {"ReduceLogSum", 18, importReduce},
      {"ReduceLogSumExp", 1, importReduce},
      {"ReduceLogSumExp", 18, importReduce},
      {"ReduceMax", 1, importReduce},
      {"ReduceMax", 18, importReduce},
      {"ReduceMean", 1, importReduce},
      {"ReduceMean", 18, importReduce},
      {"ReduceMin", 1, importReduce},
      {"ReduceMin", 18, importReduce},
      {"ReduceProd", 1, importReduce},
      {"ReduceProd", 18, importReduce},
      {"ReduceSum", 1, importReduce},
      {"ReduceSum", 13, importReduce},
      {"ReduceSumSquare", 1, importReduce},
      {"ReduceSumSquare", 18, importReduce},
  };
  return kHandlers;
}
