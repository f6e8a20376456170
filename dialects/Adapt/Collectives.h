// What ranks make of their tensors together: the reference meaning of collectives.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"

namespace adapt {

/// The tensors of all ranks, in their order, combined by sum, max or min: accumulated as the
/// context says. All are of one shape and type; there is at least one.
interp::Tensor combineRanks(const interp::EvalContext &context, ReduceKind kind,
                            llvm::ArrayRef<interp::Tensor> parts);

/// The ranks' parts one after the other along an axis.
interp::Tensor gatherRanks(llvm::ArrayRef<interp::Tensor> parts, unsigned axis);

/// A rank's part of a tensor that is split along an axis; the number of parts divides its size.
interp::Tensor takePart(const interp::Tensor &whole, unsigned axis, int64_t part, int64_t parts);

} // namespace adapt
