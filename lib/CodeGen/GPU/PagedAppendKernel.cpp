// paged_append: each token's keys and values go to their place in the state. A block is a token.
#include "CodeGen/Common/PagedState.h"
#include "KernelForm.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace adapt::gpu {
namespace {
class PagedAppendForm : public KernelForm {
public:
  PagedAppendForm(PagedAppendOp op, const GpuTarget &target)
      : op(op), keys(op.getState().getType().getPlanes()[0], true),
        values(op.getState().getType().getPlanes()[1], false) {
    int64_t elements = std::max(keys.groups * keys.size, values.groups * values.size);
    threads = std::clamp<int64_t>(llvm::alignTo(elements, target.warp), target.warp, 256);
  }

  StringRef getName() const override { return "paged_append"; }

  SmallVector<KernelVariant> getVariants() const override {
    KernelVariant variant;
    variant.symbol = "any";
    variant.grid.push_back(getDims(cast<RankedTensorType>(op.getKey().getType()))[0]);
    variant.threads = threads;
    return {variant};
  }

  LogicalResult emit(unsigned, GpuKernelBuilder &b) const override {
    PagedStep step(b, op.getSeqStarts(), op.getKvLens(), op.getBlockTable());
    unsigned state = getArgumentNumber(op.getState());
    Value token = b.getId(0);
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
        forEach(b, values, [&](Value group, Value index, Value) {
          store(b, values, zero, plane(values, 1), group, b.add(slot, 1), index);
        });
      });
    }
    return success();
  }

private:
  static void forEach(GpuKernelBuilder &b, const PagedPlane &plane,
                      function_ref<void(Value, Value, Value)> body) {
    b.createFor(b.getThread(), b.constant(plane.groups * plane.size), b.getThreads(),
                [&](Value i) { body(b.div(i, plane.size), b.rem(i, plane.size), i); });
  }

  static void store(GpuKernelBuilder &b, const PagedPlane &plane, Value value, Pointer block,
                    Value group, Value slot, Value index) {
    Value place = b.add(b.mul(group, plane.getGroupElements()), plane.getPlace(b, slot, index));
    b.store(value, block, place);
  }

  void append(GpuKernelBuilder &b, const PagedPlane &plane, Value source, Value token, Value slot,
              Pointer block) const {
    Pointer row =
        b.at(b.getArgument(getArgumentNumber(source)), b.mul(token, plane.groups * plane.size));
    forEach(b, plane, [&](Value group, Value index, Value place) {
      Value value = b.load(row, place);
      if (value.getType() != plane.element)
        value = narrow(b.getBuilder(), b.getLoc(), widen(b.getBuilder(), b.getLoc(), value),
                       plane.element);
      store(b, plane, value, block, group, slot, index);
    });
  }

  mutable PagedAppendOp op; ///< its accessors are not const
  PagedPlane keys, values;
  int64_t threads;
};
} // namespace

std::unique_ptr<KernelForm> createPagedAppendForm(KernelOp kernel, const GpuTarget &target) {
  auto op = getLoneOp<PagedAppendOp>(kernel);
  if (!op)
    return nullptr;
  for (RankedTensorType plane : op.getState().getType().getPlanes())
    if (plane.getElementType().isF64() || !plane.hasStaticShape())
      return nullptr;
  return std::make_unique<PagedAppendForm>(op, target);
}

} // namespace adapt::gpu
