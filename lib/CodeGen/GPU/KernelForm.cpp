#include "KernelForm.h"

using namespace mlir;

namespace adapt::gpu {

FailureOr<std::unique_ptr<KernelForm>> createForm(KernelOp kernel, const GpuTarget &target) {
  return findForm<KernelForm>(
      kernel,
      ArrayRef{createMatmulForm, createPagedAppendForm, createPagedAttendForm, createRowForm},
      target, "GPU");
}

} // namespace adapt::gpu
