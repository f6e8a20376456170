// Operators of the domain com.microsoft, which onnxruntime's optimiser writes.
#include "Node.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

namespace {

/// x + bias, where there is one, into x * Phi(x) or its form by tanh.
void importBiasGelu(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  if (!isFloat(value))
    return node.fail("of integers is not supported");
  if (node.has(1)) {
    Value bias = node.tensor(1);
    if (node.failed())
      return;
    bias = node.broadcast(bias, getDims(typeOf(value)));
    if (node.failed())
      return;
    value = node.binary<AddOp>(value, bias);
  } else if (node.op() == "BiasGelu") {
    return node.fail("needs a bias");
  }
  node.set(0, node.create<GeluOp>(value.getType(), value, node.op() == "FastGelu"));
}

/// x * sigmoid(alpha * x)
void importQuickGelu(Node &node) {
  Value value = node.tensor(0);
  double alpha = node.number("alpha", 1.702);
  if (node.failed())
    return;
  if (!isFloat(value))
    return node.fail("of integers is not supported");
  Value scaled = node.binary<MulOp>(value, node.splat(value, alpha));
  node.set(0, node.binary<MulOp>(value, node.unary<SigmoidOp>(scaled)));
}
} // namespace

ArrayRef<Handler> import::getMicrosoftHandlers() {
  static constexpr const char *kDomain = "com.microsoft";
  static constexpr Handler kHandlers[] = {
      {"BiasGelu", 1, importBiasGelu, kDomain},
      {"FastGelu", 1, importBiasGelu, kDomain},
      {"Gelu", 1, importBiasGelu, kDomain},
      {"QuickGelu", 1, importQuickGelu, kDomain},
  };
  return kHandlers;
}
