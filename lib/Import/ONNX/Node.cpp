// Binding of inputs and attributes. What a handler builds with is in NodeBuilder.cpp.
#include "GraphImporter.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

Node::Node(GraphImporter &importer, const onnx::NodeProto &proto, int64_t version)
    : importer(importer), proto(proto), since(version) {}

StringRef Node::op() const { return proto.op_type(); }

std::string Node::name() const {
  if (!proto.name().empty())
    return proto.name();
  return proto.output_size() ? "-> " + proto.output(0) : "a node without a name";
}

OpBuilder &Node::builder() { return importer.builder; }
MLIRContext *Node::context() { return importer.context; }
Location Node::loc() { return NameLoc::get(builder().getStringAttr(name())); }

void Node::fail(const Twine &message) {
  hasFailed = true;
  importer.addProblem("'" + name() + "'", op() + ": " + message);
}

void Node::require(AffineExpr notNegative, const Twine &what) {
  AffineExpr expr = canonicalizeSize(notNegative);
  auto fails = [&] { fail(what + ": " + toString(expr) + " would have to be at least 0"); };
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    if (constant.getValue() < 0)
      fails();
    return;
  }
  // A symbol and a number: a bound of the symbol.
  int64_t offset = 0;
  AffineExpr rest = expr;
  if (auto sum = dyn_cast<AffineBinaryOpExpr>(expr); sum && sum.getKind() == AffineExprKind::Add)
    if (auto constant = dyn_cast<AffineConstantExpr>(sum.getRHS())) {
      if (constant.getValue() == std::numeric_limits<int64_t>::min())
        return fails();
      offset = constant.getValue();
      rest = sum.getLHS();
    }
  bool negated = false;
  if (auto product = dyn_cast<AffineBinaryOpExpr>(rest);
      product && product.getKind() == AffineExprKind::Mul)
    if (auto factor = dyn_cast<AffineConstantExpr>(product.getRHS());
        factor && factor.getValue() == -1) {
      negated = true;
      rest = product.getLHS();
    }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(rest)) {
    auto [it, inserted] = importer.bounds.try_emplace(getSymbolName(symbol).str(), 0,
                                                      std::numeric_limits<int64_t>::max());
    auto &[least, most] = it->second;
    if (negated)
      most = std::min(most, offset);
    else
      least = std::max(least, -offset);
    if (most < std::max<int64_t>(least, 1))
      fail(what + ": there is no value of " + toString(rest) + " that this and others allow");
    return;
  }
  if (!isNeverNegative(expr))
    fails();
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

size_t Node::numInputs() const { return proto.input_size(); }

bool Node::has(size_t input) const {
  return input < numInputs() && !proto.input(static_cast<int>(input)).empty();
}

std::string Node::inputText(size_t input) const {
  std::string text = "input " + std::to_string(input);
  if (has(input))
    text += " ('" + proto.input(static_cast<int>(input)) + "')";
  return text;
}

OnnxValue *Node::find(size_t input) {
  if (!has(input)) {
    fail(inputText(input) + " is missing");
    return nullptr;
  }
  OnnxValue *value = importer.find(proto.input(static_cast<int>(input)));
  if (!value)
    fail(inputText(input) + " is not there");
  return value;
}

Value Node::tensor(size_t input) {
  OnnxValue *value = find(input);
  return value ? importer.materialize(*value) : Value();
}

RankedTensorType Node::type(size_t input) {
  OnnxValue *value = find(input);
  return value ? value->type : RankedTensorType();
}

const Contents *Node::knownContents(size_t input) {
  OnnxValue *value = find(input);
  return value && value->contents ? &*value->contents : nullptr;
}

Contents Node::contents(size_t input) {
  OnnxValue *value = find(input);
  if (!value)
    return {};
  if (value->contents)
    return *value->contents;
  fail(inputText(input) + " must be known when compiling: a constant, or computed from sizes");
  return {};
}

std::optional<SmallVector<int64_t>> Node::optionalAxes(int64_t inputSince) {
  if (version() >= inputSince)
    return has(1) ? std::optional(integers(1)) : std::nullopt;
  return hasAttribute("axes") ? std::optional(integerList("axes")) : std::nullopt;
}

SmallVector<int64_t> Node::integers(size_t input) {
  SmallVector<int64_t> result;
  for (AffineExpr size : contents(input)) {
    auto constant = dyn_cast<AffineConstantExpr>(size);
    if (!constant) {
      fail(inputText(input) + " must be constant, not " + toString(size));
      return {};
    }
    result.push_back(constant.getValue());
  }
  return result;
}

