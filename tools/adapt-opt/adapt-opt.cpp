// Runs passes and phases on a module, one by one: for tests and for looking.
#include "dialects/Adapt/AdaptDialect.h"
#include "dialects/Program/ProgramDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipelines.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<adapt::AdaptDialect, adapt::program::ProgramDialect, mlir::arith::ArithDialect,
                  mlir::func::FuncDialect>();
  mlir::registerTransformsPasses();
  adapt::registerPasses();
  return mlir::failed(mlir::MlirOptMain(
      argc, argv, "optimizer driver of the dialects adapt and program\n", registry));
}
