// How kernels are made: one form for each kind of kernel.
#pragma once

#include "KernelBuilder.h"
#include "adapt/CodeGen/KernelGenerator.h"
#include <memory>

namespace adapt::cpu {

class KernelForm {
public:
  virtual ~KernelForm() = default;
  /// For names of functions: "matmul".
  virtual llvm::StringRef getName() const = 0;
  /// The variants, with what distinguishes them ("t1") as their symbol.
  virtual llvm::SmallVector<KernelVariant> getVariants() const = 0;
  /// Writes the body of one variant. On failure an error was emitted.
  virtual mlir::LogicalResult emit(unsigned variant, KernelBuilder &builder) const = 0;
};

/// Each returns null where the kernel is not of its form. The kernel must outlive the form.
std::unique_ptr<KernelForm> createMatmulForm(KernelOp kernel, const CpuTarget &target);
std::unique_ptr<KernelForm> createPagedAppendForm(KernelOp kernel, const CpuTarget &target);
std::unique_ptr<KernelForm> createPagedAttendForm(KernelOp kernel, const CpuTarget &target);
/// Anything without state, by way of linalg.
std::unique_ptr<KernelForm> createRowForm(KernelOp kernel, const CpuTarget &target);

/// The form of a kernel; emits an error if there is none.
mlir::FailureOr<std::unique_ptr<KernelForm>> createForm(KernelOp kernel, const CpuTarget &target);

} // namespace adapt::cpu
