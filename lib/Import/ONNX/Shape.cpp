// ONNX operators that make, move and cut tensors.
#include "Node.h"
#include <cmath>

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

namespace {

RankedTensorType vectorOf(Node &node, int64_t size) {
  return RankedTensorType::get({size}, node.builder().getI64Type());
}

void importShape(Node &node) {
  RankedTensorType type = node.type(0);
  if (node.failed())
    return;
  int64_t rank = type.getRank();
  int64_t start = node.integer("start", 0), end = node.integer("end", rank);
  auto clamp = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  start = clamp(start);
  end = std::max(clamp(end), start);
  SmallVector<AffineExpr> dims = getDims(type);
  node.setContents(0, ArrayRef(dims).slice(start, end - start), vectorOf(node, end - start));
}

void importSize(Node &node) {
  RankedTensorType type = node.type(0);
  if (!node.failed())
    node.setContents(0, {getNumElements(type)},
                     RankedTensorType::get({}, node.builder().getI64Type()));
}

//===----------------------------------------------------------------------===//
// Reshape and its kin
//===----------------------------------------------------------------------===//

/// The size that makes up for the others: all elements divided by them.
AffineExpr inferSize(Node &node, ArrayRef<AffineExpr> from, ArrayRef<AffineExpr> others) {
  // Sizes on both sides fall out; what is left must divide.
  SmallVector<AffineExpr> rest(from);
  AffineExpr divisor = node.size(1);
  for (AffineExpr size : others) {
    auto it = llvm::find(rest, size);
    if (it != rest.end() && !isa<AffineConstantExpr>(size))
      rest.erase(it);
    else
      divisor = divisor * size;
  }
  AffineExpr product = node.size(1);
  for (AffineExpr size : rest)
    product = product * size;
  return canonicalizeSize(canonicalizeSize(product).floorDiv(canonicalizeSize(divisor)));
}

void importReshape(Node &node) {
  RankedTensorType type = node.type(0);
  Contents target;
  if (node.version() < 5)
    for (int64_t size : node.integerList("shape"))
      target.push_back(node.size(size));
  else
    target = node.contents(1);
  bool zeroIsSize = node.integer("allowzero", 0) != 0;
  if (node.failed())
    return;
  SmallVector<AffineExpr> from = getDims(type), others;
  int64_t open = -1;
  for (auto [axis, size] : llvm::enumerate(target)) {
    auto constant = dyn_cast<AffineConstantExpr>(size);
    if (constant && constant.getValue() == 0 && !zeroIsSize) {
      if (axis >= from.size())
        return node.fail("axis " + Twine(axis) + " is to stay as it is, but the input has rank " +
                         Twine(from.size()));
      size = from[axis];
    } else if (constant && constant.getValue() == -1) {
      if (open >= 0)
        return node.fail("only one size can be -1");
      open = static_cast<int64_t>(axis);
      continue;
    } else if (constant && constant.getValue() < 0) {
      return node.fail("size " + Twine(constant.getValue()) + " on axis " + Twine(axis));
    }
    others.push_back(size);
  }
  if (open >= 0) {
    for (AffineExpr size : others)
      if (size == node.size(0))
        return node.fail("a size of -1 beside one of 0 has no value");
    target[open] = inferSize(node, from, others);
  }
  node.setReshaped(0, 0, target);
}

void importFlatten(Node &node) {
  RankedTensorType type = node.type(0);
  if (node.failed())
    return;
  int64_t axis = node.integer("axis", 1);
  if (axis != type.getRank())
    axis = node.axis(axis, std::max<int64_t>(type.getRank(), 1));
  AffineExpr sizes[2] = {node.size(1), node.size(1)};
  for (auto [index, size] : llvm::enumerate(getDims(type)))
    sizes[static_cast<int64_t>(index) >= axis] = sizes[static_cast<int64_t>(index) >= axis] * size;
  node.setReshaped(0, 0, {canonicalizeSize(sizes[0]), canonicalizeSize(sizes[1])});
}

void importUnsqueeze(Node &node) {
  RankedTensorType type = node.type(0);
  auto given = node.optionalAxes(13);
  if (node.failed())
    return;
  if (!given)
    return node.fail("has no axes");
  int64_t rank = type.getRank() + static_cast<int64_t>(given->size());
  SmallVector<int64_t> axes = node.axes(*given, rank);
  SmallVector<AffineExpr> dims = getDims(type);
  for (int64_t axis : axes)
    dims.insert(dims.begin() + axis, node.size(1));
  node.setReshaped(0, 0, dims);
}

void importSqueeze(Node &node) {
  RankedTensorType type = node.type(0);
  auto given = node.optionalAxes(13);
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims, from = getDims(type);
  SmallVector<int64_t> axes;
  if (given)
    axes = node.axes(*given, type.getRank());
  for (auto [axis, size] : llvm::enumerate(from)) {
    bool removed =
        given ? llvm::is_contained(axes, static_cast<int64_t>(axis)) : size == node.size(1);
    if (!given && !isa<AffineConstantExpr>(size))
      return node.fail("without axes: it cannot be told whether " + toString(size) + " is 1");
    if (removed && size != node.size(1))
      return node.fail("axis " + Twine(axis) + " has size " + toString(size) + ", not 1");
    if (!removed)
      dims.push_back(size);
  }
  node.setReshaped(0, 0, dims);
}

//===----------------------------------------------------------------------===//
// Broadcast
//===----------------------------------------------------------------------===//

void importExpand(Node &node) {
  Contents target = node.contents(1);
  RankedTensorType type = node.type(0);
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = node.commonDims(getDims(type), target);
  if (node.failed())
    return;
  if (getTensorType(dims, type.getElementType()) == type)
    return node.setSame(0, 0);
  Value value = node.tensor(0);
  if (!node.failed())
    node.set(0, node.broadcast(value, dims));
}

/// Each axis of size s becomes (repeats, s), then one.
void importTile(Node &node) {
  Value value = node.tensor(0);
  Contents repeats = node.contents(1);
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(typeOf(value)), spread, result;
  if (repeats.size() != dims.size())
    return node.fail("has " + Twine(repeats.size()) + " repeats for rank " + Twine(dims.size()));
  SmallVector<int64_t> places;
  for (auto [size, count] : llvm::zip_equal(dims, repeats)) {
    spread.push_back(count);
    places.push_back(spread.size());
    spread.push_back(size);
    result.push_back(canonicalizeSize(size * count));
  }
  RankedTensorType type = getTensorType(spread, typeOf(value).getElementType());
  node.set(0, node.reshape(node.create<BroadcastOp>(type, value, places), result));
}

void importConstantOfShape(Node &node) {
  Contents dims = node.contents(0);
  Value value = node.has(1) ? node.tensor(1) : node.scalar(node.builder().getF32Type(), 0);
  if (node.failed())
    return;
  // Sizes filled with one number stay known.
  const Contents *number = node.has(1) ? node.knownContents(1) : nullptr;
  if (auto count = dims.size() == 1 ? dyn_cast<AffineConstantExpr>(dims[0]) : AffineConstantExpr();
      count && number && number->size() == 1 && count.getValue() >= 0 && count.getValue() <= 64)
    return node.setContents(
        0, Contents(count.getValue(), number->front()),
        RankedTensorType::get({count.getValue()}, node.type(1).getElementType()));
  if (getNumElements(typeOf(value)) != node.size(1))
    return node.fail("attribute 'value' must be one element");
  node.set(0, node.broadcast(node.reshape(value, {}), dims));
}

bool isSmall(AffineExpr size) {
  auto constant = dyn_cast<AffineConstantExpr>(size);
  return !constant ||
         std::abs(std::max(constant.getValue(), -std::numeric_limits<int64_t>::max())) <= int64_t(1)
                                                                                              << 60;
}

void importRange(Node &node) {
  RankedTensorType type = node.type(0);
  if (node.failed())
    return;
  if (!isa<IntegerType>(type.getElementType())) {
    auto start = node.knownScalar(0), limit = node.knownScalar(1), delta = node.knownScalar(2);
    if (!start || !limit || !delta || *delta == 0)
      return node.fail("of floating-point numbers needs constant limits");
    int64_t count = std::max(0.0, std::ceil((*limit - *start) / *delta));
    if (count > 1 << 20)
      return node.fail("of " + Twine(count) + " floating-point numbers is too long");
    Value index = node.create<IotaOp>(vectorOf(node, count),
                                      DimsAttr::get(node.context(), node.size(0)), int64_t(1));
    Value number = node.cast(index, type.getElementType());
    Value scaled = node.binary<MulOp>(number, node.splat(number, *delta));
    return node.set(0, node.binary<AddOp>(scaled, node.splat(number, *start)));
  }
  Contents start = node.contents(0), limit = node.contents(1);
  SmallVector<int64_t> delta = node.integers(2);
  if (node.failed())
    return;
  if (start.size() != 1 || limit.size() != 1 || delta.size() != 1)
    return node.fail("start, limit and delta must be one number each");
  if (delta[0] == 0)
    return node.fail("in steps of 0");
  if (!node.checkRange(delta, "its step", std::numeric_limits<int32_t>::min()))
    return;
  if (!isSmall(start[0]) || !isSmall(limit[0]))
    return node.fail("limits beyond 2^60 are not supported");
  AffineExpr length = delta[0] > 0 ? limit[0] - start[0] : start[0] - limit[0];
  AffineExpr count = canonicalizeSize(length).ceilDiv(std::abs(delta[0]));
  if (auto constant = dyn_cast<AffineConstantExpr>(count); constant && constant.getValue() < 0)
    count = node.size(0);
  else
    node.require(length, "its length");
  if (!node.failed())
    node.set(0, node.create<IotaOp>(getTensorType({count}, type.getElementType()),
                                    DimsAttr::get(node.context(), start[0]), delta[0]));
}

//===----------------------------------------------------------------------===//
// Moving and joining
//===----------------------------------------------------------------------===//

void importTranspose(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  SmallVector<int64_t> reversed =
      llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, typeOf(value).getRank())));
  SmallVector<int64_t> permutation = node.integerList("perm", ArrayRef<int64_t>(reversed));
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, typeOf(value).getRank())))
    return node.fail("attribute 'perm' is no permutation of " + Twine(typeOf(value).getRank()) +
                     " axes");
  node.set(0, node.transpose(value, permutation));
}

