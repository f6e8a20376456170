// ONNX operators that pick elements by index.
#include "Node.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

namespace {

//===----------------------------------------------------------------------===//
// Slice
//===----------------------------------------------------------------------===//

struct Range {
  AffineExpr start, count;
  int64_t step;
};

bool isBeyond(AffineExpr size) {
  auto constant = dyn_cast<AffineConstantExpr>(size);
  return constant && (constant.getValue() >= std::numeric_limits<int32_t>::max() ||
                      constant.getValue() <= std::numeric_limits<int32_t>::min());
}

/// What Slice takes of an axis. Limits are clamped where the numbers are known; where only names
/// are, bounds of the sizes see to it that there is nothing to clamp.
Range getRange(Node &node, AffineExpr size, AffineExpr start, AffineExpr end, int64_t step) {
  auto whole = dyn_cast<AffineConstantExpr>(size);
  auto first = dyn_cast<AffineConstantExpr>(start), last = dyn_cast<AffineConstantExpr>(end);
  if (whole && first && last) {
    int64_t n = whole.getValue();
    auto clamp = [&](int64_t at) {
      if (at < 0)
        at = at < -n ? -1 : at + n; // Below the first element.
      return step > 0 ? std::clamp<int64_t>(at, 0, n) : std::clamp<int64_t>(at, -1, n - 1);
    };
    int64_t from = clamp(first.getValue()), to = clamp(last.getValue());
    // From the end on, "-1" is the last element, and only what is below -n is before the first.
    int64_t distance = step > 0 ? to - from : from - to;
    int64_t count = distance <= 0 ? 0 : llvm::divideCeilSigned(distance, std::abs(step));
    return {node.size(std::max<int64_t>(from, 0)), node.size(count), step};
  }
  auto resolve = [&](AffineExpr at, AffineExpr beyond, AffineExpr before) -> AffineExpr {
    auto constant = dyn_cast<AffineConstantExpr>(at);
    if (isBeyond(at))
      return constant.getValue() > 0 ? beyond : before;
    if (constant && constant.getValue() < 0)
      return canonicalizeSize(size + constant.getValue());
    return at;
  };
  AffineExpr zero = node.size(0), one = node.size(1);
  if (step > 0) {
    AffineExpr from = resolve(start, size, zero), to = resolve(end, size, zero);
    node.require(from, "start");
    node.require(to - from, "end - start");
    node.require(size - to, "size - end");
    return {from, canonicalizeSize(to - from).ceilDiv(step), step};
  }
  AffineExpr from = resolve(start, size - one, zero - one);
  AffineExpr to = resolve(end, size - one, zero - one);
  node.require(size - one - from, "size - 1 - start");
  node.require(from - to, "start - end");
  node.require(to + one, "end + 1");
  return {canonicalizeSize(from), canonicalizeSize(from - to).ceilDiv(-step), step};
}

Value takeRange(Node &node, Value value, int64_t axis, const Range &range) {
  SmallVector<AffineExpr> dims = getDims(typeOf(value));
  AffineExpr size = dims[axis];
  dims[axis] = range.count;
  RankedTensorType type = getTensorType(dims, typeOf(value).getElementType());
  auto start = dyn_cast<AffineConstantExpr>(range.start);
  if (start && range.step > 0) {
    if (start.getValue() == 0 && range.step == 1 && range.count == size)
      return value;
    SmallVector<int64_t> offsets(dims.size(), 0), strides(dims.size(), 1);
    offsets[axis] = range.count == node.size(0) ? 0 : start.getValue();
    strides[axis] = range.step;
    return node.create<SliceOp>(type, value, offsets, strides);
  }
  Value indices = node.create<IotaOp>(getTensorType({range.count}, node.builder().getI64Type()),
                                      DimsAttr::get(node.context(), range.start), range.step);
  return node.create<GatherOp>(type, value, indices, axis);
}

void importSlice(Node &node) {
  RankedTensorType type = node.type(0);
  if (node.failed())
    return;
  Contents starts, ends;
  SmallVector<int64_t> axes, steps;
  if (node.version() < 10) {
    for (int64_t start : node.integerList("starts"))
      starts.push_back(node.size(start));
    for (int64_t end : node.integerList("ends"))
      ends.push_back(node.size(end));
    axes = node.integerList("axes", ArrayRef<int64_t>());
  } else {
    starts = node.contents(1);
    ends = node.contents(2);
    if (node.has(3))
      axes = node.integers(3);
    if (node.has(4))
      steps = node.integers(4);
  }
  if (node.failed())
    return;
  if (axes.empty())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, starts.size()));
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return node.fail("needs as many ends, axes and steps as starts");
  SmallVector<AffineExpr> dims = getDims(type);
  SmallVector<std::pair<int64_t, Range>> ranges;
  for (auto [start, end, axis, step] : llvm::zip_equal(starts, ends, axes, steps)) {
    int64_t at = node.axis(axis, type.getRank(), "axes:");
    if (step == 0)
      node.fail("in steps of 0");
    if (node.failed())
      return;
    // No tensor is that long: more takes one element just as well.
    step = std::clamp<int64_t>(step, -(int64_t(1) << 60), int64_t(1) << 60);
    ranges.emplace_back(at, getRange(node, dims[at], start, end, step));
  }
  if (node.failed())
    return;
  if (const Contents *contents = node.knownContents(0);
      contents && type.getRank() == 1 && ranges.size() == 1) {
    const Range &range = ranges[0].second;
    auto start = dyn_cast<AffineConstantExpr>(range.start);
    auto count = dyn_cast<AffineConstantExpr>(range.count);
    if (start && count) {
      Contents taken;
      for (int64_t i = 0; i < count.getValue(); ++i)
        taken.push_back((*contents)[start.getValue() + i * range.step]);
      return node.setContents(0, taken,
                              RankedTensorType::get({count.getValue()}, type.getElementType()));
    }
  }
  Value value = node.tensor(0);
  for (auto &[axis, range] : ranges)
    value = takeRange(node, value, axis, range);
  node.set(0, value);
}

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

