#include "mlir/IR/IRMapping.h"
#include "passes/Common/Structure.h"
#include "passes/Fuse/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include <limits>

namespace adapt {
#define GEN_PASS_DEF_MERGEMATMULS
#include "passes/Fuse/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
ParamOp getWeight(MatmulOp matmul) { return matmul.getWeight().getDefiningOp<ParamOp>(); }

/// "l.{layer}.q+k+v.weight" of "l.{layer}.q.weight" and so on: what differs is joined.
std::string joinNames(ArrayRef<MatmulOp> matmuls) {
  SmallVector<SmallVector<StringRef>> names;
  size_t shortest = std::numeric_limits<size_t>::max();
  for (MatmulOp matmul : matmuls) {
    getWeight(matmul).getName().split(names.emplace_back(), '.');
    shortest = std::min(shortest, names.back().size());
  }
  const SmallVector<StringRef> &first = names.front();
  auto agree = [&](auto part) {
    return llvm::all_of(names, [&](const auto &name) { return part(name) == part(first); });
  };
  size_t before = 0, after = 0; // parts that all share, at least one is left between
  while (before + 1 < shortest && agree([&](const auto &name) { return name[before]; }))
    ++before;
  while (before + after + 1 < shortest &&
         agree([&](const auto &name) { return name[name.size() - 1 - after]; }))
    ++after;
  SmallVector<std::string> middles;
  for (ArrayRef<StringRef> name : names)
    middles.push_back(llvm::join(name.drop_front(before).drop_back(after), "."));
  SmallVector<std::string> parts;
  for (StringRef part : ArrayRef(first).take_front(before))
    parts.push_back(part.str());
  parts.push_back(llvm::join(middles, "+"));
  for (StringRef part : ArrayRef(first).take_back(after))
    parts.push_back(part.str());
  return llvm::join(parts, ".");
}

/// Whether all of them go into one elementwise operation (gate and up into a gated activation) and
/// nowhere else: one kernel computes them and it, with nothing written between.
bool meetAtOnce(ArrayRef<MatmulOp> matmuls) {
  Operation *meeting = nullptr;
  for (MatmulOp matmul : matmuls) {
    if (!matmul->hasOneUse())
      return false;
    Operation *user = *matmul->user_begin();
    if (!isa<ElementwiseOpInterface>(user) || (meeting && user != meeting) ||
        matmul.getType() != matmuls.front()->getResult(0).getType())
      return false;
    meeting = user;
  }
  return true;
}

struct MergeMatmuls : adapt::impl::MergeMatmulsBase<MergeMatmuls> {
  using Base::Base;

  void runOnOperation() override {
    for (Block &block : getOperation().getBody()) {
      using Key = std::tuple<Value, Type, Type>; // input, element types of weight and result
      llvm::MapVector<Key, SmallVector<MatmulOp>> groups;
      for (auto matmul : block.getOps<MatmulOp>()) {
        ParamOp weight = getWeight(matmul);
        if (!weight || !weight->hasOneUse() || weight->getBlock() != &block)
          continue;
        auto type = cast<RankedTensorType>(weight.getType());
        if (!type.getEncoding())
          groups[{matmul.getInput(), type.getElementType(),
                  cast<RankedTensorType>(matmul.getType()).getElementType()}]
              .push_back(matmul);
      }
      for (auto &[key, matmuls] : groups)
        if (matmuls.size() > 1 && !meetAtOnce(matmuls))
          merge(matmuls);
    }
  }

  void merge(ArrayRef<MatmulOp> matmuls) {
    MatmulOp first = matmuls.front();
    OpBuilder builder(first);
    SmallVector<Location> locations;
    for (MatmulOp matmul : matmuls)
      locations.push_back(matmul.getLoc());
    Location loc = builder.getFusedLoc(locations);

    ParamOp weight = mergeWeights(builder, loc, matmuls);
    auto firstType = cast<RankedTensorType>(first.getType());
    SmallVector<AffineExpr> dims = getDims(firstType);
    dims.back() =
        builder.getAffineConstantExpr(cast<RankedTensorType>(weight.getType()).getDimSize(0));
    auto merged = MatmulOp::create(builder, loc, getTensorType(dims, firstType.getElementType()),
                                   first.getInput(), weight.getResult());
    if (Attribute implementation = first->getAttr(kImplementation))
      merged->setAttr(kImplementation, implementation);

    SmallVector<int64_t> offsets(dims.size(), 0), strides(dims.size(), 1);
    for (MatmulOp matmul : matmuls) {
      auto type = cast<RankedTensorType>(matmul.getType());
      auto slice =
          SliceOp::create(builder, matmul.getLoc(), type, merged.getResult(), offsets, strides);
      if (Attribute implementation = matmul->getAttr(kImplementation))
        slice->setAttr(kImplementation, implementation);
      offsets.back() += type.getShape().back();
      matmul.getResult().replaceAllUsesWith(slice.getResult());
    }
    for (MatmulOp matmul : matmuls) {
      ParamOp old = getWeight(matmul);
      matmul.erase();
      old.erase();
    }
    numMerged += matmuls.size() - 1;
  }

  /// The weights below each other. Params have no operands, so it may stand anywhere.
  static ParamOp mergeWeights(OpBuilder &builder, Location loc, ArrayRef<MatmulOp> matmuls) {
    auto firstType = cast<RankedTensorType>(getWeight(matmuls.front()).getType());
    int64_t rows = 0;
    for (MatmulOp matmul : matmuls)
      rows += cast<RankedTensorType>(getWeight(matmul).getType()).getDimSize(0);
    auto type = RankedTensorType::get({rows, firstType.getDimSize(1)}, firstType.getElementType());
    auto param = ParamOp::create(builder, loc, type, joinNames(matmuls));
    if (Attribute part = getWeight(matmuls.front())->getAttr("adapt.part"))
      param->setAttr("adapt.part", part); // For reports.
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&param.getBody().emplaceBlock());
    SmallVector<Value> parts;
    for (MatmulOp matmul : matmuls) {
      IRMapping mapping;
      ParamOp weight = getWeight(matmul);
      for (Operation &op : weight.getBody().front().without_terminator())
        builder.clone(op, mapping);
      parts.push_back(mapping.lookup(weight.getYielded()));
    }
    Value whole = ConcatOp::create(builder, loc, type, parts, /*axis=*/0);
    YieldOp::create(builder, loc, whole);
    return param;
  }
};
} // namespace
