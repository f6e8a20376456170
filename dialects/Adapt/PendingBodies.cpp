// Interface bodies that are still to be written beside their definitions. Each refuses by name.
#include "dialects/Adapt/AdaptDialect.h"

using namespace mlir;
using namespace adapt;

#define PENDING_EVALUATE(OP)                                                                       \
  LogicalResult OP::evaluate(interp::EvalContext &, ArrayRef<interp::Value>,                       \
                             SmallVectorImpl<interp::Value> &) {                                   \
    return emitOpError("has no evaluation");                                                       \
  }
PENDING_EVALUATE(AddOp)
PENDING_EVALUATE(SubOp)
PENDING_EVALUATE(MulOp)
PENDING_EVALUATE(DivOp)
PENDING_EVALUATE(MaximumOp)
PENDING_EVALUATE(MinimumOp)
PENDING_EVALUATE(NegOp)
PENDING_EVALUATE(ExpOp)
PENDING_EVALUATE(SqrtOp)
PENDING_EVALUATE(RsqrtOp)
PENDING_EVALUATE(TanhOp)
PENDING_EVALUATE(ErfOp)
PENDING_EVALUATE(SinOp)
PENDING_EVALUATE(CosOp)
PENDING_EVALUATE(SigmoidOp)
PENDING_EVALUATE(CastOp)
PENDING_EVALUATE(ConstantOp)
PENDING_EVALUATE(ReshapeOp)
PENDING_EVALUATE(TransposeOp)
PENDING_EVALUATE(BroadcastOp)
PENDING_EVALUATE(SliceOp)
PENDING_EVALUATE(ConcatOp)
PENDING_EVALUATE(ReduceOp)
PENDING_EVALUATE(GatherOp)
PENDING_EVALUATE(MatmulOp)
PENDING_EVALUATE(GatedActivationOp)
PENDING_EVALUATE(RmsNormOp)
PENDING_EVALUATE(RopeTableOp)
PENDING_EVALUATE(RopeOp)
PENDING_EVALUATE(PagedAttentionOp)
PENDING_EVALUATE(PagedAppendOp)
PENDING_EVALUATE(PagedAttendOp)
PENDING_EVALUATE(PackOp)
