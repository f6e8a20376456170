// ONNX operators that multiply matrices.
#include "Node.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

namespace {

/// value[…, K] times a matrix of the file, [K, N] or (transposed) [N, K], which stands in a recipe.
Value multiplyByWeight(Node &node, Value value, size_t weight, bool transposed) {
  Value matrix = node.weightMatrix(weight, !transposed); // adapt.matmul wants [N, K].
  if (node.failed())
    return {};
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  AffineExpr k = getDims(typeOf(matrix))[1];
  if (dims.back() != k) {
    node.fail("input 0 has " + toString(dims.back()) + " columns, the weight " + toString(k) +
              " rows");
    return {};
  }
  dims.back() = getDims(typeOf(matrix))[0];
  return node.create<MatmulOp>(getTensorType(dims, typeOf(value).getElementType()), value, matrix);
}

/// Matrices times matrices with as many leading axes, broadcast.
Value multiplyBatches(Node &node, Value a, Value b) {
  SmallVector<AffineExpr> x = getDims(typeOf(a)), y = getDims(typeOf(b));
  SmallVector<AffineExpr> batch =
      node.commonDims(ArrayRef(x).drop_back(2), ArrayRef(y).drop_back(2));
  if (!node.failed() && !areEqualSizes(x.back(), y[y.size() - 2]))
    node.fail("input 0 has " + toString(x.back()) + " columns, input 1 " +
              toString(y[y.size() - 2]) + " rows");
  if (node.failed())
    return {};
  auto with = [&](AffineExpr rows, AffineExpr columns) {
    SmallVector<AffineExpr> dims(batch);
    dims.append({rows, columns});
    return dims;
  };
  a = node.broadcast(a, with(x[x.size() - 2], x.back()));
  b = node.broadcast(b, with(y[y.size() - 2], y.back()));
  RankedTensorType type =
      getTensorType(with(x[x.size() - 2], y.back()), typeOf(a).getElementType());
  return node.create<BatchMatmulOp>(type, a, b);
}

void importMatMul(Node &node) {
  RankedTensorType a = node.type(0), b = node.type(1);
  if (node.failed())
    return;
  if (!isa<FloatType>(a.getElementType()) || a.getElementType() != b.getElementType())
    return node.fail("of integers, or of two types, is not supported");
  if (a.getRank() == 0 || b.getRank() == 0)
    return node.fail("needs operands of rank 1 or more");
  if (node.isWeight(1) && !isa<Float64Type>(a.getElementType())) {
    Value value = node.tensor(0);
    return node.set(0, multiplyByWeight(node, value, 1, /*transposed=*/false));
  }
  // A vector is a row on the left and a column on the right; its axis vanishes after.
  Value x = node.tensor(0), y = node.tensor(1);
  SmallVector<AffineExpr> left = getDims(a), right = getDims(b);
  if (left.size() == 1)
    left.insert(left.begin(), node.size(1));
  if (right.size() == 1)
    right.push_back(node.size(1));
  Value result = multiplyBatches(node, node.reshape(x, left), node.reshape(y, right));
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(typeOf(result));
  if (b.getRank() == 1)
    dims.pop_back();
  if (a.getRank() == 1)
    dims.erase(dims.end() - (b.getRank() == 1 ? 1 : 2));
  node.set(0, node.reshape(result, dims));
}

/// alpha * A' * B' + beta * C
void importGemm(Node &node) {
  Value a = node.tensor(0);
  double alpha = node.number("alpha", 1.0), beta = node.number("beta", 1.0);
  bool transA = node.integer("transA", 0), transB = node.integer("transB", 0);
  if (node.failed())
    return;
  if (!isFloat(a) || typeOf(a).getRank() != 2)
    return node.fail("needs matrices of floating-point numbers");
  if (transA)
    a = node.transpose(a, {1, 0});
  Value result;
  if (node.isWeight(1) && !isa<Float64Type>(typeOf(a).getElementType())) {
    result = multiplyByWeight(node, a, 1, transB);
  } else {
    Value b = node.tensor(1);
    if (node.failed())
      return;
    if (typeOf(b).getRank() != 2)
      return node.fail("needs matrices of floating-point numbers");
    result = multiplyBatches(node, a, transB ? node.transpose(b, {1, 0}) : b);
  }
  if (node.failed())
    return;
  if (alpha != 1)
    result = node.binary<MulOp>(result, node.splat(result, alpha));
  if (node.has(2) && beta != 0) {
    Value c = node.broadcast(node.tensor(2), getDims(typeOf(result)));
    if (node.failed())
      return;
    if (beta != 1)
      c = node.binary<MulOp>(c, node.splat(c, beta));
    result = node.binary<AddOp>(result, c);
  }
  node.set(0, result);
}

/// Pads of each axis before and after, by `pads` or `auto_pad`.
SmallVector<int64_t> bindPads(Node &node, ArrayRef<AffineExpr> spatial, ArrayRef<int64_t> kernel,
                              ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations) {
  size_t count = spatial.size();
  SmallVector<int64_t> zeros(2 * count, 0);
  std::string mode = node.text("auto_pad", StringRef("NOTSET"));
  if (mode == "NOTSET")
    return node.integerList("pads", ArrayRef<int64_t>(zeros));
  if (mode == "VALID" || node.failed())
    return zeros;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    node.fail("attribute 'auto_pad' is '" + mode + "'");
    return zeros;
  }
  for (size_t i = 0; i < count; ++i) {
    auto size = dyn_cast<AffineConstantExpr>(spatial[i]);
    if (!size) {
      node.fail("auto_pad of symbolic size " + toString(spatial[i]) + " is not supported");
      return zeros;
    }
    int64_t out = llvm::divideCeilSigned(size.getValue(), strides[i]);
    int64_t total = std::max<int64_t>(
        (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size.getValue(), 0);
    zeros[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    zeros[i + count] = total - zeros[i];
  }
  return zeros;
}

void importConv(Node &node) {
  Value input = node.tensor(0), weight = node.tensor(1);
  if (node.failed())
    return;
  SmallVector<AffineExpr> x = getDims(typeOf(input));
  RankedTensorType weightType = typeOf(weight);
  if (!isFloat(input) || x.size() < 3 || weightType.getRank() != typeOf(input).getRank() ||
      !weightType.hasStaticShape())
    return node.fail("needs input [N, C, x…] and weight [M, C / group, k…] of constant size, of "
                     "floating-point numbers");
  size_t count = x.size() - 2;
  SmallVector<int64_t> ones(count, 1), kernel(weightType.getShape().drop_front(2));
  SmallVector<int64_t> strides = node.integerList("strides", ArrayRef<int64_t>(ones));
  SmallVector<int64_t> dilations = node.integerList("dilations", ArrayRef<int64_t>(ones));
  int64_t groups = node.integer("group", 1);
  if (node.failed())
    return;
  if (!node.checkRange(strides, "attribute 'strides'", 1) ||
      !node.checkRange(dilations, "attribute 'dilations'", 1) ||
      !node.checkRange(groups, "attribute 'group'", 1) ||
      !node.checkRange(weightType.getShape(), "the weight's sizes"))
    return;
  if (strides.size() != count || dilations.size() != count)
    return node.fail("attributes strides and dilations must have one number for each of " +
                     Twine(count) + " axes");
  SmallVector<int64_t> pads = bindPads(node, ArrayRef(x).drop_front(2), kernel, strides, dilations);
  if (node.failed())
    return;
  if (!node.checkRange(pads, "attribute 'pads'"))
    return;
  if (pads.size() != 2 * count)
    return node.fail("attribute 'pads' must have " + Twine(2 * count) + " numbers");
  if (weightType.getDimSize(0) % groups != 0 ||
      !areEqualSizes(x[1], node.size(weightType.getDimSize(1) * groups)))
    return node.fail("weight " + shapeToString(weightType) + " in " + Twine(groups) +
                     " groups does not fit " + toString(x[1]) + " channels");
  SmallVector<AffineExpr> dims = {x[0], node.size(weightType.getDimSize(0))};
  for (size_t i = 0; i < count; ++i) {
    AffineExpr room = canonicalizeSize(x[i + 2] + (pads[i] + pads[i + count]) -
                                       ((kernel[i] - 1) * dilations[i] + 1));
    node.require(room, "what the kernel leaves on axis " + Twine(i + 2));
    dims.push_back(room.floorDiv(strides[i]) + 1);
  }
  if (node.failed())
    return;
  RankedTensorType type = getTensorType(dims, typeOf(input).getElementType());
  Value result = node.create<ConvOp>(type, input, weight, strides, dilations, pads, groups);
  if (node.has(2)) {
    Value bias = node.tensor(2);
    if (node.failed())
      return;
    result = node.binary<AddOp>(result, node.create<BroadcastOp>(type, bias, ArrayRef<int64_t>{1}));
  }
  node.set(0, result);
}
} // namespace

ArrayRef<Handler> import::getLinearHandlers() {
  static constexpr Handler kHandlers[] = {
      {"Conv", 1, importConv},
      {"Gemm", 7, importGemm},
      {"MatMul", 1, importMatMul},
  };
  return kHandlers;
}
