#include "Generator.h"
#include "SourceHash.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>
#include <thread>

using namespace mlir;

namespace adapt::codegen {
namespace {
std::string printCanonically(KernelOp kernel) {
  OwningOpRef<KernelOp> copy(kernel.clone());
  copy->setSymName("kernel");
  std::string text;
  llvm::raw_string_ostream os(text);
  (*copy)->print(os, OpPrintingFlags().useLocalScope().assumeVerified());
  return text;
}
} // namespace

std::string getSymbol(const Job &job, const KernelVariant &variant) {
  return job.symbol + "_" + variant.symbol;
}

//===----------------------------------------------------------------------===//
// KernelCompiler
//===----------------------------------------------------------------------===//

KernelCompiler::KernelCompiler(const DialectRegistry &registry, std::string dumpDir)
    : context(registry, MLIRContext::Threading::DISABLED), dumpDir(std::move(dumpDir)) {
  context.loadAllAvailableDialects();
}

void KernelCompiler::run(Job &job) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      job.errors += (job.errors.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  FailureOr<std::string> code = failure();
  if (auto parsed = parseSourceString<ModuleOp>(job.text, &context))
    code = compile(*parsed->getOps<KernelOp>().begin(), job);
  if (succeeded(code))
    job.code = std::move(*code);
  else if (job.errors.empty())
    job.errors = "code generation failed without saying why";
}

void KernelCompiler::dump(const Job &job, StringRef extension, Operation *module) const {
  if (!dumps())
    return;
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os);
  dump(job, extension, job.text + "\n" + text);
}

void KernelCompiler::dump(const Job &job, StringRef extension, StringRef text) const {
  if (!dumps())
    return;
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

//===----------------------------------------------------------------------===//
// KernelJobs
//===----------------------------------------------------------------------===//

KernelJobs::KernelJobs(Options options, FormOf createForm, CompilerOf createCompiler)
    : options(std::move(options)), createForm(std::move(createForm)),
      createCompiler(std::move(createCompiler)), cache(this->options.cacheDir) {}

FailureOr<std::unique_ptr<Job>> KernelJobs::createJob(KernelOp kernel) const {
  auto form = createForm(kernel);
  if (failed(form))
    return failure();
  auto job = std::make_unique<Job>();
  job->kernel = kernel;
  job->text = printCanonically(kernel);
  // The name says what it is and holds on as long as the kernel itself does not change.
  job->symbol = ((*form)->getName() + "_" + StringRef(hashText(job->text)).take_front(16)).str();
  job->key = hashText(job->text + "\n" + options.targetKey + "\n" +
                      ADAPT_CODEGEN_SOURCE_HASH "\n" LLVM_VERSION_STRING);
  return job;
}

FailureOr<SmallVector<KernelVariant>> KernelJobs::getVariants(KernelOp kernel) const {
  auto form = createForm(kernel);
  if (failed(form))
    return failure();
  auto job = createJob(kernel);
  if (failed(job))
    return failure();
  SmallVector<KernelVariant> variants = (*form)->getVariants();
  for (KernelVariant &variant : variants)
    variant.symbol = getSymbol(**job, variant);
  return variants;
}

void KernelJobs::compile(ArrayRef<Job *> jobs) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    std::unique_ptr<KernelCompiler> compiler; // a context costs some milliseconds
    for (size_t index; (index = next++) < jobs.size();) {
      if (!compiler)
        compiler = createCompiler();
      compiler->run(*jobs[index]);
      if (jobs[index]->errors.empty())
        cache.store(jobs[index]->key, jobs[index]->code);
    }
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min<size_t>(options.threads, jobs.size()); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
}

FailureOr<std::vector<std::unique_ptr<Job>>> KernelJobs::run(ModuleOp module) {
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
    StringRef symbol = (*job)->symbol;
    jobs.insert({symbol, std::move(*job)});
  });
  if (failed)
    return failure();

  SmallVector<Job *> missing;
  for (auto &[symbol, job] : jobs) {
    auto code = options.dumpDir.empty() ? cache.lookup(job->key) : std::nullopt;
    if (code)
      job->code = std::move(*code);
    else
      missing.push_back(job.get());
  }
  statistics = {static_cast<unsigned>(jobs.size() - missing.size()),
                static_cast<unsigned>(missing.size())};
  compile(missing);

  std::vector<std::unique_ptr<Job>> done;
  for (auto &[symbol, job] : jobs) {
    if (!job->errors.empty()) {
      job->kernel.emitError() << "kernel '" << job->kernel.getSymName()
                              << "' cannot be compiled for " << options.target << ": "
                              << job->errors;
      failed = true;
    }
    done.push_back(std::move(job));
  }
  if (failed)
    return failure();
  return done;
}

} // namespace adapt::codegen
