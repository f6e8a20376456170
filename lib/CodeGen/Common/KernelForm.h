// How kernels are made: one form for each kind of kernel.
#pragma once

#include "adapt/CodeGen/KernelGenerator.h"

namespace adapt::codegen {

class KernelFormBase {
public:
  virtual ~KernelFormBase() = default;
  /// For names of functions: "matmul".
  virtual llvm::StringRef getName() const = 0;
  /// The variants, with what distinguishes them ("t1") as their symbol.
  virtual llvm::SmallVector<KernelVariant> getVariants() const = 0;
};

/// A form of a target, whose kernels are built with `Builder`.
template <typename Builder> class KernelFormOf : public KernelFormBase {
public:
  /// Writes the body of one variant. On failure an error was emitted.
  virtual mlir::LogicalResult emit(unsigned variant, Builder &builder) const = 0;
};

/// The single computing operation of a kernel, if it is an `Op` on the kernel's own arguments.
template <typename Op> Op getLoneOp(KernelOp kernel) {
  mlir::Block &body = kernel.getBody().front();
  if (body.getOperations().size() != 2)
    return {};
  auto op = llvm::dyn_cast<Op>(body.front());
  if (!op || !llvm::equal(op->getResults(), body.getTerminator()->getOperands()))
    return {};
  for (mlir::Value operand : op->getOperands())
    if (!llvm::isa<mlir::BlockArgument>(operand))
      return {};
  return op;
}

/// The first form that knows the kernel; emits an error if there is none. `creators` return null
/// where a kernel is not of their form.
template <typename Form, typename Creators, typename Target>
mlir::FailureOr<std::unique_ptr<Form>> findForm(KernelOp kernel, const Creators &creators,
                                                const Target &target, llvm::StringRef generator) {
  for (auto create : creators)
    if (std::unique_ptr<Form> form = create(kernel, target))
      return form;
  mlir::InFlightDiagnostic diagnostic =
      kernel.emitError() << "kernel '" << kernel.getSymName() << "' has no form that the "
                         << generator
                         << " code generator knows; it can update state only by a paged_append or "
                            "paged_attend that stands alone";
  return diagnostic;
}

} // namespace adapt::codegen
