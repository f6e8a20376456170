#include "adapt/CodeGen/GpuKernelGenerator.h"
#include "CodeGen/Common/Generator.h"
#include "CodeGen/Common/KernelDialects.h"
#include "DeviceCode.h"
#include "KernelForm.h"
#include "LowerToDevice.h"
#include "Simulate.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;

namespace adapt::gpu {
namespace {
/// Everything that a worker's context needs.
DialectRegistry createRegistry() {
  DialectRegistry registry;
  registerKernelDialects(registry);
  registry.insert<mlir::gpu::GPUDialect, NVVM::NVVMDialect, ROCDL::ROCDLDialect>();
  registerGPUDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  registerROCDLDialectTranslation(registry);
  return registry;
}

//===----------------------------------------------------------------------===//
// A kernel's parts, as one string for the cache
//===----------------------------------------------------------------------===//

struct Parts {
  std::string bitcode;       ///< for the GPU, optimised
  SimulatedObject simulated; ///< empty without simulation
};

std::string join(const Parts &parts) {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  for (StringRef part : {StringRef(parts.bitcode), StringRef(parts.simulated.object),
                         StringRef(parts.simulated.shared)}) {
    char size[8];
    llvm::support::endian::write64le(size, part.size());
    os << StringRef(size, 8) << part;
  }
  return bytes;
}

Parts split(StringRef bytes) {
  Parts parts;
  for (std::string *part : {&parts.bitcode, &parts.simulated.object, &parts.simulated.shared}) {
    uint64_t size = bytes.size() < 8 ? 0 : llvm::support::endian::read64le(bytes.data());
    bytes = bytes.drop_front(std::min<size_t>(8, bytes.size()));
    *part = bytes.take_front(size).str();
    bytes = bytes.drop_front(std::min<size_t>(size, bytes.size()));
  }
  return parts;
}

//===----------------------------------------------------------------------===//
// Compiler
//===----------------------------------------------------------------------===//

class Compiler : public KernelCompiler {
public:
  Compiler(const GpuTarget &target, const GpuOptions &options)
      : KernelCompiler(createRegistry(), options.dumpDir), target(target), options(options) {}

private:
  FailureOr<std::string> compile(KernelOp kernel, const Job &job) override {
    auto form = createForm(kernel, target);
    if (failed(form))
      return failure();
    OwningOpRef<ModuleOp> whole(ModuleOp::create(kernel.getLoc()));
    OpBuilder creation = OpBuilder::atBlockBegin(whole->getBody());
    auto module = mlir::gpu::GPUModuleOp::create(creation, kernel.getLoc(), "kernel");
    for (auto [index, variant] : llvm::enumerate((*form)->getVariants())) {
      GpuKernelBuilder builder(module, kernel, getSymbol(job, variant), variant, target);
      if (failed((*form)->emit(index, builder)))
        return failure();
      if (builder.getSharedBytes() > target.maxShared)
        return kernel.emitError() << "kernel '" << kernel.getSymName() << "' needs "
                                  << builder.getSharedBytes()
                                  << " bytes of shared memory; there are " << target.maxShared;
    }
    // Bufferization puts constants into the outer module.
    for (auto global : llvm::make_early_inc_range(whole->getOps<memref::GlobalOp>()))
      global->moveBefore(&module.getBody()->front());
    dump(job, "mlir", module);
    if (failed(verify(*whole)) || failed(lowerToDevice(module, target)))
      return failure();
    llvm::LLVMContext llvmContext;
    auto code = translateToDevice(module, target, llvmContext);
    if (failed(code))
      return failure();
    if (options.mutate)
      options.mutate(**code);
    if (dumps()) {
      dump(job, "ll", print(**code));
      std::unique_ptr<llvm::Module> copy = llvm::CloneModule(**code);
      dump(job, target.isCuda() ? "ptx" : "s", emitAssembly(*copy, target));
    }
    Parts parts;
    llvm::raw_string_ostream os(parts.bitcode);
    llvm::WriteBitcodeToFile(**code, os);
    if (options.simulation) {
      if (llvm::Error error = simulate(**code))
        return kernel.emitError(llvm::toString(std::move(error)));
      dump(job, "sim.ll", print(**code));
      llvm::Expected<SimulatedObject> object = emitSimulatedObject(**code);
      if (!object)
        return kernel.emitError(llvm::toString(object.takeError()));
      parts.simulated = std::move(*object);
    }
    return join(parts);
  }

  static std::string print(const llvm::Module &module) {
    std::string text;
    llvm::raw_string_ostream os(text);
    module.print(os, nullptr);
    return text;
  }

