#include "passes/Common/Structure.h"
#include "passes/Shard/Passes.h"

namespace adapt {
#define GEN_PASS_DEF_VERIFYSHARD
#include "passes/Shard/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
struct VerifyShard : adapt::impl::VerifyShardBase<VerifyShard> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(verifyLinearState(module)))
      signalPassFailure();
    int64_t ranks = getMeshSize(module, "tp");
    module.walk([&](Operation *op) {
      bool placed = op->hasAttr(AdaptDialect::kPlacement);
      if (auto function = dyn_cast<func::FuncOp>(op))
        for (unsigned i = 0; i < function.getNumArguments(); ++i)
          placed |= bool(function.getArgAttr(i, AdaptDialect::kPlacement));
      if (placed)
        fail(op) << "still has " << AdaptDialect::kPlacement;
      if (ranks > 1 && op->hasAttr(AdaptDialect::kShard))
        fail(op) << "still has " << AdaptDialect::kShard << ": it is on every rank as a whole";
      if (auto collective = dyn_cast<CollectiveOpInterface>(op))
        checkCollective(collective);
      if (auto slice = dyn_cast<ShardSliceOp>(op))
        checkSlice(slice, ranks);
    });
  }

  InFlightDiagnostic fail(Operation *op) {
    signalPassFailure();
    return op->emitOpError();
  }

  void checkCollective(CollectiveOpInterface op) {
    int64_t size = getMeshSize(getOperation(), op.getMeshAxisName());
    if (size == 1)
      fail(op) << "goes over '" << op.getMeshAxisName() << "', which has one rank in "
               << AdaptDialect::kMesh;
    auto ranks = op->getAttrOfType<IntegerAttr>("ranks");
    if (ranks && ranks.getInt() != size)
      fail(op) << "is of " << ranks.getInt() << " ranks, the mesh has " << size << " along '"
               << op.getMeshAxisName() << "'";
    auto to = op->getAttrOfType<IntegerAttr>("to");
    if (to && to.getInt() >= size)
      fail(op) << "goes to stage " << to.getInt() << " of " << size;
  }

  /// The parts of all ranks, one behind the other, are the whole.
  void checkSlice(ShardSliceOp op, int64_t ranks) {
    auto in = cast<RankedTensorType>(op.getInput().getType());
    auto out = cast<RankedTensorType>(op.getType());
    std::string coordinate = AdaptDialect::getCoordinate("tp");
    for (auto [axis, offset] : llvm::enumerate(op.getOffsets().getExprs())) {
      int64_t part = out.getDimSize(axis), whole = in.getDimSize(axis);
      if (part == whole)
        continue;
      if (part * ranks != whole)
        fail(op) << ranks << " parts of " << part << " elements on axis " << axis
                 << " are not the whole of " << whole;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        std::optional<int64_t> value = evaluateSize(offset, [&](StringRef name) {
          return name == coordinate ? std::optional<int64_t>(rank) : std::nullopt;
        });
        if (value != rank * part) {
          fail(op) << "rank " << rank << " begins on axis " << axis << " at " << toString(offset)
                   << ", not at " << rank * part;
          break;
        }
      }
    }
  }
};
} // namespace
