#include "dialects/Adapt/AdaptDialect.h"
#include "dialects/Adapt/Recipes.h"

using namespace mlir;
using namespace adapt;

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult verifyElementType(Operation *op, Value input, Value result) {
  if (typeOf(input).getElementType() == typeOf(result).getElementType())
    return success();
  return op->emitOpError() << "keeps the element type, but goes from "
                           << typeOf(input).getElementType() << " to "
                           << typeOf(result).getElementType();
}

// Each size, expected and found, for all axes that differ.
LogicalResult verifySizes(Operation *op, ArrayRef<AffineExpr> expected, RankedTensorType type) {
  SmallVector<AffineExpr> dims = getDims(type);
  if (dims.size() != expected.size())
    return op->emitOpError() << "result must have rank " << expected.size() << ", not "
                             << dims.size();
  LogicalResult result = success();
  for (auto [axis, pair] : llvm::enumerate(llvm::zip_equal(expected, dims)))
    if (!areEqualSizes(std::get<0>(pair), std::get<1>(pair)))
      result = op->emitOpError() << "result's axis " << axis << " must be "
                                 << toString(std::get<0>(pair)) << ", not "
                                 << toString(std::get<1>(pair));
  return result;
}

LogicalResult verifyPermutationAxes(Operation *op, ArrayRef<int64_t> axes, int64_t rank,
                                    StringRef name) {
  SmallVector<bool> seen(rank, false);
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= rank)
      return op->emitOpError() << name << " has axis " << axis << " of a tensor of rank " << rank;
    if (seen[axis])
      return op->emitOpError() << name << " has axis " << axis << " twice";
    seen[axis] = true;
  }
  return success();
}
} // namespace

//===----------------------------------------------------------------------===//
// constant
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }
ShardingRule ConstantOp::getShardingRule() { return getElementwiseRule(*this); }
Cost ConstantOp::getCost() { return getElementwiseCost(*this, 0); }

//===----------------------------------------------------------------------===//
// reshape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  if (failed(verifyElementType(*this, getInput(), getResult())))
    return failure();
  AffineExpr from = getNumElements(typeOf(getInput())), to = getNumElements(getType());
  if (from != to)
    return emitOpError() << "keeps the number of elements, but goes from " << toString(from)
                         << " to " << toString(to);
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto elements = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    return elements.reshape(getType());
  return {};
}

// reshape(reshape(x)) is one reshape.
LogicalResult ReshapeOp::canonicalize(ReshapeOp op, PatternRewriter &rewriter) {
  auto inner = op.getInput().getDefiningOp<ReshapeOp>();
  if (!inner)
    return rewriter.notifyMatchFailure(op, "the input is not a reshape");
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), inner.getInput());
  return success();
}

// Groups of axes with equal products correspond; the first axis of a group may split if it is the
// outermost on both sides.
ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<AffineExpr> in = getDims(typeOf(getInput())), out = getDims(getType());
  SmallVector<int> inAxes(in.size(), ShardingRule::kNone), outAxes(out.size(), ShardingRule::kNone);
  size_t i = 0, o = 0;
  while (i < in.size() && o < out.size()) {
    size_t inFirst = i, outFirst = o;
    AffineExpr inProduct = in[i++], outProduct = out[o++];
    while (inProduct != outProduct && (i < in.size() || o < out.size())) {
      auto a = dyn_cast<AffineConstantExpr>(inProduct),
           b = dyn_cast<AffineConstantExpr>(outProduct);
      bool growIn = i < in.size() && (o == out.size() || !a || (b && a.getValue() < b.getValue()));
      if (growIn)
        inProduct = inProduct * in[i++];
      else
        outProduct = outProduct * out[o++];
    }
    if (inProduct != outProduct)
      break;
    // The coarser side splits only where the finer side's outermost axis does.
    ShardingRule::Factor factor;
    bool inFiner = i - inFirst > 1;
    factor.size = inFiner ? in[inFirst] : out[outFirst];
    inAxes[inFirst] = outAxes[outFirst] = rule.factors.size();
    rule.factors.push_back(factor);
  }
  rule.operands = {inAxes};
  rule.results = {outAxes};
  rule.isLinear = true;
  return rule;
}

