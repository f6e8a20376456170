#include "passes/Common/Structure.h"
#include "passes/Shard/Passes.h"
#include "passes/Shard/Placement.h"
#include "passes/Shard/Resize.h"
#include "passes/Shard/ShardSizes.h"
#include "llvm/ADT/StringExtras.h"

namespace adapt {
#define GEN_PASS_DEF_PADSHARDS
#include "passes/Shard/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
/// The most ranks that are tried to say what would work.
constexpr int64_t kMostRanks = 256;

struct Weight {
  ParamOp param;
  ShardAttr shard;
  int64_t size; ///< of the axis
};

struct PadShards : adapt::impl::PadShardsBase<PadShards> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t ranks = getMeshSize(module, kTensorAxis);
    if (ranks == 1)
      return;
    FailureOr<SmallVector<Weight>> weights = collect();
    if (failed(weights))
      return signalPassFailure();
    llvm::SetVector<StringAttr> changes, refusals;
    Resizer resizer(module, Resizer::Mode::Padding);
    for (Weight &weight : *weights) {
      std::string change = describe(weight, ranks);
      if (needsPadding(weight.shard, weight.size, ranks))
        refusals.insert(StringAttr::get(&getContext(), change));
      if (!change.empty())
        changes.insert(StringAttr::get(&getContext(), change));
    }
    if (noPadding && !refusals.empty()) {
      refuse(*weights, refusals.getArrayRef(), ranks);
      return signalPassFailure();
    }
    SmallVector<Attribute> said;
    for (StringAttr change : changes) {
      said.push_back(StringAttr::get(&getContext(),
                                     kTensorAxis + "=" + Twine(ranks) + ": " + change.getValue()));
      emitRemark(module.getLoc()) << cast<StringAttr>(said.back()).getValue();
    }
    if (!said.empty())
      module->setAttr(AdaptDialect::kPadding, ArrayAttr::get(&getContext(), said));

    for (Weight &weight : *weights)
      pad(weight, ranks, resizer);
    auto fix = [](OpBuilder &builder, Value value, RankedTensorType type) -> Value {
      // Where padding ends, and of what a function returns.
      SmallVector<int64_t> zeros(type.getRank(), 0), ones(type.getRank(), 1);
      return SliceOp::create(builder, value.getLoc(), type, value, zeros, ones);
    };
    if (failed(resizer.run()) || failed(resizer.commit(fix)))
      signalPassFailure();
  }

  FailureOr<SmallVector<Weight>> collect() {
    SmallVector<Weight> weights;
    LogicalResult result = success();
    getOperation().walk([&](ParamOp param) {
      auto shard = param->getAttrOfType<ShardAttr>(AdaptDialect::kShard);
      if (!shard)
        return;
      auto type = cast<RankedTensorType>(param.getType());
      bool fits = shard.getAxis() >= 0 && shard.getAxis() < type.getRank() &&
                  shard.getHeads() >= 0 && shard.getQueries() >= 0;
      int64_t size = fits ? type.getDimSize(shard.getAxis()) : 0, heads = 1;
      if (fits && shard.getHeads())
        fits =
            !llvm::MulOverflow(shard.getHeads(), std::max<int64_t>(shard.getQueries(), 1), heads) &&
            size % heads == 0;
      if (!fits)
        result = param.emitOpError() << param.getName() << " of type " << type
                                     << " cannot be split as " << shard << " says";
      else
        weights.push_back({param, shard, size});
    });
    if (failed(result))
      return failure();
    return weights;
  }

  /// "3 key/value heads become 4" and the like; empty where nothing changes.
  static std::string describe(const Weight &weight, int64_t ranks) {
    std::string text;
    llvm::raw_string_ostream os(text);
    ParamOp param = weight.param;
    int64_t heads = weight.shard.getHeads(), queries = weight.shard.getQueries();
    if (!heads) {
      if (weight.size % ranks)
        os << param->getParentOfType<func::FuncOp>().getSymName() << ": " << weight.size
           << " elements of " << param.getName() << " become " << llvm::alignTo(weight.size, ranks);
      return text;
    }
    HeadSizes sizes = getHeadSizes(heads, queries, ranks);
    if (queries) {
      if (sizes.base * sizes.queries != heads * queries)
        os << heads * queries << " query heads become " << sizes.base * sizes.queries;
      return text;
    }
    if (sizes.getHeads() == heads)
      return text;
    os << heads << " key/value heads become " << sizes.getHeads();
    if (sizes.copies > 1)
      os << (sizes.base == heads ? ": each is copied "
                                 : ": padded to " + std::to_string(sizes.base) + ", each copied ")
         << sizes.copies << " times";
    return text;
  }

  void refuse(ArrayRef<Weight> weights, ArrayRef<StringAttr> reasons, int64_t ranks) {
    SmallVector<std::string> works;
    for (int64_t other = 1; other <= kMostRanks; ++other)
      if (llvm::none_of(weights, [&](const Weight &weight) {
            return needsPadding(weight.shard, weight.size, other);
          }))
        works.push_back(std::to_string(other));
    InFlightDiagnostic error = emitError(getOperation().getLoc())
                               << "--no-padding: with --tp=" << ranks << " ";
    llvm::interleaveComma(reasons, error, [&](StringAttr reason) { error << reason.getValue(); });
    error << "; without padding --tp can be " << llvm::join(works, ", ");
  }

  void pad(Weight &weight, int64_t ranks, Resizer &resizer) {
    Operation *yield = weight.param.getBody().front().getTerminator();
    OpBuilder builder(yield);
    Value padded = padWeight(builder, weight.param.getYielded(), weight.shard, ranks);
    if (padded == weight.param.getYielded())
      return;
    yield->setOperand(0, padded);
    resizer.setType(weight.param.getResult(), padded.getType());
    weight.param->setAttr(AdaptDialect::kShard, getPadded(weight.shard, ranks));
  }
};
} // namespace
