// What the passes ask about a module's structure.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace adapt {

/// "generated": set by `map` on what runs an operation.
inline constexpr llvm::StringLiteral kImplementation = "adapt.impl";

/// Whether an operation of a function computes, as opposed to naming a weight or being structure.
bool isComputing(mlir::Operation *op);

/// A module's functions, callees first, each one block that ends in func.return. On failure
/// (another form, recursion) an error was emitted.
mlir::FailureOr<llvm::SmallVector<mlir::func::FuncOp>> getCalleesFirst(mlir::ModuleOp module);

/// The functions that nobody calls and everybody sees.
llvm::SmallVector<mlir::func::FuncOp> getEntries(mlir::ModuleOp module);

/// "layers.7.q" of "layers.{layer}.q" and {layer = 7}. Placeholders without an index stay.
std::string fillTemplate(llvm::StringRef name, mlir::DictionaryAttr indices);

/// Calls `visit` for every call chain from an entry: once per function and binding of its indices.
void forEachInstance(
    mlir::ModuleOp module,
    llvm::function_ref<void(mlir::func::FuncOp, mlir::DictionaryAttr indices)> visit);

/// State is linear: each value of it is used exactly once. Errors were emitted, one each.
llvm::LogicalResult verifyLinearState(mlir::ModuleOp module);

/// Whether two params have the same recipe.
bool haveEqualRecipes(ParamOp a, ParamOp b);

} // namespace adapt
