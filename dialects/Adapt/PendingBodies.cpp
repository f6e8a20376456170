// Interface bodies that are still to be written beside their definitions. Each refuses by name.
#include "dialects/Adapt/AdaptDialect.h"

using namespace mlir;
using namespace adapt;

#define PENDING_LINALG(OP)                                                                         \
  FailureOr<SmallVector<Value>> OP::lowerToLinalg(OpBuilder &, LinalgContext &, ValueRange) {      \
    return emitOpError("has no lowering to linalg");                                               \
  }
#define PENDING_DECOMPOSE(OP)                                                                      \
  FailureOr<SmallVector<Value>> OP::decompose(OpBuilder &) {                                       \
    return emitOpError("has no decomposition");                                                    \
  }
PENDING_LINALG(AddOp)
PENDING_LINALG(SubOp)
PENDING_LINALG(MulOp)
PENDING_LINALG(DivOp)
PENDING_LINALG(MaximumOp)
PENDING_LINALG(MinimumOp)
PENDING_LINALG(NegOp)
PENDING_LINALG(ExpOp)
PENDING_LINALG(SqrtOp)
PENDING_LINALG(RsqrtOp)
PENDING_LINALG(TanhOp)
PENDING_LINALG(ErfOp)
PENDING_LINALG(SinOp)
PENDING_LINALG(CosOp)
PENDING_LINALG(SigmoidOp)
PENDING_LINALG(CastOp)
PENDING_LINALG(ConstantOp)
PENDING_LINALG(ReshapeOp)
PENDING_LINALG(TransposeOp)
PENDING_LINALG(BroadcastOp)
PENDING_LINALG(SliceOp)
PENDING_LINALG(ConcatOp)
PENDING_LINALG(ReduceOp)
PENDING_LINALG(GatherOp)
PENDING_LINALG(MatmulOp)
PENDING_DECOMPOSE(GatedActivationOp)
PENDING_DECOMPOSE(RmsNormOp)
PENDING_DECOMPOSE(RopeTableOp)
PENDING_DECOMPOSE(RopeOp)
PENDING_DECOMPOSE(PagedAttentionOp)
