#include "mlir/IR/AttrTypeSubElements.h"
#include "passes/Common/SizeBounds.h"
#include "passes/Common/Structure.h"
#include "passes/Shard/Passes.h"
#include "passes/Shard/Placement.h"
#include "passes/Shard/Resize.h"

namespace adapt {
#define GEN_PASS_DEF_LOCALIZESHARDS
#include "passes/Shard/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct LocalizeShards : adapt::impl::LocalizeShardsBase<LocalizeShards> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t ranks = getMeshSize(module, kTensorAxis);
    if (ranks == 1)
      return;
    std::string name = AdaptDialect::getCoordinate(kTensorAxis);
    AffineExpr coordinate = getSymbolExpr(&getContext(), name);

    Resizer resizer(module, Resizer::Mode::Parts);
    SmallVector<std::pair<Value, unsigned>> slices; // values that become parts, and the axis
    SmallVector<std::pair<Operation *, int>> parts; // operations that compute parts of a factor
    FailureOr<SmallVector<func::FuncOp>> functions = getCalleesFirst(module);
    if (failed(functions))
      return signalPassFailure();
    for (func::FuncOp function : *functions)
      for (Operation &op : function.getBody().front()) {
        if (isa<ParamOp, ShardSliceOp>(op)) {
          if (Placement placement = getPlacement(op.getResult(0))) {
            auto type = cast<RankedTensorType>(op.getResult(0).getType());
            SmallVector<AffineExpr> dims = getDims(type);
            int64_t axis = placement.getAxis();
            dims[axis] = getAffineConstantExpr(type.getDimSize(axis) / ranks, &getContext());
            resizer.setType(op.getResult(0), getTensorType(dims, type.getElementType()));
            slices.emplace_back(op.getResult(0), axis);
          }
          continue;
        }
        if (!isa<ShardingRuleOpInterface>(op))
          continue;
        SmallVector<Placement> have;
        for (Value operand : op.getOperands())
          have.push_back(getPlacement(operand));
        FailureOr<OpPlacement> placed = placeOperation(&op, have, ranks);
        if (failed(placed))
          return signalPassFailure();
        if (placed->factor >= 0)
          parts.emplace_back(&op, placed->factor);
      }
    if (failed(resizer.run()) ||
        failed(resizer.commit([](OpBuilder &, Value, RankedTensorType) { return Value(); })))
      return signalPassFailure();

    for (auto [value, axis] : slices)
      slice(value, axis, coordinate);
    for (auto [op, factor] : parts)
      setPart(op, factor, coordinate);
    clearPlacements(module);
    module.walk([](ParamOp param) { param->removeAttr(AdaptDialect::kShard); });
    declare(name, ranks);
  }

  void slice(Value value, unsigned axis, AffineExpr coordinate) {
    auto type = cast<RankedTensorType>(value.getType());
    OpBuilder builder(&getContext());
    SmallVector<AffineExpr> offsets(type.getRank(), builder.getAffineConstantExpr(0));
    offsets[axis] = coordinate * type.getDimSize(axis);
    auto attribute = DimsAttr::get(&getContext(), offsets);
    if (auto op = value.getDefiningOp<ShardSliceOp>()) {
      op.setOffsetsAttr(attribute);
      return;
    }
    auto param = value.getDefiningOp<ParamOp>();
    Operation *yield = param.getBody().front().getTerminator();
    builder.setInsertionPoint(yield);
    yield->setOperand(
        0, ShardSliceOp::create(builder, param.getLoc(), type, param.getYielded(), attribute));
  }

  static void setPart(Operation *op, int factor, AffineExpr coordinate) {
    auto ruled = cast<ShardingRuleOpInterface>(op);
    ruled.setPart(factor, coordinate * ruled.getShardingRule().factors[factor].size);
  }

  /// The coordinate is a size of the functions that use it, with bounds.
  void declare(StringRef name, int64_t ranks) {
    ModuleOp module = getOperation();
    Builder builder(&getContext());
    for (auto function : module.getOps<func::FuncOp>()) {
      llvm::SetVector<StringRef> used;
      for (Operation &op : function.getBody().front())
        for (NamedAttribute attribute : op.getAttrs())
          if (auto dims = dyn_cast<DimsAttr>(attribute.getValue()))
            for (AffineExpr expr : dims.getExprs())
              collectSymbols(expr, used);
      if (!used.contains(name))
        continue;
      SmallVector<StringRef> symbols = getNames(function, AdaptDialect::kSymbols);
      symbols.push_back(name);
      function->setAttr(AdaptDialect::kSymbols, builder.getStrArrayAttr(symbols));
    }
    NamedAttrList limits(module->getAttrOfType<DictionaryAttr>(SizeBounds::kAttribute));
    limits.set(name, builder.getI64ArrayAttr({0, ranks - 1}));
    module->setAttr(SizeBounds::kAttribute, limits.getDictionary(&getContext()));
  }
};
} // namespace
