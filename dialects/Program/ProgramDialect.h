// The dialect `program`: what the runtime executes.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

namespace adapt::program {
// Generated headers use these unqualified.
using ::llvm::ArrayRef;
using ::llvm::SmallVector;
using ::llvm::SmallVectorImpl;
using ::llvm::StringRef;
} // namespace adapt::program

#include "dialects/Program/ProgramDialect.h.inc"
#include "dialects/Program/ProgramEnums.h.inc"
#include "dialects/Program/ProgramInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Program/ProgramAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Program/ProgramTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Program/ProgramOps.h.inc"
