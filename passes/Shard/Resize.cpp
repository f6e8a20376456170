#include "passes/Shard/Resize.h"
#include "passes/Common/Structure.h"

using namespace mlir;
using namespace adapt;

Type Resizer::getType(Value value) const {
  auto it = types.find(value);
  return it == types.end() ? value.getType() : it->second;
}

void Resizer::setType(Value value, Type type) {
  types[value] = type;
  if (mode == Mode::Padding)
    zeros.insert(value);
}

void Resizer::setStateType(Value state, Type type) {
  while (true) {
    types[state] = type;
    auto producer = state.getDefiningOp<StateOpInterface>();
    if (!producer)
      return;
    state = producer.getTiedOperand(cast<OpResult>(state)).get();
  }
}

namespace {
/// A size before and after; null where nothing changes.
struct Ratio {
  int64_t from, to;
};

/// Sizes of a tensor, or of a state's planes.
SmallVector<RankedTensorType> getTensors(Type type) {
  if (auto state = dyn_cast<PagedType>(type))
    return SmallVector<RankedTensorType>(state.getPlanes());
  return {cast<RankedTensorType>(type)};
}

std::optional<Ratio> getRatio(RankedTensorType from, RankedTensorType to, unsigned axis) {
  int64_t a = from.getDimSize(axis), b = to.getDimSize(axis);
  if (a == b)
    return std::nullopt;
  return Ratio{a, b};
}

/// The size of an axis that changes in this ratio; nullopt if that is not a whole number.
std::optional<int64_t> scale(RankedTensorType type, unsigned axis, Ratio ratio) {
  int64_t size = type.getDimSize(axis), scaled = 0;
  if (ShapedType::isDynamic(size) || llvm::MulOverflow(size, ratio.to, scaled) ||
      scaled % ratio.from != 0)
    return std::nullopt;
  return scaled / ratio.from;
}

FailureOr<RankedTensorType> scale(Operation *op, RankedTensorType type, unsigned axis,
                                  Ratio ratio) {
  SmallVector<AffineExpr> dims = getDims(type);
  std::optional<int64_t> scaled = scale(type, axis, ratio);
  if (!scaled)
    return op->emitOpError() << "cannot have " << ratio.to << " instead of " << ratio.from
                             << " elements where its axis " << axis << " of " << shapeToString(type)
                             << " follows";
  dims[axis] = getAffineConstantExpr(*scaled, op->getContext());
  return getTensorType(dims, type.getElementType());
}
} // namespace

LogicalResult Resizer::visitCall(CallOp call) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
  for (auto [argument, operand] : llvm::zip_equal(callee.getArguments(), call.getOperands()))
    if (isa<PagedType>(operand.getType()) && getType(argument) != argument.getType())
      setStateType(operand, getType(argument));
  for (OpResult result : call->getResults())
    if (isa<PagedType>(result.getType()))
      types[result] = getType(call.getTiedOperand(result).get());
  return success();
}

LogicalResult Resizer::visit(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op))
    return visitCall(call);
  if (isa<ParamOp, ConstantOp>(op) || op->hasTrait<OpTrait::IsTerminator>())
    return success();
  if (isa<CollectiveOpInterface>(op)) {
    // Whoever made it has given its result the type that it will have.
    return success();
  }
  auto isChanged = [&](Value value) { return getType(value) != value.getType(); };
  if (llvm::none_of(op->getOperands(), isChanged))
    return success();
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled) {
    auto function = op->getParentOfType<func::FuncOp>();
    return op->emitOpError() << "in @" << function.getSymName()
                             << " has an operand of another size, but no sharding rule";
  }
  ShardingRule rule = ruled.getShardingRule();

  // What the operands say of each factor.
  llvm::BitVector kept = getKept(op, rule);
  bool isZero = rule.isLinear && kept.none();
  SmallVector<std::optional<Ratio>> ratios(rule.factors.size());
  SmallVector<bool> known(rule.factors.size(), false);
  for (OpOperand &operand : op->getOpOperands()) {
    auto from = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!from)
      continue;
    if (kept[operand.getOperandNumber()]) {
      ends.push_back(&operand);
      continue;
    }
    isZero &= !isChanged(operand.get()) || zeros.contains(operand.get());
    auto to = cast<RankedTensorType>(getType(operand.get()));
    for (auto [axis, factor] : llvm::enumerate(rule.operands[operand.getOperandNumber()])) {
      std::optional<Ratio> ratio = getRatio(from, to, axis);
      if (factor == ShardingRule::kNone) {
        if (ratio)
          return op->emitOpError()
                 << "needs axis " << axis << " of operand " << operand.getOperandNumber() << ", of "
                 << ratio->from << " elements, as it is; it cannot have " << ratio->to;
        continue;
      }
      if (!known[factor])
        ratios[factor] = ratio;
      known[factor] = true;
    }
  }
  auto resize = [&](Type type, ArrayRef<int> axes, auto getRatioOf) -> FailureOr<Type> {
    SmallVector<RankedTensorType> tensors = getTensors(type);
    for (RankedTensorType &tensor : tensors)
      for (auto [axis, factor] : llvm::enumerate(axes)) {
        std::optional<Ratio> ratio;
        if (factor != ShardingRule::kNone)
          ratio = getRatioOf(factor);
        if (!ratio)
          continue;
        FailureOr<RankedTensorType> scaled = scale(op, tensor, axis, *ratio);
        if (failed(scaled))
          return failure();
        tensor = *scaled;
      }
    if (isa<PagedType>(type))
      return Type(PagedType::get(type.getContext(), tensors));
    return Type(tensors.front());
  };

  // A state has as many heads as what is written into it.
  if (rule.stateLike >= 0)
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<PagedType>(operand.get().getType()))
        continue;
      Value like = op->getOperand(rule.stateLike);
      ArrayRef<int> likeAxes = rule.operands[rule.stateLike];
      auto ratioOf = [&](int factor) {
        unsigned axis = llvm::find(likeAxes, factor) - likeAxes.begin();
        return getRatio(cast<RankedTensorType>(like.getType()),
                        cast<RankedTensorType>(getType(like)), axis);
      };
      FailureOr<Type> type =
          resize(operand.get().getType(), rule.operands[operand.getOperandNumber()], ratioOf);
      if (failed(type))
        return failure();
      setStateType(operand.get(), *type);
    }
  for (auto [result, axes] : llvm::zip_equal(op->getResults(), rule.results)) {
    if (isa<PagedType>(result.getType())) {
      types[result] = getType(cast<StateOpInterface>(op).getTiedOperand(result).get());
      continue;
    }
    FailureOr<Type> type =
        resize(result.getType(), axes, [&](int factor) { return ratios[factor]; });
    if (failed(type))
      return failure();
    if (*type == result.getType())
      continue;
    types[result] = *type;
    if (isZero)
      zeros.insert(result);
  }
  return success();
}

