#include "mlir/IR/OperationSupport.h"
#include "passes/Common/Structure.h"
#include "passes/Common/TargetInfo.h"
#include "passes/Fuse/Passes.h"
#include "llvm/ADT/StringMap.h"

namespace adapt {
#define GEN_PASS_DEF_VERIFYFUSE
#include "passes/Fuse/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct VerifyFuse : adapt::impl::VerifyFuseBase<VerifyFuse> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<TargetInfo> target = TargetInfo::get(getOperation());
    if (failed(target))
      return signalPassFailure();
    if (failed(verifyLinearState(getOperation())))
      signalPassFailure();
    checkFunctions();
    checkKernels(*target);
    checkWeights();
  }

private:
  InFlightDiagnostic fail(Operation *op) {
    signalPassFailure();
    return op->emitOpError();
  }

  void checkFunctions() {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        for (Operation &op : block)
          if (!isa<ParamOp, LaunchOp, CallOp, ReshapeOp, CollectiveOpInterface, func::ReturnOp>(op))
            fail(&op) << "in @" << function.getSymName() << " is in no kernel";
  }

  void checkKernels(const TargetInfo &target) {
    llvm::DenseSet<StringRef> launched;
    getOperation().walk([&](LaunchOp launch) { launched.insert(launch.getKernel()); });
    SmallVector<KernelOp> distinct;
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      if (!launched.contains(kernel.getSymName()))
        fail(kernel) << "@" << kernel.getSymName() << " is never launched";
      for (KernelOp other : distinct)
        if (kernel.getFunctionType() == other.getFunctionType() &&
            OperationEquivalence::isRegionEquivalentTo(&kernel.getBody(), &other.getBody(),
                                                       OperationEquivalence::IgnoreLocations))
          fail(kernel) << "@" << kernel.getSymName() << " is the same as @" << other.getSymName();
      distinct.push_back(kernel);
      kernel.walk([&](MatmulOp matmul) {
        auto type = cast<RankedTensorType>(matmul.getWeight().getType());
        PackedAttr wanted = target.getWeightLayout(type.getElementType());
        if (isa<BlockArgument>(matmul.getWeight()) && type.hasStaticShape() && wanted &&
            type.getEncoding() != wanted)
          fail(matmul) << "in @" << kernel.getSymName() << " reads a weight of type " << type
                       << ", target '" << target.name << "' wants " << wanted;
      });
    }
  }

  static SmallVector<std::string> getSources(ParamOp param, DictionaryAttr indices) {
    SmallVector<std::string> sources;
    param.walk(
        [&](SourceOp source) { sources.push_back(fillTemplate(source.getName(), indices)); });
    return sources;
  }

  /// In a bundle a weight is known by its name, indices filled in.
  void checkWeights() {
    llvm::StringMap<std::pair<ParamOp, DictionaryAttr>> weights;
    forEachInstance(getOperation(), [&](func::FuncOp function, DictionaryAttr indices) {
      for (auto param : function.getOps<ParamOp>()) {
        std::string name = fillTemplate(param.getName(), indices);
        auto [it, inserted] = weights.try_emplace(name, param, indices);
        if (inserted)
          continue;
        auto [other, otherIndices] = it->second;
        if (!haveEqualRecipes(param, other) ||
            getSources(param, indices) != getSources(other, otherIndices)) {
          InFlightDiagnostic error = fail(param) << "'" << name << "' of @" << function.getSymName()
                                                 << " is another weight too";
          error.attachNote(other.getLoc()) << "the other one";
        }
      }
    });
  }
};
} // namespace