Cost ReshapeOp::getCost() { return getElementwiseCost(*this, 0); }

LogicalResult ReshapeOp::toRecipe(schema::RecipeNode &node) {
  node.mutable_reshape();
  return success();
}

//===----------------------------------------------------------------------===//
// transpose
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::verify() {
  RankedTensorType input = typeOf(getInput());
  if (static_cast<int64_t>(getPermutation().size()) != input.getRank())
    return emitOpError() << "permutation must have " << input.getRank() << " axes, not "
                         << getPermutation().size();
  if (failed(verifyElementType(*this, getInput(), getResult())) ||
      failed(verifyPermutationAxes(*this, getPermutation(), input.getRank(), "permutation")))
    return failure();
  SmallVector<AffineExpr> dims = getDims(input), expected;
  for (int64_t axis : getPermutation())
    expected.push_back(dims[axis]);
  return verifySizes(*this, expected, getType());
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  for (auto [index, axis] : llvm::enumerate(getPermutation()))
    if (static_cast<int64_t>(index) != axis)
      return {};
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

// transpose(transpose(x)) is one transpose.
LogicalResult TransposeOp::canonicalize(TransposeOp op, PatternRewriter &rewriter) {
  auto inner = op.getInput().getDefiningOp<TransposeOp>();
  if (!inner)
    return rewriter.notifyMatchFailure(op, "the input is not a transpose");
  SmallVector<int64_t> permutation;
  for (int64_t axis : op.getPermutation())
    permutation.push_back(inner.getPermutation()[axis]);
  rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), inner.getInput(), permutation);
  return success();
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int> in, out;
  for (AffineExpr size : getDims(typeOf(getInput()))) {
    in.push_back(rule.factors.size());
    rule.factors.push_back({size});
  }
  for (int64_t axis : getPermutation())
    out.push_back(in[axis]);
  rule.operands = {in};
  rule.results = {out};
  rule.isLinear = true;
  return rule;
}

Cost TransposeOp::getCost() { return getElementwiseCost(*this, 0); }

LogicalResult TransposeOp::toRecipe(schema::RecipeNode &node) {
  auto *transpose = node.mutable_transpose();
  for (int64_t axis : getPermutation())
    transpose->add_permutation(axis);
  return success();
}

//===----------------------------------------------------------------------===//
// broadcast
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  SmallVector<AffineExpr> in = getDims(typeOf(getInput())), out = getDims(getType());
  ArrayRef<int64_t> axes = getDimensions();
  if (failed(verifyElementType(*this, getInput(), getResult())))
    return failure();
  if (axes.size() != in.size())
    return emitOpError() << "maps " << axes.size() << " axes of an input of rank " << in.size();
  if (failed(verifyPermutationAxes(*this, axes, out.size(), "dims")))
    return failure();
  if (!llvm::is_sorted(axes))
    return emitOpError() << "dims must increase; transpose first";
  LogicalResult result = success();
  for (auto [index, axis] : llvm::enumerate(axes))
    if (in[index] != out[axis] && in[index] != getAffineConstantExpr(1, getContext()))
      result = emitOpError() << "input's axis " << index << " is " << toString(in[index])
                             << "; to become " << toString(out[axis]) << " it must be that or 1";
  return result;
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule = getElementwiseRule(*this);
  SmallVector<AffineExpr> in = getDims(typeOf(getInput())), out = getDims(getType());
  SmallVector<int> axes;
  for (auto [index, axis] : llvm::enumerate(getDimensions()))
    axes.push_back(in[index] == out[axis] ? rule.results[0][axis] : ShardingRule::kNone);
  rule.operands = {axes};
  rule.isLinear = true;
  return rule;
}

Cost BroadcastOp::getCost() { return getElementwiseCost(*this, 0); }

//===----------------------------------------------------------------------===//
// slice
//===----------------------------------------------------------------------===//

