// The passes of the phase `map`; see Passes.td.
#pragma once

#include "mlir/Pass/Pass.h"

namespace adapt {

#define GEN_PASS_DECL
#include "passes/Map/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Map/Passes.h.inc"

} // namespace adapt
