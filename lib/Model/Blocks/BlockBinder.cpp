#include "Blocks/BlockBinder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using Json = llvm::json::Value;

namespace adapt {

//===----------------------------------------------------------------------===//
// ConfigScope
//===----------------------------------------------------------------------===//

void ConfigScope::set(StringRef name, Json value) { values.insert_or_assign(name, value); }

std::optional<Json> ConfigScope::lookup(StringRef name) const {
  auto it = values.find(name);
  return it == values.end() ? std::nullopt : std::optional<Json>(it->second);
}

std::optional<Json> ConfigScope::evaluate(const FamilyExpr &expr) const {
  auto value = expr.expr.evaluate([&](StringRef name) { return lookup(name); });
  if (value)
    return std::move(*value);
  emitError(expr.loc) << llvm::toString(value.takeError());
  return std::nullopt;
}

std::optional<int64_t> ConfigScope::evaluateSize(const FamilyExpr &expr, StringRef what) const {
  std::optional<Json> value = evaluate(expr);
  if (!value)
    return std::nullopt;
  std::optional<int64_t> size = value->getAsInteger();
  if (size && *size >= 1 && *size <= INT32_MAX)
    return size;
  emitError(expr.loc) << what << " = " << expr.expr.getText() << " = " << toString(*value)
                      << "; it must be an integer from 1 to " << INT32_MAX;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

InFlightDiagnostic BlockBinder::error() {
  failed = true;
  return emitError(spec.loc) << "block " << spec.name << ": ";
}

std::optional<Json> BlockBinder::value(StringRef option) {
  std::optional<Json> result =
      scope.evaluate(std::get<FamilyExpr>(spec.options.find(option.str())->second));
  failed |= !result;
  if (result)
    key += (option + "=" + toString(*result) + ";").str();
  return result;
}

int64_t BlockBinder::size(StringRef option) {
  const auto &expr = std::get<FamilyExpr>(spec.options.find(option.str())->second);
  std::optional<int64_t> result = scope.evaluateSize(expr, option);
  failed |= !result;
  key += (option + "=" + llvm::Twine(result.value_or(0)) + ";").str();
  return result.value_or(1);
}

double BlockBinder::number(StringRef option) {
  std::optional<Json> result = value(option);
  if (result && result->getAsNumber())
    return *result->getAsNumber();
  if (result)
    error() << option << " must be a number, not " << toString(*result);
  return 0;
}

bool BlockBinder::flag(StringRef option) {
  std::optional<Json> result = value(option);
  if (result && result->getAsBoolean())
    return *result->getAsBoolean();
  if (result)
    error() << option << " must be true or false, not " << toString(*result);
  return false;
}

std::string BlockBinder::text(StringRef option) {
  std::optional<Json> result = value(option);
  if (result && result->getAsString())
    return result->getAsString()->str();
  if (result)
    error() << option << " must be a word, not " << toString(*result);
  return "";
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

namespace {

std::string showShape(ArrayRef<int64_t> shape) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(shape, os);
  return text + "]";
}

/// The product, or nullopt where it needs more than 63 bits.
std::optional<int64_t> getProduct(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    if (llvm::MulOverflow(product, size, product))
      return std::nullopt;
  return product;
}

} // namespace

WeightRef BlockBinder::tensor(StringRef option, ArrayRef<int64_t> shape, StringRef part) {
  const auto &spec = std::get<TensorSpec>(this->spec.options.find(option.str())->second);
  return declare(spec, option.str(), shape, part);
}

Linear BlockBinder::linear(StringRef option, int64_t out, int64_t in, StringRef part) {
  const auto &linear = std::get<LinearSpec>(spec.options.find(option.str())->second);
  Linear result;
  result.weight = declare(linear.weight, option.str() + ".weight", {out, in}, part);
  if (linear.bias && isPresent(*linear.bias))
    result.bias = declare(*linear.bias, option.str() + ".bias", {out}, part);
  return result;
}

void BlockBinder::split(const Linear &linear, ShardRole role) {
  split(linear.weight, role);
  if (linear.bias && role.axis == 0)
    split(*linear.bias, role);
}

Norm BlockBinder::norm(StringRef option, int64_t width) {
  const auto &norm = std::get<NormSpec>(spec.options.find(option.str())->second);
  Norm result;
  std::optional<Json> epsilon = scope.evaluate(norm.epsilon);
  if (!epsilon) {
    failed = true;
  } else if (std::optional<double> number = epsilon->getAsNumber(); number && *number >= 0) {
    result.epsilon = *number;
    key += (option + ".epsilon=" + toString(*epsilon) + ";").str();
  } else {
    error() << "the epsilon of " << option << " must be a number of at least 0, not "
            << toString(*epsilon);
  }
  result.weight = declare(norm.weight, option.str() + ".weight", {width}, "norm");
  return result;
}

bool BlockBinder::isPresent(const TensorSpec &tensor) {
  if (!tensor.when)
    return true;
  std::optional<Json> when = scope.evaluate(*tensor.when);
  if (when && when->getAsBoolean())
    return *when->getAsBoolean();
  failed = true;
  if (when)
    emitError(tensor.when->loc) << "'when' must be true or false, not " << toString(*when);
  return false;
}

WeightRef BlockBinder::declare(const TensorSpec &tensor, std::string name, ArrayRef<int64_t> shape,
                               StringRef part) {
  Weight weight;
  weight.name = prefix + spec.name + "." + name;
  weight.part = part.str();
  if (std::optional<WeightExpr> value = resolve(tensor, shape))
    weight.value = std::move(*value);
  else
    failed = true;
  key += name + showShape(shape) + ";";
  weights.push_back(std::move(weight));
  return weights.size() - 1;
}

/// Binds a tensor's steps; the end must have the shape `wanted` if given.
std::optional<WeightExpr> BlockBinder::resolve(const TensorSpec &tensor,
                                               std::optional<ArrayRef<int64_t>> wanted) {
  WeightExpr result;
  if (!tensor.parts.empty()) {
    result.kind = WeightExpr::Kind::Concat;
    result.axis = tensor.concatAxis;
    for (const TensorSpec &part : tensor.parts) {
      std::optional<WeightExpr> operand = resolve(part, std::nullopt);
      if (!operand)
        return std::nullopt;
      if (result.operands.empty()) {
        result.shape = operand->shape;
      } else {
        // All sizes but the axis's are equal.
        SmallVector<int64_t> expected = result.shape, found = operand->shape;
        bool fits = expected.size() == found.size() && result.axis < int64_t(expected.size());
        if (fits) {
          result.shape[result.axis] += found[result.axis];
          expected[result.axis] = found[result.axis] = 0;
        }
        if (!fits || expected != found) {
          emitError(part.loc) << "cannot be put behind the part before it: " << showShape(found)
                              << " behind " << showShape(expected) << " along axis " << result.axis;
          return std::nullopt;
        }
      }
      result.operands.push_back(std::move(*operand));
    }
  } else {
    result.source = tensor.source;
    for (const FamilyExpr &expr : tensor.shape) {
      std::optional<int64_t> size = scope.evaluateSize(expr, "a size of " + tensor.source);
      if (!size)
        return std::nullopt;
      result.shape.push_back(*size);
    }
    if (tensor.shape.empty() && wanted)
      result.shape.assign(wanted->begin(), wanted->end());
  }
  for (const TensorSpec::Step &step : tensor.steps) {
    std::optional<WeightExpr> next = applyStep(step, std::move(result));
    if (!next)
      return std::nullopt;
    result = std::move(*next);
  }
  if (!getProduct(result.shape)) {
    emitError(tensor.loc) << "a tensor " << showShape(result.shape) << " is too large";
    return std::nullopt;
  }
  if (wanted && ArrayRef<int64_t>(result.shape) != *wanted) {
    emitError(tensor.loc) << "these steps end in " << showShape(result.shape) << ", but the block "
                          << spec.name << " needs " << showShape(*wanted);
    return std::nullopt;
  }
  return result;
}

std::optional<WeightExpr> BlockBinder::applyStep(const TensorSpec::Step &step, WeightExpr input) {
  WeightExpr result;
  result.shape = input.shape;
  SmallVector<int64_t> sizes;
  for (const auto &[index, expr] : llvm::enumerate(step.sizes)) {
    // A slice's first number is its offset, which may be 0.
    bool isOffset = step.kind == TensorSpec::Step::Kind::Slice && index == 0;
    std::optional<Json> value = scope.evaluate(expr);
    std::optional<int64_t> size = value ? value->getAsInteger() : std::nullopt;
    if (!size || *size < (isOffset ? 0 : 1) || *size > INT32_MAX) {
      if (value)
        emitError(expr.loc) << "'" << expr.expr.getText() << "' is " << toString(*value)
                            << ", not a size";
      return std::nullopt;
    }
    sizes.push_back(*size);
  }
  switch (step.kind) {
  case TensorSpec::Step::Kind::Slice: {
    result.kind = WeightExpr::Kind::Slice;
    int64_t rank = input.shape.size();
    if (step.axis >= rank || sizes[0] + sizes[1] > input.shape[step.axis]) {
      emitError(step.loc) << "elements " << sizes[0] << " to " << sizes[0] + sizes[1] << " of axis "
                          << step.axis << " are not in " << showShape(input.shape);
      return std::nullopt;
    }
    result.numbers.assign(rank, 0);
    result.numbers[step.axis] = sizes[0];
    result.shape[step.axis] = sizes[1];
    break;
  }
  case TensorSpec::Step::Kind::Transpose:
    result.kind = WeightExpr::Kind::Transpose;
    result.numbers = step.permutation;
    if (step.permutation.size() != input.shape.size()) {
      emitError(step.loc) << "a transpose of " << step.permutation.size() << " axes for "
                          << showShape(input.shape);
      return std::nullopt;
    }
    for (auto [index, axis] : llvm::enumerate(step.permutation))
      result.shape[index] = input.shape[axis];
    break;
  case TensorSpec::Step::Kind::Reshape:
    result.kind = WeightExpr::Kind::Reshape;
    result.shape = sizes;
    if (!getProduct(sizes) || getProduct(sizes) != getProduct(input.shape)) {
      emitError(step.loc) << "cannot reshape " << showShape(input.shape) << " to "
                          << showShape(sizes);
      return std::nullopt;
    }
    break;
  }
  result.operands.push_back(std::move(input));
  return result;
}

std::unique_ptr<Block> BlockBinder::finish(std::unique_ptr<Block> block) {
  if (failed)
    return nullptr;
  block->kind = spec.kind;
  block->name = spec.name;
  block->weights = std::move(weights);
  block->key = spec.kind + ":" + spec.name + ":" + key;
  return block;
}

} // namespace adapt
