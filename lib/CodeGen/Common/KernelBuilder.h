// Builds the function of one variant of a kernel: buffers, sizes, and the small vocabulary (64-bit
// arithmetic, loops, loads through pointers) in which kernels are written. How a kernel is entered,
// and what only some targets have, is in the builder of the target.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace adapt::codegen {

/// A place in memory: elements of one type.
struct Pointer {
  mlir::Value base;
  mlir::Type element;
};

/// The value (i64) of a size expression; `lookup` gives those of names.
mlir::Value emitSize(mlir::OpBuilder &builder, mlir::Location loc, mlir::AffineExpr size,
                     llvm::function_ref<mlir::Value(llvm::StringRef)> lookup);

/// The ABI's i1 is a byte.
mlir::Type getMemoryType(mlir::Type element);
/// Of an element in memory.
int64_t getBytes(mlir::Type element);

class KernelBuilder {
public:
  KernelBuilder(const KernelBuilder &) = delete;

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  /// A private function beside this one, named after it; pointers may be marked as not aliasing.
  mlir::func::FuncOp createFunction(llvm::StringRef suffix, llvm::ArrayRef<mlir::Type> arguments,
                                    bool noAlias = true);

  /// The buffer of a tensor argument, of a plane of a state argument, or of a result.
  Pointer getArgument(unsigned argument, unsigned plane = 0);
  Pointer getResult(unsigned result);
  /// The work item, i64.
  mlir::Value getId(unsigned axis) { return ids[axis]; }
  /// A size, i64.
  mlir::Value getSize(mlir::AffineExpr size);

  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b) { return b ? add(a, constant(b)) : a; }
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b) { return b == 1 ? a : mul(a, constant(b)); }
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  /// Of numbers that are not negative.
  mlir::Value div(mlir::Value a, int64_t b);
  mlir::Value rem(mlir::Value a, int64_t b);
  mlir::Value ceilDiv(mlir::Value a, int64_t b) { return div(add(a, b - 1), b); }
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value equal(mlir::Value a, mlir::Value b);

  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;
  llvm::SmallVector<mlir::Value> createFor(mlir::Value from, mlir::Value to, int64_t step,
                                           mlir::ValueRange init, Body body);
  void createFor(mlir::Value from, mlir::Value to, int64_t step,
                 llvm::function_ref<void(mlir::Value)> body);
  void createIf(mlir::Value condition, llvm::function_ref<void()> then,
                llvm::function_ref<void()> otherwise = nullptr);

  /// The place `index` elements on.
  Pointer at(Pointer pointer, mlir::Value index);
  /// The same place as elements of another type.
  static Pointer as(Pointer pointer, mlir::Type element) { return {pointer.base, element}; }
  /// Reads or writes a value of any type at `index` elements from the pointer; without `alignment`
  /// (in bytes) none beyond the element's is assumed.
  mlir::Value load(Pointer pointer, mlir::Value index, mlir::Type type, int64_t alignment = 0);
  mlir::Value load(Pointer pointer, mlir::Value index) {
    return load(pointer, index, pointer.element);
  }
  void store(mlir::Value value, Pointer pointer, mlir::Value index, int64_t alignment = 0);
  /// A vector of which only the lanes below `count` are read or written; the others read as zero.
  mlir::Value loadMasked(Pointer pointer, mlir::Value index, mlir::VectorType type,
                         mlir::Value count);
  void storeMasked(mlir::Value value, Pointer pointer, mlir::Value index, mlir::Value count);
  /// An i32 element as i64.
  mlir::Value loadIndex(Pointer pointer, mlir::Value index);

  mlir::Type i32() { return builder.getI32Type(); }
  mlir::Type i64() { return builder.getI64Type(); }
  mlir::Type f32() { return builder.getF32Type(); }
  mlir::VectorType vector(int64_t lanes, mlir::Type element) {
    return mlir::VectorType::get({lanes}, element);
  }
  /// A float constant, or a vector of it.
  mlir::Value floatConstant(mlir::Type type, double value);
  mlir::Value intConstant(mlir::Type type, int64_t value);
  mlir::Value broadcast(mlir::Value scalar, int64_t lanes);

protected:
  /// `functions` is where the kernel's functions are put.
  KernelBuilder(mlir::Block *functions, KernelOp kernel, llvm::StringRef symbol);
  ~KernelBuilder() = default;

  /// The element type of each buffer as it lies in memory, in the order of the ABI.
  llvm::SmallVector<mlir::Type> getBufferElements();
  /// Gives the body its arguments: a pointer for each buffer, the sizes, and the item's numbers.
  void bind(mlir::ValueRange buffers, mlir::ValueRange sizes, mlir::ValueRange ids);

  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Block *functions;
  KernelOp kernel;
  std::string symbol;

private:
  mlir::Value mask(int64_t lanes, mlir::Value count);

  llvm::SmallVector<llvm::SmallVector<Pointer>> arguments; // planes
  llvm::SmallVector<Pointer> results;                      // no base where the result is state
  llvm::StringMap<mlir::Value> sizes;
  llvm::SmallVector<mlir::Value> ids;
};

} // namespace adapt::codegen
