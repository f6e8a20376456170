#include "passes/Common/Structure.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace adapt;

bool adapt::isComputing(Operation *op) {
  return !isa<ParamOp, CallOp, LaunchOp, ConstantOp, CollectiveOpInterface>(op) &&
         !op->hasTrait<OpTrait::IsTerminator>();
}

namespace {
struct CalleesFirst {
  explicit CalleesFirst(ModuleOp module) : table(module) {}
  SymbolTable table;
  SmallVector<func::FuncOp> order;
  enum Mark { kNew, kOpen, kDone };
  DenseMap<Operation *, Mark> marks;

  LogicalResult visit(func::FuncOp function) {
    Mark &mark = marks[function];
    if (mark == kDone)
      return success();
    if (!llvm::hasSingleElement(function.getBody()) ||
        !isa<func::ReturnOp>(function.getBody().front().getTerminator()))
      return function.emitOpError()
             << "@" << function.getSymName() << " is not one block that ends in func.return";
    if (mark == kOpen)
      return function.emitOpError() << "'" << function.getSymName() << "' calls itself";
    mark = kOpen;
    WalkResult result = function.walk([&](CallOp call) {
      auto callee = table.lookup<func::FuncOp>(call.getCallee());
      return callee && failed(visit(callee)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    marks[function] = kDone;
    order.push_back(function);
    return failure(result.wasInterrupted());
  }
};
} // namespace

FailureOr<SmallVector<func::FuncOp>> adapt::getCalleesFirst(ModuleOp module) {
  CalleesFirst walker(module);
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(walker.visit(function)))
      return failure();
  return walker.order;
}

SmallVector<func::FuncOp> adapt::getEntries(ModuleOp module) {
  llvm::DenseSet<StringRef> called;
  module.walk([&](CallOp call) { called.insert(call.getCallee()); });
  SmallVector<func::FuncOp> entries;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !called.contains(function.getSymName()))
      entries.push_back(function);
  return entries;
}

std::string adapt::fillTemplate(StringRef name, DictionaryAttr indices) {
  std::string text;
  while (true) {
    auto [before, rest] = name.split('{');
    text += before;
    if (rest.empty())
      return text;
    auto [index, after] = rest.split('}');
    if (auto value = indices.getAs<IntegerAttr>(index))
      text += std::to_string(value.getInt());
    else
      text += ("{" + index + "}").str();
    name = after;
  }
}

void adapt::forEachInstance(ModuleOp module,
                            llvm::function_ref<void(func::FuncOp, DictionaryAttr indices)> visit) {
  SymbolTable table(module);
  llvm::DenseSet<std::pair<Operation *, Attribute>> seen;
  SmallVector<std::pair<func::FuncOp, DictionaryAttr>> worklist;
  auto add = [&](func::FuncOp function, DictionaryAttr indices) {
    if (function && seen.insert({function, indices}).second)
      worklist.emplace_back(function, indices);
  };
  for (func::FuncOp entry : getEntries(module))
    add(entry, DictionaryAttr::get(module.getContext()));
  for (size_t i = 0; i < worklist.size(); ++i) {
    auto [function, indices] = worklist[i];
    visit(function, indices);
    function.walk(
        [&](CallOp call) { add(table.lookup<func::FuncOp>(call.getCallee()), call.getIndices()); });
  }
}

LogicalResult adapt::verifyLinearState(ModuleOp module) {
  LogicalResult result = success();
  auto check = [&](Value value, Operation *op, auto describe) {
    if (!isa<PagedType>(value.getType()) || value.hasOneUse())
      return;
    InFlightDiagnostic error = op->emitError();
    describe(error);
    result = error << " is used " << value.getNumUses() << " times, state is used exactly once";
  };
  module.walk([&](FunctionOpInterface function) {
    for (BlockArgument argument : function.getArguments())
      check(argument, function, [&](InFlightDiagnostic &error) {
        error << "argument " << argument.getArgNumber() << ", a state of @" << function.getName()
              << ",";
      });
    function.walk([&](Operation *op) {
      for (OpResult value : op->getResults())
        check(value, op, [&](InFlightDiagnostic &error) {
          error << "result " << value.getResultNumber() << ", a state in @" << function.getName()
                << ",";
        });
    });
  });
  return result;
}

bool adapt::haveEqualRecipes(ParamOp a, ParamOp b) {
  return a.getType() == b.getType() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                    OperationEquivalence::IgnoreLocations);
}
