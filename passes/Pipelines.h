// The phases of the compiler as pass pipelines. Each ends with its verifier.
//
// They work on a module with the attributes
//   adapt.target  what the target has (passes/Common/TargetInfo.h); needed from `map` on
//   adapt.mesh    the ranks, {pp = 2, tp = 4}; absent: one (passes/Shard)
//   adapt.limits  bounds of the symbolic sizes (passes/Common/SizeBounds.h); needed by `plan`
#pragma once

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace adapt {

class KernelGenerator;

/// Only its verifier: the module is made by lib/Model.
void buildImportPipeline(mlir::OpPassManager &manager);
void buildSimplifyPipeline(mlir::OpPassManager &manager);
/// For the module's `adapt.mesh`; without padding, sizes that the ranks do not divide are refused.
void buildShardPipeline(mlir::OpPassManager &manager, bool allowPadding = true);
void buildMapPipeline(mlir::OpPassManager &manager);
void buildFusePipeline(mlir::OpPassManager &manager);
/// `generator` says what a kernel's variants are; it must outlive the passes. Null: one variant
/// without guards a kernel, for tests of the plan alone.
void buildPlanPipeline(mlir::OpPassManager &manager, KernelGenerator *generator = nullptr);

/// Registers the passes, and a pipeline `adapt-PHASE` for each phase, by name.
void registerPasses();

} // namespace adapt
