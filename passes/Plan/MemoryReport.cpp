#include "passes/Plan/MemoryReport.h"
#include "dialects/Program/Export.h"
#include "passes/Common/Structure.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace adapt;

FailureOr<MemoryReport> adapt::reportMemory(ModuleOp module) {
  program::ModuleOp program = program::getProgram(module);
  if (!program)
    return failure();
  MemoryReport report;
  bool overflow = false;
  auto add = [&](int64_t &sum, int64_t bytes) {
    overflow |= bytes < 0 || llvm::AddOverflow<int64_t>(sum, bytes, sum);
  };

  llvm::StringSet<> seen;
  forEachInstance(module, [&](func::FuncOp function, DictionaryAttr indices) {
    for (auto param : function.getOps<ParamOp>()) {
      if (!seen.insert(fillTemplate(param.getName(), indices)).second)
        continue;
      auto bytes =
          dyn_cast<AffineConstantExpr>(getNumBytes(cast<RankedTensorType>(param.getType())));
      add(report.weights, bytes ? bytes.getValue() : -1);
      ++report.numWeights;
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
