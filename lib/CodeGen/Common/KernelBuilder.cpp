#include "KernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace adapt::codegen {

Type getMemoryType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element;
}

int64_t getBytes(Type element) { return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8u); }

Value emitSize(OpBuilder &builder, Location loc, AffineExpr size,
               function_ref<Value(StringRef)> lookup) {
  if (auto value = dyn_cast<AffineConstantExpr>(size))
    return arith::ConstantIntOp::create(builder, loc, value.getValue(), 64);
  if (auto name = dyn_cast<AffineSymbolExpr>(size))
    return lookup(getSymbolName(name));
  auto binary = cast<AffineBinaryOpExpr>(size);
  Value lhs = emitSize(builder, loc, binary.getLHS(), lookup);
  Value rhs = emitSize(builder, loc, binary.getRHS(), lookup);
  switch (size.getKind()) {
  case AffineExprKind::Add:
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::Mul:
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::FloorDiv:
    return arith::FloorDivSIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::CeilDiv:
    return arith::CeilDivSIOp::create(builder, loc, lhs, rhs);
  default: // sizes are not negative
    return arith::RemSIOp::create(builder, loc, lhs, rhs);
  }
}

KernelBuilder::KernelBuilder(Block *functions, KernelOp kernel, StringRef symbol)
    : builder(kernel.getContext()), loc(kernel.getLoc()), functions(functions), kernel(kernel),
      symbol(symbol.str()) {
  builder.setInsertionPointToEnd(functions);
}

