// From the tree of a family's file to a Family.
#pragma once

#include "adapt/Model/Family.h"

namespace adapt {

/// Fills `family` (but for its path and ignored keys). Errors were emitted, all at once.
mlir::LogicalResult readFamily(const YamlNode &root, Family &family);

/// Adds the keys that a folder's common.yaml says may be ignored.
mlir::LogicalResult readIgnoredKeys(const YamlNode &root, Family &family);

} // namespace adapt