LogicalResult SliceOp::verify() {
  SmallVector<AffineExpr> in = getDims(typeOf(getInput())), out = getDims(getType());
  if (failed(verifyElementType(*this, getInput(), getResult())))
    return failure();
  if (getOffsets().size() != in.size() || getStrides().size() != in.size() ||
      out.size() != in.size())
    return emitOpError() << "of a tensor of rank " << in.size()
                         << " needs as many offsets, strides and result axes, not "
                         << getOffsets().size() << ", " << getStrides().size() << " and "
                         << out.size();
  LogicalResult result = success();
  for (size_t axis = 0; axis < in.size(); ++axis) {
    int64_t offset = getOffsets()[axis], stride = getStrides()[axis];
    auto from = dyn_cast<AffineConstantExpr>(in[axis]),
         to = dyn_cast<AffineConstantExpr>(out[axis]);
    if (offset < 0 || stride < 1) {
      result = emitOpError() << "axis " << axis << " has offset " << offset << " and stride "
                             << stride << "; offsets start at 0 and strides at 1";
    } else if (from && to) {
      if (to.getValue() > 0 && offset + (to.getValue() - 1) * stride >= from.getValue())
        result = emitOpError() << "axis " << axis << " reads element "
                               << offset + (to.getValue() - 1) * stride << " of "
                               << from.getValue();
    } else if (auto rest = dyn_cast<AffineConstantExpr>(
                   canonicalizeSize(in[axis] - offset - (out[axis] - 1) * stride))) {
      // What is left from the last element on, it included.
      if (rest.getValue() < 1)
        result = emitOpError() << "axis " << axis << " of symbolic size " << toString(in[axis])
                               << " does not have " << toString(out[axis]) << " elements from "
                               << offset << " in steps of " << stride;
    }
  }
  return result;
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  bool whole = getInput().getType() == getType() &&
               llvm::all_of(getOffsets(), [](int64_t offset) { return offset == 0; }) &&
               llvm::all_of(getStrides(), [](int64_t stride) { return stride == 1; });
  return whole ? OpFoldResult(getInput()) : OpFoldResult();
}

ShardingRule SliceOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<AffineExpr> in = getDims(typeOf(getInput())), out = getDims(getType());
  SmallVector<int> axes;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    bool whole = in[axis] == out[axis] && getOffsets()[axis] == 0 && getStrides()[axis] == 1;
    axes.push_back(whole ? static_cast<int>(rule.factors.size()) : ShardingRule::kNone);
    if (whole)
      rule.factors.push_back({in[axis]});
  }
  rule.operands = {axes};
  rule.results = {axes};
  rule.isLinear = true;
  return rule;
}

// Only what is taken is read.
Cost SliceOp::getCost() {
  Cost cost = getElementwiseCost(*this, 0);
  cost.bytesRead = cost.bytesWritten;
  return cost;
}

LogicalResult SliceOp::toRecipe(schema::RecipeNode &node) {
  auto *slice = node.mutable_slice();
  for (auto [offset, size, stride] :
       llvm::zip_equal(getOffsets(), getType().getShape(), getStrides())) {
    slice->add_offsets()->set_constant(offset);
    slice->add_sizes(size);
    slice->add_strides(stride);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// concat
//===----------------------------------------------------------------------===//

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("needs at least one input");
  int64_t rank = getType().getRank(), axis = static_cast<int64_t>(getAxis());
  if (axis < 0 || axis >= rank)
    return emitOpError() << "axis " << axis << " of a tensor of rank " << rank;
  SmallVector<AffineExpr> expected = getDims(getType());
  expected[axis] = getAffineConstantExpr(0, getContext());
  for (auto [index, input] : llvm::enumerate(getInputs())) {
    if (failed(verifyElementType(*this, input, getResult())))
      return failure();
    SmallVector<AffineExpr> dims = getDims(typeOf(input));
    if (static_cast<int64_t>(dims.size()) != rank)
      return emitOpError() << "input " << index << " has rank " << dims.size() << ", the result "
                           << rank;
    for (int64_t other = 0; other < rank; ++other)
      if (other != axis && dims[other] != expected[other])
        return emitOpError() << "input " << index << " has " << toString(dims[other]) << " on axis "
                             << other << ", the result " << toString(expected[other]);
    expected[axis] = expected[axis] + dims[axis];
  }
  return verifySizes(*this, expected, getType());
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  bool alone = getInputs().size() == 1 && getInputs()[0].getType() == getType();
  return alone ? OpFoldResult(getInputs()[0]) : OpFoldResult();
}

ShardingRule ConcatOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int> axes;
  for (auto [axis, size] : llvm::enumerate(getDims(getType()))) {
    bool joined = axis == getAxis();
    axes.push_back(joined ? ShardingRule::kNone : static_cast<int>(rule.factors.size()));
    if (!joined)
      rule.factors.push_back({size});
  }
  rule.operands.assign(getInputs().size(), axes);
  rule.results = {axes};
  rule.isLinear = true;
  return rule;
}

