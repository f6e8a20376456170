#include "LowerToLLVM.h"
#include "MathExpansion.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace adapt::cpu {
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

/// On a CPU without bf16 LLVM would even copy one by converting it to f32 and back, with a library
/// call. Conversions were expanded before, so that a bf16 is now only moved: as an integer.
void eraseBf16(ModuleOp module) {
  module.walk([](Operation *op) {
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
} // namespace

LogicalResult lowerToLLVM(ModuleOp module, const CpuTarget &target) {
  expandMath(module);
  RewritePatternSet patterns(module.getContext());
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  if (!target.avx512bf16) // else one instruction
    arith::populateExpandBFloat16Patterns(patterns);
  if (failed(applyPatternsGreedily(module, std::move(patterns))))
    return module.emitError("expansion of arithmetic does not end");

  PassManager passes(module.getContext());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(memref::createExpandStridedMetadataPass());
  passes.addPass(createLowerAffinePass());
  ConvertVectorToLLVMPassOptions vectorOptions;
  vectorOptions.x86Vector = true;
  passes.addPass(createConvertVectorToLLVMPass(vectorOptions));
  passes.addPass(createConvertToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  if (failed(passes.run(module)))
    return failure();
  if (!target.avx512bf16)
    eraseBf16(module);
  return success();
}

} // namespace adapt::cpu
