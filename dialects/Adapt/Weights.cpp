#include "adapt/Interpreter/Evaluation.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "dialects/Adapt/Recipes.h"

using namespace mlir;
using namespace adapt;

//===----------------------------------------------------------------------===//
// Templates
//===----------------------------------------------------------------------===//

namespace {
// The placeholders of "model.layers.{layer}.w" must be among the function's indices.
LogicalResult verifyTemplate(Operation *op, StringRef name) {
  Operation *function = op->getParentOp();
  while (function && !isa<FunctionOpInterface>(function))
    function = function->getParentOp();
  SmallVector<StringRef> indices;
  if (function)
    indices = getNames(function, AdaptDialect::kIndices);
  for (StringRef rest = name; !rest.empty();) {
    size_t open = rest.find_first_of("{}");
    if (open == StringRef::npos)
      break;
    size_t close = rest.find('}', open);
    if (rest[open] == '}' || close == StringRef::npos)
      return op->emitOpError() << "template \"" << name << "\" has unbalanced braces";
    StringRef index = rest.slice(open + 1, close);
    if (!llvm::is_contained(indices, index))
      return op->emitOpError() << "template \"" << name << "\" uses '" << index
                               << "', which is not among the function's " << AdaptDialect::kIndices;
    rest = rest.drop_front(close + 1);
  }
  return success();
}
} // namespace

//===----------------------------------------------------------------------===//
// param
//===----------------------------------------------------------------------===//

LogicalResult ParamOp::verify() {
  if (getName().empty())
    return emitOpError("needs a name");
  if (failed(verifyTemplate(*this, getName())))
    return failure();
  auto yield = dyn_cast<YieldOp>(getBody().front().getTerminator());
  if (!yield || yield.getNumOperands() != 1)
    return emitOpError("must end in adapt.yield of one value");
  if (yield.getOperand(0).getType() != getResult().getType())
    return emitOpError() << "yields " << yield.getOperand(0).getType() << " but has type "
                         << getResult().getType();
  for (Operation &op : getBody().front().without_terminator())
    if (!isa<RecipeOpInterface>(op))
      return emitOpError() << "holds " << op.getName() << ", which no recipe can express";
  return success();
}

Value ParamOp::getYielded() { return getBody().front().getTerminator()->getOperand(0); }

//===----------------------------------------------------------------------===//
// source, splat, pack
//===----------------------------------------------------------------------===//

LogicalResult SourceOp::verify() {
  if (getName().empty())
    return emitOpError("needs a name");
  return verifyTemplate(*this, getName());
}

LogicalResult SourceOp::toRecipe(schema::RecipeNode &node) {
  node.mutable_source()->set_name(getName().str());
  return success();
}

LogicalResult SplatOp::toRecipe(schema::RecipeNode &node) {
  node.mutable_splat()->set_value(getValue().convertToDouble());
  return success();
}

LogicalResult PackOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getType());
  if (from.getEncoding() || !isa_and_nonnull<PackedAttr>(to.getEncoding()))
    return emitOpError() << "goes from a plain matrix to a #adapt.packed one, not from " << from
                         << " to " << to;
  if (withoutEncoding(to) != from)
    return emitOpError() << "keeps sizes and element type, but goes from " << from << " to " << to;
  return success();
}

LogicalResult PackOp::toRecipe(schema::RecipeNode &node) {
  node.mutable_pack();
  return success();
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

LogicalResult SourceOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value>,
                                 SmallVectorImpl<interp::Value> &results) {
  if (failed(context.getShape(*this, getType())))
    return failure();
  std::optional<std::string> name = interp::fillTemplate(getName(), context.indices);
  if (!name)
    return emitOpError("cannot be evaluated: an index of \"") << getName() << "\" is not bound";
  if (!context.readSource)
    return emitOpError("cannot be evaluated: no checkpoint was given for '") << *name << "'";
  FailureOr<interp::Tensor> tensor =
      context.readSource(*this, *name, cast<RankedTensorType>(getType()));
  if (failed(tensor))
    return failure();
  results.push_back(std::move(*tensor));
  return success();
}

LogicalResult SplatOp::evaluate(interp::EvalContext &context, ArrayRef<interp::Value>,
                                SmallVectorImpl<interp::Value> &results) {
  FailureOr<interp::Tensor> tensor = context.makeTensor(*this, getType());
  if (failed(tensor))
    return failure();
  double value = getValue().convertToDouble();
  if (tensor->isFloat())
    llvm::fill(tensor->mutableFloats(), value);
  else
    llvm::fill(tensor->mutableInts(), int64_t(value));
  results.push_back(std::move(*tensor));
  return success();
}

LogicalResult PackOp::evaluate(interp::EvalContext &, ArrayRef<interp::Value> operands,
                               SmallVectorImpl<interp::Value> &results) {
  results.push_back(operands[0]);
  return success();
}
