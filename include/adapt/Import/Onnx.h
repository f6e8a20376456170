// Import of ONNX graphs. Without the onnx library (ADAPT_BUILD_ONNX) `importOnnx` refuses and says
// how to get it.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <string>

namespace adapt::weights {
class SourceProvider;
} // namespace adapt::weights

namespace adapt {

struct ImportedGraph {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::shared_ptr<weights::SourceProvider> weights; ///< the file's initialisers
};

/// "model.onnx": a file to be taken as a graph.
inline bool isOnnxPath(llvm::StringRef path) { return path.ends_with(".onnx"); }

/// The module of the phase `import`: one function @main with the graph's inputs and outputs, its
/// dynamic dimensions as symbols, on base and composite operations. Its attribute
/// `adapt.size_bounds` holds [minimum, maximum] of sizes that the graph itself limits. Errors were
/// emitted, all of a kind at once.
mlir::FailureOr<ImportedGraph> importOnnx(mlir::MLIRContext *context, const std::string &path);

} // namespace adapt
