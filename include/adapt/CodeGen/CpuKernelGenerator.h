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

/// Fails if the CPU or a feature is unknown, or the CPU cannot run the kernels (x86-64-v2 is
/// needed). Its processor's `features` are those of docs/bundle.md that the code may use and the
/// runtime must find in the CPU.
llvm::Expected<std::unique_ptr<KernelGenerator>> createCpuKernelGenerator(CpuOptions options);

} // namespace adapt
