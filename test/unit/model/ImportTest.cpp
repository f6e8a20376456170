// Weights against a checkpoint, and the IR that import makes.
#include "LlamaCheckpoint.h"
#include "dialects/Adapt/Recipes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "gmock/gmock.h"

using namespace adapt;
using namespace adapt::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

class Import : public testing::Test {
protected:
  mlir::MLIRContext context;
  Diagnostics diagnostics{&context};
};

ParamOp findParam(mlir::ModuleOp module, llvm::StringRef name) {
  ParamOp found;
  module.walk([&](ParamOp param) {
    if (param.getName() == name)
      found = param;
  });
  return found;
}

unsigned countParams(mlir::ModuleOp module) {
  unsigned count = 0;
  module.walk([&](ParamOp) { ++count; });
  return count;
}

TEST_F(Import, TinyModels) {
  for (const char *name : {"llama", "qwen3"}) {
    ImportOptions options;
    options.path = std::string(ADAPT_TEST_DIR "/e2e/data/tiny-") + name;
    auto module = importCheckpoint(&context, options);
    ASSERT_TRUE(module) << diagnostics.text;
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
    auto main = module->lookupSymbol<mlir::func::FuncOp>("main");
    ASSERT_TRUE(main);
    EXPECT_EQ(main.getNumArguments(), 6u + 4u);
    EXPECT_EQ(main.getNumResults(), 1u + 4u);
    int calls = 0;
    main.walk([&](CallOp) { ++calls; });
    EXPECT_EQ(calls, 4);
    // One function for all layers, and a param a weight: 9 a layer (11 with the heads' norms).
    EXPECT_EQ(std::distance(module->getOps<mlir::func::FuncOp>().begin(),
                            module->getOps<mlir::func::FuncOp>().end()),
              2);
    EXPECT_EQ(countParams(*module), name == std::string("llama") ? 12u : 14u);
  }
}

// Case B04: tie_word_embeddings against what the checkpoint holds.
TEST_F(Import, TiedHeads) {
  enum Stored { Absent, Equal, Different };
  struct Case {
    bool tie;
    Stored stored;
    bool loads, isTied, warns;
  };
  const Case cases[] = {
      {true, Absent, true, true, false},    {true, Equal, true, true, false},
      {true, Different, true, false, true}, {false, Absent, false, false, false},
      {false, Equal, true, false, false},   {false, Different, true, false, false},
  };
  for (const Case &c : cases) {
    SCOPED_TRACE(testing::Message() << "tie " << c.tie << " stored " << c.stored);
    LlamaCheckpoint checkpoint;
    checkpoint.config["tie_word_embeddings"] = c.tie;
    if (c.stored == Absent)
      checkpoint.tensors.erase("lm_head.weight");
    if (c.stored == Equal)
      checkpoint.tensors["lm_head.weight"].fill = 1;
    diagnostics.text.clear();
    auto module = checkpoint.import(&context);
    ASSERT_EQ(bool(module), c.loads) << diagnostics.text;
    if (!c.loads) {
      EXPECT_THAT(diagnostics.text, HasSubstr("are missing:\n  lm_head.weight [16, 8]"));
      EXPECT_THAT(diagnostics.text, HasSubstr("tie_word_embeddings = true"));
      continue;
    }
    EXPECT_EQ(diagnostics.text.find("warning") != std::string::npos, c.warns) << diagnostics.text;
    // A tied head is the embedding's param: one copy.
    EXPECT_EQ(!findParam(*module, "head.weight"), c.isTied);
    EXPECT_EQ(countParams(*module), c.isTied ? 11u : 12u);
    auto table = findParam(*module, "embedding.table");
    EXPECT_EQ(table->hasOneUse(), !c.isTied);
  }
  // A head of another type than the embedding's is not the embedding.
  LlamaCheckpoint checkpoint;
  checkpoint.config["tie_word_embeddings"] = true;
  checkpoint.tensors["lm_head.weight"] = {"BF16", {16, 8}, 0};
  diagnostics.text.clear();
  EXPECT_TRUE(bool(checkpoint.import(&context)));
  EXPECT_THAT(diagnostics.text, HasSubstr("warning"));
}

TEST_F(Import, WrongTensorsAreToldAtOnce) {
  LlamaCheckpoint checkpoint;
  checkpoint.tensors.erase("model.layers.1.mlp.up_proj.weight");
  checkpoint.tensors.erase("model.norm.weight");
  checkpoint.tensors["model.layers.0.self_attn.q_proj.weight"].shape = {8, 4};
  checkpoint.tensors["model.layers.1.self_attn.k_proj.weight"].dtype = "I32";
  checkpoint.tensors["model.layers.1.self_attn.v_proj.weight"].dtype = "F8_E4M3";
  checkpoint.tensors["model.layers.2.input_layernorm.weight"] = {"F32", {8}};
  checkpoint.tensors["model.layers.0.self_attn.q_proj.bias"] = {"F32", {8}};
  EXPECT_FALSE(bool(checkpoint.import(&context)));
  EXPECT_THAT(diagnostics.text,
              HasSubstr("2 of the checkpoint's tensors are missing:\n"
                        "  model.layers.1.mlp.up_proj.weight [12, 8]\n  model.norm.weight [8]"));
  EXPECT_THAT(diagnostics.text,
              HasSubstr("model.layers.0.self_attn.q_proj.weight is [8, 4], expected [8, 8]"));
  EXPECT_THAT(diagnostics.text, HasSubstr("model.layers.1.self_attn.k_proj.weight is I32"));
  EXPECT_THAT(diagnostics.text, HasSubstr("model.layers.1.self_attn.v_proj.weight is F8_E4M3"));
  EXPECT_THAT(diagnostics.text,
              HasSubstr("2 of the checkpoint's tensors are not used by the family llama:\n"
                        "  model.layers.0.self_attn.q_proj.bias\n"
                        "  model.layers.2.input_layernorm.weight"));
}