llvm::BitVector Resizer::getKept(Operation *op, const ShardingRule &rule) {
  llvm::BitVector kept(op->getNumOperands());
  if (mode == Mode::Parts)
    return kept;
  // The tensor operands that have a factor, and how it changes in each.
  struct Use {
    unsigned operand;
    std::optional<Ratio> ratio;
  };
  SmallVector<SmallVector<Use>> uses(rule.factors.size());
  for (OpOperand &operand : op->getOpOperands()) {
    auto from = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!from)
      continue;
    auto to = cast<RankedTensorType>(getType(operand.get()));
    for (auto [axis, factor] : llvm::enumerate(rule.operands[operand.getOperandNumber()])) {
      std::optional<Ratio> ratio = getRatio(from, to, axis);
      if (factor != ShardingRule::kNone)
        uses[factor].push_back({operand.getOperandNumber(), ratio});
      else if (ratio)
        kept.set(operand.getOperandNumber());
    }
  }
  // What one operand cannot have the others cannot either. Heads of queries and of what they meet
  // in a state grow each in its own way.
  bool isStateful = isa<StateOpInterface>(op);
  for (unsigned before = ~0u; before != kept.count();) {
    before = kept.count();
    for (auto [factor, ofFactor] : llvm::enumerate(uses)) {
      auto isPadded = [&](const Use &use) { return use.ratio && !kept[use.operand]; };
      if (llvm::none_of(ofFactor, isPadded))
        continue;
      bool isReduced = llvm::none_of(rule.results, [&, factor = int(factor)](ArrayRef<int> axes) {
        return llvm::is_contained(axes, factor);
      });
      bool vanishes = rule.factors[factor].reduction == ShardingRule::Reduction::Sum &&
                      llvm::any_of(ofFactor, [&](const Use &use) {
                        return zeros.contains(op->getOperand(use.operand));
                      });
      const Use &first = *llvm::find_if(ofFactor, isPadded);
      bool agree = isStateful || llvm::all_of(ofFactor, [&](const Use &use) {
                     return isPadded(use) &&
                            use.ratio->to * first.ratio->from == first.ratio->to * use.ratio->from;
                   });
      bool isWhole = true;
      for (auto [result, axes] : llvm::zip_equal(op->getResults(), rule.results))
        if (auto type = dyn_cast<RankedTensorType>(result.getType()))
          for (auto [axis, other] : llvm::enumerate(axes))
            isWhole &= other != int(factor) || scale(type, axis, *first.ratio);
      if (agree && isWhole && (!isReduced || vanishes))
        continue;
      for (const Use &use : ofFactor)
        if (use.ratio)
          kept.set(use.operand);
    }
  }
  return kept;
}

LogicalResult Resizer::run() {
  FailureOr<SmallVector<func::FuncOp>> functions = getCalleesFirst(module);
  if (failed(functions))
    return failure();
  for (func::FuncOp function : *functions)
    for (Operation &op : function.getBody().front())
      if (failed(visit(&op)))
        return failure();
  return success();
}

LogicalResult Resizer::commit(llvm::function_ref<Value(OpBuilder &, Value, RankedTensorType)> fix) {
  SmallVector<RankedTensorType> before;
  for (OpOperand *operand : ends)
    before.push_back(cast<RankedTensorType>(operand->get().getType()));
  for (auto &[value, type] : types)
    value.setType(type);
  for (auto [operand, type] : llvm::zip_equal(ends, before)) {
    OpBuilder builder(operand->getOwner());
    operand->set(fix(builder, operand->get(), type));
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    Operation *yield = function.getBody().front().getTerminator();
    OpBuilder builder(yield);
    for (auto [operand, type] :
         llvm::zip_equal(yield->getOpOperands(), function.getFunctionType().getResults()))
      if (auto tensor = dyn_cast<RankedTensorType>(type);
          tensor && operand.get().getType() != type) {
        Value fixed = fix(builder, operand.get(), tensor);
        if (!fixed)
          return function.emitOpError() << "@" << function.getSymName() << " would return "
                                        << operand.get().getType() << " instead of " << type;
        operand.set(fixed);
      }
    function.setFunctionType(FunctionType::get(function.getContext(),
                                               function.getBody().front().getArgumentTypes(),
                                               yield->getOperandTypes()));
  }
  return success();
}
