// A sharded module means what the whole one means: random graphs and models, interpreted before and
// after each pass of the phase shard, and the planned programs of what comes of them, on meshes of
// 2, 3 and 4 ranks.
#include "RandomGraphs.h"
#include "adapt/Interpreter/Files.h"
#include "adapt/Interpreter/LanguageModel.h"
#include "adapt/Interpreter/PlannedProgram.h"
#include "adapt/Interpreter/Sources.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipelines.h"
#include "passes/Shard/Passes.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace adapt;

namespace {
/// Decompositions have their constants in f32.
double getTolerance(StringRef pass) { return pass == "plan" ? 1e-6 : 1e-9; }

constexpr uint64_t kWeights = 7; // the seed of all weights

class ShardProperty : public testing::Test {
protected:
  ShardProperty() {
    context.loadDialect<AdaptDialect, program::ProgramDialect, func::FuncDialect>();
    // Remarks say what is padded.
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        errors += diagnostic.str() + "\n";
    });
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    return parseSourceString<ModuleOp>(text, &context);
  }

  static interp::Interpreter makeInterpreter(ModuleOp module) {
    interp::Options options;
    options.readSource = interp::readRandom(kWeights);
    return interp::Interpreter(module, options);
  }

  static void setMesh(ModuleOp module, int64_t pp, int64_t tp) {
    Builder builder(module.getContext());
    module->setAttr(
        AdaptDialect::kMesh,
        builder.getDictionaryAttr({builder.getNamedAttr("pp", builder.getI64IntegerAttr(pp)),
                                   builder.getNamedAttr("tp", builder.getI64IntegerAttr(tp))}));
    module->setAttr("adapt.limits",
                    cast<DictionaryAttr>(parseAttribute("{T = 64, S = 4, B = 4, L = [0, 64]}",
                                                        module.getContext())));
    module->setAttr("adapt.target", cast<DictionaryAttr>(parseAttribute(
                                        R"({name = "cpu", ops = "all", block_tokens = 16, keeps = [
                                            "rope", "rope_table", "paged_append", "paged_attend"]})",
                                        module.getContext())));
  }

  /// Runs passes, and `check` after each after which the module can be run: between reshard and
  /// local shapes values are parts under whole types.
  void shard(ModuleOp module, int64_t pp, int64_t tp,
             llvm::function_ref<void(ModuleOp, StringRef)> check) {
    setMesh(module, pp, tp);
    auto run = [&](StringRef name, auto... passes) {
      PassManager manager(&context);
      (manager.addPass(std::move(passes)), ...);
      ASSERT_TRUE(succeeded(manager.run(module))) << name.str() << ": " << errors;
      check(module, name);
    };
    run("split-stages", createSplitStages());
    run("pad-shards", createPadShards());
    run("place-shards", createPlaceShards());
    run("localize-shards", createReshardValues(), createLocalizeShards(), createVerifyShard());
    run("canonicalize", createCanonicalizerPass());
    PassManager manager(&context, ModuleOp::getOperationName(), OpPassManager::Nesting::Implicit);
    buildMapPipeline(manager);
    buildFusePipeline(manager);
    buildPlanPipeline(manager);
    ASSERT_TRUE(succeeded(manager.run(module))) << "map to plan: " << errors;
    check(module, "plan");
  }

  MLIRContext context;
  std::string errors;
};

class ShardedGraphs : public ShardProperty, public testing::WithParamInterface<std::string> {};

std::string getName(const testing::TestParamInfo<std::string> &info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(All, ShardedGraphs, testing::ValuesIn(test::getGraphFamilies()), getName);
} // namespace

