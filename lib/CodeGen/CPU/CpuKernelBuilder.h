// Kernels of the CPU: their entry, a work item's memory.
#pragma once

#include "CodeGen/Common/KernelBuilder.h"
#include "CpuTarget.h"

namespace adapt::cpu {
using namespace codegen;

inline constexpr int64_t kLanes = 16;

class CpuKernelBuilder : public KernelBuilder {
public:
  /// Makes the exported function `symbol` with the ABI of docs/bundle.md, and `symbol.body`, which
  /// it calls with loaded pointers and sizes; the insertion point is left in the latter.
  CpuKernelBuilder(mlir::ModuleOp module, KernelOp kernel, llvm::StringRef symbol);

  /// Memory of this work item on the stack, 64-byte aligned.
  Pointer createLocal(mlir::Type element, int64_t count);
  /// Asks for the cache line of an element, into the second level: more such are under way at once
  /// than into the first.
  void prefetch(Pointer pointer, mlir::Value index);

private:
  mlir::func::FuncOp body;
};

} // namespace adapt::cpu
