#include "adapt/CodeGen/CpuKernelGenerator.h"
#include "EmitObject.h"
#include "KernelCache.h"
#include "KernelForm.h"
#include "LinkKernels.h"
#include "LowerToLLVM.h"
#include "SourceHash.h"
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
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>
#include <thread>

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

/// A kernel as text that depends on nothing around it.
std::string printCanonically(KernelOp kernel) {
  OwningOpRef<KernelOp> copy(kernel.clone());
  copy->setSymName("kernel");
  std::string text;
  llvm::raw_string_ostream os(text);
  (*copy)->print(os, OpPrintingFlags().useLocalScope().assumeVerified());
  return text;
}

/// One kernel to be compiled, away from the module that it came from.
struct Job {
  KernelOp kernel;
  std::string text, symbol, key;
  std::string object, errors;
};

std::string getSymbol(const Job &job, const KernelVariant &variant) {
  return job.symbol + "_" + variant.symbol;
}

class Compiler {
public:
  Compiler(const CpuTarget &target, const std::string &dumpDir)
      : target(target), dumpDir(dumpDir),
        context(createRegistry(), MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
  }

  /// Fills `object` or `errors`.
  void run(Job &job) {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        job.errors += (job.errors.empty() ? "" : "; ") + diagnostic.str();
      return success();
    });
    FailureOr<std::string> object = compile(job);
    if (succeeded(object))
      job.object = std::move(*object);
    else if (job.errors.empty())
      job.errors = "code generation failed without saying why";
  }

private:
  FailureOr<std::string> compile(const Job &job) {
    auto parsed = parseSourceString<ModuleOp>(job.text, &context);
    if (!parsed)
      return failure();
    KernelOp kernel = *parsed->getOps<KernelOp>().begin();
    auto form = createForm(kernel, target);
    if (failed(form))
      return failure();
    OwningOpRef<ModuleOp> module(ModuleOp::create(kernel.getLoc()));
    for (auto [index, variant] : llvm::enumerate((*form)->getVariants())) {
      KernelBuilder builder(*module, kernel, getSymbol(job, variant), target);
      if (failed((*form)->emit(index, builder)))
        return failure();
    }
    auto dump = [&](StringRef extension, StringRef text) { write(job, extension, text); };
    dumpModule(job, "mlir", *module);
    if (failed(verify(*module)) || failed(lowerToLLVM(*module, target)))
      return failure();
    if (dumpDir.empty())
      return emitObject(*module, target, nullptr);
    return emitObject(*module, target, dump);
  }

  void dumpModule(const Job &job, StringRef extension, ModuleOp module) {
    if (dumpDir.empty())
      return;
    std::string text;
    llvm::raw_string_ostream os(text);
    module.print(os);
    write(job, extension, job.text + "\n" + text);
  }

  void write(const Job &job, StringRef extension, StringRef text) {
    SmallString<128> path(dumpDir);
    KernelOp kernel = job.kernel;
    std::string name = kernel.getSymName().str();
    for (char &c : name)
      if (!llvm::isAlnum(c) && c != '-')
        c = '_';
    llvm::sys::path::append(path, name + "." + extension);
    std::error_code error;
    llvm::raw_fd_ostream file(path, error);
    if (!error)
      file << text;
  }

  const CpuTarget &target;
  const std::string &dumpDir;
  MLIRContext context;
};

class Generator : public CpuKernelGenerator {
public:
  Generator(CpuOptions options, CpuTarget target)
      : options(std::move(options)), target(std::move(target)), cache(this->options.cacheDir) {}

  FailureOr<SmallVector<KernelVariant>> getVariants(KernelOp kernel) override;
  FailureOr<std::string> compile(ModuleOp module) override;

  StringRef getCpu() const override { return target.cpu; }
  SmallVector<std::string> getRequiredFeatures() const override { return target.requiredFeatures; }
  std::pair<unsigned, unsigned> getCacheStatistics() const override { return statistics; }

private:
  FailureOr<Job> createJob(KernelOp kernel);
  void runJobs(ArrayRef<Job *> jobs);

