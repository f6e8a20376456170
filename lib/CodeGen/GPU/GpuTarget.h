// The GPU that kernels are made for.
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>

namespace adapt::gpu {

struct GpuTarget {
  enum class Kind { Cuda, Hip };
  Kind kind;
  std::string arch;  ///< LLVM's name
  int64_t warp;      ///< lanes that run in step: a warp's 32, a wave's 64
  int64_t maxShared; ///< bytes of static shared memory that a block may have

  /// `target` is "cuda" or "hip".
  static llvm::Expected<GpuTarget> create(llvm::StringRef target, llvm::StringRef arch);

  bool isCuda() const { return kind == Kind::Cuda; }
  std::unique_ptr<llvm::TargetMachine> createMachine() const;
};

/// x86-64-v2, for the simulation of any GPU.
std::unique_ptr<llvm::TargetMachine> createSimulationMachine();

} // namespace adapt::gpu
