#include "passes/Common/Structure.h"
#include "passes/Common/TargetInfo.h"
#include "passes/Map/Passes.h"

namespace adapt {
#define GEN_PASS_DEF_VERIFYMAP
#include "passes/Map/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct VerifyMap : adapt::impl::VerifyMapBase<VerifyMap> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<TargetInfo> target = TargetInfo::get(getOperation());
    if (failed(target))
      return signalPassFailure();
    if (failed(verifyLinearState(getOperation())))
      signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        for (Operation &op : block) {
          if (!isComputing(&op))
            continue;
          if (isa<DecomposeOpInterface>(op) && !target->keeps(&op))
            fail(op) << "in @" << function.getSymName() << " is a composite that target '"
                     << target->name << "' does not keep";
          else if (!op.getAttrOfType<StringAttr>(kImplementation))
            fail(op) << "in @" << function.getSymName() << " has no implementation ("
                     << kImplementation << ")";
        }
  }

  InFlightDiagnostic fail(Operation &op) {
    signalPassFailure();
    return op.emitOpError();
  }
};
} // namespace
