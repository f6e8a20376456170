#include "mlir/IR/IRMapping.h"
#include "passes/Common/Structure.h"
#include "passes/Shard/Passes.h"
#include "passes/Shard/Placement.h"

namespace adapt {
#define GEN_PASS_DEF_RESHARDVALUES
#include "passes/Shard/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct ReshardValues : adapt::impl::ReshardValuesBase<ReshardValues> {
  using Base::Base;

  void runOnOperation() override {
    ranks = getMeshSize(getOperation(), kTensorAxis);
    if (ranks == 1)
      return;
    FailureOr<SmallVector<func::FuncOp>> functions = getCalleesFirst(getOperation());
    if (failed(functions))
      return signalPassFailure();
    for (func::FuncOp function : *functions) {
      converted.clear();
      // Not what is inserted on the way.
      SmallVector<Operation *> ops;
      for (Operation &op : function.getBody().front())
        ops.push_back(&op);
      for (Operation *op : ops)
        if (failed(reshard(op)))
          return signalPassFailure();
    }
  }

  LogicalResult reshard(Operation *op) {
    SmallVector<Placement> have;
    for (Value operand : op->getOperands())
      have.push_back(getPlacement(operand));
    OpPlacement wanted;
    // Calls, transfers and returns pass whole tensors, and states as they are.
    if (isa<CallOp, CollectiveOpInterface>(op) || op->hasTrait<OpTrait::IsTerminator>()) {
      for (Value operand : op->getOperands())
        wanted.operands.push_back(isa<PagedType>(operand.getType()) ? getPlacement(operand)
                                                                    : Placement());
    } else {
      FailureOr<OpPlacement> placed = placeOperation(op, have, ranks);
      if (failed(placed))
        return failure();
      wanted = std::move(*placed);
    }
    for (auto [operand, placement] : llvm::zip_equal(op->getOpOperands(), wanted.operands))
      if (getPlacement(operand.get()) != placement)
        operand.set(convert(op, operand.get(), placement));
    return success();
  }

  Value convert(Operation *before, Value value, Placement wanted) {
    Value &known = converted[{value, wanted}];
    if (known)
      return known;
    Placement have = getPlacement(value);
    Value result = value;
    OpBuilder builder(before);
    if (isPending(have))
      result = combine(builder, value);
    else if (isSplit(have))
      result = gather(builder, value, have.getAxis());
    if (wanted)
      result = take(builder, result, wanted);
    return converted[{value, wanted}] = result;
  }

  Value combine(OpBuilder &builder, Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    // Products of weights are sums in f32 already: rounded once, after all of it is there.
    bool widens =
        type.getElementTypeBitWidth() < 32 && value.hasOneUse() && value.getDefiningOp<MatmulOp>();
    if (widens)
      value.setType(withElementType(type, builder.getF32Type()));
    auto reduce = AllReduceOp::create(builder, value.getLoc(), value.getType(), value,
                                      ReduceKind::Sum, kTensorAxis, ranks);
    setPlacement(reduce.getResult(), {});
    if (!widens)
      return reduce.getResult();
    return CastOp::create(builder, value.getLoc(), type, reduce.getResult());
  }

  /// A weight is stored whole instead.
  Value gather(OpBuilder &builder, Value value, int64_t axis) {
    if (auto param = value.getDefiningOp<ParamOp>())
      return cloneParam(builder, param, ".whole", {});
    auto all = AllGatherOp::create(builder, value.getLoc(), value.getType(), value, axis,
                                   kTensorAxis, ranks);
    setPlacement(all.getResult(), {});
    return all.getResult();
  }

  /// The rank's part of a value that all ranks have. A weight's other ranks never read theirs.
  Value take(OpBuilder &builder, Value value, Placement wanted) {
    if (auto param = value.getDefiningOp<ParamOp>())
      return cloneParam(builder, param, ".split" + llvm::Twine(wanted.getAxis()), wanted);
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<AffineExpr> zeros(type.getRank(), builder.getAffineConstantExpr(0));
    auto slice = ShardSliceOp::create(builder, value.getLoc(), type, value,
                                      DimsAttr::get(&getContext(), zeros));
    setPlacement(slice.getResult(), wanted);
    return slice.getResult();
  }

  Value cloneParam(OpBuilder &builder, ParamOp param, const llvm::Twine &suffix,
                   Placement placement) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(param);
    auto clone = cast<ParamOp>(builder.clone(*param));
    clone.setName((param.getName() + suffix).str());
    clone->removeAttr(AdaptDialect::kShard);
    setPlacement(clone.getResult(), placement);
    return clone.getResult();
  }

  int64_t ranks = 1;
  DenseMap<std::pair<Value, Attribute>, Value> converted;
};
} // namespace
