// The CPU that kernels are made for.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>

namespace adapt::cpu {

/// Code is scheduled for the CPU, but uses only the instructions of a level of x86-64 (v2, v3, v4)
/// and of features that a manifest names, so that it runs wherever the runtime finds these.
struct CpuTarget {
  std::string cpu;      ///< LLVM's name
  std::string level;    ///< LLVM's name: x86-64-v3
  std::string features; ///< beyond the level: "+avx512bf16"
  bool fma = false, f16c = false, avx512 = false, avx512bf16 = false;

  static llvm::Expected<CpuTarget> create(llvm::StringRef cpu, llvm::StringRef features);

  std::unique_ptr<llvm::TargetMachine> createMachine() const;
  /// Those of docs/bundle.md that the CPU has.
  llvm::SmallVector<std::string> requiredFeatures;
};

} // namespace adapt::cpu
