#include "KernelForm.h"

using namespace mlir;

namespace adapt::cpu {

FailureOr<std::unique_ptr<KernelForm>> createForm(KernelOp kernel, const CpuTarget &target) {
  bool narrow = false;
  kernel.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      narrow |= getElementTypeOrSelf(type).isF16();
  });
  for (Type type : kernel.getArgumentTypes())
    narrow |= getElementTypeOrSelf(type).isF16();
  if (narrow && !target.f16c)
    return kernel.emitError() << "kernel '" << kernel.getSymName() << "' holds f16, but the CPU "
                              << target.cpu << " has no f16c; use --dtype=float32 or bfloat16";

  return findForm<KernelForm>(
      kernel,
      ArrayRef{createMatmulForm, createPagedAppendForm, createPagedAttendForm, createRowForm},
      target, "CPU");
}

} // namespace adapt::cpu
