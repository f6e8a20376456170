#include "adapt/CodeGen/CpuKernelGenerator.h"
#include "CodeGen/Common/Generator.h"
#include "CodeGen/Common/LinkKernels.h"
#include "EmitObject.h"
#include "KernelForm.h"
#include "LowerToLLVM.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

using namespace mlir;

namespace adapt::cpu {
namespace {

/// Everything that a worker's context needs.
DialectRegistry createRegistry() {
  DialectRegistry registry;
  registry.insert<AdaptDialect, affine::AffineDialect, arith::ArithDialect,
                  bufferization::BufferizationDialect, cf::ControlFlowDialect, func::FuncDialect,
                  linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect, tensor::TensorDialect, ub::UBDialect,
                  vector::VectorDialect, x86vector::X86VectorDialect>();
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerSubsetOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerSubsetOpInterfaceExternalModels(registry);
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  registerConvertFuncToLLVMInterface(registry);
  index::registerConvertIndexToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  ub::registerConvertUBToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  return registry;
}

class Compiler : public KernelCompiler {
public:
  Compiler(const CpuTarget &target, const std::string &dumpDir)
      : KernelCompiler(createRegistry(), dumpDir), target(target) {}

private:
  FailureOr<std::string> compile(KernelOp kernel, const Job &job) override {
    auto form = createForm(kernel, target);
    if (failed(form))
      return failure();
    OwningOpRef<ModuleOp> module(ModuleOp::create(kernel.getLoc()));
    for (auto [index, variant] : llvm::enumerate((*form)->getVariants())) {
      CpuKernelBuilder builder(*module, kernel, getSymbol(job, variant));
      if (failed((*form)->emit(index, builder)))
        return failure();
    }
    dump(job, "mlir", *module);
    if (failed(verify(*module)) || failed(lowerToLLVM(*module, target)))
      return failure();
    if (!dumps())
      return emitObject(*module, target, nullptr);
    return emitObject(*module, target,
                      [&](StringRef extension, StringRef text) { dump(job, extension, text); });
  }

  const CpuTarget &target;
};

class Generator : public KernelGenerator {
public:
  Generator(CpuOptions options, CpuTarget given)
      : target(std::move(given)),
        jobs(
            {options.cacheDir, options.threads, options.dumpDir, target.cpu,
             target.cpu + "\n" + target.level + target.features},
            [this](KernelOp kernel) -> FailureOr<std::unique_ptr<KernelFormBase>> {
              auto form = createForm(kernel, target);
              if (failed(form))
                return failure();
              return std::unique_ptr<KernelFormBase>(std::move(*form));
            },
            [this, dumpDir = options.dumpDir] {
              return std::make_unique<Compiler>(target, dumpDir);
            }) {}

  FailureOr<SmallVector<KernelVariant>> getVariants(KernelOp kernel) override {
    return jobs.getVariants(kernel);
  }

  FailureOr<CompiledKernels> compile(ModuleOp module) override {
    auto done = jobs.run(module);
    if (failed(done))
      return failure();
    std::vector<std::string> objects;
    for (std::unique_ptr<Job> &job : *done)
      objects.push_back(std::move(job->code));
    llvm::Expected<std::string> library = linkShared(objects);
    if (!library)
      return module.emitError(llvm::toString(library.takeError()));
    return CompiledKernels{{{"kernels", "kernels.so", std::move(*library)}}, {}};
  }

  StringRef getProcessor() const override { return target.cpu; }
  SmallVector<NamedAttribute> describeProcessor(MLIRContext *context) const override {
    Builder builder(context);
    SmallVector<StringRef> features(target.requiredFeatures.begin(), target.requiredFeatures.end());
    return {builder.getNamedAttr("cpu", builder.getStringAttr(target.cpu)),
            builder.getNamedAttr("features", builder.getStrArrayAttr(features))};
  }
  std::pair<unsigned, unsigned> getCacheStatistics() const override { return jobs.getStatistics(); }

private:
  CpuTarget target;
  KernelJobs jobs;
};
} // namespace
} // namespace adapt::cpu

llvm::Expected<std::unique_ptr<adapt::KernelGenerator>>
adapt::createCpuKernelGenerator(CpuOptions options) {
  auto target = cpu::CpuTarget::create(options.cpu, options.features);
  if (!target)
    return target.takeError();
  return std::make_unique<cpu::Generator>(std::move(options), std::move(*target));
}