void importConcat(Node &node) {
  SmallVector<RankedTensorType> types;
  bool allKnown = true;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    types.push_back(node.type(i));
    if (node.failed())
      return;
    allKnown &= node.knownContents(i) && types.back().getRank() == 1;
  }
  if (types.empty())
    return node.fail("needs at least one input");
  int64_t axis = node.axis(node.integer("axis"), types[0].getRank());
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(types[0]);
  if (allKnown) {
    Contents contents;
    for (size_t i = 0; i < node.numInputs(); ++i)
      llvm::append_range(contents, *node.knownContents(i));
    auto type =
        RankedTensorType::get({static_cast<int64_t>(contents.size())}, types[0].getElementType());
    return node.setContents(0, contents, type);
  }
  dims[axis] = node.size(0);
  SmallVector<Value> values;
  for (auto [index, type] : llvm::enumerate(types)) {
    SmallVector<AffineExpr> other = getDims(type);
    if (other.size() != dims.size())
      return node.fail("inputs of rank " + Twine(dims.size()) + " and " + Twine(other.size()));
    for (auto [i, size] : llvm::enumerate(other))
      if (static_cast<int64_t>(i) != axis && size != dims[i])
        return node.fail("inputs of sizes " + toString(dims[i]) + " and " + toString(size) +
                         " on axis " + Twine(i));
    dims[axis] = dims[axis] + other[axis];
    if (other[axis] != node.size(0))
      values.push_back(node.tensor(index));
  }
  dims[axis] = canonicalizeSize(dims[axis]);
  if (node.failed())
    return;
  if (values.empty())
    return node.setSame(0, 0);
  // Many go by parts: a kernel has so many operands at most.
  constexpr size_t kMaxOperands = 32;
  while (values.size() > kMaxOperands) {
    SmallVector<Value> parts;
    for (size_t i = 0; i < values.size(); i += kMaxOperands) {
      ArrayRef<Value> some = ArrayRef(values).slice(i, std::min(kMaxOperands, values.size() - i));
      SmallVector<AffineExpr> partDims(dims);
      partDims[axis] = node.size(0);
      for (Value value : some)
        partDims[axis] = partDims[axis] + getDims(typeOf(value))[axis];
      partDims[axis] = canonicalizeSize(partDims[axis]);
      parts.push_back(node.create<ConcatOp>(getTensorType(partDims, types[0].getElementType()),
                                            some, static_cast<uint64_t>(axis)));
    }
    values = std::move(parts);
  }
  if (values.size() == 1)
    return node.set(0, values[0]);
  node.set(0, node.create<ConcatOp>(getTensorType(dims, types[0].getElementType()), values,
                                    static_cast<uint64_t>(axis)));
}

