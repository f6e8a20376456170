// A GPU's kernels as code of x86-64 that the runtime's simulated devices run lane by lane.
#pragma once

#include "GpuTarget.h"
#include "llvm/IR/Module.h"

namespace adapt::gpu {

/// Rewrites the LLVM IR of a GPU's kernels, as code for the GPU is made of it, to kernels of one
/// lane (runtime/include/adapt/SimRuntime.h): another triple, plain calling conventions, and calls
/// of the device in place of intrinsics. Address spaces stay: below 256 they mean nothing to
/// x86-64. Errors name the kernel and what the simulation does not know.
llvm::Error simulate(llvm::Module &module);

/// Code of simulated kernels, and lines "KERNEL SHARED BYTES" of the shared memory that they use.
struct SimulatedObject {
  std::string object, shared;
};
/// The module is one that `simulate` rewrote; it is used up.
llvm::Expected<SimulatedObject> emitSimulatedObject(llvm::Module &module);

/// kernels.sim.so of all objects.
llvm::Expected<std::string> linkSimulation(llvm::ArrayRef<SimulatedObject> objects,
                                           const GpuTarget &target);

} // namespace adapt::gpu
