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

  for (auto create :
       {createMatmulForm, createPagedAppendForm, createPagedAttendForm, createRowForm})
    if (auto form = create(kernel, target))
      return form;

  InFlightDiagnostic diagnostic =
      kernel.emitError() << "kernel '" << kernel.getSymName()
                         << "' has no form that the CPU code generator knows; it can update state "
                            "only by a paged_append or paged_attend that stands alone";
  return diagnostic;
}

} // namespace adapt::cpu