void importSplit(Node &node) {
  Value value = node.tensor(0);
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  int64_t axis = node.axis(node.integer("axis", 0), dims.size());
  SmallVector<int64_t> sizes;
  if (node.version() < 13 && node.hasAttribute("split"))
    sizes = node.integerList("split");
  else if (node.version() >= 13 && node.has(1))
    sizes = node.integers(1);
  if (node.failed())
    return;
  auto whole = dyn_cast<AffineConstantExpr>(dims[axis]);
  int64_t count = static_cast<int64_t>(node.numOutputs());
  if (sizes.empty()) {
    if (!whole)
      return node.fail("of symbolic size " + toString(dims[axis]) + " needs the parts' sizes");
    int64_t part = llvm::divideCeilSigned(whole.getValue(), count);
    for (int64_t rest = whole.getValue(); sizes.size() < node.numOutputs(); rest -= part)
      sizes.push_back(std::clamp<int64_t>(rest, 0, part));
  }
  int64_t sum = 0;
  if (!node.checkRange(sizes, "the parts' sizes"))
    return;
  for (int64_t size : sizes)
    sum += size;
  if (static_cast<int64_t>(sizes.size()) != count || !whole || sum != whole.getValue())
    return node.fail("of " + toString(dims[axis]) + " elements into " + Twine(count) +
                     " parts of together " + Twine(sum));
  SmallVector<int64_t> offsets(dims.size(), 0), strides(dims.size(), 1);
  for (auto [index, size] : llvm::enumerate(sizes)) {
    dims[axis] = node.size(size);
    node.set(index, node.create<SliceOp>(getTensorType(dims, typeOf(value).getElementType()), value,
                                         offsets, strides));
    offsets[axis] += size;
  }
}

