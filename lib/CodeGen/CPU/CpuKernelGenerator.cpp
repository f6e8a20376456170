#include "adapt/CodeGen/CpuKernelGenerator.h"
#include "CodeGen/Common/Generator.h"
#include "CodeGen/Common/KernelDialects.h"
#include "CodeGen/Common/LinkKernels.h"
#include "EmitObject.h"
#include "KernelForm.h"
#include "LowerToLLVM.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace adapt::cpu {
namespace {

/// Everything that a worker's context needs.
DialectRegistry createRegistry() {
  DialectRegistry registry;
  registerKernelDialects(registry);
  registry.insert<x86vector::X86VectorDialect>();
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
    if (objects.empty()) { // Of a program that only hands on what it gets.
      MLIRContext context(createRegistry());
      OwningOpRef<ModuleOp> empty(ModuleOp::create(UnknownLoc::get(&context)));
      auto object = emitObject(*empty, target, nullptr);
      if (failed(object))
        return failure();
      objects.push_back(std::move(*object));
    }
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
