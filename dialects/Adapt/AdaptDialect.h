// The dialect `adapt`: dialect, attributes, types and operations.
#pragma once

#include "adapt/Interpreter/Value.h"
#include "dialects/Adapt/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace adapt {
// Generated headers use these unqualified.
using ::llvm::APFloat;
using ::llvm::ArrayRef;
using ::llvm::SmallVector;
using ::llvm::SmallVectorImpl;
using ::llvm::StringRef;
} // namespace adapt

#include "dialects/Adapt/AdaptDialect.h.inc"
#include "dialects/Adapt/AdaptEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Adapt/AdaptAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Adapt/AdaptTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/Adapt/AdaptOps.h.inc"

namespace adapt {

/// The `adapt.symbols` (or another list of names) of an operation; empty if absent.
llvm::SmallVector<llvm::StringRef> getNames(mlir::Operation *op, llvm::StringRef attribute);

/// The ranks along an axis ("tp", "pp") of a module's `adapt.mesh`; 1 if it does not say.
int64_t getMeshSize(mlir::Operation *module, llvm::StringRef axis);

/// "same length" errors and the like for an operation's message: `T x 64`.
std::string shapeToString(mlir::RankedTensorType type);

} // namespace adapt
