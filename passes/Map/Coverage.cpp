#include "passes/Map/Coverage.h"
#include "passes/Common/Structure.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace adapt;

namespace {
// As deep as adapt-decompose-composites goes.
constexpr unsigned kMaxDepth = 32;

/// The operations that a composite comes down to and that the target does not run, with why.
void collectMissing(Operation *op, const TargetInfo &target, llvm::SetVector<StringRef> &missing,
                    unsigned depth) {
  if (target.keeps(op) || target.generates(op) || isa<ConstantOp>(op))
    return;
  auto composite = dyn_cast<DecomposeOpInterface>(op);
  if (!composite || depth == kMaxDepth) {
    missing.insert(op->getName().getStringRef());
    return;
  }
  struct Listener : OpBuilder::Listener {
    SmallVector<Operation *> inserted;
    void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
      inserted.push_back(op);
    }
  } listener;
  OpBuilder builder(op);
  builder.setListener(&listener);
  if (failed(composite.decompose(builder)))
    missing.insert(op->getName().getStringRef());
  for (Operation *part : listener.inserted)
    collectMissing(part, target, missing, depth + 1);
  for (Operation *part : llvm::reverse(listener.inserted))
    part->erase();
}
} // namespace

std::map<std::string, OperationCoverage> adapt::getCoverage(ModuleOp module,
                                                            const TargetInfo &target) {
  std::map<std::string, OperationCoverage> coverage;
  OwningOpRef<ModuleOp> scratch(module.clone());
  for (auto function : scratch->getOps<func::FuncOp>()) {
    SmallVector<Operation *> ops;
    for (Operation &op : function.getBody().front())
      if (isComputing(&op))
        ops.push_back(&op);
    for (Operation *op : ops) {
      OperationCoverage &row = coverage[op->getName().getStringRef().str()];
      if (target.keeps(op) || target.generates(op)) {
        ++row.generated;
        continue;
      }
      llvm::SetVector<StringRef> missing;
      collectMissing(op, target, missing, 0);
      if (missing.empty()) {
        ++row.composite;
        continue;
      }
      ++row.missing;
      std::string reason = whyNotRun(op, target);
      if (isa<DecomposeOpInterface>(op)) {
        reason = "needs";
        for (StringRef name : missing)
          reason += (" " + name).str();
        reason += ", which the target does not have";
      }
      auto name = op->getLoc()->findInstanceOf<NameLoc>();
      row.reasons[reason].push_back(name ? name.getName().str() : std::string("?"));
    }
  }
  return coverage;
}
