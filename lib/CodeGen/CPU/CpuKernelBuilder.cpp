#include "CpuKernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace adapt::cpu {

CpuKernelBuilder::CpuKernelBuilder(ModuleOp module, KernelOp kernel, StringRef symbol)
    : KernelBuilder(module.getBody(), kernel, symbol) {
  auto pointerType = LLVM::LLVMPointerType::get(builder.getContext());
  size_t buffers = getBufferElements().size(), names = kernel.getSymbols().size();
  SmallVector<Type> inner(buffers, pointerType);
  inner.append(names + 3, i64());
  body = createFunction("body", inner);

  // The entry loads pointers and sizes.
  auto entry = func::FuncOp::create(
      builder, loc, symbol, builder.getFunctionType(SmallVector<Type>(4, pointerType), {i32()}));
  Block *block = entry.addEntryBlock();
  builder.setInsertionPointToStart(block);
  SmallVector<Value> values;
  for (size_t i = 0; i < buffers; ++i)
    values.push_back(load({block->getArgument(0), pointerType}, constant(i)));
  for (size_t i = 0; i < names; ++i)
    values.push_back(load({block->getArgument(1), i64()}, constant(i)));
  for (int64_t axis = 0; axis < 3; ++axis)
    values.push_back(arith::ExtUIOp::create(builder, loc, i64(),
                                            load({block->getArgument(3), i32()}, constant(axis))));
  func::CallOp::create(builder, loc, body, values);
  func::ReturnOp::create(builder, loc, ValueRange{intConstant(i32(), 0)});

  block = &body.getBody().front();
  builder.setInsertionPoint(block->getTerminator());
  ValueRange all = block->getArguments();
  bind(all.take_front(buffers), all.slice(buffers, names), all.take_back(3));
}

Pointer CpuKernelBuilder::createLocal(Type element, int64_t count) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&body.getBody().front());
  Value base =
      LLVM::AllocaOp::create(builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
                             element, constant(count), /*alignment=*/64);
  return {base, element};
}

void CpuKernelBuilder::prefetch(Pointer pointer, Value index) {
  LLVM::Prefetch::create(builder, loc, at(pointer, index).base, /*rw=*/0, /*hint=*/2, /*cache=*/1);
}

} // namespace adapt::cpu