void importGather(Node &node) {
  RankedTensorType type = node.type(0), indexType = node.type(1);
  if (node.failed())
    return;
  int64_t axis = node.axis(node.integer("axis", 0), type.getRank());
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(type);
  const Contents *data = node.knownContents(0), *indices = node.knownContents(1);
  if (data && indices && type.getRank() == 1) {
    Contents picked;
    int64_t count = static_cast<int64_t>(data->size());
    for (AffineExpr index : *indices) {
      auto constant = dyn_cast<AffineConstantExpr>(index);
      if (!constant)
        break;
      int64_t at = constant.getValue() < 0 ? constant.getValue() + count : constant.getValue();
      if (at < 0 || at >= count)
        return node.fail("index " + Twine(constant.getValue()) + " of " + Twine(count) +
                         " elements");
      picked.push_back((*data)[at]);
    }
    if (picked.size() == indices->size())
      return node.setContents(0, picked, withElementType(indexType, type.getElementType()));
  }
  Value table = node.tensor(0), rows = node.tensor(1);
  if (node.failed())
    return;
  if (!isa<IntegerType>(typeOf(rows).getElementType()))
    return node.fail("indices must be integers");
  rows = node.normalizeIndices(rows, dims[axis]);
  SmallVector<AffineExpr> result(dims.begin(), dims.begin() + axis);
  llvm::append_range(result, getDims(indexType));
  llvm::append_range(result, ArrayRef(dims).drop_front(axis + 1));
  node.set(0,
           node.create<GatherOp>(getTensorType(result, type.getElementType()), table, rows, axis));
}

/// The places in a flattened tensor of places along its axes; `parts` are numbers of one shape.
Value flattenPlaces(Node &node, ArrayRef<Value> parts, ArrayRef<AffineExpr> dims) {
  Value place;
  for (auto [part, size] : llvm::zip_equal(parts, dims)) {
    if (place)
      place = node.binary<AddOp>(node.binary<MulOp>(place, node.splatSize(place, size)), part);
    else
      place = part;
  }
  return place;
}

