// Runs passes and phases on a module, one by one: for tests and for looking.
#include "adapt/Support/Version.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "dialects/Program/ProgramDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipelines.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  llvm::cl::AddExtraVersionPrinter(
      [](llvm::raw_ostream &os) { os << adapt::getVersionText("adapt-opt") << '\n'; });
  mlir::DialectRegistry registry;
  registry.insert<adapt::AdaptDialect, adapt::program::ProgramDialect, mlir::arith::ArithDialect,
                  mlir::func::FuncDialect>();
  mlir::registerTransformsPasses();
  adapt::registerPasses();
  return mlir::failed(mlir::MlirOptMain(
      argc, argv, "optimizer driver of the dialects adapt and program\n", registry));
}
