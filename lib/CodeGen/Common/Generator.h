// What the code generators of all targets do alike: equal kernels are compiled once, in several
// threads, and kept in a cache.
#pragma once

#include "CodeGen/Common/KernelCache.h"
#include "CodeGen/Common/KernelForm.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include <functional>
#include <memory>

namespace adapt::codegen {

/// One kernel to be compiled, away from the module that it came from.
struct Job {
  KernelOp kernel;
  std::string text; ///< of the kernel, depending on nothing around it
  std::string symbol, key;
  std::string code, errors; ///< what came of it
};

std::string getSymbol(const Job &job, const KernelVariant &variant);

/// Compiles kernels one after the other; each thread has its own.
class KernelCompiler {
public:
  KernelCompiler(const mlir::DialectRegistry &registry, std::string dumpDir);
  virtual ~KernelCompiler() = default;

  /// Fills `code` or `errors`.
  void run(Job &job);

protected:
  /// The code of a kernel, which is a copy of the job's in this context. On failure errors were
  /// emitted.
  virtual mlir::FailureOr<std::string> compile(KernelOp kernel, const Job &job) = 0;

  bool dumps() const { return !dumpDir.empty(); }
  /// Writes NAME.extension into the folder of dumps, if there is one.
  void dump(const Job &job, llvm::StringRef extension, llvm::StringRef text) const;
  /// The same of a module, after the kernel that it was made of.
  void dump(const Job &job, llvm::StringRef extension, mlir::Operation *module) const;

  mlir::MLIRContext context;

private:
  std::string dumpDir;
};

/// Makes the kernels of modules.
class KernelJobs {
public:
  struct Options {
    std::string cacheDir; ///< empty: no cache
    unsigned threads = 2;
    std::string dumpDir;   ///< empty: nothing is dumped; else nothing is taken from the cache
    std::string target;    ///< for messages
    std::string targetKey; ///< all that code depends on besides the kernel and this compiler
  };
  using FormOf = std::function<mlir::FailureOr<std::unique_ptr<KernelFormBase>>(KernelOp)>;
  using CompilerOf = std::function<std::unique_ptr<KernelCompiler>()>;

  KernelJobs(Options options, FormOf createForm, CompilerOf createCompiler);

  /// The variants of a kernel with the symbols that they are exported as.
  mlir::FailureOr<llvm::SmallVector<KernelVariant>> getVariants(KernelOp kernel) const;
  /// The jobs of all distinct kernels of the module, done. On failure errors were emitted, for
  /// every kernel that cannot be done.
  mlir::FailureOr<std::vector<std::unique_ptr<Job>>> run(mlir::ModuleOp module);
  /// Kernels that the last `run` found in the cache, and that it compiled.
  std::pair<unsigned, unsigned> getStatistics() const { return statistics; }

private:
  mlir::FailureOr<std::unique_ptr<Job>> createJob(KernelOp kernel) const;
  void compile(llvm::ArrayRef<Job *> jobs);

  Options options;
  FormOf createForm;
  CompilerOf createCompiler;
  KernelCache cache;
  std::pair<unsigned, unsigned> statistics{0, 0};
};

} // namespace adapt::codegen
