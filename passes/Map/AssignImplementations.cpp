#include "passes/Common/Structure.h"
#include "passes/Common/TargetInfo.h"
#include "passes/Map/Coverage.h"
#include "passes/Map/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace adapt {
#define GEN_PASS_DEF_ASSIGNIMPLEMENTATIONS
#include "passes/Map/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct AssignImplementations : adapt::impl::AssignImplementationsBase<AssignImplementations> {
  using Base::Base;

  struct Missing {
    Operation *first;
    unsigned count = 0;
    std::string reason;
    llvm::SetVector<StringRef> nodes; ///< of the source, by their names
  };

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<TargetInfo> target = TargetInfo::get(module);
    if (failed(target))
      return signalPassFailure();
    auto generated = StringAttr::get(&getContext(), "generated");
    llvm::MapVector<std::pair<OperationName, Operation *>, Missing> missing;
    for (auto function : module.getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        for (Operation &op : block) {
          if (!isComputing(&op))
            continue;
          std::string reason = whyNotRun(&op, *target);
          if (reason.empty()) {
            op.setAttr(kImplementation, generated);
            continue;
          }
          Missing &entry = missing[{op.getName(), function.getOperation()}];
          if (auto name = op.getLoc()->findInstanceOf<NameLoc>())
            entry.nodes.insert(name.getName());
          if (entry.count++ == 0) {
            entry.first = &op;
            entry.reason = std::move(reason);
          }
        }
    if (missing.empty())
      return;

    signalPassFailure();
    llvm::DenseMap<Operation *, unsigned> instances;
    forEachInstance(module, [&](func::FuncOp function, DictionaryAttr) { ++instances[function]; });
    InFlightDiagnostic error = module.emitError()
                               << "target '" << target->name << "' cannot run " << missing.size()
                               << (missing.size() == 1 ? " kind of operation:"
                                                       : " kinds of operation:");
    for (auto &[key, entry] : missing) {
      auto function = cast<func::FuncOp>(key.second);
      Diagnostic &note = error.attachNote(entry.first->getLoc());
      note << key.first << ": " << entry.count << " in @" << function.getSymName() << " (called "
           << instances[function] << (instances[function] == 1 ? " time), " : " times), ")
           << entry.reason;
      if (entry.nodes.size() > 1)
        note << "; at " << joinNames(entry.nodes.getArrayRef());
    }
  }

  static std::string joinNames(ArrayRef<StringRef> names) {
    constexpr size_t kMaxShown = 16;
    std::string text = llvm::join(names.take_front(kMaxShown), ", ");
    if (names.size() > kMaxShown)
      text += " and " + std::to_string(names.size() - kMaxShown) + " more";
    return text;
  }
};
} // namespace

std::string adapt::whyNotRun(Operation *op, const TargetInfo &target) {
  if (target.keeps(op) || target.generates(op))
    return {};
  if (op->getName().getDialectNamespace() != AdaptDialect::getDialectNamespace())
    return "which is not an operation of the dialect adapt";
  if (isa<DecomposeOpInterface>(op))
    return "a composite that was neither kept nor decomposed: run adapt-decompose-composites "
           "first";
  if (isa<LinalgOpLoweringInterface>(op))
    return "which is not among the target's 'ops'";
  return "which has no lowering and is not among what the target 'keeps'";
}
