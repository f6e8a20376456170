// The passes of the phase `fuse`; see Passes.td.
#pragma once

#include "mlir/Pass/Pass.h"

namespace adapt {

#define GEN_PASS_DECL
#include "passes/Fuse/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Fuse/Passes.h.inc"

} // namespace adapt
