#include "passes/Plan/MemoryReport.h"
#include "passes/Common/Structure.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace adapt;

static void visitSteps(SymbolTable &functions, StringRef name, DictionaryAttr indices,
                       llvm::function_ref<void(Operation *, DictionaryAttr)> visit) {
  auto function = functions.lookup<program::FunctionOp>(name);
  for (auto step : function.getBody().getOps<program::StepOpInterface>()) {
    visit(step, indices);
    if (auto call = dyn_cast<program::CallOp>(*step))
      visitSteps(functions, call.getCallee(), call.getIndices(), visit);
  }
}

void adapt::forEachStep(program::ModuleOp program,
                        llvm::function_ref<void(Operation *, DictionaryAttr)> visit) {
  SymbolTable functions(program);
  for (auto entry : program.getBody().getOps<program::EntryOp>())
    visitSteps(functions, entry.getFunction(), DictionaryAttr::get(program.getContext()), visit);
}

FailureOr<MemoryReport> adapt::reportMemory(program::ModuleOp program) {
  MemoryReport report;
  bool overflow = false;
  auto add = [&](int64_t &sum, int64_t bytes) {
    overflow |= bytes < 0 || llvm::AddOverflow<int64_t>(sum, bytes, sum);
  };

  llvm::StringSet<> seen;
  forEachStep(program, [&](Operation *step, DictionaryAttr indices) {
    for (Value buffer : step->getOperands()) {
      auto weight = buffer.getDefiningOp<program::WeightOp>();
      if (!weight || !seen.insert(fillTemplate(weight.getName(), indices)).second)
        continue;
      auto bytes =
          dyn_cast<AffineConstantExpr>(getNumBytes(cast<RankedTensorType>(weight.getType())));
      add(report.weights, bytes ? bytes.getValue() : -1);
      ++report.numWeights;
    }
    if (auto layer = indices.getAs<IntegerAttr>("layer")) {
      auto [first, last] = report.layers.value_or(std::pair(layer.getInt(), layer.getInt()));
      report.layers = {std::min(first, layer.getInt()), std::max(last, layer.getInt())};
    }
  });
  report.arena = program.getArenaBytes();
  int64_t maxSequences = 1, maxBlocks = 1;
  for (Operation &op : program.getBody().front()) {
    if (auto state = dyn_cast<program::StateOp>(op))
      add(report.stateBytesPerBlock, state.getBytesPerBlock());
    if (auto entry = dyn_cast<program::EntryOp>(op))
      report.blockTokens = entry.getBlockTokens();
    if (auto symbol = dyn_cast<program::SymbolOp>(op)) {
      if (symbol.getName() == "S")
        maxSequences = symbol.getMax();
      if (symbol.getName() == "B")
        maxBlocks = symbol.getMax();
    }
  }
  int64_t total;
  overflow |= llvm::MulOverflow(maxSequences, maxBlocks, report.maxBlocks) ||
              llvm::MulOverflow(report.stateBytesPerBlock, report.maxBlocks, total);
  if (!overflow) {
    add(total, report.weights);
    add(total, report.arena);
  }
  if (overflow) {
    program.emitOpError() << "takes more than 2^63 bytes";
    return failure();
  }
  return report;
}
