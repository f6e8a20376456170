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
  uint32_t threads = 0;                     ///< of a block; 0: not for a GPU
  uint32_t sharedBytes = 0;                 ///< static shared memory of a block
};

/// What the kernels of a module became.
struct CompiledKernels {
  struct File {
    std::string key;  ///< in the manifest: "kernels", which the device loads; "ptx", "sim"
    std::string name; ///< "kernels.so"
    std::string bytes;
  };
  llvm::SmallVector<File> files;        ///< "kernels" first
  llvm::SmallVector<std::string> notes; ///< for the report: what was skipped, and why
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

  /// Compiles all kernels of the module and links them. On failure errors were emitted, for every
  /// kernel that cannot be done.
  virtual mlir::FailureOr<CompiledKernels> compile(mlir::ModuleOp module) = 0;

  /// LLVM's name of the processor that code is made for: znver4, sm_90.
  virtual llvm::StringRef getProcessor() const { return ""; }
  /// What the target's attribute and the manifest say of it: {cpu, features} or {arch, …}.
  virtual llvm::SmallVector<mlir::NamedAttribute> describeProcessor(mlir::MLIRContext *) const {
    return {};
  }
  /// Kernels that the last `compile` found in the cache, and that it compiled.
  virtual std::pair<unsigned, unsigned> getCacheStatistics() const { return {0, 0}; }
};

} // namespace adapt
