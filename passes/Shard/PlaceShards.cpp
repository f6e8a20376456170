#include "passes/Common/Structure.h"
#include "passes/Shard/Passes.h"
#include "passes/Shard/Placement.h"

namespace adapt {
#define GEN_PASS_DEF_PLACESHARDS
#include "passes/Shard/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct PlaceShards : adapt::impl::PlaceShardsBase<PlaceShards> {
  using Base::Base;

  void runOnOperation() override {
    int64_t ranks = getMeshSize(getOperation(), kTensorAxis);
    if (ranks == 1)
      return;
    FailureOr<SmallVector<func::FuncOp>> functions = getCalleesFirst(getOperation());
    if (failed(functions))
      return signalPassFailure();
    for (func::FuncOp function : *functions)
      for (Operation &op : function.getBody().front())
        if (failed(place(&op, ranks)))
          signalPassFailure();
  }

  LogicalResult place(Operation *op, int64_t ranks) {
    if (auto param = dyn_cast<ParamOp>(op))
      return placeParam(param, ranks);
    if (auto call = dyn_cast<CallOp>(op)) {
      auto callee = getOperation().lookupSymbol<func::FuncOp>(call.getCallee());
      for (auto [argument, operand] : llvm::zip_equal(callee.getArguments(), call.getOperands()))
        if (isa<PagedType>(operand.getType()))
          placeState(operand, getPlacement(argument));
      for (OpResult result : call->getResults())
        if (isa<PagedType>(result.getType()))
          assign(result, getPlacement(call.getTiedOperand(result).get()));
      return success();
    }
    if (isa<ConstantOp, CollectiveOpInterface>(op) || op->hasTrait<OpTrait::IsTerminator>())
      return success();
    SmallVector<Placement> have;
    for (Value operand : op->getOperands())
      have.push_back(getPlacement(operand));
    FailureOr<OpPlacement> placement = placeOperation(op, have, ranks);
    if (failed(placement))
      return failure();
    for (auto [operand, wanted] : llvm::zip_equal(op->getOperands(), placement->operands))
      if (isa<PagedType>(operand.getType()))
        placeState(operand, wanted);
    for (auto [result, placed] : llvm::zip_equal(op->getResults(), placement->results))
      assign(result, placed);
    return success();
  }

  LogicalResult placeParam(ParamOp param, int64_t ranks) {
    auto shard = param->getAttrOfType<ShardAttr>(AdaptDialect::kShard);
    if (!shard)
      return success();
    auto type = cast<RankedTensorType>(param.getType());
    if (shard.getAxis() < 0 || shard.getAxis() >= type.getRank())
      return param.emitOpError() << param.getName() << " has no axis " << shard.getAxis()
                                 << " to split";
    int64_t units = shard.getHeads() ? shard.getHeads() : type.getDimSize(shard.getAxis());
    if (units % ranks != 0 || type.getDimSize(shard.getAxis()) % ranks != 0)
      return param.emitOpError() << param.getName() << ": " << ranks << " ranks do not divide "
                                 << units << (shard.getHeads() ? " heads" : " elements")
                                 << "; run adapt-pad-shards first";
    assign(param.getResult(),
           PlacementAttr::get(&getContext(), PlacementKind::Split, shard.getAxis()));
    return success();
  }

  static void assign(Value value, Placement placement) {
    if (placement || getPlacement(value))
      setPlacement(value, placement);
  }

  static void placeState(Value state, Placement placement) {
    while (true) {
      assign(state, placement);
      auto producer = state.getDefiningOp<StateOpInterface>();
      if (!producer)
        return;
      state = producer.getTiedOperand(cast<OpResult>(state)).get();
    }
  }
};
} // namespace
