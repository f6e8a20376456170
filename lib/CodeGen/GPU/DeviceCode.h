// From the LLVM dialect to a GPU's code.
#pragma once

#include "GpuTarget.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace adapt::gpu {

/// The optimised LLVM IR of a module. On failure an error was emitted.
mlir::FailureOr<std::unique_ptr<llvm::Module>> translateToDevice(mlir::gpu::GPUModuleOp module,
                                                                 const GpuTarget &target,
                                                                 llvm::LLVMContext &context);

/// Assembly text of a module: PTX, or what LLVM writes for AMDGPU. The module is used up.
std::string emitAssembly(llvm::Module &module, const GpuTarget &target);

/// One module of several that were written as bitcode.
llvm::Expected<std::unique_ptr<llvm::Module>> linkModules(llvm::ArrayRef<std::string> bitcode,
                                                          llvm::LLVMContext &context);

/// What a kernel needs of a GPU.
struct KernelResources {
  std::string symbol;
  unsigned registers = 0, scalarRegisters = 0; ///< of a thread; scalar ones of a wave
  unsigned sharedBytes = 0;                    ///< of a block
  unsigned scratchBytes = 0;                   ///< of a thread: spills and stack
  unsigned spills = 0;                         ///< registers (HIP) or bytes (CUDA) that did not fit
};

/// HSACO: a linked code object, and what its metadata says of each kernel, which is checked: known
/// wavefront size, kernel arguments where the ABI has them. The module is used up.
llvm::Expected<std::pair<std::string, std::vector<KernelResources>>>
emitCodeObject(llvm::Module &module, const GpuTarget &target);

/// Where ptxas is: in the PATH, in $CUDA_HOME/bin, in the active virtual environment's package
/// nvidia-cuda-nvcc; empty if nowhere.
std::string findPtxas();

/// A cubin, and what ptxas says of each kernel.
llvm::Expected<std::pair<std::string, std::vector<KernelResources>>>
assemblePtx(llvm::StringRef ptx, llvm::StringRef ptxas, const GpuTarget &target);

} // namespace adapt::gpu
