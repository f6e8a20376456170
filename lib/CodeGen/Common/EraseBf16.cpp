#include "EraseBf16.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace adapt::codegen {
namespace {
/// bf16 as i16, in scalars and vectors.
Type withoutBf16(Type type) {
  Type i16 = IntegerType::get(type.getContext(), 16);
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getElementType().isBF16() ? vector.clone(i16) : type;
  return type.isBF16() ? i16 : type;
}

Attribute withoutBf16(Attribute attribute) {
  if (auto value = dyn_cast<FloatAttr>(attribute); value && value.getType().isBF16())
    return IntegerAttr::get(IntegerType::get(value.getContext(), 16),
                            value.getValue().bitcastToAPInt());
  auto elements = dyn_cast<DenseElementsAttr>(attribute);
  if (elements && elements.getElementType().isBF16())
    return elements.bitcast(IntegerType::get(elements.getContext(), 16));
  return attribute;
}

} // namespace

void eraseBf16(Operation *module) {
  module->walk([](Operation *op) {
    for (Value result : op->getResults())
      result.setType(withoutBf16(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(withoutBf16(argument.getType()));
    if (auto constant = dyn_cast<LLVM::ConstantOp>(op))
      constant.setValueAttr(withoutBf16(constant.getValue()));
    if (auto global = dyn_cast<LLVM::GlobalOp>(op)) {
      auto array = dyn_cast<LLVM::LLVMArrayType>(global.getGlobalType());
      SmallVector<unsigned> extents;
      for (; array; array = dyn_cast<LLVM::LLVMArrayType>(array.getElementType())) {
        extents.push_back(array.getNumElements());
        if (!array.getElementType().isBF16())
          continue;
        Type type = IntegerType::get(op->getContext(), 16);
        for (unsigned extent : llvm::reverse(extents))
          type = LLVM::LLVMArrayType::get(type, extent);
        global.setGlobalType(type);
        if (global.getValueAttr())
          global.setValueAttr(withoutBf16(global.getValueAttr()));
      }
    }
  });
}

} // namespace adapt::codegen
