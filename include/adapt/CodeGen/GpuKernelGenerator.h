// Kernels for GPUs, by LLVM, in this process: PTX (and cubin where ptxas is found) or HSACO.
#pragma once

#include "adapt/CodeGen/KernelGenerator.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace adapt {

struct GpuOptions {
  std::string target;      ///< "cuda" or "hip"
  std::string arch;        ///< LLVM's name: sm_90, gfx942
  bool simulation = false; ///< also kernels.sim.so, for the devices sim-cuda and sim-hip
  std::string ptxas;       ///< the assembler; "search": PATH, CUDA_HOME, a venv; empty: none
  std::string cacheDir;    ///< of compiled kernels; empty: no cache
  unsigned threads = 2;    ///< that compile
  std::string dumpDir;     ///< where intermediate forms are written, a file each; empty: nowhere
  /// For tests: a fault that is planted into the code after it was lowered. One of barrier, width,
  /// mask; empty: none.
  std::string fault;
};

/// Fails if the architecture is unknown or is none that the generator makes code for.
llvm::Expected<std::unique_ptr<KernelGenerator>> createGpuKernelGenerator(GpuOptions options);

} // namespace adapt
