// ONNX operators that compute each element from the elements at the same place.
#include "Node.h"
#include <cmath>

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

namespace {

//===----------------------------------------------------------------------===//
// Sizes: shapes that a graph computes stay expressions
//===----------------------------------------------------------------------===//

/// Both operands' known elements, broadcast; false if not both are known.
bool getKnown(Node &node, Contents &a, Contents &b, RankedTensorType &type) {
  const Contents *x = node.knownContents(0), *y = node.knownContents(1);
  RankedTensorType xType = node.type(0), yType = node.type(1);
  if (!x || !y || xType.getElementType() != yType.getElementType())
    return false;
  a = *x;
  b = *y;
  // Equal shapes, or one that has one element and no more axes.
  auto extend = [](Contents &contents, size_t count) { contents.assign(count, contents.front()); };
  if (xType.getShape() == yType.getShape()) {
    type = xType;
  } else if (y->size() == 1 && yType.getRank() <= xType.getRank()) {
    extend(b, a.size());
    type = xType;
  } else if (x->size() == 1 && xType.getRank() <= yType.getRank()) {
    extend(a, b.size());
    type = yType;
  } else {
    return false;
  }
  return true;
}

std::optional<std::pair<int64_t, int64_t>> getNumbers(AffineExpr a, AffineExpr b) {
  auto x = dyn_cast<AffineConstantExpr>(a), y = dyn_cast<AffineConstantExpr>(b);
  if (!x || !y)
    return std::nullopt;
  return std::pair(x.getValue(), y.getValue());
}

/// Sizes combined one by one; null where that is no size.
using Combine = AffineExpr (*)(AffineExpr a, AffineExpr b);
bool foldSizes(Node &node, Combine combine, Type element = {}) {
  Contents a, b;
  RankedTensorType type;
  if (!isa<IntegerType>(node.type(0).getElementType()) || !getKnown(node, a, b, type))
    return false;
  for (auto [x, y] : llvm::zip_equal(a, b))
    if (!(x = combine(x, y)))
      return false;
  node.setContents(0, a, element ? withElementType(type, element) : type);
  return true;
}

template <typename Function> AffineExpr foldNumbers(AffineExpr a, AffineExpr b, Function function) {
  auto numbers = getNumbers(a, b);
  return numbers ? getAffineConstantExpr(function(numbers->first, numbers->second), a.getContext())
                 : AffineExpr();
}

// Wraps like the addition of the machine would; sizes never come near.
AffineExpr addSizes(AffineExpr a, AffineExpr b) {
  int64_t sum;
  if (auto n = getNumbers(a, b); n && llvm::AddOverflow(n->first, n->second, sum))
    return {};
  return a + b;
}
AffineExpr subSizes(AffineExpr a, AffineExpr b) {
  int64_t difference;
  if (auto n = getNumbers(a, b); n && llvm::SubOverflow(n->first, n->second, difference))
    return {};
  return a - b;
}
AffineExpr mulSizes(AffineExpr a, AffineExpr b) {
  int64_t product;
  if (auto n = getNumbers(a, b); n && llvm::MulOverflow(n->first, n->second, product))
    return {};
  return a * b;
}
/// Of sizes and positive numbers. ONNX rounds towards zero, which is down where nothing is
/// negative.
AffineExpr divSizes(AffineExpr a, AffineExpr b) {
  auto divisor = dyn_cast<AffineConstantExpr>(b);
  auto number = dyn_cast<AffineConstantExpr>(a);
  if (!divisor || divisor.getValue() <= 0)
    return {};
  if (number)
    return getAffineConstantExpr(number.getValue() / divisor.getValue(), a.getContext());
  return isNeverNegative(a) ? a.floorDiv(b) : AffineExpr();
}
AffineExpr modSizes(AffineExpr a, AffineExpr b) {
  auto divisor = dyn_cast<AffineConstantExpr>(b);
  return divisor && divisor.getValue() > 0 ? a % b : AffineExpr();
}
AffineExpr maxSizes(AffineExpr a, AffineExpr b) {
  return a == b ? a : foldNumbers(a, b, [](int64_t x, int64_t y) { return std::max(x, y); });
}
AffineExpr minSizes(AffineExpr a, AffineExpr b) {
  return a == b ? a : foldNumbers(a, b, [](int64_t x, int64_t y) { return std::min(x, y); });
}
AffineExpr equalSizes(AffineExpr a, AffineExpr b) {
  if (areEqualSizes(a, b))
    return getAffineConstantExpr(1, a.getContext());
  return foldNumbers(a, b, [](int64_t x, int64_t y) { return int64_t(x == y); });
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// Two operands, broadcast to one shape, of one type.
bool bindPair(Node &node, Value &a, Value &b) {
  a = node.tensor(0);
  b = node.tensor(1);
  if (node.failed())
    return false;
  if (typeOf(a).getElementType() != typeOf(b).getElementType()) {
    node.fail("operands must have one element type");
    return false;
  }
  SmallVector<Value> values = node.broadcastAll({a, b});
  a = values[0];
  b = values[1];
  return !node.failed();
}

template <typename Op, Combine combine> void importBinary(Node &node) {
  Value a, b;
  if constexpr (combine != nullptr)
    if (node.has(0) && node.has(1) && foldSizes(node, combine))
      return;
  if (bindPair(node, a, b))
    node.set(0, node.binary<Op>(a, b));
}

/// Max, Min, Sum, Mean: any number of operands.
template <typename Op, Combine combine> void importVariadic(Node &node) {
  if constexpr (combine != nullptr)
    if (node.numInputs() == 2 && foldSizes(node, combine))
      return;
  SmallVector<Value> values;
  for (size_t i = 0; i < node.numInputs(); ++i)
    values.push_back(node.tensor(i));
  if (node.failed() || values.empty())
    return node.failed() ? void() : node.fail("needs at least one input");
  values = node.broadcastAll(values);
  if (node.failed())
    return;
  Value result = values[0];
  for (Value value : ArrayRef(values).drop_front())
    result = node.binary<Op>(result, value);
  if (node.op() == "Mean")
    result = node.binary<DivOp>(result, node.splat(result, static_cast<double>(values.size())));
  node.set(0, result);
}

void importMod(Node &node) {
  if (node.integer("fmod", 0) == 0 && foldSizes(node, modSizes))
    return;
  Value a, b;
  if (!bindPair(node, a, b))
    return;
  Value rest = node.binary<RemOp>(a, b);
  if (node.integer("fmod", 0) == 0) {
    if (isFloat(a))
      return node.fail("of floating-point numbers needs fmod=1");
    // The sign is that of the divisor.
    Value zero = node.splat(rest, 0);
    Value differ = node.compare(Predicate::Less, node.binary<XorOp>(rest, b), zero);
    Value some = node.compare(Predicate::NotEqual, rest, zero);
    Value moved = node.binary<AddOp>(rest, b);
    rest = node.select(node.binary<AndOp>(differ, some), moved, rest);
  }
  node.set(0, rest);
}

void importPow(Node &node) {
  Value base = node.tensor(0);
  if (node.failed())
    return;
  if (!isFloat(base))
    return node.fail("of integers is not supported");
  std::optional<double> exponent = node.knownScalar(1);
  if (exponent && node.type(1).getRank() <= typeOf(base).getRank()) {
    if (*exponent == 2)
      return node.set(0, node.binary<MulOp>(base, base));
    if (*exponent == 3)
      return node.set(0, node.binary<MulOp>(node.binary<MulOp>(base, base), base));
    if (*exponent == 0.5)
      return node.set(0, node.unary<SqrtOp>(base));
    if (*exponent == 1)
      return node.setSame(0, 0);
    if (*exponent == -1)
      return node.set(0, node.binary<DivOp>(node.splat(base, 1), base));
  }
  Value power = node.tensor(1);
  if (node.failed())
    return;
  SmallVector<Value> values =
      node.broadcastAll({base, node.cast(power, typeOf(base).getElementType())});
  if (!node.failed())
    node.set(0, node.binary<PowOp>(values[0], values[1]));
}

//===----------------------------------------------------------------------===//
// Comparison and logic
//===----------------------------------------------------------------------===//

template <Predicate predicate> void importCompare(Node &node) {
  if (predicate == Predicate::Equal && foldSizes(node, equalSizes, node.builder().getI1Type()))
    return;
  Value a, b;
  if (bindPair(node, a, b))
    node.set(0, node.compare(predicate, a, b));
}

void importNot(Node &node) {
  Value value = node.tensor(0);
  if (!node.failed())
    node.set(0, node.binary<XorOp>(value, node.splat(value, -1)));
}

void importWhere(Node &node) {
  const Contents *condition = node.knownContents(0), *a = node.knownContents(1),
                 *b = node.knownContents(2);
  if (condition && a && b && a->size() == condition->size() && b->size() == condition->size() &&
      node.type(1) == node.type(2) && node.type(0).getRank() == node.type(1).getRank()) {
    Contents result;
    for (auto [c, x, y] : llvm::zip_equal(*condition, *a, *b))
      if (auto constant = dyn_cast<AffineConstantExpr>(c))
        result.push_back(constant.getValue() ? x : y);
    if (result.size() == condition->size())
      return node.setContents(0, result, node.type(1));
  }
  Value c = node.tensor(0), x = node.tensor(1), y = node.tensor(2);
  if (node.failed())
    return;
  SmallVector<Value> values = node.broadcastAll({c, x, y});
  if (!node.failed())
    node.set(0, node.select(values[0], values[1], values[2]));
}

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

/// The operand, which must be of floating point.
Value bindFloat(Node &node) {
  Value value = node.tensor(0);
  if (!node.failed() && !isFloat(value))
    node.fail("of integers is not supported");
  return value;
}

template <typename Op> void importUnary(Node &node) {
  Value value = bindFloat(node);
  if (!node.failed())
    node.set(0, node.unary<Op>(value));
}

void importNeg(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  if (isFloat(value))
    return node.set(0, node.unary<NegOp>(value));
  if (const Contents *contents = node.knownContents(0)) {
    Contents negated;
    for (AffineExpr size : *contents)
      negated.push_back(size * -1);
    return node.setContents(0, negated, node.type(0));
  }
  node.set(0, node.binary<SubOp>(node.splat(value, 0), value));
}

void importAbs(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  if (isFloat(value))
    return node.set(0, node.unary<AbsOp>(value));
  node.set(0, node.binary<MaximumOp>(value, node.binary<SubOp>(node.splat(value, 0), value)));
}

void importSign(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  Value zero = node.splat(value, 0);
  Value above = node.select(node.compare(Predicate::Greater, value, zero), node.splat(value, 1),
                            isFloat(value) ? value : zero);
  // Zero and NaN stay what they are.
  Value below =
      node.select(node.compare(Predicate::Less, value, zero), node.splat(value, -1), above);
  node.set(0, below);
}

void importReciprocal(Node &node) {
  Value value = bindFloat(node);
  if (!node.failed())
    node.set(0, node.binary<DivOp>(node.splat(value, 1), value));
}

void importRelu(Node &node) {
  Value value = node.tensor(0);
  if (!node.failed())
    node.set(0, node.binary<MaximumOp>(value, node.splat(value, 0)));
}

/// value >= 0 ? value : negative
Value whereNegative(Node &node, Value value, Value negative) {
  return node.select(node.compare(Predicate::Less, value, node.splat(value, 0)), negative, value);
}

void importLeakyRelu(Node &node) {
  Value value = bindFloat(node);
  double alpha = node.number("alpha", 0.01);
  if (!node.failed())
    node.set(0, whereNegative(node, value, node.binary<MulOp>(value, node.splat(value, alpha))));
}

void importPRelu(Node &node) {
  Value a, b;
  if (bindPair(node, a, b))
    node.set(0, whereNegative(node, a, node.binary<MulOp>(a, b)));
}

/// gamma * alpha * (e^x - 1) below zero.
void importElu(Node &node) {
  Value value = bindFloat(node);
  bool isSelu = node.op() == "Selu";
  double alpha = node.number("alpha", isSelu ? 1.67326319217681884765625 : 1.0);
  double gamma = isSelu ? node.number("gamma", 1.05070102214813232421875) : 1.0;
  if (node.failed())
    return;
  Value power = node.binary<SubOp>(node.unary<ExpOp>(value), node.splat(value, 1));
  Value result = whereNegative(node, value, node.binary<MulOp>(power, node.splat(value, alpha)));
  node.set(0, isSelu ? node.binary<MulOp>(result, node.splat(value, gamma)) : result);
}

void importHardSigmoid(Node &node) {
  Value value = bindFloat(node);
  bool isSwish = node.op() == "HardSwish";
  double alpha = isSwish ? 1.0 / 6 : node.number("alpha", 0.2);
  double beta = isSwish ? 0.5 : node.number("beta", 0.5);
  if (node.failed())
    return;
  Value line = node.binary<AddOp>(node.binary<MulOp>(value, node.splat(value, alpha)),
                                  node.splat(value, beta));
  Value clipped = node.binary<MaximumOp>(node.binary<MinimumOp>(line, node.splat(value, 1)),
                                         node.splat(value, 0));
  node.set(0, isSwish ? node.binary<MulOp>(value, clipped) : clipped);
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
void importSoftplus(Node &node) {
  Value value = bindFloat(node);
  if (node.failed())
    return;
  Value tail = node.unary<ExpOp>(node.unary<NegOp>(node.unary<AbsOp>(value)));
  Value log = node.unary<LogOp>(node.binary<AddOp>(tail, node.splat(value, 1)));
  node.set(0, node.binary<AddOp>(node.binary<MaximumOp>(value, node.splat(value, 0)), log));
}

void importSoftsign(Node &node) {
  Value value = bindFloat(node);
  if (!node.failed())
    node.set(0, node.binary<DivOp>(
                    value, node.binary<AddOp>(node.unary<AbsOp>(value), node.splat(value, 1))));
}

void importThresholdedRelu(Node &node) {
  Value value = bindFloat(node);
  double alpha = node.number("alpha", 1.0);
  if (node.failed())
    return;
  Value above = node.compare(Predicate::Greater, value, node.splat(value, alpha));
  node.set(0, node.select(above, value, node.splat(value, 0)));
}

void importGelu(Node &node) {
  Value value = bindFloat(node);
  std::string form = node.text("approximate", StringRef("none"));
  if (form != "none" && form != "tanh")
    node.fail("attribute 'approximate' must be 'none' or 'tanh', not '" + form + "'");
  if (!node.failed())
    node.set(0, node.create<GeluOp>(value.getType(), value, form == "tanh"));
}

void importTan(Node &node) {
  Value value = bindFloat(node);
  if (!node.failed())
    node.set(0, node.binary<DivOp>(node.unary<SinOp>(value), node.unary<CosOp>(value)));
}

void importClip(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  auto clip = [&](size_t input, StringRef attribute, bool isMax) {
    Value bound;
    if (node.version() < 11 && node.hasAttribute(attribute))
      bound = node.splat(value, node.number(attribute));
    else if (node.version() >= 11 && node.has(input))
      bound = node.broadcast(node.tensor(input), getDims(typeOf(value)));
    if (!bound || node.failed())
      return;
    value = isMax ? node.binary<MinimumOp>(value, bound) : node.binary<MaximumOp>(value, bound);
  };
  clip(1, "min", false);
  clip(2, "max", true);
  node.set(0, value);
}

void importCast(Node &node) {
  Type element;
  if (node.op() == "CastLike") {
    if (RankedTensorType like = node.type(1))
      element = like.getElementType();
  } else {
    int64_t to = node.integer("to");
    element = getElementType(node.context(), static_cast<int>(to));
    if (!element && !node.failed())
      node.fail("attribute 'to': element type " + Twine(to) + " is not supported");
  }
  if (node.failed())
    return;
  RankedTensorType from = node.type(0);
  if (from && from.getElementType() == element)
    return node.setSame(0, 0);
  auto isSize = [](Type type) { return type.isInteger(64) || type.isInteger(32); };
  if (const Contents *contents = node.knownContents(0);
      contents && isSize(element) &&
      (isSize(from.getElementType()) || from.getElementType().isInteger(1))) {
    Contents copy = *contents;
    if (element.isInteger(32))
      for (AffineExpr &size : copy)
        if (auto constant = dyn_cast<AffineConstantExpr>(size))
          size = node.size(static_cast<int32_t>(constant.getValue()));
    return node.setContents(0, copy, withElementType(from, element));
  }
  Value value = node.tensor(0);
  if (!node.failed())
    node.set(0, node.cast(value, element));
}

void importDropout(Node &node) {
  if (node.has(2)) {
    const Contents *training = node.knownContents(2);
    if (!training || training->size() != 1 || training->front() != node.size(0))
      return node.fail("in training is not supported");
  }
  node.setSame(0, 0);
  if (node.wants(1))
    node.set(1, node.splat(node.tensor(0), 1, node.builder().getI1Type()));
}

void importIdentity(Node &node) { node.setSame(0, 0); }
} // namespace

ArrayRef<Handler> import::getElementwiseHandlers() {
  static constexpr Handler kHandlers[] = {
      {"Add", 7, importBinary<AddOp, addSizes>},
      {"Sub", 7, importBinary<SubOp, subSizes>},
      {"Mul", 7, importBinary<MulOp, mulSizes>},
      {"Div", 7, importBinary<DivOp, divSizes>},
      {"Mod", 10, importMod},
      {"Pow", 7, importPow},
      {"Max", 6, importVariadic<MaximumOp, maxSizes>},
      {"Min", 6, importVariadic<MinimumOp, minSizes>},
      {"Sum", 6, importVariadic<AddOp, nullptr>},
      {"Mean", 6, importVariadic<AddOp, nullptr>},
      {"And", 7, importBinary<AndOp, nullptr>},
      {"Or", 7, importBinary<OrOp, nullptr>},
      {"Xor", 7, importBinary<XorOp, nullptr>},
      {"BitwiseAnd", 18, importBinary<AndOp, nullptr>},
      {"BitwiseOr", 18, importBinary<OrOp, nullptr>},
      {"BitwiseXor", 18, importBinary<XorOp, nullptr>},
      {"BitwiseNot", 18, importNot},
      {"Not", 1, importNot},
      {"Equal", 7, importCompare<Predicate::Equal>},
      {"Less", 7, importCompare<Predicate::Less>},
      {"LessOrEqual", 12, importCompare<Predicate::LessEqual>},
      {"Greater", 7, importCompare<Predicate::Greater>},
      {"GreaterOrEqual", 12, importCompare<Predicate::GreaterEqual>},
      {"Where", 9, importWhere},
      {"Neg", 6, importNeg},
      {"Abs", 6, importAbs},
      {"Sign", 9, importSign},
      {"Reciprocal", 6, importReciprocal},
      {"Exp", 6, importUnary<ExpOp>},
      {"Log", 6, importUnary<LogOp>},
      {"Sqrt", 6, importUnary<SqrtOp>},
      {"Floor", 6, importUnary<FloorOp>},
      {"Ceil", 6, importUnary<CeilOp>},
      {"Round", 11, importUnary<RoundOp>},
      {"Sin", 7, importUnary<SinOp>},
      {"Cos", 7, importUnary<CosOp>},
      {"Tan", 7, importTan},
      {"Tanh", 6, importUnary<TanhOp>},
      {"Erf", 9, importUnary<ErfOp>},
      {"Sigmoid", 6, importUnary<SigmoidOp>},
      {"Relu", 6, importRelu},
      {"LeakyRelu", 6, importLeakyRelu},
      {"PRelu", 7, importPRelu},
      {"Elu", 6, importElu},
      {"Selu", 6, importElu},
      {"HardSigmoid", 6, importHardSigmoid},
      {"HardSwish", 14, importHardSigmoid},
      {"Softplus", 1, importSoftplus},
      {"Softsign", 1, importSoftsign},
      {"ThresholdedRelu", 10, importThresholdedRelu},
      {"Gelu", 20, importGelu},
      {"Clip", 6, importClip},
      {"Clip", 11, importClip},
      {"Cast", 6, importCast},
      {"CastLike", 15, importCast},
      {"Dropout", 12, importDropout},
      {"Identity", 1, importIdentity},
  };
  return kHandlers;
}
