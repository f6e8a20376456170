#include "mlir/IR/OperationSupport.h"
#include "passes/Common/Structure.h"
#include "passes/Import/Passes.h"
#include "llvm/ADT/StringMap.h"

namespace adapt {
#define GEN_PASS_DEF_VERIFYIMPORT
#include "passes/Import/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
// Larger data are weights, and weights are params.
constexpr int64_t kMaxConstantBytes = 1024;

struct VerifyImport : adapt::impl::VerifyImportBase<VerifyImport> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (getEntries(module).empty())
      fail(module) << "the module has no entry point: no public function that nobody calls";
    if (failed(verifyLinearState(module)))
      signalPassFailure();
    llvm::DenseSet<StringRef> called;
    module.walk([&](CallOp call) { called.insert(call.getCallee()); });
    SmallVector<func::FuncOp> distinct;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isPrivate() && !called.contains(function.getSymName()))
        fail(function) << "@" << function.getSymName() << " is private and never called";
      for (func::FuncOp other : distinct)
        if (areEqual(function, other))
          fail(function) << "@" << function.getSymName() << " is the same as @"
                         << other.getSymName() << ": call that one with other indices";
      distinct.push_back(function);
      checkWeights(function);
    }
  }

  InFlightDiagnostic fail(Operation *op) {
    signalPassFailure();
    return op->emitError();
  }

  static bool areEqual(func::FuncOp a, func::FuncOp b) {
    return a.getFunctionType() == b.getFunctionType() &&
           OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                      OperationEquivalence::IgnoreLocations);
  }

  void checkWeights(func::FuncOp function) {
    llvm::StringMap<ParamOp> names;
    function.walk([&](Operation *op) {
      if (auto param = dyn_cast<ParamOp>(op)) {
        auto [it, inserted] = names.try_emplace(param.getName(), param);
        if (!inserted)
          fail(op) << "@" << function.getSymName() << " has two params '" << param.getName()
                   << "': a name is one weight";
      }
      auto constant = dyn_cast<ConstantOp>(op);
      if (!constant || isa<SplatElementsAttr>(constant.getValue()))
        return;
      auto bytes = dyn_cast_or_null<AffineConstantExpr>(
          getNumBytes(cast<RankedTensorType>(constant.getType())));
      if (!bytes || bytes.getValue() > kMaxConstantBytes)
        fail(op) << "a constant of type " << constant.getType() << " in @" << function.getSymName()
                 << " holds more than " << kMaxConstantBytes << " bytes: weights are params";
    });
  }
};
} // namespace
