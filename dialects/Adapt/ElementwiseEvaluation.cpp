// Evaluation of operations on single elements.
#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/AdaptDialect.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace adapt;

LogicalResult interp::evaluateElementwise(Operation *op, interp::EvalContext &context,
                                          ArrayRef<interp::Value> operands,
                                          SmallVectorImpl<interp::Value> &results) {
  constexpr double kExact = 0x1p53;
  auto elementwise = cast<ElementwiseOpInterface>(op);
  FailureOr<interp::Tensor> result = context.makeTensor(op, op->getResult(0).getType());
  if (failed(result))
    return failure();
  int64_t n = result->getNumElements();
  MutableArrayRef<double> floats;
  MutableArrayRef<int64_t> ints;
  if (result->isFloat())
    floats = result->mutableFloats();
  else
    ints = result->mutableInts();
  // Floats up to f32 are computed with in f32, so that narrower ones round once more.
  bool single = context.mode == interp::Mode::Typed;
  for (const interp::Value &operand : operands)
    single &= operand.tensor().isFloat() && !operand.tensor().getElementType().isF64();
  SmallVector<double, 3> args(operands.size());
  for (int64_t i = 0; i < n; ++i) {
    bool exact = true;
    for (auto [arg, operand] : llvm::zip(args, operands)) {
      arg = operand.tensor().getAsDouble(i);
      exact &= operand.tensor().isFloat() || std::fabs(arg) <= kExact;
    }
    double value = elementwise.evaluateScalar(args);
    if (!floats.empty()) {
      floats[i] = single ? double(float(value)) : value;
      continue;
    }
    // Out of a float's range for integers: what comes out is not defined, and any value will do.
    bool fromFloat = operands[0].tensor().isFloat();
    if (!fromFloat && (!exact || !(std::fabs(value) <= kExact)))
      return op->emitOpError("cannot be evaluated: element ")
             << i << " is an integer beyond 2^53, or a division by zero";
    if (fromFloat && !(std::fabs(value) <= kExact))
      value = 0;
    ints[i] = int64_t(value);
  }
  results.push_back(std::move(*result));
  return success();
}

#define ADAPT_ELEMENTWISE(OP)                                                                      \
  LogicalResult OP::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,       \
                             SmallVectorImpl<interp::Value> &results) {                            \
    return interp::evaluateElementwise(*this, context, operands, results);                         \
  }
ADAPT_ELEMENTWISE(AddOp)
ADAPT_ELEMENTWISE(SubOp)
ADAPT_ELEMENTWISE(MulOp)
ADAPT_ELEMENTWISE(DivOp)
ADAPT_ELEMENTWISE(MaximumOp)
ADAPT_ELEMENTWISE(MinimumOp)
ADAPT_ELEMENTWISE(RemOp)
ADAPT_ELEMENTWISE(PowOp)
ADAPT_ELEMENTWISE(AndOp)
ADAPT_ELEMENTWISE(OrOp)
ADAPT_ELEMENTWISE(XorOp)
ADAPT_ELEMENTWISE(CompareOp)
ADAPT_ELEMENTWISE(SelectOp)
ADAPT_ELEMENTWISE(LogOp)
ADAPT_ELEMENTWISE(AbsOp)
ADAPT_ELEMENTWISE(FloorOp)
ADAPT_ELEMENTWISE(CeilOp)
ADAPT_ELEMENTWISE(RoundOp)
ADAPT_ELEMENTWISE(NegOp)
ADAPT_ELEMENTWISE(ExpOp)
ADAPT_ELEMENTWISE(SqrtOp)
ADAPT_ELEMENTWISE(RsqrtOp)
ADAPT_ELEMENTWISE(TanhOp)
ADAPT_ELEMENTWISE(ErfOp)
ADAPT_ELEMENTWISE(SinOp)
ADAPT_ELEMENTWISE(CosOp)
ADAPT_ELEMENTWISE(SigmoidOp)
ADAPT_ELEMENTWISE(CastOp)
#undef ADAPT_ELEMENTWISE

static double activate(Activation activation, double x) {
  switch (activation) {
  case Activation::Silu:
    return x / (1 + std::exp(-x));
  case Activation::GeluErf:
    return x / 2 * (1 + std::erf(x * M_SQRT1_2));
  case Activation::GeluTanh:
    // Hendrycks and Gimpel 2016, arXiv:1606.08415.
    return x / 2 * (1 + std::tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
  }
  llvm_unreachable("unknown activation");
}

LogicalResult GeluOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value> operands,
                               SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  Activation activation = getTanhForm() ? Activation::GeluTanh : Activation::GeluErf;
  for (auto [y, x] : llvm::zip(result->mutableFloats(), operands[0].tensor().floats()))
    y = activate(activation, x);
  results.push_back(std::move(*result));
  return success();
}

LogicalResult GatedActivationOp::evaluate(interp::EvalContext &context,
                                          ArrayRef<interp::Value> operands,
                                          SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> result = context.makeTensor(*this, getType());
  if (failed(result))
    return failure();
  ArrayRef<double> gate = operands[0].tensor().floats(), up = operands[1].tensor().floats();
  for (auto [y, g, u] : llvm::zip(result->mutableFloats(), gate, up))
    y = activate(getActivation(), g) * u;
  results.push_back(std::move(*result));
  return success();
}