Value flatten(Node &node, Value value, ArrayRef<AffineExpr> rest = {}) {
  AffineExpr count = node.size(1);
  SmallVector<AffineExpr> whole = getDims(typeOf(value));
  for (AffineExpr size : ArrayRef(whole).drop_back(rest.size()))
    count = count * size;
  SmallVector<AffineExpr> dims = {canonicalizeSize(count)};
  llvm::append_range(dims, rest);
  return node.reshape(value, dims);
}

void importGatherElements(Node &node) {
  Value data = node.tensor(0), indices = node.tensor(1);
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(typeOf(data)), shape = getDims(typeOf(indices));
  int64_t axis = node.axis(node.integer("axis", 0), dims.size());
  if (!node.failed() && dims.size() != shape.size())
    node.fail("data of rank " + Twine(dims.size()) + " and indices of rank " + Twine(shape.size()));
  if (node.failed())
    return;
  Type element = typeOf(indices).getElementType();
  SmallVector<Value> parts;
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i) {
    if (i != axis)
      node.require(dims[i] - shape[i], "data - indices on axis " + Twine(i));
    parts.push_back(i == axis ? node.normalizeIndices(indices, dims[i])
                              : node.iotaAlong(shape, i, element, node.size(0)));
  }
  if (node.failed())
    return;
  RankedTensorType type = getTensorType(shape, typeOf(data).getElementType());
  node.set(0, node.create<GatherOp>(type, flatten(node, data), flattenPlaces(node, parts, dims)));
}

/// indices[…, k] name the first k axes after the batch axes of the data.
void importGatherND(Node &node) {
  Value data = node.tensor(0), indices = node.tensor(1);
  int64_t batch = node.integer("batch_dims", 0);
  if (node.failed())
    return;
  SmallVector<AffineExpr> dims = getDims(typeOf(data)), shape = getDims(typeOf(indices));
  if (shape.empty())
    return node.fail("indices must have at least one axis");
  auto depth = dyn_cast<AffineConstantExpr>(shape.back());
  int64_t rank = static_cast<int64_t>(dims.size());
  if (!depth || batch < 0 || batch >= static_cast<int64_t>(shape.size()) || depth.getValue() < 1 ||
      depth.getValue() > rank - batch)
    return node.fail("indices' last axis of " + toString(shape.back()) + " with " + Twine(batch) +
                     " batch axes do not fit data of rank " + Twine(rank));
  int64_t k = depth.getValue();
  ArrayRef<AffineExpr> places = ArrayRef(shape).drop_back();
  for (int64_t i = 0; i < batch; ++i)
    if (dims[i] != places[i])
      return node.fail("batch axis " + Twine(i) + " has sizes " + toString(dims[i]) + " and " +
                       toString(places[i]));
  Type element = typeOf(indices).getElementType();
  SmallVector<Value> parts;
  for (int64_t i = 0; i < batch; ++i)
    parts.push_back(node.iotaAlong(places, i, element, node.size(0)));
  SmallVector<AffineExpr> one(shape);
  one.back() = node.size(1);
  for (int64_t i = 0; i < k; ++i) {
    SmallVector<int64_t> offsets(shape.size(), 0), strides(shape.size(), 1);
    offsets.back() = i;
    Value part = indices;
    if (k > 1)
      part = node.create<SliceOp>(getTensorType(one, element), indices, offsets, strides);
    parts.push_back(node.normalizeIndices(node.reshape(part, places), dims[batch + i]));
  }
  ArrayRef<AffineExpr> rest = ArrayRef(dims).drop_front(batch + k);
  SmallVector<AffineExpr> result(places);
  llvm::append_range(result, rest);
  Value table = flatten(node, data, rest);
  Value place = flattenPlaces(node, parts, ArrayRef(dims).take_front(batch + k));
  node.set(
      0, node.create<GatherOp>(getTensorType(result, typeOf(data).getElementType()), table, place));
}
} // namespace

ArrayRef<Handler> import::getIndexingHandlers() {
  static constexpr Handler kHandlers[] = {
      {"Gather", 1, importGather},      {"GatherElements", 11, importGatherElements},
      {"GatherND", 11, importGatherND}, {"Slice", 1, importSlice},
      {"Slice", 10, importSlice},
  };
  return kHandlers;
}
