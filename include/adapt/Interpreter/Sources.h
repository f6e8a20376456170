// Tensors of a checkpoint as values of the interpreter.
#pragma once

#include "adapt/Interpreter/Value.h"
#include "types.pb.h"

namespace adapt::weights {
class SourceProvider;
} // namespace adapt::weights

namespace adapt::interp {

/// The MLIR type of a stored element type; null for one that is not known.
mlir::Type getElementType(mlir::MLIRContext *context, schema::ElementType element);

/// Reads from a checkpoint, which must have each tensor with the source's type. The provider
/// outlives the function.
ReadSource readFrom(const weights::SourceProvider &provider);

/// Gives each name normally distributed numbers of its own, or small integers; in a matrix their
/// products with ordinary vectors are ordinary, too.
ReadSource readRandom(uint64_t seed);

/// Fills a tensor in the same way; integers lie in [0, `below`).
void fillRandom(Tensor &tensor, uint64_t seed, int64_t below);

} // namespace adapt::interp
