// The passes of the phase `plan`; see Passes.td.
#pragma once

#include "mlir/Pass/Pass.h"

namespace adapt {

class KernelGenerator;

/// As the generated one, with the code generator that says what a kernel's variants are. Null: one
/// variant without guards each.
std::unique_ptr<::mlir::Pass> createPlanProgram(KernelGenerator *generator);

#define GEN_PASS_DECL
#include "passes/Plan/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Plan/Passes.h.inc"

} // namespace adapt
