#include "passes/Common/SizeBounds.h"
#include <algorithm>

using namespace mlir;
using namespace adapt;

FailureOr<SizeBounds> SizeBounds::get(ModuleOp module) {
  auto limits = module->getAttrOfType<DictionaryAttr>(kAttribute);
  if (!limits) {
    module.emitError() << "the module has no attribute " << kAttribute
                       << ", a dictionary from sizes to their bounds";
    return failure();
  }
  SizeBounds bounds;
  bool failed = false;
  for (NamedAttribute limit : limits) {
    std::optional<Range> range;
    if (auto max = dyn_cast<IntegerAttr>(limit.getValue())) {
      range = {1, max.getInt()};
    } else if (auto pair = dyn_cast<ArrayAttr>(limit.getValue());
               pair && pair.size() == 2 && llvm::all_of(pair, llvm::IsaPred<IntegerAttr>)) {
      range = {cast<IntegerAttr>(pair[0]).getInt(), cast<IntegerAttr>(pair[1]).getInt()};
    }
    if (!range || range->min < 0 || range->max < range->min) {
      module.emitError() << kAttribute << ": '" << limit.getName().getValue()
                         << "' must be a maximum or [minimum, maximum], not " << limit.getValue();
      failed = true;
      continue;
    }
    bounds.ranges[limit.getName().getValue()] = *range;
  }
  if (failed)
    return failure();
  return bounds;
}

const SizeBounds::Range *SizeBounds::find(StringRef symbol) const {
  auto it = ranges.find(symbol);
  return it == ranges.end() ? nullptr : &it->second;
}

std::optional<SizeBounds::Range> SizeBounds::getRange(AffineExpr expr) const {
  if (!expr)
    return std::nullopt;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return Range{constant.getValue(), constant.getValue()};
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    const Range *range = find(getSymbolName(symbol));
    return range ? std::optional(*range) : std::nullopt;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  std::optional<Range> lhs = getRange(binary.getLHS());
  std::optional<Range> rhs = getRange(binary.getRHS());
  if (!lhs || !rhs)
    return std::nullopt;

  Range result;
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    if (llvm::AddOverflow(lhs->min, rhs->min, result.min) ||
        llvm::AddOverflow(lhs->max, rhs->max, result.max))
      return std::nullopt;
    return result;
  case AffineExprKind::Mul: {
    int64_t corners[4];
    if (llvm::MulOverflow(lhs->min, rhs->min, corners[0]) ||
        llvm::MulOverflow(lhs->min, rhs->max, corners[1]) ||
        llvm::MulOverflow(lhs->max, rhs->min, corners[2]) ||
        llvm::MulOverflow(lhs->max, rhs->max, corners[3]))
      return std::nullopt;
    return Range{*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
  }
  case AffineExprKind::FloorDiv:
  case AffineExprKind::CeilDiv: {
    if (rhs->min <= 0)
      return std::nullopt;
    auto divide = binary.getKind() == AffineExprKind::FloorDiv
                      ? [](int64_t a, int64_t b) { return llvm::divideFloorSigned(a, b); }
                      : [](int64_t a, int64_t b) { return llvm::divideCeilSigned(a, b); };
    // Toward zero with a larger divisor, so the extremes are at the corners.
    int64_t corners[4] = {divide(lhs->min, rhs->min), divide(lhs->min, rhs->max),
                          divide(lhs->max, rhs->min), divide(lhs->max, rhs->max)};
    return Range{*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
  }
  case AffineExprKind::Mod:
    if (rhs->min <= 0)
      return std::nullopt;
    if (lhs->min >= 0 && lhs->max < rhs->min)
      return lhs;
    return Range{0, rhs->max - 1};
  default:
    return std::nullopt;
  }
}
