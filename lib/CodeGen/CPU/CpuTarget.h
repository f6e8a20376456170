// The CPU that kernels are made for.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>

namespace adapt::cpu {

struct CpuTarget {
  std::string cpu;      ///< LLVM's name
  std::string features; ///< changes to its features, "+a,-b"
  bool fma = false, f16c = false, avx512 = false, avx512bf16 = false;

  static llvm::Expected<CpuTarget> create(llvm::StringRef cpu, llvm::StringRef features);

  std::unique_ptr<llvm::TargetMachine> createMachine() const;
  /// Those of docs/bundle.md that the CPU has.
  llvm::SmallVector<std::string> requiredFeatures;
};

} // namespace adapt::cpu
