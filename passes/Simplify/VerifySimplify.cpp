#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Common/Structure.h"
#include "passes/Simplify/Passes.h"

namespace adapt {
#define GEN_PASS_DEF_VERIFYSIMPLIFY
#include "passes/Simplify/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct VerifySimplify : adapt::impl::VerifySimplifyBase<VerifySimplify> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(verifyLinearState(getOperation())))
      signalPassFailure();
    llvm::DenseSet<StringRef> called;
    module.walk([&](CallOp call) { called.insert(call.getCallee()); });
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isPrivate() && !called.contains(function.getSymName()))
        fail(function) << "@" << function.getSymName() << " is private and never called";
      function.walk([&](Operation *op) {
        StringRef name = function.getSymName();
        if (op != function && isOpTriviallyDead(op))
          fail(op) << "in @" << name << " computes what nobody uses";
        else if (isComputing(op) && op->getNumOperands() > 0 && isPure(op) && isFoldable(op) &&
                 !op->getParentOfType<ParamOp>() && llvm::all_of(op->getOperands(), isConstant))
          fail(op) << "in @" << name << " depends on constants alone";
      });
    }
  }

  /// A broadcast is no larger constant, and what has symbolic sizes none.
  static bool isFoldable(Operation *op) {
    return !isa<BroadcastOp>(op) && llvm::all_of(op->getResultTypes(), [](Type type) {
      auto shaped = dyn_cast<ShapedType>(type);
      return !shaped || shaped.hasStaticShape();
    });
  }

  static bool isConstant(Value value) { return value.getDefiningOp<ConstantOp>() != nullptr; }

  InFlightDiagnostic fail(Operation *op) {
    signalPassFailure();
    return op->emitOpError();
  }
};
} // namespace
