// The passes of the phase `import`; see Passes.td. What makes the module is lib/Model and
// lib/Import.
#pragma once

#include "mlir/Pass/Pass.h"

namespace adapt {

#define GEN_PASS_DECL
#include "passes/Import/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Import/Passes.h.inc"

} // namespace adapt