std::optional<double> Node::knownScalar(size_t input) {
  OnnxValue *value = find(input);
  if (!value || !value->constant || value->type.getNumElements() != 1)
    return std::nullopt;
  if (isa<FloatType>(value->type.getElementType()))
    return (*value->constant.getValues<APFloat>().begin()).convertToDouble();
  return static_cast<double>((*value->constant.getValues<APInt>().begin()).getSExtValue());
}

bool Node::isWeight(size_t input) {
  OnnxValue *value = find(input);
  return value && !value->initializer.empty() && value->type.getRank() == 2 &&
         isa<FloatType>(value->type.getElementType()) && value->type.getNumElements() > 0;
}

Value Node::weightMatrix(size_t input, bool transposed) {
  OnnxValue *value = find(input);
  return value ? importer.createParam(value->initializer, transposed) : Value();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

namespace {
const onnx::AttributeProto *findAttribute(const onnx::NodeProto &node, StringRef name) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}
} // namespace

bool Node::hasAttribute(StringRef name) const { return findAttribute(proto, name); }

int64_t Node::integer(StringRef name, std::optional<int64_t> otherwise) {
  const auto *attribute = findAttribute(proto, name);
  if (attribute && attribute->type() == onnx::AttributeProto::INT)
    return attribute->i();
  if (attribute || !otherwise)
    fail("attribute '" + name + "' must be an integer" + (attribute ? "" : ", but is missing"));
  return otherwise.value_or(0);
}

double Node::number(StringRef name, std::optional<double> otherwise) {
  const auto *attribute = findAttribute(proto, name);
  if (attribute && attribute->type() == onnx::AttributeProto::FLOAT)
    return attribute->f();
  if (attribute || !otherwise)
    fail("attribute '" + name + "' must be a number" + (attribute ? "" : ", but is missing"));
  return otherwise.value_or(0);
}

std::string Node::text(StringRef name, std::optional<StringRef> otherwise) {
  const auto *attribute = findAttribute(proto, name);
  if (attribute && attribute->type() == onnx::AttributeProto::STRING)
    return attribute->s();
  if (attribute || !otherwise)
    fail("attribute '" + name + "' must be a text" + (attribute ? "" : ", but is missing"));
  return otherwise.value_or("").str();
}

SmallVector<int64_t> Node::integerList(StringRef name, std::optional<ArrayRef<int64_t>> otherwise) {
  const auto *attribute = findAttribute(proto, name);
  if (attribute && attribute->type() == onnx::AttributeProto::INTS)
    return SmallVector<int64_t>(attribute->ints().begin(), attribute->ints().end());
  if (attribute || !otherwise)
    fail("attribute '" + name + "' must be a list of integers" +
         (attribute ? "" : ", but is missing"));
  return SmallVector<int64_t>(otherwise.value_or(ArrayRef<int64_t>()));
}

void Node::setConstantResult() {
  OnnxValue value;
  auto setIntegers = [&](ArrayRef<int64_t> numbers, ArrayRef<int64_t> shape) {
    value.type = RankedTensorType::get(shape, builder().getI64Type());
    value.constant = DenseElementsAttr::get(value.type, numbers);
    value.contents.emplace();
    for (int64_t number : numbers)
      value.contents->push_back(size(number));
  };
  auto setFloats = [&](ArrayRef<float> numbers, ArrayRef<int64_t> shape) {
    value.type = RankedTensorType::get(shape, builder().getF32Type());
    value.constant = DenseElementsAttr::get(value.type, numbers);
  };
  if (const auto *attribute = findAttribute(proto, "value_int")) {
    setIntegers({attribute->i()}, {});
  } else if (const auto *attribute = findAttribute(proto, "value_ints")) {
    SmallVector<int64_t> numbers(attribute->ints().begin(), attribute->ints().end());
    setIntegers(numbers, {static_cast<int64_t>(numbers.size())});
  } else if (const auto *attribute = findAttribute(proto, "value_float")) {
    setFloats({attribute->f()}, {});
  } else if (const auto *attribute = findAttribute(proto, "value_floats")) {
    SmallVector<float> numbers(attribute->floats().begin(), attribute->floats().end());
    setFloats(numbers, {static_cast<int64_t>(numbers.size())});
  } else {
    return fail("the attributes value, value_int(s) and value_float(s) are supported");
  }
  importer.values[proto.output(0)] = std::move(value);
}

int64_t Node::axis(int64_t given, int64_t rank, StringRef what) {
  if (given >= -rank && given < rank)
    return given < 0 ? given + rank : given;
  fail(what + " " + Twine(given) + " of a tensor of rank " + Twine(rank));
  return 0;
}

SmallVector<int64_t> Node::axes(ArrayRef<int64_t> given, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t one : given)
    result.push_back(axis(one, rank, "axes:"));
  llvm::sort(result);
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    fail("axes: one of them appears twice");
  return failed() ? SmallVector<int64_t>() : result;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

