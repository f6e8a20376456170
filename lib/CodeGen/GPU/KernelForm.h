// The forms of a GPU's kernels.
#pragma once

#include "CodeGen/Common/KernelForm.h"
#include "GpuKernelBuilder.h"
#include <memory>

namespace adapt::gpu {

using KernelForm = KernelFormOf<GpuKernelBuilder>;

/// Each returns null where the kernel is not of its form. The kernel must outlive the form.
std::unique_ptr<KernelForm> createMatmulForm(KernelOp kernel, const GpuTarget &target);
std::unique_ptr<KernelForm> createPagedAppendForm(KernelOp kernel, const GpuTarget &target);
std::unique_ptr<KernelForm> createPagedAttendForm(KernelOp kernel, const GpuTarget &target);
/// Anything without state, by way of linalg.
std::unique_ptr<KernelForm> createRowForm(KernelOp kernel, const GpuTarget &target);

/// The form of a kernel; emits an error if there is none.
mlir::FailureOr<std::unique_ptr<KernelForm>> createForm(KernelOp kernel, const GpuTarget &target);

} // namespace adapt::gpu