TEST_P(ShardedGraphs, MeanTheSame) {
  constexpr int64_t kTokens = 5, kGraphs = 40;
  unsigned communicating = 0, padded = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    std::string text = test::makeGraph(GetParam(), seed);
    OwningOpRef<ModuleOp> whole = parse(text);
    ASSERT_TRUE(whole) << text << errors;
    auto runMain = [&](ModuleOp module) {
      interp::Interpreter interpreter = makeInterpreter(module);
      FunctionOpInterface main = interpreter.lookup("main");
      int64_t width = cast<RankedTensorType>(main.getArgumentTypes()[0]).getDimSize(1);
      interp::Tensor x(Float32Type::get(&context), {kTokens, width});
      interp::Tensor indices(IntegerType::get(&context, 32), {kTokens});
      interp::fillRandom(x, seed, 1);
      interp::fillRandom(indices, seed, 3);
      if (auto programs = interp::PlannedProgram::find(module); !programs.empty()) {
        interp::PlannedProgram program(programs, interpreter);
        return program.run(program.lookup("main"), {x, indices});
      }
      return interpreter.run(main, {x, indices});
    };
    auto expected = runMain(*whole);
    ASSERT_TRUE(succeeded(expected)) << text << errors;
    for (int64_t ranks : {2, 3, 4}) {
      OwningOpRef<ModuleOp> sharded = whole->clone();
      shard(*sharded, /*pp=*/1, ranks, [&](ModuleOp module, StringRef pass) {
        auto results = runMain(module);
        ASSERT_TRUE(succeeded(results)) << text << "after " << pass.str() << ": " << errors;
        for (auto [a, b] : llvm::zip_equal(*expected, *results)) {
          auto difference = interp::compare(a, b);
          ASSERT_TRUE(difference) << text << "after " << pass.str();
          ASSERT_LE(difference->error, getTolerance(pass))
              << text << "after " << pass.str() << " on " << ranks;
        }
      });
      if (HasFatalFailure())
        FAIL() << "seed " << seed << " on " << ranks << " ranks:\n" << text;
      padded += sharded->getOperation()->hasAttr(AdaptDialect::kPadding);
      communicating += sharded->walk([](CollectiveOpInterface) { return WalkResult::interrupt(); })
                           .wasInterrupted();
    }
  }
  // The graphs are not all trivial.
  EXPECT_GE(communicating, kGraphs);
  EXPECT_GE(padded, kGraphs);
}

TEST_F(ShardProperty, LanguageModelsMeanTheSame) {
  constexpr int64_t kSequences = 3, kLength = 6, kModels = 12;
  std::vector<int64_t> ids(kSequences * kLength), lengths = {6, 4, 1};
  for (uint64_t seed = 0; seed < kModels; ++seed) {
    std::string text = test::makeLanguageModel(seed);
    OwningOpRef<ModuleOp> whole = parse(text);
    ASSERT_TRUE(whole) << text << errors;
    for (auto [i, id] : llvm::enumerate(ids))
      id = (i * 7 + seed) % 5;
    auto runModel = [&](ModuleOp module) -> FailureOr<interp::Value> {
      interp::Interpreter interpreter = makeInterpreter(module);
      interp::TokenBatch batch{kSequences, kLength, ids, lengths, /*chunk=*/4};
      if (auto programs = interp::PlannedProgram::find(module); !programs.empty()) {
        interp::PlannedProgram program(programs, interpreter);
        program::EntryOp entry = program.lookup("main");
        if (failed(program.createStates(interp::getNumBlocks(batch, 16))))
          return failure();
        FailureOr<interp::Tensor> logits =
            interp::runBatch(module.getLoc(), batch, 16,
                             [&](ArrayRef<interp::Value> inputs) -> FailureOr<interp::Tensor> {
                               auto outputs = program.run(entry, inputs);
                               if (failed(outputs))
                                 return failure();
                               return outputs->front().tensor();
                             });
        if (failed(logits))
          return failure();
        return interp::Value(std::move(*logits));
      }
      FailureOr<interp::Tensor> logits =
          interp::runLanguageModel(interpreter, interpreter.lookup("main"), batch);
      if (failed(logits))
        return failure();
      return interp::Value(std::move(*logits));
    };
    auto expected = runModel(*whole);
    ASSERT_TRUE(succeeded(expected)) << text << errors;
    for (auto [pp, tp] : {std::pair(1, 2), {1, 3}, {1, 4}, {1, 6}, {2, 1}, {2, 2}, {2, 3}}) {
      OwningOpRef<ModuleOp> sharded = whole->clone();
      shard(*sharded, pp, tp, [&](ModuleOp module, StringRef pass) {
        auto logits = runModel(module);
        ASSERT_TRUE(succeeded(logits)) << "after " << pass.str() << ": " << errors;
        auto difference = interp::compare(*expected, *logits);
        ASSERT_TRUE(difference) << "after " << pass.str();
        ASSERT_LE(difference->error, getTolerance(pass)) << "after " << pass.str();
      });
      if (HasFatalFailure())
        FAIL() << "seed " << seed << ", pp=" << pp << ", tp=" << tp << ":\n" << text;
    }
  }
}
