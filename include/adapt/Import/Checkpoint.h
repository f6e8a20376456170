// Import of checkpoints: a folder with config.json and safetensors files.
#pragma once

#include "adapt/Model/Model.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <string>
#include <vector>

namespace adapt::weights {
class Checkpoint;
} // namespace adapt::weights

namespace adapt {

struct ImportOptions {
  /// The folder of a checkpoint.
  std::string path;
  /// Folders of model families, before the installation's.
  std::vector<std::string> familyDirectories;
  /// "auto" (config.json's, else that of most stored parameters), "float32", "bfloat16" or
  /// "float16": the type of activations, of state, and of weights once they are read.
  std::string dtype = "auto";
  /// A folder without weight files is accepted: sizes come from config.json, and the sources of
  /// weights are taken to be stored in the model's type.
  bool allowAbsentWeights = false;
};

/// A checkpoint as read from headers: no tensor's data.
struct LoadedModel {
  Model model;
  std::shared_ptr<weights::Checkpoint> checkpoint; ///< null if there are no weight files
};

/// Reads config.json, generation_config.json and the weight files' headers. Errors were emitted,
/// all of a kind at once.
mlir::FailureOr<LoadedModel> loadModel(mlir::MLIRContext *context, const ImportOptions &options);

/// The module of the phase `import`; null if errors were emitted.
mlir::OwningOpRef<mlir::ModuleOp> importCheckpoint(mlir::MLIRContext *context,
                                                   const ImportOptions &options);

} // namespace adapt
