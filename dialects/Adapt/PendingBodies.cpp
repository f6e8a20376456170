// Interface bodies that are still to be written beside their definitions. Each refuses by name.
#include "dialects/Adapt/AdaptDialect.h"

using namespace mlir;
using namespace adapt;

#define PENDING_EVALUATE(OP)                                                                       \
  LogicalResult OP::evaluate(interp::EvalContext &, ArrayRef<interp::Value>,                       \
                             SmallVectorImpl<interp::Value> &) {                                   \
    return emitOpError("has no evaluation");                                                       \
  }
#define PENDING_LINALG(OP)                                                                         \
  FailureOr<SmallVector<Value>> OP::lowerToLinalg(OpBuilder &, LinalgContext &, ValueRange) {      \
    return emitOpError("has no lowering to linalg");                                               \
  }
#define PENDING_DECOMPOSE(OP)                                                                      \
  FailureOr<SmallVector<Value>> OP::decompose(OpBuilder &) {                                       \
    return emitOpError("has no decomposition");                                                    \
  }
PENDING_EVALUATE(AddOp)
PENDING_LINALG(AddOp)
PENDING_EVALUATE(SubOp)
PENDING_LINALG(SubOp)
PENDING_EVALUATE(MulOp)
PENDING_LINALG(MulOp)
PENDING_EVALUATE(DivOp)
PENDING_LINALG(DivOp)
PENDING_EVALUATE(MaximumOp)
PENDING_LINALG(MaximumOp)
PENDING_EVALUATE(MinimumOp)
PENDING_LINALG(MinimumOp)
PENDING_EVALUATE(NegOp)
PENDING_LINALG(NegOp)
PENDING_EVALUATE(ExpOp)
PENDING_LINALG(ExpOp)
PENDING_EVALUATE(SqrtOp)
PENDING_LINALG(SqrtOp)
PENDING_EVALUATE(RsqrtOp)
PENDING_LINALG(RsqrtOp)
PENDING_EVALUATE(TanhOp)
PENDING_LINALG(TanhOp)
PENDING_EVALUATE(ErfOp)
PENDING_LINALG(ErfOp)
PENDING_EVALUATE(SinOp)
PENDING_LINALG(SinOp)
PENDING_EVALUATE(CosOp)
PENDING_LINALG(CosOp)
PENDING_EVALUATE(SigmoidOp)
PENDING_LINALG(SigmoidOp)
PENDING_EVALUATE(CastOp)
PENDING_LINALG(CastOp)
PENDING_EVALUATE(ConstantOp)
PENDING_LINALG(ConstantOp)
PENDING_EVALUATE(ReshapeOp)
PENDING_LINALG(ReshapeOp)
PENDING_EVALUATE(TransposeOp)
PENDING_LINALG(TransposeOp)
PENDING_EVALUATE(BroadcastOp)
PENDING_LINALG(BroadcastOp)
PENDING_EVALUATE(SliceOp)
PENDING_LINALG(SliceOp)
PENDING_EVALUATE(ConcatOp)
PENDING_LINALG(ConcatOp)
PENDING_EVALUATE(ReduceOp)
PENDING_LINALG(ReduceOp)
PENDING_EVALUATE(GatherOp)
PENDING_LINALG(GatherOp)
PENDING_EVALUATE(MatmulOp)
PENDING_LINALG(MatmulOp)
PENDING_EVALUATE(GatedActivationOp)
PENDING_DECOMPOSE(GatedActivationOp)
PENDING_EVALUATE(RmsNormOp)
PENDING_DECOMPOSE(RmsNormOp)
PENDING_EVALUATE(RopeTableOp)
PENDING_DECOMPOSE(RopeTableOp)
PENDING_EVALUATE(RopeOp)
PENDING_DECOMPOSE(RopeOp)
PENDING_EVALUATE(PagedAttentionOp)
PENDING_DECOMPOSE(PagedAttentionOp)
PENDING_EVALUATE(PagedAppendOp)
PENDING_EVALUATE(PagedAttendOp)
PENDING_EVALUATE(PackOp)
