// paged_append: each token's keys and values go to their place in the state.
#include "CodeGen/Common/PagedState.h"
#include "KernelForm.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace adapt::cpu {
namespace {
constexpr int64_t kItemTokens = 8;

class PagedAppendForm : public KernelForm {
public:
  PagedAppendForm(PagedAppendOp op)
      : op(op), keys(op.getState().getType().getPlanes()[0], true),
        values(op.getState().getType().getPlanes()[1], false) {}

  StringRef getName() const override { return "paged_append"; }

  SmallVector<KernelVariant> getVariants() const override {
    KernelVariant variant;
    variant.symbol = "any";
    variant.grid.push_back(getTokens().ceilDiv(kItemTokens));
    return {variant};
  }

  LogicalResult emit(unsigned, CpuKernelBuilder &b) const override {
    PagedStep step(b, op.getSeqStarts(), op.getKvLens(), op.getBlockTable());
    unsigned state = getArgumentNumber(op.getState());
    Value begin = b.mul(b.getId(0), kItemTokens);
    Value end = b.min(b.add(begin, kItemTokens), b.getSize(getTokens()));
    b.createFor(begin, end, 1, [&](Value token) {
      Value sequence = step.findSequence(b, token);
      Value position = step.getPosition(b, sequence, token);
      Value block = step.getBlock(b, sequence, b.div(position, kBlockTokens));
      Value slot = b.rem(position, kBlockTokens);
      auto plane = [&](const PagedPlane &plane, unsigned number) {
        return b.at(b.getArgument(state, number), b.mul(block, plane.getBlockElements()));
      };
      append(b, keys, op.getKey(), token, slot, plane(keys, 0));
      append(b, values, op.getValue(), token, slot, plane(values, 1));
      // A pair of values is read whole: the newest token's neighbour must be a number.
      if (values.depth == 2) {
        Value newest = b.equal(b.add(position, 1), b.loadIndex(step.kvLens, sequence));
        Value alone = b.equal(b.rem(slot, 2), b.constant(0));
        Value both = arith::AndIOp::create(b.getBuilder(), b.getLoc(), newest, alone);
        b.createIf(both, [&] {
          Value zero = b.floatConstant(values.element, 0.0);
          forEach(b, values, [&](Value group, Value index) {
            store(b, values, zero, plane(values, 1), group, b.add(slot, 1), index);
          });
        });
      }
    });
    return success();
  }

private:
  AffineExpr getTokens() const { return getDims(cast<RankedTensorType>(op.getKey().getType()))[0]; }

  static void forEach(CpuKernelBuilder &b, const PagedPlane &plane,
                      function_ref<void(Value, Value)> body) {
    b.createFor(b.constant(0), b.constant(plane.groups), 1, [&](Value group) {
      b.createFor(b.constant(0), b.constant(plane.size), 1,
                  [&](Value index) { body(group, index); });
    });
  }

  static void store(CpuKernelBuilder &b, const PagedPlane &plane, Value value, Pointer block,
                    Value group, Value slot, Value index) {
    Value place = b.add(b.mul(group, plane.getGroupElements()), plane.getPlace(b, slot, index));
    b.store(value, block, place);
  }

  void append(CpuKernelBuilder &b, const PagedPlane &plane, Value source, Value token, Value slot,
              Pointer block) const {
    Pointer row =
        b.at(b.getArgument(getArgumentNumber(source)), b.mul(token, plane.groups * plane.size));
    forEach(b, plane, [&](Value group, Value index) {
      Value value = b.load(row, b.add(b.mul(group, plane.size), index));
      if (value.getType() != plane.element)
        value = narrow(b.getBuilder(), b.getLoc(), widen(b.getBuilder(), b.getLoc(), value),
                       plane.element);
      store(b, plane, value, block, group, slot, index);
    });
  }

  mutable PagedAppendOp op; ///< its accessors are not const
  PagedPlane keys, values;
};
} // namespace

std::unique_ptr<KernelForm> createPagedAppendForm(KernelOp kernel, const CpuTarget &) {
  auto op = getLoneOp<PagedAppendOp>(kernel);
  if (!op)
    return nullptr;
  for (RankedTensorType plane : op.getState().getType().getPlanes())
    if (plane.getElementType().isF64() || !plane.hasStaticShape())
      return nullptr;
  return std::make_unique<PagedAppendForm>(op);
}

} // namespace adapt::cpu
