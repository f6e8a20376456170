// Values of the interpreter, and what it tells an operation that it evaluates.
//
// Floating-point elements are doubles, whatever their type: in wide mode they are never rounded, in
// typed mode the interpreter rounds each result to its element type. Integers (and i1, as 0 or 1)
// are int64_t and always lie in their type's range.
#pragma once

#include "dialects/Adapt/Dims.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include <functional>
#include <memory>
#include <variant>
#include <vector>

namespace adapt::interp {

/// A dense row-major tensor. Copies share their elements until one of them writes.
class Tensor {
public:
  Tensor() = default;
  /// All zeros. Sizes are not negative and their product fits the memory (EvalContext::getShape).
  Tensor(mlir::Type element, llvm::ArrayRef<int64_t> shape);

  mlir::Type getElementType() const { return element; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getRank() const { return shape.size(); }
  int64_t getDim(unsigned axis) const { return shape[axis]; }
  int64_t getNumElements() const;
  bool isFloat() const { return mlir::isa<mlir::FloatType>(element); }

  /// The elements; floats() of a tensor of a floating-point type only, ints() of any other.
  llvm::ArrayRef<double> floats() const;
  llvm::ArrayRef<int64_t> ints() const;
  /// The same to write to; not shared with another tensor afterwards.
  llvm::MutableArrayRef<double> mutableFloats();
  llvm::MutableArrayRef<int64_t> mutableInts();

  /// Element i as a double, whatever the type.
  double getAsDouble(int64_t i) const { return isFloat() ? floats()[i] : double(ints()[i]); }
  /// Sets element i; to an integer type the value is truncated.
  void setFromDouble(int64_t i, double value);

  /// The same elements (shared) in another shape with as many elements.
  Tensor withShape(llvm::ArrayRef<int64_t> newShape) const;
  /// The same elements (shared) under another element type, floating-point if this one is, else
  /// not; nothing is rounded.
  Tensor withElementType(mlir::Type newElement) const;

  /// Rounds floating-point elements to nearest even, wraps integers (i1: the lowest bit).
  void roundToElementType();

private:
  mlir::Type element;
  llvm::SmallVector<int64_t, 4> shape;
  std::shared_ptr<std::vector<double>> floatData;
  std::shared_ptr<std::vector<int64_t>> intData;
};

/// The value nearest to `value` (ties to even) in a floating-point type.
double roundToType(mlir::Type element, double value);
/// `value` modulo the range of an integer type (i1: the lowest bit).
int64_t wrapToType(mlir::Type element, int64_t value);

/// The elements of a constant. Null where the attribute's data cannot be read.
std::optional<Tensor> getConstant(mlir::ElementsAttr attr);

/// A layer's paged state: per plane a tensor [blocks * block_tokens, …plane's shape]. Slot
/// block_table[s, p / block_tokens] * block_tokens + p % block_tokens holds position p of sequence
/// s.
struct State {
  llvm::SmallVector<Tensor, 2> planes;
};

/// What an SSA value is at run time.
class Value {
public:
  Value() = default;
  Value(Tensor tensor) : storage(std::move(tensor)) {}
  Value(State state) : storage(std::move(state)) {}

  bool isState() const { return std::holds_alternative<State>(storage); }
  const Tensor &tensor() const { return std::get<Tensor>(storage); }
  Tensor &tensor() { return std::get<Tensor>(storage); }
  const State &state() const { return std::get<State>(storage); }
  State &state() { return std::get<State>(storage); }

private:
  std::variant<Tensor, State> storage;
};

enum class Mode {
  Wide, ///< f64, no rounding between operations: for comparing a module before and after a pass
  Typed ///< f32 accumulation, each result rounded to its type: what kernels are compared with
};

using Bindings = llvm::StringMap<int64_t>;

/// Reads a tensor of the checkpoint, by its name with placeholders filled in, for an adapt.source
/// of this type. On failure an error was emitted at the operation.
using ReadSource = std::function<mlir::FailureOr<Tensor>(mlir::Operation *, llvm::StringRef,
                                                         mlir::RankedTensorType)>;

/// What an operation is told when it is evaluated.
struct EvalContext {
  Mode mode = Mode::Wide;
  /// Tokens in a block of paged state.
  int64_t blockTokens = 16;
  /// The sizes that the enclosing function's types name.
  Bindings symbols;
  /// The function's indices, bound by its call.
  Bindings indices;
  /// Reads a tensor of the checkpoint, placeholders filled in, for an adapt.source. On failure an
  /// error was emitted at the operation.
  std::function<mlir::FailureOr<Tensor>(mlir::Operation *, llvm::StringRef, mlir::RankedTensorType)>
      readSource;
  /// Larger tensors are refused, so that a hostile size cannot exhaust the memory.
  int64_t maxElements = int64_t(1) << 30;

  std::optional<int64_t> getSize(mlir::AffineExpr size) const {
    return adapt::evaluateSize(size, [&](llvm::StringRef name) -> std::optional<int64_t> {
      auto it = symbols.find(name);
      return it == symbols.end() ? std::nullopt : std::optional<int64_t>(it->second);
    });
  }

  /// The sizes of a tensor type; `op` is where an unknown, negative or excessive one is reported.
  mlir::FailureOr<llvm::SmallVector<int64_t>> getShape(mlir::Operation *op, mlir::Type type) const {
    llvm::SmallVector<int64_t> shape;
    int64_t elements = 1;
    for (mlir::AffineExpr dim : adapt::getDims(mlir::cast<mlir::RankedTensorType>(type))) {
      std::optional<int64_t> size = dim ? getSize(dim) : std::nullopt;
      if (!size || *size < 0)
        return op->emitOpError("cannot be evaluated: size ")
               << (dim ? adapt::toString(dim) : std::string("?")) << " of " << type
               << (size ? " is " + std::to_string(*size) : std::string(" is not known"));
      // Zeros do not reset the product: a later size may be as large as it likes, but not more.
      if (*size > maxElements / elements)
        return op->emitOpError("cannot be evaluated: ")
               << type << " has more than " << maxElements << " elements";
      elements *= std::max<int64_t>(*size, 1);
      shape.push_back(*size);
    }
    return shape;
  }

  /// A tensor of zeros of this type.
  mlir::FailureOr<Tensor> makeTensor(mlir::Operation *op, mlir::Type type) const {
    auto shape = getShape(op, type);
    if (mlir::failed(shape))
      return mlir::failure();
    return Tensor(mlir::cast<mlir::RankedTensorType>(type).getElementType(), *shape);
  }

  /// Calls `body` with a zero of the type in which an operation accumulates values of `element`.
  template <typename Body> void withAccumulator(mlir::Type element, Body body) const {
    if (mode == Mode::Typed && !element.isF64())
      body(0.0f);
    else
      body(0.0);
  }
};

} // namespace adapt::interp