Cost ConcatOp::getCost() { return getElementwiseCost(*this, 0); }

LogicalResult ConcatOp::toRecipe(schema::RecipeNode &node) {
  node.mutable_concat()->set_axis(getAxis());
  return success();
}

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  RankedTensorType input = typeOf(getInput());
  if (failed(verifyElementType(*this, getInput(), getResult())) ||
      failed(verifyPermutationAxes(*this, getAxes(), input.getRank(), "axes")))
    return failure();
  SmallVector<AffineExpr> expected;
  for (auto [axis, size] : llvm::enumerate(getDims(input)))
    if (!llvm::is_contained(getAxes(), static_cast<int64_t>(axis)))
      expected.push_back(size);
  return verifySizes(*this, expected, getType());
}

ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int> in, out;
  auto reduction = [&] {
    switch (getKind()) {
    case ReduceKind::Sum:
      return ShardingRule::Reduction::Sum;
    case ReduceKind::Max:
      return ShardingRule::Reduction::Max;
    case ReduceKind::Min:
      return ShardingRule::Reduction::Min;
    default: // A mean or product of parts is not combined by any collective.
      return ShardingRule::Reduction::None;
    }
  }();
  for (auto [axis, size] : llvm::enumerate(getDims(typeOf(getInput())))) {
    bool reduced = llvm::is_contained(getAxes(), static_cast<int64_t>(axis));
    if (reduced && reduction == ShardingRule::Reduction::None) {
      in.push_back(ShardingRule::kNone);
      continue;
    }
    in.push_back(rule.factors.size());
    if (!reduced)
      out.push_back(rule.factors.size());
    rule.factors.push_back({size, reduced ? reduction : ShardingRule::Reduction::None});
  }
  rule.isLinear = getKind() == ReduceKind::Sum;
  rule.operands = {in};
  rule.results = {out};
  return rule;
}

Cost ReduceOp::getCost() {
  Cost cost = getElementwiseCost(*this, 0);
  cost.flops = getNumElements(typeOf(getInput()));
  return cost;
}

//===----------------------------------------------------------------------===//
// gather
//===----------------------------------------------------------------------===//

