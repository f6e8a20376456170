// From the dialect to the schema.
#pragma once

#include "dialects/Program/ProgramDialect.h"

namespace adapt::schema {
class Program;
} // namespace adapt::schema

namespace adapt::program {

/// Alignment of buffers in the arena, of state blocks and of stored weights, in bytes.
inline constexpr int64_t kAlignment = 64;

/// The serialised form. The program is a verified one; on failure (an element type that the schema
/// does not have) errors were emitted, for every buffer that cannot be said.
llvm::LogicalResult exportProgram(ModuleOp program, schema::Program &out);

/// The programs of a module, one per pipeline stage, in order. On failure (there is none, or stages
/// are missing, or several programs are of no stage) an error was emitted.
mlir::FailureOr<llvm::SmallVector<ModuleOp>> getPrograms(mlir::ModuleOp module);

} // namespace adapt::program
