// One step of an inner product over 16 lanes, with the instructions that the CPU has.
#pragma once

#include "CpuKernelBuilder.h"
#include <optional>

namespace adapt::cpu {

/// A step covers `getDepth()` consecutive k: the *lanes* of the stored operand [16][depth] lie
/// side by side in memory; the *scalars* x[k …] of the other are broadcast. The order of additions
/// depends on nothing but k, so that results are the same in every tile.
class DotStep {
public:
  /// Null if there is no step for these element types; depth is that of the layout.
  static std::optional<DotStep> get(const CpuTarget &target, mlir::Type stored, mlir::Type scalar,
                                    int64_t depth);

  int64_t getDepth() const { return depth; }
  /// What a step reads: one or two values.
  using Operand = llvm::SmallVector<mlir::Value, 2>;
  /// Of fewer than 16 lanes only the first are read; the others are zero.
  Operand loadLanes(CpuKernelBuilder &b, Pointer stored, mlir::Value index,
                    int64_t lanes = kLanes) const;
  /// `count` < depth at the end of a row: the rest counts as zero and is not read.
  Operand loadScalars(CpuKernelBuilder &b, Pointer row, mlir::Value index, int64_t count) const;
  Operand loadScalars(CpuKernelBuilder &b, Pointer row, mlir::Value index) const {
    return loadScalars(b, row, index, depth);
  }
  /// sum + lanes · scalars, vector<16xf32>.
  mlir::Value accumulate(CpuKernelBuilder &b, mlir::Value sum, const Operand &lanes,
                         const Operand &scalars) const;

private:
  static mlir::Value loadVector(CpuKernelBuilder &b, Pointer pointer, mlir::Value index,
                                mlir::VectorType type, int64_t used);
  enum class Kind { Bf16Dot, Bf16Fma, Fma };
  DotStep(Kind kind, int64_t depth, bool fma) : kind(kind), depth(depth), fma(fma) {}
  Kind kind;
  int64_t depth;
  bool fma;
};

} // namespace adapt::cpu
