// What the operations' evaluations share.
#pragma once

#include "adapt/Interpreter/Value.h"

namespace adapt::interp {

/// Row-major strides, in elements.
llvm::SmallVector<int64_t> getStrides(llvm::ArrayRef<int64_t> shape);

/// The tensor of `shape` whose element at index i… is the input's element number
/// `offset` + sum of i * `strides`. The caller checks that all of them exist.
Tensor gatherStrided(const Tensor &input, llvm::ArrayRef<int64_t> shape, int64_t offset,
                     llvm::ArrayRef<int64_t> strides);

/// Fills the placeholders of "model.layers.{layer}.w"; nullopt where an index is not bound.
std::optional<std::string> fillTemplate(llvm::StringRef name, const Bindings &indices);

/// Evaluates an operation that answers ElementwiseOpInterface. Integers beyond 2^53, which a double
/// does not hold, are an error.
llvm::LogicalResult evaluateElementwise(mlir::Operation *op, EvalContext &context,
                                        llvm::ArrayRef<Value> operands,
                                        llvm::SmallVectorImpl<Value> &results);

/// The sum of a[i] * b[i], in partial sums of the accumulator's type that vectorize.
template <typename Accumulator> Accumulator dot(const double *a, const double *b, int64_t n) {
  constexpr int64_t kLanes = 16;
  Accumulator sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += Accumulator(a[i + lane]) * Accumulator(b[i + lane]);
  Accumulator sum = 0;
  for (; i < n; ++i)
    sum += Accumulator(a[i]) * Accumulator(b[i]);
  for (Accumulator part : sums)
    sum += part;
  return sum;
}

} // namespace adapt::interp
