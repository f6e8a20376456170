// The passes of the phase `simplify`; see Passes.td.
#pragma once

#include "mlir/Pass/Pass.h"

namespace adapt {

#define GEN_PASS_DECL
#include "passes/Simplify/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Simplify/Passes.h.inc"

} // namespace adapt