  CpuOptions options;
  CpuTarget target;
  KernelCache cache;
  std::pair<unsigned, unsigned> statistics{0, 0};
};

FailureOr<Job> Generator::createJob(KernelOp kernel) {
  auto form = createForm(kernel, target);
  if (failed(form))
    return failure();
  Job job;
  job.kernel = kernel;
  job.text = printCanonically(kernel);
  // The name says what it is and holds on as long as the kernel itself does not change.
  job.symbol = ((*form)->getName() + "_" + StringRef(hashText(job.text)).take_front(16)).str();
  job.key = hashText(job.text + "\n" + target.cpu + "\n" + target.level + target.features + "\n" +
                     ADAPT_CODEGEN_SOURCE_HASH "\n" LLVM_VERSION_STRING);
  return job;
}

FailureOr<SmallVector<KernelVariant>> Generator::getVariants(KernelOp kernel) {
  auto form = createForm(kernel, target);
  if (failed(form))
    return failure();
  auto job = createJob(kernel);
  if (failed(job))
    return failure();
  SmallVector<KernelVariant> variants = (*form)->getVariants();
  for (KernelVariant &variant : variants)
    variant.symbol = getSymbol(*job, variant);
  return variants;
}

void Generator::runJobs(ArrayRef<Job *> jobs) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    std::optional<Compiler> compiler; // a context costs some milliseconds
    for (size_t index; (index = next++) < jobs.size();) {
      if (!compiler)
        compiler.emplace(target, options.dumpDir);
      compiler->run(*jobs[index]);
      if (jobs[index]->errors.empty())
        cache.store(jobs[index]->key, jobs[index]->object);
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min<size_t>(options.threads, jobs.size()); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
}

FailureOr<std::string> Generator::compile(ModuleOp module) {
  if (!options.dumpDir.empty())
    if (std::error_code error = llvm::sys::fs::create_directories(options.dumpDir))
      return module.emitError() << "cannot create " << options.dumpDir << ": " << error.message();

  // Equal kernels share their code.
  bool failed = false;
  llvm::MapVector<StringRef, std::unique_ptr<Job>> jobs;
  module.walk([&](KernelOp kernel) {
    auto job = createJob(kernel);
    if (mlir::failed(job)) {
      failed = true;
      return;
    }
    auto owned = std::make_unique<Job>(std::move(*job));
    StringRef symbol = owned->symbol;
    jobs.insert({symbol, std::move(owned)});
  });
  if (failed)
    return failure();

  statistics = {0, 0};
  SmallVector<Job *> missing;
  for (auto &[symbol, job] : jobs) {
    auto object = options.dumpDir.empty() ? cache.lookup(job->key) : std::nullopt;
    if (object)
      job->object = std::move(*object);
    else
      missing.push_back(job.get());
  }
  statistics = {static_cast<unsigned>(jobs.size() - missing.size()),
                static_cast<unsigned>(missing.size())};
  runJobs(missing);

  std::vector<std::string> objects;
  for (auto &[symbol, job] : jobs) {
    if (!job->errors.empty()) {
      job->kernel.emitError() << "kernel '" << job->kernel.getSymName()
                              << "' cannot be compiled for " << target.cpu << ": " << job->errors;
      failed = true;
    }
    objects.push_back(std::move(job->object));
  }
  if (failed)
    return failure();
  llvm::Expected<std::string> library = linkShared(objects);
  if (!library)
    return module.emitError(llvm::toString(library.takeError()));
  return std::move(*library);
}
} // namespace
} // namespace adapt::cpu

llvm::Expected<std::unique_ptr<adapt::CpuKernelGenerator>>
adapt::createCpuKernelGenerator(CpuOptions options) {
  auto target = cpu::CpuTarget::create(options.cpu, options.features);
  if (!target)
    return target.takeError();
  return std::make_unique<cpu::Generator>(std::move(options), std::move(*target));
}
