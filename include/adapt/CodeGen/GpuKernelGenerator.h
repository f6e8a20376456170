// Kernels for GPUs, by LLVM, in this process: PTX (and cubin where ptxas is found) or HSACO.
#pragma once

#include "adapt/CodeGen/KernelGenerator.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <memory>

namespace llvm {
class Module;
} // namespace llvm

namespace adapt {

struct GpuOptions {
  std::string target;      ///< "cuda" or "hip"
  std::string arch;        ///< LLVM's name: sm_90, gfx942
  bool simulation = false; ///< also kernels.sim.so, for the devices sim-cuda and sim-hip
  std::string ptxas;       ///< the assembler; "search": PATH, CUDA_HOME, a venv; empty: none
  std::string cacheDir;    ///< of compiled kernels; empty: no cache
  unsigned threads = 2;    ///< that compile
  std::string dumpDir;     ///< where intermediate forms are written, a file each; empty: nowhere
  /// For tests: changes a kernel's optimised LLVM IR, before code for the GPU and the simulation is
  /// made of it. Nothing is cached then.
  std::function<void(llvm::Module &)> mutate;
};

/// Fails if the architecture is unknown or is none that the generator makes code for.
llvm::Expected<std::unique_ptr<KernelGenerator>> createGpuKernelGenerator(GpuOptions options);

} // namespace adapt
