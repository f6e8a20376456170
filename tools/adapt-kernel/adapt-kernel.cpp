// Compiles the kernels of a module: for tests and for looking at their code.
#include "adapt/CodeGen/CpuKernelGenerator.h"
#include "adapt/CodeGen/GpuKernelGenerator.h"
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
    if (variant.threads)
      llvm::outs() << " threads " << variant.threads;
    for (const KernelVariant::Guard &guard : variant.guards)
      llvm::outs() << " if " << guard.min << " <= " << guard.size << " <= " << guard.max;
    llvm::outs() << "\n";
  }
}

bool write(llvm::StringRef path, llvm::StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  file << bytes;
  file.close();
  if (!error && !file.has_error())
    return true;
  llvm::errs() << "error: cannot write " << path << "\n";
  file.clear_error();
  return false;
}
} // namespace

int main(int argc, char **argv) {
  CLI::App app("compiles the kernels of a module and says what their variants are");
  std::string input, output, target = "cpu", simulation;
  CpuOptions options;
  GpuOptions gpu;
  app.add_option("input", input, "MLIR with adapt.kernel operations")->required();
  app.add_option("-o,--output", output, "where to write the kernels");
  app.add_option("--target", target, "cpu, cuda:ARCH or hip:ARCH")->capture_default_str();
  app.add_option("--sim", simulation, "where to write kernels.sim.so of a GPU");
  app.add_option("--ptxas", gpu.ptxas, "assembler of PTX, or search");
  app.add_option("--cpu", options.cpu, "LLVM's name of the CPU, or host")->capture_default_str();
  app.add_option("--features", options.features, "changes to its features: +NAME,-NAME");
  app.add_option("--dump", options.dumpDir,
                 "folder for each kernel's MLIR, LLVM IR and assembly: NAME.{mlir,ll,s}, of a GPU "
                 "NAME.{mlir,ll,ptx,s,sim.ll}");
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
  llvm::StringRef name = llvm::StringRef(target).split(':').first;
  if (name != "cpu") {
    gpu.target = name.str();
    gpu.arch = llvm::StringRef(target).split(':').second.str();
    gpu.simulation = !simulation.empty();
    gpu.cacheDir = options.cacheDir;
    gpu.threads = options.threads;
    gpu.dumpDir = options.dumpDir;
  }
  auto generator =
      name == "cpu" ? createCpuKernelGenerator(options) : createGpuKernelGenerator(gpu);
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
  for (const std::string &note : library->notes)
    llvm::outs() << "note: " << note << "\n";
  for (const CompiledKernels::File &file : library->files) {
    const std::string path = file.key == "kernels" ? output : file.key == "sim" ? simulation : "";
    if (!path.empty() && !write(path, file.bytes))
      return 1;
  }
  return 0;
}
