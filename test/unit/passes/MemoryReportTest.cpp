// The bytes of a small llama, against a count by hand.
#include "passes/Plan/MemoryReport.h"
#include "dialects/Program/Export.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace adapt;

TEST(MemoryReport, TinyLlama) {
  MLIRContext context;
  context.loadDialect<AdaptDialect, program::ProgramDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(ADAPT_PASSES_INPUTS "/tiny_llama.mlir", &context);
  ASSERT_TRUE(module);
  PassManager manager(&context, ModuleOp::getOperationName(), OpPassManager::Nesting::Implicit);
  buildImportPipeline(manager);
  buildSimplifyPipeline(manager);
  buildMapPipeline(manager);
  buildFusePipeline(manager);
  buildPlanPipeline(manager);
  ASSERT_TRUE(succeeded(manager.run(*module)));
  FailureOr<MemoryReport> report = reportMemory(program::getPrograms(*module)->front());
  ASSERT_TRUE(succeeded(report));

  // The embedding, which the head shares, and a norm; in each of two layers two norms, q+k+v, o,
  // gate, up and down. All f32; each matrix has a multiple of 16 rows, so that packing pads
  // nothing.
  int64_t layer = 2 * 64 + (64 + 32 + 32) * 64 + 64 * 64 + 2 * 96 * 64 + 64 * 96;
  EXPECT_EQ(report->weights, 4 * (256 * 64 + 64 + 2 * layer));
  EXPECT_EQ(report->numWeights, 2 + 2 * 7);
  // Keys and values of two layers: 2 heads of 16 in f32, 16 tokens a block.
  EXPECT_EQ(report->stateBytesPerBlock, 2 * 2 * (2 * 16 * 4 * 16));
  EXPECT_EQ(report->blockTokens, 16);
  EXPECT_EQ(report->maxBlocks, 4 * 8);
  EXPECT_EQ(report->state(), 32 * report->stateBytesPerBlock);
  // At least the logits, inputs, rope tables and what the widest step of a layer holds.
  int64_t widest = 4 * 32 * (64 + 96 + 64); // hidden, gated activation, norm
  EXPECT_GE(report->arena, 4 * (32 * 256 + 2 * 32 * 8) + widest);
  // And no more than without any sharing: 2 layers' steps side by side.
  EXPECT_LE(report->arena, 4 * 32 * (256 + 2 * 8 + 8 * 64 + 128 + 2 * 64 + 96) + 4096);
  EXPECT_EQ(report->total(), report->weights + report->arena + report->state());
}

TEST(MemoryReport, NeedsAProgram) {
  MLIRContext context;
  context.loadDialect<AdaptDialect, program::ProgramDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  EXPECT_TRUE(failed(program::getPrograms(*module)));
  EXPECT_EQ(message, "the module has no program: run the phase plan");
}
