#include "passes/Shard/Placement.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace adapt;

namespace {
DictionaryAttr toDictionary(MLIRContext *context, Placement placement) {
  if (!placement)
    return DictionaryAttr::get(context);
  return DictionaryAttr::get(context,
                             NamedAttribute(StringAttr::get(context, kTensorAxis), placement));
}

Placement fromDictionary(Attribute attribute) {
  auto dictionary = dyn_cast_or_null<DictionaryAttr>(attribute);
  return dictionary ? dictionary.getAs<PlacementAttr>(kTensorAxis) : Placement();
}
} // namespace

Placement adapt::getPlacement(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return fromDictionary(function.getArgAttr(argument.getArgNumber(), AdaptDialect::kPlacement));
  }
  auto result = cast<OpResult>(value);
  auto all = result.getOwner()->getAttrOfType<ArrayAttr>(AdaptDialect::kPlacement);
  return all ? fromDictionary(all[result.getResultNumber()]) : Placement();
}

void adapt::setPlacement(Value value, Placement placement) {
  MLIRContext *context = value.getContext();
  DictionaryAttr dictionary = toDictionary(context, placement);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    function.setArgAttr(argument.getArgNumber(), AdaptDialect::kPlacement, dictionary);
    return;
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  SmallVector<Attribute> all(op->getNumResults(), DictionaryAttr::get(context));
  if (auto known = op->getAttrOfType<ArrayAttr>(AdaptDialect::kPlacement))
    all.assign(known.begin(), known.end());
  all[result.getResultNumber()] = dictionary;
  op->setAttr(AdaptDialect::kPlacement, ArrayAttr::get(context, all));
}

void adapt::clearPlacements(Operation *root) {
  root->walk([](Operation *op) {
    op->removeAttr(AdaptDialect::kPlacement);
    if (auto function = dyn_cast<func::FuncOp>(op))
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        function.removeArgAttr(i, StringAttr::get(op->getContext(), AdaptDialect::kPlacement));
  });
}

FailureOr<OpPlacement> adapt::placeOperation(Operation *op, ArrayRef<Placement> have,
                                             int64_t ranks) {
  MLIRContext *context = op->getContext();
  OpPlacement result;
  result.operands.resize(op->getNumOperands());
  result.results.resize(op->getNumResults());
  if (llvm::none_of(have, [](Placement placement) { return bool(placement); }))
    return result;
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled) {
    auto function = op->getParentOfType<func::FuncOp>();
    return op->emitOpError() << "in @" << function.getSymName()
                             << " has an operand that is split over ranks, but no sharding rule";
  }
  ShardingRule rule = ruled.getShardingRule();

  // Nothing but pending sums of one kind passes through a linear operation as it is.
  Placement first = have.empty() ? Placement() : have.front();
  if (rule.isLinear && first && first.getKind() == PlacementKind::Sum &&
      llvm::all_of(have, [&](Placement placement) { return placement == first; })) {
    result.operands.assign(have.begin(), have.end());
    result.results.assign(op->getNumResults(), first);
    return result;
  }

  // A factor that some result does not have must be one whose parts are summed: programs combine in
  // no other way.
  auto canSplit = [&](int factor) {
    auto size = dyn_cast<AffineConstantExpr>(rule.factors[factor].size);
    if (!size || size.getValue() % (ranks * rule.factors[factor].granularity) != 0)
      return false;
    return rule.factors[factor].reduction == ShardingRule::Reduction::Sum ||
           llvm::all_of(rule.results,
                        [&](ArrayRef<int> axes) { return llvm::is_contained(axes, factor); });
  };
  auto factorOf = [&](unsigned operand) {
    Placement placement = have[operand];
    ArrayRef<int> axes = rule.operands[operand];
    if (!isSplit(placement) || placement.getAxis() >= int64_t(axes.size()))
      return ShardingRule::kNone;
    int factor = axes[placement.getAxis()];
    return factor != ShardingRule::kNone && canSplit(factor) ? factor : ShardingRule::kNone;
  };
  // Weights and states are too large to gather; they decide.
  auto isHeavy = [&](unsigned operand) {
    Value value = op->getOperand(operand);
    return isa<PagedType>(value.getType()) || value.getDefiningOp<ParamOp>();
  };
  for (bool heavy : {true, false})
    for (unsigned i = 0; i < have.size() && result.factor < 0; ++i)
      if (isHeavy(i) == heavy)
        result.factor = factorOf(i);
  if (result.factor < 0)
    return result;

  auto getSplit = [&](ArrayRef<int> axes) -> Placement {
    for (auto [axis, factor] : llvm::enumerate(axes))
      if (factor == result.factor)
        return PlacementAttr::get(context, PlacementKind::Split, axis);
    return {};
  };
  for (auto [wanted, axes] : llvm::zip_equal(result.operands, rule.operands))
    wanted = getSplit(axes);
  for (auto [placed, axes] : llvm::zip_equal(result.results, rule.results)) {
    placed = getSplit(axes);
    if (!placed)
      placed = PlacementAttr::get(context, PlacementKind::Sum, 0);
  }
  return result;
}
