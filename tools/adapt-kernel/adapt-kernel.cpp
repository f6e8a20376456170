// Compiles the kernels of a module: for tests and for looking at their code.
#include "adapt/CodeGen/CpuKernelGenerator.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include <CLI/CLI.hpp>

using namespace adapt;

namespace {
void printVariants(KernelOp kernel, llvm::ArrayRef<KernelVariant> variants) {
  for (const KernelVariant &variant : variants) {
    llvm::outs() << kernel.getSymName() << ": " << variant.symbol << " grid [";
    llvm::interleaveComma(variant.grid, llvm::outs(),
                          [](mlir::AffineExpr extent) { printSize(llvm::outs(), extent); });
    llvm::outs() << "]";
    for (const KernelVariant::Guard &guard : variant.guards)
      llvm::outs() << " if " << guard.min << " <= " << guard.size << " <= " << guard.max;
    llvm::outs() << "\n";
  }
}
} // namespace

int main(int argc, char **argv) {
  CLI::App app("compiles the kernels of a module and says what their variants are");
  std::string input, output;
  CpuOptions options;
  app.add_option("input", input, "MLIR with adapt.kernel operations")->required();
  app.add_option("-o,--output", output, "where to write the shared object");
  app.add_option("--cpu", options.cpu, "LLVM's name of the CPU, or host")->capture_default_str();
  app.add_option("--features", options.features, "changes to its features: +NAME,-NAME");
  app.add_option("--dump", options.dumpDir,
                 "folder for each kernel's MLIR, LLVM IR and assembly: NAME.{mlir,ll,s}");
  app.add_option("--cache", options.cacheDir, "folder of compiled kernels");
  app.add_option("--threads", options.threads, "that compile")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<AdaptDialect, mlir::func::FuncDialect>();
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(input, sources, &context);
  if (!module)
    return 1;
  auto generator = createCpuKernelGenerator(options);
  if (!generator) {
    llvm::errs() << "error: " << llvm::toString(generator.takeError()) << "\n";
    return 1;
  }
  bool failed = false;
  for (auto kernel : module->getOps<KernelOp>()) {
    auto variants = (*generator)->getVariants(kernel);
    failed |= mlir::failed(variants);
    if (!failed)
      printVariants(kernel, *variants);
  }
  if (failed)
    return 1;
  auto library = (*generator)->compile(*module);
  if (mlir::failed(library))
    return 1;
  auto [found, compiled] = (*generator)->getCacheStatistics();
  llvm::outs() << "kernels from the cache: " << found << ", compiled: " << compiled << "\n";
  if (output.empty())
    return 0;
  std::error_code error;
  llvm::raw_fd_ostream file(output, error);
  file << *library;
  file.close();
  if (error || file.has_error()) {
    llvm::errs() << "error: cannot write " << output << "\n";
    return 1;
  }
  return 0;
}
