// Values of the interpreter as .npy files and as text.
#pragma once

#include "adapt/Interpreter/Value.h"
#include "llvm/Support/Error.h"

namespace adapt::interp {

/// Reads an array as a tensor of this element type, which the file's type must convert to exactly:
/// floats from floats, integers from integers in their range.
llvm::Expected<Tensor> readTensor(const std::string &path, mlir::Type element);

/// Writes f32 (f64 where the tensor is) or i64.
llvm::Error writeTensor(const std::string &path, const Tensor &tensor);

/// `tensor<2x3xf32> [[1, 2, 3], [4, 5, 6]]`, eight significant digits. A state as its planes.
void printValue(llvm::raw_ostream &os, const Value &value);

/// How far apart two results are.
struct Difference {
  double error = 0; ///< max|a-b| / max|b|; infinite where one is not finite and the other is not it
  double cosine = 1; ///< of the angle between them
};

/// Compares values of the same kind and shape; nullopt if they are not.
std::optional<Difference> compare(const Value &a, const Value &b);

} // namespace adapt::interp
