// The forms of the CPU's kernels.
#pragma once

#include "CodeGen/Common/KernelForm.h"
#include "CpuKernelBuilder.h"
#include <memory>

namespace adapt::cpu {

using KernelForm = KernelFormOf<CpuKernelBuilder>;

/// Each returns null where the kernel is not of its form. The kernel must outlive the form.
std::unique_ptr<KernelForm> createMatmulForm(KernelOp kernel, const CpuTarget &target);
std::unique_ptr<KernelForm> createPagedAppendForm(KernelOp kernel, const CpuTarget &target);
std::unique_ptr<KernelForm> createPagedAttendForm(KernelOp kernel, const CpuTarget &target);
/// Anything without state, by way of linalg.
std::unique_ptr<KernelForm> createRowForm(KernelOp kernel, const CpuTarget &target);

/// The form of a kernel; emits an error if there is none.
mlir::FailureOr<std::unique_ptr<KernelForm>> createForm(KernelOp kernel, const CpuTarget &target);

} // namespace adapt::cpu
