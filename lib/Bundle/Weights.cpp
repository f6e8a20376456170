#include "adapt/Bundle/Weights.h"
#include "dialects/Adapt/Recipes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Common/Structure.h"
#include "recipe.pb.h"
#include "weights/Bindings.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace adapt;

namespace {

class Collector {
public:
  explicit Collector(ModuleOp module) : symbols(module) {}

  LogicalResult visit(func::FuncOp function, DictionaryAttr indices) {
    for (Operation &op : function.getBody().front()) {
      // A param is read where it is used, not where it stands.
      if (isa<ParamOp>(op))
        continue;
      WalkResult result = op.walk<WalkOrder::PreOrder>([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (auto param = operand.getDefiningOp<ParamOp>())
            if (failed(add(param, indices)))
              return WalkResult::interrupt();
        return WalkResult::advance();
      });
      if (result.wasInterrupted())
        return failure();
      if (auto call = dyn_cast<CallOp>(op)) {
        auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
        if (failed(visit(callee, call.getIndices())))
          return failure();
      }
    }
    return success();
  }

  std::vector<WeightInstance> weights;

private:
  LogicalResult add(ParamOp param, DictionaryAttr indices) {
    WeightInstance instance{param, {}, fillTemplate(param.getName(), indices)};
    if (StringRef(instance.name).contains('{'))
      return param.emitOpError() << "uses an index that no call binds here: \"" << instance.name
                                 << '"';
    auto [it, inserted] = byName.try_emplace(instance.name, param);
    if (!inserted) {
      if (it->second == param || haveEqualRecipes(it->second, param))
        return success();
      InFlightDiagnostic diagnostic = param.emitOpError() << "is another weight under the name \""
                                                          << instance.name << '"';
      diagnostic.attachNote(it->second.getLoc()) << "the first one is here";
      return diagnostic;
    }
    for (NamedAttribute index : indices)
      if (param.getName().contains(("{" + index.getName().getValue() + "}").str()))
        instance.indices[index.getName().str()] = cast<IntegerAttr>(index.getValue()).getInt();
    weights.push_back(std::move(instance));
    return success();
  }

  SymbolTable symbols;
  llvm::StringMap<ParamOp> byName;
};
} // namespace

FailureOr<std::vector<WeightInstance>> adapt::collectWeights(ModuleOp module, StringRef function) {
  auto entry = module.lookupSymbol<func::FuncOp>(function);
  if (!entry)
    return module.emitError() << "has no entry function @" << function;
  Collector collector(module);
  if (failed(collector.visit(entry, DictionaryAttr::get(module.getContext()))))
    return failure();
  return std::move(collector.weights);
}

FailureOr<std::vector<int>> adapt::exportParams(ArrayRef<WeightInstance> weights,
                                                schema::WeightTable &table) {
  // Functions of different kinds of layers may each have a param of this name: an entry each.
  llvm::DenseMap<Operation *, int> params;
  std::vector<int> entries;
  LogicalResult result = success();
  for (const WeightInstance &weight : weights) {
    ParamOp op = weight.param;
    auto [it, inserted] = params.try_emplace(op, table.params_size());
    entries.push_back(it->second);
    if (inserted) {
      schema::WeightTable::Param &param = *table.add_params();
      param.set_name(op.getName().str());
      if (failed(toRecipe(op, *param.mutable_recipe()))) {
        result = failure();
        continue;
      }
      const auto &nodes = param.recipe().nodes();
      *param.mutable_type() = nodes[nodes.size() - 1].type();
      auto type = cast<RankedTensorType>(op.getResult().getType());
      param.set_bytes(cast<AffineConstantExpr>(getNumBytes(type)).getValue());
      for (const auto &[index, value] : weight.indices)
        param.add_indices()->set_index(index);
    }
    for (auto &range : *table.mutable_params(it->second)->mutable_indices())
      range.add_values(weight.indices.find(range.index())->second);
  }
  if (failed(result))
    return failure();
  return entries;
}

static void bindSymbol(schema::Expr &expr, StringRef symbol, int64_t value) {
  if (expr.kind_case() == schema::Expr::kSymbol && expr.symbol() == symbol) {
    expr.set_constant(value);
  } else if (expr.kind_case() == schema::Expr::kBinary) {
    bindSymbol(*expr.mutable_binary()->mutable_lhs(), symbol, value);
    bindSymbol(*expr.mutable_binary()->mutable_rhs(), symbol, value);
    if (auto known = weights::evaluateExpr(expr, {}); known.ok())
      expr.set_constant(*known);
  }
}

void adapt::bindSymbol(schema::WeightTable &table, StringRef symbol, int64_t value) {
  for (schema::WeightTable::Param &param : *table.mutable_params())
    for (schema::RecipeNode &node : *param.mutable_recipe()->mutable_nodes())
      if (node.has_slice())
        for (schema::Expr &offset : *node.mutable_slice()->mutable_offsets())
          ::bindSymbol(offset, symbol, value);
}
