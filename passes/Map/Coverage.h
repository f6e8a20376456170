// What of a module a target runs, and how: before `map` decides it for good.
#pragma once

#include "passes/Common/TargetInfo.h"
#include <map>
#include <string>

namespace adapt {

/// Operations of one kind, by how the target runs them.
struct OperationCoverage {
  int64_t library = 0;   ///< by a library
  int64_t generated = 0; ///< by a kernel of its own
  int64_t composite = 0; ///< as what it decomposes into
  int64_t missing = 0;   ///< not at all
  /// Why, with the names of the nodes.
  std::map<std::string, std::vector<std::string>> reasons;
};

/// By the operations' names. The module is left as it is.
std::map<std::string, OperationCoverage> getCoverage(mlir::ModuleOp module,
                                                     const TargetInfo &target);

/// Why a target does not run an operation as it is; empty if it does.
std::string whyNotRun(mlir::Operation *op, const TargetInfo &target);

} // namespace adapt
