// What the phases ask of a target's code generator.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "llvm/ADT/SmallVector.h"
#include <string>

namespace adapt {

/// One compiled form of a kernel, for sizes within its guards.
struct KernelVariant {
  struct Guard {
    std::string size; ///< one of the kernel's symbols
    int64_t min;
    int64_t max; ///< inclusive
  };
  std::string symbol; ///< the exported function
  llvm::SmallVector<Guard> guards;
  llvm::SmallVector<mlir::AffineExpr> grid; ///< one to three extents over the kernel's symbols
  uint64_t scratchBytes = 0;                ///< per work item
};

/// Of compiled kernels: $XDG_CACHE_HOME/adaptc or ~/.cache/adaptc; empty if neither variable is
/// set.
std::string getDefaultCacheDir();

/// A code generator compiles each `adapt.kernel` of a module; what a kernel's variants are is known
/// before it is compiled, so that `plan` needs no code.
///
/// The ABI is that of docs/bundle.md. Buffers are the kernel's arguments in order, then its results
/// that are not state; a state argument stands for one buffer per plane.
class KernelGenerator {
public:
  virtual ~KernelGenerator() = default;

  /// The variants, in the order in which a launch tries them; the last has no guards. On failure
  /// an error was emitted.
  virtual mlir::FailureOr<llvm::SmallVector<KernelVariant>> getVariants(KernelOp kernel) = 0;

  /// Compiles all kernels of the module and links them into one shared object; returns its bytes.
  /// On failure errors were emitted, for every kernel that cannot be done.
  virtual mlir::FailureOr<std::string> compile(mlir::ModuleOp module) = 0;
};

} // namespace adapt
