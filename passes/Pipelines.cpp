#include "passes/Pipelines.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Fuse/Passes.h"
#include "passes/Import/Passes.h"
#include "passes/Map/Passes.h"
#include "passes/Plan/Passes.h"
#include "passes/Shard/Passes.h"
#include "passes/Simplify/Passes.h"

using namespace mlir;
using namespace adapt;

void adapt::buildImportPipeline(OpPassManager &manager) { manager.addPass(createVerifyImport()); }

void adapt::buildSimplifyPipeline(OpPassManager &manager) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createSymbolDCEPass());
  manager.addPass(createVerifySimplify());
}

void adapt::buildShardPipeline(OpPassManager &manager, bool allowPadding) {
  manager.addPass(createSplitStages());
  PadShardsOptions options;
  options.noPadding = !allowPadding;
  manager.addPass(createPadShards(options));
  manager.addPass(createPlaceShards());
  manager.addPass(createReshardValues());
  manager.addPass(createLocalizeShards());
  manager.addPass(createVerifyShard());
}

void adapt::buildMapPipeline(OpPassManager &manager) {
  manager.addPass(createDecomposeComposites());
  // A decomposition may repeat what another computed.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createAssignImplementations());
  manager.addPass(createVerifyMap());
}

void adapt::buildFusePipeline(OpPassManager &manager) {
  manager.addPass(createDedupeParams());
  manager.addPass(createMergeMatmuls());
  manager.addPass(createPackWeights());
  // Merged weights drop those they were made of.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createFormDispatches());
  manager.addPass(createOutlineKernels());
  manager.addPass(createVerifyFuse());
}

void adapt::buildPlanPipeline(OpPassManager &manager, KernelGenerator *generator) {
  manager.addPass(createPlanProgram(generator));
  manager.addPass(createVerifyPlan());
}

void adapt::registerPasses() {
  registerImportPasses();
  registerSimplifyPasses();
  registerShardPasses();
  registerMapPasses();
  registerFusePasses();
  registerPlanPasses();
  PassPipelineRegistration<>("adapt-import", "the end of the phase import", buildImportPipeline);
  PassPipelineRegistration<>("adapt-simplify", "the phase simplify", buildSimplifyPipeline);
  PassPipelineRegistration<>("adapt-shard", "the phase shard",
                             [](OpPassManager &manager) { buildShardPipeline(manager); });
  PassPipelineRegistration<>("adapt-map", "the phase map", buildMapPipeline);
  PassPipelineRegistration<>("adapt-fuse", "the phase fuse", buildFusePipeline);
  PassPipelineRegistration<>("adapt-plan", "the phase plan",
                             [](OpPassManager &manager) { buildPlanPipeline(manager); });
}