void importPad(Node &node) {
  Value value = node.tensor(0);
  std::string mode = node.text("mode", StringRef("constant"));
  SmallVector<int64_t> pads = node.version() < 11 ? node.integerList("pads") : node.integers(1);
  if (node.failed())
    return;
  if (mode != "constant")
    return node.fail("in mode '" + mode + "' is not supported");
  int64_t rank = typeOf(value).getRank();
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (node.version() >= 18 && node.has(3)) {
    axes = node.integers(3);
    for (int64_t &axis : axes)
      axis = node.axis(axis, rank, "axes:");
  }
  if (node.failed())
    return;
  if (!node.checkRange(pads, "pads", std::numeric_limits<int32_t>::min()))
    return;
  if (pads.size() != 2 * axes.size())
    return node.fail(Twine(pads.size()) + " pads for " + Twine(axes.size()) + " axes");
  Value filler;
  if (node.version() < 11) {
    filler = node.scalar(typeOf(value).getElementType(), node.number("value", 0.0));
  } else if (node.has(2)) {
    filler = node.tensor(2);
    if (!node.failed() && getNumElements(typeOf(filler)) != node.size(1))
      node.fail("the value must be one element");
    if (!node.failed())
      filler = node.reshape(filler, {});
  } else {
    filler = node.scalar(typeOf(value).getElementType(), 0);
  }
  if (node.failed())
    return;
  // Negative pads take elements away.
  SmallVector<AffineExpr> dims = getDims(typeOf(value)), cut = dims;
  SmallVector<int64_t> offsets(rank, 0), strides(rank, 1), low(rank, 0);
  for (auto [index, axis] : llvm::enumerate(axes)) {
    int64_t before = pads[index], after = pads[index + axes.size()];
    offsets[axis] = std::max<int64_t>(-before, 0);
    cut[axis] =
        canonicalizeSize(dims[axis] + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0));
    node.require(cut[axis], "what negative pads leave");
    low[axis] = std::max<int64_t>(before, 0);
    dims[axis] = canonicalizeSize(cut[axis] + low[axis] + std::max<int64_t>(after, 0));
  }
  if (node.failed())
    return;
  RankedTensorType cutType = getTensorType(cut, typeOf(value).getElementType());
  if (cutType != typeOf(value))
    value = node.create<SliceOp>(cutType, value, offsets, strides);
  RankedTensorType type = getTensorType(dims, typeOf(value).getElementType());
  node.set(0, type == cutType ? value : node.create<PadOp>(type, value, filler, low));
}

