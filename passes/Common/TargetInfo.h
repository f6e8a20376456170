// What the passes need to know of the target: the module attribute `adapt.target`.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"

namespace adapt {

/// The module attribute `adapt.target`, a dictionary made from targets/NAME.yaml:
/// ```mlir
/// adapt.target = {
///   name = "cpu", cpu = "znver4", features = ["avx512f", "avx512bf16"],   // for code generation
///   block_tokens = 16,                      // tokens in a block of paged state
///   keeps = ["rms_norm", "rope"],           // composites that are not decomposed, and
///   paged_append
///                                           // and paged_attend if they can be run
///   ops = "all",                            // base ops of the code generator: "all" or a list
///   weight_layouts = {bf16 = #adapt.packed<16, 2>, f32 = #adapt.packed<16, 1>}  // of matmuls
/// }
/// ```
struct TargetInfo {
  static constexpr llvm::StringLiteral kAttribute = "adapt.target";

  /// Of a module; on failure an error was emitted for each problem.
  static mlir::FailureOr<TargetInfo> get(mlir::ModuleOp module);

  /// Whether the target runs this composite (or state operation) as it is.
  bool keeps(mlir::Operation *op) const;
  /// Whether the code generator runs this base operation.
  bool generates(mlir::Operation *op) const;
  /// The storage of a matmul's weights; null for row-major.
  PackedAttr getWeightLayout(mlir::Type element) const;

  std::string name;
  int64_t blockTokens = 16;

private:
  llvm::StringSet<> kept;
  std::optional<llvm::StringSet<>> generated; ///< nullopt: all
  llvm::SmallVector<std::pair<std::string, PackedAttr>> weightLayouts;
};

} // namespace adapt
