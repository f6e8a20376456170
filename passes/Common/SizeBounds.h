// Bounds of symbolic sizes: the module attribute `adapt.limits`.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace adapt {

/// The module attribute `adapt.limits`, made from --max-num-tokens and the like. A size goes from 1
/// to an integer, or over a range: `adapt.limits = {T = 512, S = 16, B = 512, L = [0, 512]}`.
class SizeBounds {
public:
  static constexpr llvm::StringLiteral kAttribute = "adapt.limits";

  struct Range {
    int64_t min, max; ///< inclusive
  };

  /// Of a module; on failure an error was emitted for each problem.
  static mlir::FailureOr<SizeBounds> get(mlir::ModuleOp module);

  /// The range of a symbol; null if it has none.
  const Range *find(llvm::StringRef symbol) const;

  /// What values an expression can take; nullopt if a symbol has no bounds or a bound leaves 64
  /// bits.
  std::optional<Range> getRange(mlir::AffineExpr expr) const;

private:
  llvm::StringMap<Range> ranges;
};

} // namespace adapt
