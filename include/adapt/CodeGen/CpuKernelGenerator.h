// Kernels for x86-64 CPUs, by LLVM, in this process.
#pragma once

#include "adapt/CodeGen/KernelGenerator.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace adapt {

struct CpuOptions {
  std::string cpu = "host"; ///< a name of LLVM's, or "host": this machine's CPU and features
  std::string features;     ///< changes to the CPU's features, as "+avx512bf16,-avx512f"
  std::string cacheDir;     ///< of compiled kernels; empty: no cache
  unsigned threads = 2;     ///< that compile
  std::string dumpDir;      ///< where intermediate forms are written, a file each; empty: nowhere
};

class CpuKernelGenerator : public KernelGenerator {
public:
  /// LLVM's name of the CPU that code is made for.
  virtual llvm::StringRef getCpu() const = 0;
  /// What the runtime must find in the CPU: of the features that docs/bundle.md lists, those that
  /// the code may use.
  virtual llvm::SmallVector<std::string> getRequiredFeatures() const = 0;
  /// Kernels that the last `compile` found in the cache, and that it compiled.
  virtual std::pair<unsigned, unsigned> getCacheStatistics() const = 0;
};

/// Fails if the CPU or a feature is unknown, or the CPU cannot run the kernels (x86-64-v2 is
/// needed).
llvm::Expected<std::unique_ptr<CpuKernelGenerator>> createCpuKernelGenerator(CpuOptions options);

} // namespace adapt
