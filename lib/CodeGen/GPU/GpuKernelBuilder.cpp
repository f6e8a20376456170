#include "GpuKernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace adapt::gpu {

GpuKernelBuilder::GpuKernelBuilder(mlir::gpu::GPUModuleOp module, KernelOp kernel, StringRef symbol,
                                   const KernelVariant &variant, const GpuTarget &target)
    : KernelBuilder(module.getBody(), kernel, symbol), target(target), threads(variant.threads) {
  MLIRContext *context = builder.getContext();
  size_t buffers = getBufferElements().size(), names = kernel.getSymbols().size();
  auto global = LLVM::LLVMPointerType::get(context, /*addressSpace=*/1);
  SmallVector<Type> types(buffers, global);
  types.append(names, i64());
  function = mlir::gpu::GPUFuncOp::create(builder, loc, symbol, builder.getFunctionType(types, {}));
  function->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function.setKnownBlockSize(ArrayRef<int32_t>{static_cast<int32_t>(threads), 1, 1});

  // What a kernel only reads, nobody writes while it runs. Results are left alone: threads read
  // what others wrote there, after a barrier.
  unsigned number = 0;
  for (Type type : kernel.getArgumentTypes()) {
    auto state = dyn_cast<PagedType>(type);
    if (!state) {
      function.setArgAttr(number, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
      function.setArgAttr(number, LLVM::LLVMDialect::getReadonlyAttrName(), builder.getUnitAttr());
    }
    number += state ? state.getPlanes().size() : 1;
  }

  Block *block = &function.getBody().front();
  builder.setInsertionPointToStart(block);
  // LLVM finds the address space again where it matters.
  auto generic = LLVM::LLVMPointerType::get(context);
  SmallVector<Value> pointers, sizes, ids;
  for (size_t i = 0; i < buffers; ++i)
    pointers.push_back(LLVM::AddrSpaceCastOp::create(builder, loc, generic, block->getArgument(i)));
  for (size_t i = 0; i < names; ++i)
    sizes.push_back(block->getArgument(buffers + i));
  auto toI64 = [&](Value index) -> Value {
    return arith::IndexCastOp::create(builder, loc, i64(), index);
  };
  constexpr mlir::gpu::Dimension kAxes[] = {mlir::gpu::Dimension::x, mlir::gpu::Dimension::y,
                                            mlir::gpu::Dimension::z};
  size_t rank = variant.grid.size();
  for (size_t axis = 0; axis < 3; ++axis)
    ids.push_back(axis < rank
                      ? toI64(mlir::gpu::BlockIdOp::create(builder, loc, kAxes[rank - 1 - axis]))
                      : constant(0));
  thread = toI64(mlir::gpu::ThreadIdOp::create(builder, loc, mlir::gpu::Dimension::x));
  lane = rem(thread, target.warp);
  warp = div(thread, target.warp);
  auto end = mlir::gpu::ReturnOp::create(builder, loc);
  builder.setInsertionPoint(end);
  bind(pointers, sizes, ids);
}

Pointer GpuKernelBuilder::createShared(Type element, int64_t count) {
  MLIRContext *context = builder.getContext();
  element = getMemoryType(element);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(functions);
  auto global = LLVM::GlobalOp::create(
      builder, loc, LLVM::LLVMArrayType::get(element, count), /*isConstant=*/false,
      LLVM::Linkage::Internal, symbol + ".shared" + std::to_string(sharedCount++), Attribute(),
      /*alignment=*/16, /*addrSpace=*/3);
  sharedBytes = llvm::alignTo(sharedBytes, 16) + count * getBytes(element);
  builder.setInsertionPointToStart(&function.getBody().front());
  Value base = LLVM::AddressOfOp::create(builder, loc, global);
  base = LLVM::AddrSpaceCastOp::create(builder, loc, LLVM::LLVMPointerType::get(context), base);
  return {base, element};
}

void GpuKernelBuilder::barrier() { mlir::gpu::BarrierOp::create(builder, loc); }

Value GpuKernelBuilder::toI32(Value value) {
  return arith::TruncIOp::create(builder, loc, i32(), value);
}

Value GpuKernelBuilder::shuffle(Value value, Value offset, mlir::gpu::ShuffleMode mode) {
  return mlir::gpu::ShuffleOp::create(builder, loc, value, offset, intConstant(i32(), target.warp),
                                      mode)
      .getShuffleResult();
}

Value GpuKernelBuilder::shuffleXor(Value value, int64_t distance) {
  return shuffle(value, intConstant(i32(), distance), mlir::gpu::ShuffleMode::XOR);
}

Value GpuKernelBuilder::shuffleIndex(Value value, Value lane) {
  return shuffle(value, toI32(lane), mlir::gpu::ShuffleMode::IDX);
}

Value GpuKernelBuilder::reduceWarp(Value value, Combine combine) {
  for (int64_t distance = target.warp / 2; distance > 0; distance /= 2)
    value = combine(value, shuffleXor(value, distance));
  return value;
}

Value GpuKernelBuilder::addWarp(Value value) {
  return reduceWarp(
      value, [&](Value a, Value b) -> Value { return arith::AddFOp::create(builder, loc, a, b); });
}

Value GpuKernelBuilder::reduceBlock(Value value, Combine combine) {
  value = reduceWarp(value, combine);
  if (getWarps() == 1)
    return value;
  // One value of each warp, which every thread then combines in the same order.
  Pointer parts = createShared(value.getType(), getWarps());
  barrier(); // others may still read what was here
  createIf(equal(lane, constant(0)), [&] { store(value, parts, warp); });
  barrier();
  Value result = load(parts, constant(0));
  for (int64_t w = 1; w < getWarps(); ++w)
    result = combine(result, load(parts, constant(w)));
  return result;
}

} // namespace adapt::gpu
