// Reads the JSON files of a checkpoint.
#pragma once

#include "adapt/Model/Model.h"

namespace adapt {

/// Reads a file that holds one JSON object. Errors were emitted: unreadable, larger than 16 MiB,
/// not UTF-8, not JSON, nested more than 100 levels, not an object.
mlir::FailureOr<llvm::json::Object> readJsonObject(mlir::MLIRContext *context,
                                                   llvm::StringRef path);

/// Reads config.json and, where there is one, generation_config.json of a folder.
mlir::FailureOr<ModelConfig> readModelConfig(mlir::MLIRContext *context, llvm::StringRef folder);

} // namespace adapt
