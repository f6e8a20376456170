// ONNX operators that normalise along axes: composites of the dialect.
#include "Node.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

namespace {

/// Softmax and LogSoftmax; before version 13 over all axes from the given one on, as one.
void importSoftmax(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  if (!isFloat(value))
    return node.fail("of integers is not supported");
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  bool flattens = node.version() < 13;
  int64_t rank = static_cast<int64_t>(dims.size());
  int64_t axis = node.axis(node.integer("axis", flattens ? 1 : -1), rank);
  if (node.failed())
    return;
  Value input = value;
  if (flattens) {
    AffineExpr sizes[2] = {node.size(1), node.size(1)};
    for (int64_t i = 0; i < rank; ++i)
      sizes[i >= axis] = sizes[i >= axis] * dims[i];
    input = node.reshape(value, {canonicalizeSize(sizes[0]), canonicalizeSize(sizes[1])});
    axis = 1;
  }
  Value result;
  if (node.op() == "Softmax") {
    result = node.create<SoftmaxOp>(input.getType(), input, axis);
  } else {
    // x - max - log(sum(e^(x - max)))
    SmallVector<AffineExpr> shape = getDims(typeOf(input));
    auto along = [&](Value from, ReduceKind kind) {
      return node.broadcast(node.reduce(from, kind, {axis}, /*keepAxes=*/true), shape);
    };
    Value centred = node.binary<SubOp>(input, along(input, ReduceKind::Max));
    Value sum = along(node.unary<ExpOp>(centred), ReduceKind::Sum);
    result = node.binary<SubOp>(centred, node.unary<LogOp>(sum));
  }
  node.set(0, node.reshape(result, dims));
}

/// A scale or bias of the sizes that are normalised.
Value bindParameter(Node &node, size_t input, ArrayRef<AffineExpr> dims, Type element) {
  Value value = node.tensor(input);
  if (node.failed())
    return {};
  return node.cast(node.broadcast(value, dims), element);
}

void importLayerNormalization(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  if (!isFloat(value))
    return node.fail("of integers is not supported");
  if (node.wants(1) || node.wants(2))
    return node.fail("with mean and deviation as outputs is not supported");
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  int64_t axis = node.axis(node.integer("axis", -1), dims.size());
  double epsilon = node.number("epsilon", 1e-5);
  if (node.failed())
    return;
  ArrayRef<AffineExpr> normalised = ArrayRef(dims).drop_front(axis);
  Type element = typeOf(value).getElementType();
  Value scale = bindParameter(node, 1, normalised, element), bias;
  if (node.has(2))
    bias = bindParameter(node, 2, normalised, element);
  if (!node.failed())
    node.set(0, node.create<LayerNormOp>(value.getType(), value, scale, bias,
                                         node.builder().getF64FloatAttr(epsilon)));
}

void importRMSNormalization(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  if (!isFloat(value))
    return node.fail("of integers is not supported");
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  int64_t axis = node.axis(node.integer("axis", -1), dims.size());
  double epsilon = node.number("epsilon", 1e-5);
  if (node.failed())
    return;
  // The composite normalises one axis: the last ones become it.
  AffineExpr size = node.size(1);
  for (AffineExpr one : ArrayRef(dims).drop_front(axis))
    size = size * one;
  SmallVector<AffineExpr> rows(dims.begin(), dims.begin() + axis), one = {canonicalizeSize(size)};
  rows.push_back(one[0]);
  Value scale =
      bindParameter(node, 1, ArrayRef(dims).drop_front(axis), typeOf(value).getElementType());
  if (node.failed())
    return;
  Value flat = node.reshape(value, rows);
  Value result = node.create<RmsNormOp>(flat.getType(), flat, node.reshape(scale, one),
                                        node.builder().getF64FloatAttr(epsilon));
  node.set(0, node.reshape(result, dims));
}
} // namespace

ArrayRef<Handler> import::getNormalizationHandlers() {
  static constexpr Handler kHandlers[] = {
      {"LayerNormalization", 17, importLayerNormalization},
      {"LogSoftmax", 1, importSoftmax},
      {"LogSoftmax", 13, importSoftmax},
      {"RMSNormalization", 23, importRMSNormalization},
      {"Softmax", 1, importSoftmax},
      {"Softmax", 13, importSoftmax},
  };
  return kHandlers;
}
