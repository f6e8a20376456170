// Stands in for the importer where the onnx library is absent.
#include "adapt/Import/Onnx.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

FailureOr<adapt::ImportedGraph> adapt::importOnnx(MLIRContext *context, const std::string &path) {
  return emitError(UnknownLoc::get(context))
         << path
         << ": this adaptc was built without the onnx library; run scripts/build-onnx, then "
         << "build again";
}