bool import::isSimpleSize(AffineExpr size) {
  unsigned left = 256; // Of parts: hostile graphs square squares.
  auto visit = [&](AffineExpr part, auto &visit) -> bool {
    if (left-- == 0)
      return false;
    auto binary = dyn_cast<AffineBinaryOpExpr>(part);
    if (!binary)
      return true;
    return visit(binary.getLHS(), visit) && visit(binary.getRHS(), visit);
  };
  return visit(size, visit);
}

bool import::isNeverNegative(AffineExpr size) {
  // A sum of products of sizes, each at least one, and a number.
  AffineExpr expr = canonicalizeSize(size), rest = expr;
  if (auto sum = dyn_cast<AffineBinaryOpExpr>(expr); sum && sum.getKind() == AffineExprKind::Add)
    if (isa<AffineConstantExpr>(sum.getRHS()))
      rest = sum.getLHS();
  bool grows = true;
  auto check = [&](AffineExpr part, auto &check) -> void {
    auto binary = dyn_cast<AffineBinaryOpExpr>(part);
    auto constant = dyn_cast<AffineConstantExpr>(part);
    if (binary &&
        (binary.getKind() == AffineExprKind::Add || binary.getKind() == AffineExprKind::Mul)) {
      check(binary.getLHS(), check);
      check(binary.getRHS(), check);
    } else {
      grows &= isa<AffineSymbolExpr>(part) || (constant && constant.getValue() >= 0);
    }
  };
  if (!isa<AffineConstantExpr>(expr))
    check(rest, check);
  std::optional<int64_t> least =
      evaluateSize(expr, [](StringRef) { return std::optional<int64_t>(1); });
  return grows && least && *least >= 0;
}

bool import::isSoundType(RankedTensorType type) {
  constexpr int64_t kMaxElements = int64_t(1) << 60;
  int64_t count = 1;
  for (AffineExpr size : getDims(type)) {
    if (!size || !isSimpleSize(size))
      return false;
    auto constant = dyn_cast<AffineConstantExpr>(size);
    if (!constant)
      continue;
    if (constant.getValue() < 0 || constant.getValue() > kMaxElements)
      return false;
    if (constant.getValue() != 0 &&
        (llvm::MulOverflow(count, constant.getValue(), count) || count > kMaxElements))
      return false;
  }
  return true;
}

bool Node::checkRange(ArrayRef<int64_t> values, StringRef what, int64_t least) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (int64_t value : values)
    if (value < least || value > kMost) {
      fail(what + ": " + Twine(value) + " does not lie in " + Twine(least) + " to " + Twine(kMost));
      return false;
    }
  return true;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

size_t Node::numOutputs() const { return proto.output_size(); }

const std::string &Node::outputName(size_t output) const {
  return proto.output(static_cast<int>(output));
}

bool Node::wants(size_t output) const {
  return output < numOutputs() && importer.used.contains(proto.output(static_cast<int>(output)));
}

void Node::set(size_t output, Value value) {
  if (output < numOutputs() && !failed())
    importer.values[outputName(output)] = {typeOf(value), value, {}, {}, {}, false};
}

void Node::unset(size_t output) { importer.values[outputName(output)] = {}; }

void Node::setContents(size_t output, ArrayRef<AffineExpr> contents, RankedTensorType type) {
  if (output >= numOutputs() || failed())
    return;
  OnnxValue value;
  value.type = type;
  value.contents.emplace();
  for (AffineExpr size : contents) {
    value.contents->push_back(canonicalizeSize(size));
    if (!isSimpleSize(value.contents->back()))
      return fail("sizes that it computes become too long an expression");
  }
  importer.values[outputName(output)] = std::move(value);
}

void Node::setSame(size_t output, size_t input) {
  OnnxValue *value = find(input);
  if (!value || output >= numOutputs())
    return;
  OnnxValue copy = *value; // The map may move what `value` points to.
  copy.isInput = false;
  importer.values[outputName(output)] = std::move(copy);
}

void Node::setReshaped(size_t output, size_t input, ArrayRef<AffineExpr> dims) {
  OnnxValue *value = find(input);
  if (!value || failed() || output >= numOutputs())
    return;
  RankedTensorType type = getTensorType(dims, value->type.getElementType());
  if (value->type == type)
    return setSame(output, input);
  if (!areEqualSizes(getNumElements(value->type), getNumElements(type)))
    return fail("makes " + toString(getNumElements(type)) + " elements of " +
                toString(getNumElements(value->type)));
  OnnxValue result;
  result.type = type;
  result.contents = value->contents;
  if (value->constant)
    result.constant = value->constant.reshape(type);
  if (!result.contents && !result.constant)
    result.value = reshape(importer.materialize(*value), dims);
  importer.values[outputName(output)] = std::move(result);
}
