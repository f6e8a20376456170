#include "dialects/Adapt/Rows.h"
#include "dialects/Adapt/AdaptDialect.h"

using namespace mlir;
using namespace adapt;

RankedTensorType Rows::getRowType(Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  auto it = axes.find(value);
  if (it == axes.end() || llvm::all_of(it->second, [](int64_t axis) { return axis < 0; }))
    return type;
  SmallVector<AffineExpr> dims = getDims(type);
  for (int64_t axis : it->second)
    if (axis >= 0)
      dims[axis] = getAffineConstantExpr(1, type.getContext());
  return getTensorType(dims, type.getElementType());
}

bool Rows::isSplitInAll(Value value) const {
  auto it = axes.find(value);
  return it != axes.end() && llvm::all_of(it->second, [](int64_t axis) { return axis >= 0; });
}

size_t Rows::getWanted(ValueRange results) {
  if (results.empty())
    return 0;
  SmallVector<AffineExpr> dims = getDims(cast<RankedTensorType>(results[0].getType()));
  size_t wanted = 0;
  for (size_t axis = 0; axis < std::max<size_t>(dims.size(), 2) - 1 && axis < dims.size(); ++axis)
    if (!isa<AffineConstantExpr>(dims[axis]))
      wanted = axis + 1;
  return wanted;
}

namespace {
/// One attempt with a number of row axes.
class Attempt {
public:
  explicit Attempt(Rows &rows) : rows(rows) {}

  /// The first row axis that does not work out; their number if all do.
  size_t run(ArrayRef<Operation *> ops, ValueRange results) {
    Rows::Axes leading = llvm::to_vector<4>(llvm::seq<int64_t>(0, rows.count()));
    failed = rows.count();
    for (Value result : results)
      rows.axes[result] = leading;
    for (Operation *op : llvm::reverse(ops)) {
      visit(op);
      if (failed < rows.count())
        return failed;
    }
    return failed;
  }

private:
  void fail(size_t row) { failed = std::min(failed, row); }

  void visit(Operation *op) {
    if (llvm::none_of(op->getResults(), [&](Value result) { return rows.axes.contains(result); }))
      return;
    auto sharding = dyn_cast<ShardingRuleOpInterface>(op);
    if (!sharding || op->getNumOperands() == 0) {
      for (Value result : op->getResults())
        for (auto [row, axis] : llvm::enumerate(rows.axes.lookup(result)))
          if (!sharding || axis >= 0)
            return fail(row);
      return;
    }
    ShardingRule rule = sharding.getShardingRule();
    SmallVector<int> factors = getFactors(op, rule);
    if (failed < rows.count())
      return;
    for (auto [operand, operandFactors] : llvm::zip_equal(op->getOperands(), rule.operands))
      if (isa<RankedTensorType>(operand.getType()))
        follow(operand, operandFactors, factors);
  }

  /// The factor of each row axis; kNone where the results do not have it.
  SmallVector<int> getFactors(Operation *op, const ShardingRule &rule) {
    SmallVector<int> factors(rows.count(), ShardingRule::kNone);
    bool first = true;
    for (auto [result, resultFactors] : llvm::zip_equal(op->getResults(), rule.results)) {
      auto it = rows.axes.find(result);
      if (it == rows.axes.end())
        continue;
      for (auto [row, axis] : llvm::enumerate(it->second)) {
        int factor = axis < 0 ? ShardingRule::kNone : resultFactors[axis];
        if ((axis >= 0 && factor == ShardingRule::kNone) || (!first && factor != factors[row]))
          fail(row);
        factors[row] = factor;
      }
      first = false;
    }
    return factors;
  }

  void follow(Value operand, ArrayRef<int> operandFactors, ArrayRef<int> factors) {
    SmallVector<AffineExpr> dims = getDims(cast<RankedTensorType>(operand.getType()));
    Rows::Axes axes(rows.count(), -1);
    for (auto [row, factor] : llvm::enumerate(factors)) {
      if (factor == ShardingRule::kNone)
        continue;
      for (auto [axis, other] : llvm::enumerate(operandFactors)) {
        if (other != factor)
          continue;
        if (axes[row] >= 0 || !areEqualSizes(dims[axis], rows.sizes[row]))
          return fail(row);
        axes[row] = axis;
      }
    }
    auto [it, inserted] = rows.axes.try_emplace(operand, axes);
    if (!inserted)
      for (auto [row, pair] : llvm::enumerate(llvm::zip_equal(it->second, axes)))
        if (std::get<0>(pair) != std::get<1>(pair))
          return fail(row);
  }

  Rows &rows;
  size_t failed = 0;
};
} // namespace

Rows Rows::compute(ArrayRef<Operation *> ops, ValueRange results, size_t wanted) {
  SmallVector<AffineExpr> common;
  for (auto [index, result] : llvm::enumerate(results)) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    SmallVector<AffineExpr> dims = type ? getDims(type) : SmallVector<AffineExpr>();
    if (index == 0)
      common = dims;
    size_t same = 0;
    while (same < std::min(common.size(), dims.size()) && common[same] == dims[same])
      ++same;
    common.truncate(same);
  }
  size_t count = std::min(wanted, common.size());
  while (true) {
    Rows rows;
    rows.sizes.assign(common.begin(), common.begin() + count);
    size_t failed = Attempt(rows).run(ops, results);
    if (failed == count)
      return rows;
    count = failed;
  }
}
