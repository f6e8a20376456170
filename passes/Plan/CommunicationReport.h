// What the ranks of planned programs send each other.
#pragma once

#include "dialects/Program/ProgramDialect.h"

namespace adapt {

/// A collective or a transfer of a program.
struct Communication {
  std::string kind;     ///< "all_reduce", "all_gather", "reduce_scatter", "transfer"
  std::string axis;     ///< of the mesh: "tp", "pp"
  std::string function; ///< where it stands
  std::string buffer;   ///< what is exchanged, or transferred
  int64_t peer = -1;    ///< transfer: the stage that receives
  int64_t count = 0;    ///< executed in one step of the entry point, layers counted
  /// Bytes of the whole tensor, once: what is summed, gathered, scattered or transferred.
  mlir::AffineExpr payload;
  /// What the ranks of one group send in all, once, in a ring: 2 (n - 1) payloads of a sum, (n - 1)
  /// of the others, one of a transfer.
  mlir::AffineExpr wire;
};

/// In the order of their first execution; a transfer stands where it is sent.
std::vector<Communication> reportCommunication(program::ModuleOp program);

} // namespace adapt
