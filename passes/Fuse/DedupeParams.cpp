#include "passes/Common/Structure.h"
#include "passes/Fuse/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace adapt {
#define GEN_PASS_DEF_DEDUPEPARAMS
#include "passes/Fuse/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct DedupeParams : adapt::impl::DedupeParamsBase<DedupeParams> {
  using Base::Base;

  void runOnOperation() override {
    // One param of each recipe, the first in the module.
    SmallVector<ParamOp> firsts;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<ParamOp> mine;
      for (ParamOp param : llvm::make_early_inc_range(function.getOps<ParamOp>())) {
        if (ParamOp same = findEqual(mine, param)) {
          param.getResult().replaceAllUsesWith(same.getResult());
          param.erase();
          continue;
        }
        mine.push_back(param);
      }
      for (ParamOp param : mine) {
        ParamOp same = findEqual(firsts, param);
        if (!same)
          firsts.push_back(param);
        else if (llvm::none_of(mine,
                               [&](ParamOp other) { return other.getName() == same.getName(); }))
          param.setName(same.getName());
      }
    }
  }

  static ParamOp findEqual(ArrayRef<ParamOp> params, ParamOp param) {
    auto it = llvm::find_if(params, [&](ParamOp other) { return haveEqualRecipes(other, param); });
    return it == params.end() ? ParamOp() : *it;
  }
};
} // namespace