  const GpuTarget &target;
  const GpuOptions &options;
};

//===----------------------------------------------------------------------===//
// Generator
//===----------------------------------------------------------------------===//

class Generator : public KernelGenerator {
public:
  Generator(GpuOptions given, GpuTarget givenTarget)
      : options(std::move(given)), target(std::move(givenTarget)),
        jobs(
            {options.cacheDir, options.threads, options.dumpDir, target.arch,
             "gpu\n" + target.arch + (options.simulation ? "\nsim" : "")},
            [this](KernelOp kernel) -> FailureOr<std::unique_ptr<KernelFormBase>> {
              auto form = createForm(kernel, target);
              if (failed(form))
                return failure();
              return std::unique_ptr<KernelFormBase>(std::move(*form));
            },
            [this] { return std::make_unique<Compiler>(target, options); }) {}

  FailureOr<SmallVector<KernelVariant>> getVariants(KernelOp kernel) override {
    return jobs.getVariants(kernel);
  }
  FailureOr<CompiledKernels> compile(ModuleOp module) override;

  StringRef getProcessor() const override { return target.arch; }
  SmallVector<NamedAttribute> describeProcessor(MLIRContext *context) const override {
    Builder builder(context);
    SmallVector<NamedAttribute> fields = {
        builder.getNamedAttr("arch", builder.getStringAttr(target.arch))};
    if (!target.isCuda())
      fields.push_back(builder.getNamedAttr("wavefront", builder.getI64IntegerAttr(target.warp)));
    return fields;
  }
  std::pair<unsigned, unsigned> getCacheStatistics() const override { return jobs.getStatistics(); }

private:
  llvm::Error addDeviceCode(ArrayRef<std::string> bitcode, CompiledKernels &result) const;
  void noteSpills(ArrayRef<KernelResources> kernels, CompiledKernels &result) const;

  GpuOptions options;
  GpuTarget target;
  KernelJobs jobs;
};

FailureOr<CompiledKernels> Generator::compile(ModuleOp module) {
  auto done = jobs.run(module);
  if (failed(done))
    return failure();
  CompiledKernels result;
  if (done->empty())
    return module.emitError("there are no kernels");
  std::vector<std::string> bitcode;
  std::vector<SimulatedObject> simulated;
  for (const std::unique_ptr<Job> &job : *done) {
    Parts parts = split(job->code);
    bitcode.push_back(std::move(parts.bitcode));
    simulated.push_back(std::move(parts.simulated));
  }
  if (llvm::Error error = addDeviceCode(bitcode, result))
    return module.emitError(llvm::toString(std::move(error)));
  if (options.simulation) {
    llvm::Expected<std::string> library = linkSimulation(simulated, target);
    if (!library)
      return module.emitError(llvm::toString(library.takeError()));
    result.files.push_back({"sim", "kernels.sim.so", std::move(*library)});
  }
  return result;
}

llvm::Error Generator::addDeviceCode(ArrayRef<std::string> bitcode, CompiledKernels &result) const {
  llvm::LLVMContext context;
  auto whole = linkModules(bitcode, context);
  if (!whole)
    return whole.takeError();
  if (!target.isCuda()) {
    auto code = emitCodeObject(**whole, target);
    if (!code)
      return code.takeError();
    result.files.push_back({"kernels", "kernels.hsaco", std::move(code->first)});
    noteSpills(code->second, result);
    return llvm::Error::success();
  }
  std::string ptx = emitAssembly(**whole, target);
  std::string ptxas = options.ptxas == "search" ? findPtxas() : options.ptxas;
  if (ptxas.empty()) {
    result.files.push_back({"kernels", "kernels.ptx", std::move(ptx)});
    result.notes.push_back("no ptxas was found (in PATH, CUDA_HOME, or the package "
                           "nvidia-cuda-nvcc of a virtual environment): the kernels are PTX, which "
                           "the driver compiles at load, and were not checked for spills");
    return llvm::Error::success();
  }
  auto cubin = assemblePtx(ptx, ptxas, target);
  if (!cubin)
    return cubin.takeError();
  result.files.push_back({"kernels", "kernels.cubin", std::move(cubin->first)});
  result.files.push_back({"ptx", "kernels.ptx", std::move(ptx)});
  noteSpills(cubin->second, result);
  return llvm::Error::success();
}

void Generator::noteSpills(ArrayRef<KernelResources> kernels, CompiledKernels &result) const {
  for (const KernelResources &kernel : kernels)
    if (kernel.spills || kernel.scratchBytes)
      result.notes.push_back(("kernel " + kernel.symbol + " spills: " + llvm::Twine(kernel.spills) +
                              (target.isCuda() ? " bytes, " : " registers, ") +
                              llvm::Twine(kernel.scratchBytes) + " bytes of local memory a thread")
                                 .str());
}
} // namespace
} // namespace adapt::gpu

llvm::Expected<std::unique_ptr<adapt::KernelGenerator>>
adapt::createGpuKernelGenerator(GpuOptions options) {
  auto target = gpu::GpuTarget::create(options.target, options.arch);
  if (!target)
    return target.takeError();
  return std::make_unique<gpu::Generator>(std::move(options), std::move(*target));
}
