#include "dialects/Adapt/AdaptDialect.h"

using namespace mlir;
using namespace adapt;

#include "dialects/Adapt/AdaptInterfaces.cpp.inc"

Cost adapt::getElementwiseCost(Operation *op, int64_t flopsPerElement) {
  AffineExpr zero = getAffineConstantExpr(0, op->getContext());
  Cost cost{zero, zero, zero};
  for (Value operand : op->getOperands())
    if (auto type = dyn_cast<RankedTensorType>(operand.getType()))
      if (AffineExpr bytes = getNumBytes(type))
        cost.bytesRead = cost.bytesRead + bytes;
  for (Value result : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      if (AffineExpr bytes = getNumBytes(type)) {
        cost.bytesWritten = cost.bytesWritten + bytes;
        cost.flops = cost.flops + getNumElements(type) * flopsPerElement;
      }
  return cost;
}

ShardingRule adapt::getElementwiseRule(Operation *op) {
  ShardingRule rule;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<int> axes;
  for (AffineExpr size : getDims(type)) {
    axes.push_back(rule.factors.size());
    rule.factors.push_back({size});
  }
  rule.operands.assign(op->getNumOperands(), axes);
  rule.results.assign(op->getNumResults(), axes);
  return rule;
}