SmallVector<Type> KernelBuilder::getBufferElements() {
  SmallVector<Type> elements;
  auto push = [&](RankedTensorType type) {
    elements.push_back(getMemoryType(type.getElementType()));
  };
  for (Type type : kernel.getArgumentTypes()) {
    if (auto state = dyn_cast<PagedType>(type))
      llvm::for_each(state.getPlanes(), push);
    else
      push(cast<RankedTensorType>(type));
  }
  for (Type type : kernel.getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      push(tensor);
  return elements;
}

void KernelBuilder::bind(ValueRange buffers, ValueRange sizeValues, ValueRange idValues) {
  SmallVector<Type> elements = getBufferElements();
  unsigned next = 0;
  auto take = [&] {
    unsigned index = next++;
    return Pointer{buffers[index], elements[index]};
  };
  for (Type type : kernel.getArgumentTypes()) {
    auto state = dyn_cast<PagedType>(type);
    auto &planes = arguments.emplace_back();
    for (size_t i = 0, e = state ? state.getPlanes().size() : 1; i < e; ++i)
      planes.push_back(take());
  }
  for (Type type : kernel.getResultTypes())
    results.push_back(isa<RankedTensorType>(type) ? take() : Pointer{});
  for (auto [name, value] : llvm::zip_equal(kernel.getSymbols(), sizeValues))
    sizes[name] = value;
  ids.assign(idValues.begin(), idValues.end());
}

func::FuncOp KernelBuilder::createFunction(StringRef suffix, ArrayRef<Type> argumentTypes,
                                           bool noAlias) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(functions);
  auto function = func::FuncOp::create(builder, loc, symbol + "." + suffix.str(),
                                       builder.getFunctionType(argumentTypes, {}));
  function.setPrivate();
  function->setAttr("llvm.linkage",
                    LLVM::LinkageAttr::get(builder.getContext(), LLVM::Linkage::Internal));
  for (auto [index, type] : llvm::enumerate(argumentTypes))
    if (noAlias && isa<LLVM::LLVMPointerType>(type))
      function.setArgAttr(index, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
  builder.setInsertionPointToStart(function.addEntryBlock());
  func::ReturnOp::create(builder, loc);
  return function;
}

Pointer KernelBuilder::getArgument(unsigned argument, unsigned plane) {
  return arguments[argument][plane];
}

Pointer KernelBuilder::getResult(unsigned result) { return results[result]; }

Value KernelBuilder::getSize(AffineExpr size) {
  return emitSize(builder, loc, size, [&](StringRef name) { return sizes.lookup(name); });
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value KernelBuilder::constant(int64_t value) { return intConstant(i64(), value); }
Value KernelBuilder::add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
Value KernelBuilder::sub(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
Value KernelBuilder::mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
Value KernelBuilder::min(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
Value KernelBuilder::max(Value a, Value b) { return arith::MaxSIOp::create(builder, loc, a, b); }
Value KernelBuilder::div(Value a, int64_t b) {
  return arith::DivUIOp::create(builder, loc, a, constant(b));
}
Value KernelBuilder::rem(Value a, int64_t b) {
  return arith::RemUIOp::create(builder, loc, a, constant(b));
}
Value KernelBuilder::less(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b);
}
Value KernelBuilder::equal(Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
}

Value KernelBuilder::floatConstant(Type type, double value) {
  TypedAttr attr = builder.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto shaped = dyn_cast<ShapedType>(type))
    attr = DenseElementsAttr::get(shaped, attr);
  return arith::ConstantOp::create(builder, loc, attr);
}

Value KernelBuilder::intConstant(Type type, int64_t value) {
  auto element = cast<IntegerType>(getElementTypeOrSelf(type));
  TypedAttr attr = builder.getIntegerAttr(
      element, APInt(element.getWidth(), value, /*isSigned=*/true, /*implicitTrunc=*/true));
  if (auto shaped = dyn_cast<ShapedType>(type))
    attr = DenseElementsAttr::get(shaped, attr);
  return arith::ConstantOp::create(builder, loc, attr);
}

Value KernelBuilder::broadcast(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(builder, loc, vector(lanes, scalar.getType()), scalar);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::createFor(Value from, Value to, int64_t step, ValueRange init,
                                            Body body) {
  auto loop = scf::ForOp::create(builder, loc, from, to, constant(step), init);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!init.empty())
    scf::YieldOp::create(builder, loc, next);
  return llvm::to_vector(ValueRange(loop.getResults()));
}

void KernelBuilder::createFor(Value from, Value to, int64_t step, function_ref<void(Value)> body) {
  createFor(from, to, step, {}, [&](Value iv, ValueRange) -> SmallVector<Value> {
    body(iv);
    return {};
  });
}

void KernelBuilder::createIf(Value condition, function_ref<void()> then,
                             function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  then();
  if (!otherwise)
    return;
  builder.setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Pointer KernelBuilder::at(Pointer pointer, Value index) {
  Value base = LLVM::GEPOp::create(builder, loc, pointer.base.getType(), pointer.element,
                                   pointer.base, ArrayRef<LLVM::GEPArg>{index});
  return {base, pointer.element};
}

Value KernelBuilder::load(Pointer pointer, Value index, Type type, int64_t alignment) {
  if (alignment == 0)
    alignment = isa<LLVM::LLVMPointerType>(pointer.element) ? 8 : getBytes(pointer.element);
  return LLVM::LoadOp::create(builder, loc, type, at(pointer, index).base, alignment);
}

void KernelBuilder::store(Value value, Pointer pointer, Value index, int64_t alignment) {
  if (alignment == 0)
    alignment = getBytes(pointer.element);
  LLVM::StoreOp::create(builder, loc, value, at(pointer, index).base, alignment);
}

Value KernelBuilder::mask(int64_t lanes, Value count) {
  SmallVector<int32_t> numbers = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
  Value lane = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(vector(lanes, i32()), ArrayRef<int32_t>(numbers)));
  Value limit = broadcast(arith::TruncIOp::create(builder, loc, i32(), count), lanes);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, lane, limit);
}

// Narrow floats travel as integers: masked accesses of these are legal on every CPU.
Value KernelBuilder::loadMasked(Pointer pointer, Value index, VectorType type, Value count) {
  Type element = type.getElementType();
  bool narrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 16;
  VectorType memory = narrow ? type.clone(builder.getI16Type()) : type;
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(memory));
  Value value = LLVM::MaskedLoadOp::create(builder, loc, memory, at(pointer, index).base,
                                           mask(type.getDimSize(0), count), zero,
                                           builder.getI32IntegerAttr(getBytes(element)));
  return narrow ? vector::BitCastOp::create(builder, loc, type, value).getResult() : value;
}

void KernelBuilder::storeMasked(Value value, Pointer pointer, Value index, Value count) {
  auto type = cast<VectorType>(value.getType());
  Type element = type.getElementType();
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 16)
    value = vector::BitCastOp::create(builder, loc, type.clone(builder.getI16Type()), value);
  LLVM::MaskedStoreOp::create(builder, loc, value, at(pointer, index).base,
                              mask(type.getDimSize(0), count),
                              builder.getI32IntegerAttr(getBytes(element)));
}

Value KernelBuilder::loadIndex(Pointer pointer, Value index) {
  return arith::ExtSIOp::create(builder, loc, i64(), load(pointer, index));
}

} // namespace adapt::codegen