/// Keeps what lies on one side of the diagonal k: column - row >= k, or <= k.
void importTrilu(Node &node) {
  Value value = node.tensor(0);
  int64_t k = 0;
  if (node.has(1))
    if (SmallVector<int64_t> given = node.integers(1); !given.empty())
      k = std::clamp<int64_t>(given[0], -(int64_t(1) << 60), int64_t(1) << 60);
  bool upper = node.integer("upper", 1) != 0;
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  if (dims.size() < 2)
    return node.fail("needs a matrix");
  Type i64 = node.builder().getI64Type();
  Value row = node.iotaAlong(dims, dims.size() - 2, i64, node.size(k));
  Value column = node.iotaAlong(dims, dims.size() - 1, i64, node.size(0));
  Value keep = node.compare(upper ? Predicate::GreaterEqual : Predicate::LessEqual, column, row);
  node.set(0, node.select(keep, value, node.splat(value, 0)));
}

void importConstant(Node &node) { node.setConstantResult(); }
} // namespace

ArrayRef<Handler> import::getShapeHandlers() {
  static constexpr Handler kHandlers[] = {
      {"Constant", 1, importConstant},
      {"ConstantOfShape", 9, importConstantOfShape},
      {"Concat", 4, importConcat},
      {"Expand", 8, importExpand},
      {"Flatten", 1, importFlatten},
      {"Pad", 2, importPad},
      {"Pad", 11, importPad},
      {"Pad", 18, importPad},
      {"Range", 11, importRange},
      {"Reshape", 1, importReshape},
      {"Reshape", 5, importReshape},
      {"Shape", 1, importShape},
      {"Size", 1, importSize},
      {"Split", 2, importSplit},
      {"Split", 13, importSplit},
      {"Squeeze", 1, importSqueeze},
      {"Squeeze", 13, importSqueeze},
      {"Tile", 6, importTile},
      {"Transpose", 1, importTranspose},
      {"Trilu", 14, importTrilu},
      {"Unsqueeze", 1, importUnsqueeze},
      {"Unsqueeze", 13, importUnsqueeze},
  };
  return kHandlers;
}