LogicalResult GatherOp::verify() {
  RankedTensorType table = typeOf(getTable());
  int64_t axis = getAxis();
  if (axis < 0 || axis >= table.getRank())
    return emitOpError() << "along axis " << axis << " of a table of rank " << table.getRank();
  if (axis != 0 && isa_and_nonnull<PackedAttr>(table.getEncoding()))
    return emitOpError("from a packed table goes along axis 0");
  if (failed(verifyElementType(*this, getTable(), getResult())))
    return failure();
  if (std::optional<DimsAttr> first = getFirstRow(); first && first->getExprs().size() != 1)
    return emitOpError() << "first_row is one size, not " << first->getExprs().size();
  SmallVector<AffineExpr> dims = getDims(table), expected(dims.begin(), dims.begin() + axis);
  llvm::append_range(expected, getDims(typeOf(getIndices())));
  llvm::append_range(expected, ArrayRef(dims).drop_front(axis + 1));
  return verifySizes(*this, expected, getType());
}

ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int> table, indices, result;
  auto addFactor = [&](AffineExpr size, SmallVectorImpl<int> &axes) {
    axes.push_back(rule.factors.size());
    result.push_back(rule.factors.size());
    rule.factors.push_back({size});
  };
  SmallVector<AffineExpr> dims = getDims(typeOf(getTable()));
  for (AffineExpr size : ArrayRef(dims).take_front(getAxis()))
    addFactor(size, table);
  for (AffineExpr size : getDims(typeOf(getIndices())))
    addFactor(size, indices);
  for (AffineExpr size : ArrayRef(dims).drop_front(getAxis() + 1))
    addFactor(size, table);
  // A part of the table gives zeros for rows that it does not hold.
  table.insert(table.begin() + getAxis(), rule.factors.size());
  rule.factors.push_back({dims[getAxis()], ShardingRule::Reduction::Sum});
  rule.operands = {table, indices};
  rule.results = {result};
  return rule;
}

void GatherOp::setPart(int factor, AffineExpr offset) {
  if (factor == getShardingRule().operands[0][getAxis()])
    setFirstRowAttr(DimsAttr::get(getContext(), offset));
}

// Of the table only the gathered rows are read.
Cost GatherOp::getCost() {
  Cost cost = getElementwiseCost(*this, 0);
  cost.bytesRead = cost.bytesWritten + getNumBytes(typeOf(getIndices()));
  return cost;
}

//===----------------------------------------------------------------------===//
// iota
//===----------------------------------------------------------------------===//

LogicalResult IotaOp::verify() {
  if (typeOf(getResult()).getRank() != 1)
    return emitOpError() << "makes a vector, not a tensor of rank "
                         << typeOf(getResult()).getRank();
  if (getStart().getExprs().size() != 1)
    return emitOpError() << "starts at one size, not " << getStart().getExprs().size();
  return success();
}

// Parts do not know where they begin.
ShardingRule IotaOp::getShardingRule() {
  ShardingRule rule;
  rule.results = {{ShardingRule::kNone}};
  return rule;
}

Cost IotaOp::getCost() { return getElementwiseCost(*this, 1); }

//===----------------------------------------------------------------------===//
// pad
//===----------------------------------------------------------------------===//

LogicalResult PadOp::verify() {
  RankedTensorType input = typeOf(getInput()), type = getType();
  if (failed(verifyElementType(*this, getInput(), getResult())) ||
      failed(verifyElementType(*this, getValue(), getResult())))
    return failure();
  if (typeOf(getValue()).getRank() != 0)
    return emitOpError() << "fills with one value, not a tensor of rank "
                         << typeOf(getValue()).getRank();
  if (input.getRank() != type.getRank() || static_cast<int64_t>(getLow().size()) != input.getRank())
    return emitOpError() << "of a tensor of rank " << input.getRank()
                         << " needs as many axes of the result and of low, not " << type.getRank()
                         << " and " << getLow().size();
  LogicalResult result = success();
  for (auto [axis, in, out, low] : llvm::enumerate(getDims(input), getDims(type), getLow())) {
    auto high = dyn_cast<AffineConstantExpr>(canonicalizeSize(out - in - low));
    if (low < 0 || (high && high.getValue() < 0))
      result = emitOpError() << "axis " << axis << ": " << low << " and " << toString(in)
                             << " elements do not fit into " << toString(out)
                             << "; to take some away, slice";
  }
  return result;
}

ShardingRule PadOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int> axes;
  for (auto [in, out] : llvm::zip_equal(getDims(typeOf(getInput())), getDims(getType()))) {
    axes.push_back(in == out ? static_cast<int>(rule.factors.size()) : ShardingRule::kNone);
    if (in == out)
      rule.factors.push_back({in});
  }
  rule.operands = {axes, {}};
  rule.results = {axes};
  return rule;
}

Cost PadOp::getCost() { return getElementwiseCost(*this, 0); }
