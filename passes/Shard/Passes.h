// The passes of the phase `shard`; see Passes.td.
#pragma once

#include "mlir/Pass/Pass.h"

namespace adapt {

#define GEN_PASS_DECL
#include "passes/Shard/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Shard/Passes.h.inc"

} // namespace adapt