TEST_F(Import, LongListsAreCut) {
  LlamaCheckpoint checkpoint;
  checkpoint.config["num_hidden_layers"] = 10;
  EXPECT_FALSE(bool(checkpoint.import(&context)));
  EXPECT_THAT(diagnostics.text, HasSubstr("72 of the checkpoint's tensors are missing"));
  EXPECT_THAT(diagnostics.text, HasSubstr("and 52 more"));
}

TEST_F(Import, IgnoredTensors) {
  LlamaCheckpoint checkpoint;
  checkpoint.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {2}};
  EXPECT_TRUE(bool(checkpoint.import(&context))) << diagnostics.text;
}

TEST_F(Import, Biases) {
  LlamaCheckpoint checkpoint;
  checkpoint.config["attention_bias"] = true;
  checkpoint.config["mlp_bias"] = true;
  EXPECT_FALSE(bool(checkpoint.import(&context)));
  EXPECT_THAT(diagnostics.text, HasSubstr("14 of the checkpoint's tensors are missing"));
  for (int layer = 0; layer < 2; ++layer)
    for (auto [name, size] : {std::pair("self_attn.q_proj.bias", 8),
                              {"self_attn.k_proj.bias", 4},
                              {"self_attn.v_proj.bias", 4},
                              {"self_attn.o_proj.bias", 8},
                              {"mlp.gate_proj.bias", 12},
                              {"mlp.up_proj.bias", 12},
                              {"mlp.down_proj.bias", 8}})
      checkpoint.tensors[checkpoint.at(layer, name)] = {"F32", {size}};
  diagnostics.text.clear();
  auto module = checkpoint.import(&context);
  ASSERT_TRUE(module) << diagnostics.text;
  EXPECT_EQ(countParams(*module), 12u + 7u);
}

// A source has one type, so layers that are stored differently have functions of their own.
TEST_F(Import, LayersStoredDifferently) {
  LlamaCheckpoint checkpoint;
  checkpoint.config["num_hidden_layers"] = 2;
  checkpoint.config["dtype"] = "float32";
  checkpoint.tensors["model.layers.1.mlp.down_proj.weight"].dtype = "BF16";
  auto loaded = checkpoint.load(&context);
  ASSERT_TRUE(mlir::succeeded(loaded)) << diagnostics.text;
  ASSERT_EQ(loaded->model.layerKinds.size(), 2u);
  EXPECT_THAT(loaded->model.layers, ElementsAre(0, 1));
  auto module = checkpoint.import(&context);
  ASSERT_TRUE(module) << diagnostics.text;
  EXPECT_TRUE(module->lookupSymbol("layer_0"));
  auto second = module->lookupSymbol<mlir::func::FuncOp>("layer_1");
  ASSERT_TRUE(second);
  unsigned casts = 0;
  second.walk([&](CastOp) { ++casts; });
  EXPECT_EQ(casts, 1u);
}

// Without a checkpoint the IR is the same as with one that is stored in the model's type.
TEST_F(Import, AbsentWeights) {
  LlamaCheckpoint checkpoint;
  checkpoint.tensors.clear();
  checkpoint.write();
  ImportOptions options = checkpoint.options();
  options.allowAbsentWeights = true;
  auto module = importCheckpoint(&context, options);
  ASSERT_TRUE(module) << diagnostics.text;
  unsigned sources = 0;
  module->walk([&](SourceOp source) {
    ++sources;
    auto type = mlir::cast<mlir::RankedTensorType>(source.getResult().getType());
    EXPECT_TRUE(type.getElementType().isBF16());
  });
  EXPECT_EQ(sources, 12u);
  auto model = (*module)->getAttrOfType<mlir::DictionaryAttr>("adapt.model");
  EXPECT_TRUE(model.contains("weights_are_absent"));
}

TEST_F(Import, Recipes) {
  LlamaCheckpoint checkpoint("BF16");
  checkpoint.config["dtype"] = "float32";
  auto module = checkpoint.import(&context);
  ASSERT_TRUE(module) << diagnostics.text;
  schema::Recipe recipe;
  auto param = findParam(*module, "layers.{layer}.gated_mlp.up.weight");
  ASSERT_TRUE(param);
  ASSERT_TRUE(mlir::succeeded(toRecipe(param, recipe))) << diagnostics.text;
  ASSERT_EQ(recipe.nodes_size(), 2);
  EXPECT_EQ(recipe.nodes(0).source().name(), "model.layers.{layer}.mlp.up_proj.weight");
  EXPECT_EQ(recipe.nodes(0).type().element(), schema::BF16);
  EXPECT_THAT(recipe.nodes(1).type().shape(), ElementsAre(12, 8));
  EXPECT_TRUE(recipe.nodes(1).has_cast());
  EXPECT_EQ(recipe.nodes(1).type().element(), schema::F32);
  EXPECT_THAT(recipe.nodes(1).operands(), ElementsAre(0));
}

} // namespace
