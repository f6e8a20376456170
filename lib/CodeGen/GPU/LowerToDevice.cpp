#include "LowerToDevice.h"
#include "CodeGen/Common/EraseBf16.h"
#include "CodeGen/Common/MathExpansion.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/GPUToROCDL/GPUToROCDLPass.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/AMDGPU/Utils/Chipset.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace adapt::gpu {
namespace {
/// The operations of the gpu dialect alone: MLIR's passes for whole modules would make calls of
/// libdevice and ocml of functions that LLVM has instructions for.
LogicalResult convertGpuOps(mlir::gpu::GPUModuleOp module, const GpuTarget &gpu) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.overrideIndexBitwidth(64);
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  if (gpu.isCuda()) {
    configureGpuToNVVMTypeConverter(converter);
    populateGpuToNVVMConversionPatterns(converter, patterns);
  } else {
    FailureOr<amdgpu::Chipset> chipset = amdgpu::Chipset::parse(gpu.arch);
    if (failed(chipset))
      return module.emitError() << "MLIR does not know the chip " << gpu.arch;
    populateGpuToROCDLConversionPatterns(converter, patterns, mlir::gpu::amd::Runtime::HIP,
                                         *chipset);
  }
  ConversionTarget target(*context);
  target.addIllegalDialect<mlir::gpu::GPUDialect>();
  target.addLegalOp<mlir::gpu::GPUModuleOp>();
  target.addLegalOp<UnrealizedConversionCastOp>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  return applyPartialConversion(module, target, std::move(patterns));
}
} // namespace

LogicalResult lowerToDevice(mlir::gpu::GPUModuleOp module, const GpuTarget &target) {
  codegen::expandMath(module);
  RewritePatternSet patterns(module.getContext());
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  arith::populateExpandBFloat16Patterns(patterns);
  if (failed(applyPatternsGreedily(module, std::move(patterns))))
    return module.emitError("expansion of arithmetic does not end");

  auto run = [&](function_ref<void(OpPassManager &)> fill) {
    PassManager passes(module.getContext(), mlir::gpu::GPUModuleOp::getOperationName());
    fill(passes);
    return passes.run(module);
  };
  if (failed(run([](OpPassManager &passes) {
        passes.addPass(createSCFToControlFlowPass());
        passes.addPass(memref::createExpandStridedMetadataPass());
        passes.addPass(createLowerAffinePass());
        passes.addPass(createConvertVectorToLLVMPass());
      })) ||
      failed(convertGpuOps(module, target)) || failed(run([](OpPassManager &passes) {
        passes.addPass(createConvertToLLVMPass());
        passes.addPass(createReconcileUnrealizedCastsPass());
        passes.addPass(createCanonicalizerPass());
        passes.addPass(createCSEPass());
      })))
    return failure();
  codegen::eraseBf16(module);
  return success();
}

} // namespace adapt::gpu
