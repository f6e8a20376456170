// Family files: what is refused, and what a new one can say.
#include "adapt/Model/Family.h"
#include "LlamaCheckpoint.h"
#include "adapt/Support/DataFiles.h"
#include "dialects/Adapt/Recipes.h"
#include "weights/Checkpoint.h"
#include "weights/Recipe.h"
#include "gmock/gmock.h"
#include <sstream>

using namespace adapt;
using namespace adapt::test;
using testing::HasSubstr;

namespace {

/// The text of models/llama.yaml.
std::string getLlama() {
  std::ifstream file(findDataDirectory("models") + "/llama.yaml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// `text` with the first `from` replaced, which must be there.
std::string replace(std::string text, const std::string &from, const std::string &to) {
  size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

/// The f32 values of a recipe.
std::vector<float> evaluateFloats(const schema::Recipe &recipe, const weights::Checkpoint &sources,
                                  const weights::Bindings &bindings) {
  auto evaluation = weights::Evaluation::prepare(recipe, bindings, sources);
  EXPECT_TRUE(evaluation.ok()) << evaluation.status();
  if (!evaluation.ok())
    return {};
  std::vector<float> values(evaluation->bytes() / sizeof(float));
  evaluation->read({reinterpret_cast<std::byte *>(values.data()), evaluation->bytes()});
  return values;
}

class FamilyFile : public testing::Test {
protected:
  mlir::MLIRContext context;
  Diagnostics diagnostics{&context};
  TempFolder folder;
};

TEST_F(FamilyFile, Refused) {
  struct Case {
    const char *from, *to, *expected;
  };
  const Case cases[] = {
      {"schema: 1", "schema: 7", "schema version 7; this compiler reads version 1"},
      {"family: llama", "famly: llama", "has no key 'famly' (did you mean 'family'?)"},
      {"recognise:", "recognize:", "has no key 'recognize' (did you mean 'recognise'?)"},
      {"  vocab_size: size", "  vocab_size: sise",
       "there is no kind 'sise' (did you mean 'size'?)"},
      {"default: 1.0e-6, min: 0", "default: 1.0e-6, mim: 0", "has no key 'mim'"},
      {"kv_heads: num_key_value_heads ??", "kv_heads: num_kv_heads ??",
       "'num_kv_heads' is neither a config key nor a size of this family"},
      {"hidden_size / num_attention_heads", "hidden_size / num_attention_head",
       "(did you mean 'num_attention_heads'?)"},
      {"hidden_size / num_attention_heads", "hidden_size / / 2", "expected a value, found '/'"},
      {"- block: attention", "- block: atention",
       "there is no block 'atention' here (did you mean "
       "'attention'?); there are attention, gated_mlp"},
      {"- block: attention", "- block: head", "there is no block 'head' here"},
      {"activation: hidden_act", "activaton: hidden_act", "lacks the key 'activation'"},
      {"activation: hidden_act", "activaton: hidden_act", "(did you mean 'activation'?)"},
      {"- block: gated_mlp", "- block: gated_mlp\n          name: attention",
       "two blocks of a layer are called 'attention'"},
      {"layers.{layer}.self_attn.q_proj.weight", "layers.{expert}.self_attn.q_proj.weight",
       "the only placeholder is {layer}"},
      {"weight: lm_head.weight", "weight: \"lm_head.{layer}\"",
       "there are no placeholders outside layers"},
      {"weight: model.layers.{layer}.mlp.up_proj.weight",
       "weight: {source: a, steps: [{transpose: [1, 0]}]}", "needs its 'shape'"},
      {"weight: model.layers.{layer}.mlp.up_proj.weight",
       "weight: {source: a, shape: [8, 8], steps: [{transpose: [1, 1]}]}",
       "'transpose' must name each axis once"},
      {"weight: model.layers.{layer}.mlp.up_proj.weight",
       "weight: {source: a, shape: [8, 8], steps: [{rotate: 1}]}", "a step has no key 'rotate'"},
      {"weight: model.layers.{layer}.mlp.up_proj.weight", "weight: {concat: {axis: 0, of: []}}",
       "a concat of nothing"},
      {"ignore_tensors: [\"*.rotary_emb.inv_freq\"]", "ignore_tensors: [\"[\"]", "llama.yaml"},
      {"optional: true", "optional: yes", "'optional' must be true or false"},
      {"default: silu, allowed", "default: 3, allowed", "3 must be a string"},
      {"allowed: [1.0]", "allowed: [one]", "\"one\" must be a number"},
      {"- block: gated_mlp", "- block: gated_mlp\n          name: \"a.{layer}\"",
       "a block's name is of letters, digits and _"},
      {"weight: model.layers.{layer}.mlp.up_proj.weight", "weight: {source: a, when: mlp_bias}",
       "'weight': only a bias can be absent"},
      {"count: num_hidden_layers", "count: layer", "'layer' is neither a config key nor a size"},
  };
  for (const Case &c : cases) {
    folder.write("llama.yaml", replace(getLlama(), c.from, c.to));
    diagnostics.text.clear();
    EXPECT_TRUE(mlir::failed(loadFamily(&context, folder.str() + "/llama.yaml", ""))) << c.to;
    EXPECT_THAT(diagnostics.text, HasSubstr(c.expected)) << c.to;
    EXPECT_THAT(diagnostics.text, HasSubstr("llama.yaml\":")) << c.to; // file and line
  }
}

TEST_F(FamilyFile, SizesThatDoNotFitAreToldWithPlace) {
  struct Case {
    const char *weight, *expected;
  };
  const Case cases[] = {
      {"{source: \"a.{layer}\", shape: [8, 8]}",
       "these steps end in [8, 8], but the block gated_mlp needs [12, 8]"},
      {"{source: \"a.{layer}\", shape: [20, 8], steps: [{slice: {axis: 0, from: 12, size: 12}}]}",
       "elements 12 to 24 of axis 0 are not in [20, 8]"},
      {"{source: \"a.{layer}\", shape: [20, 8], steps: [{reshape: [12, 8]}]}",
       "cannot reshape [20, 8] to [12, 8]"},
      {"{source: \"a.{layer}\", shape: [20], steps: [{transpose: [1, 0]}]}",
       "a transpose of 2 axes for [20]"},
      {"{concat: {axis: 0, of: [{source: \"a.{layer}\", shape: [6, 8]},"
       " {source: \"b.{layer}\", shape: [6, 9]}]}}",
       "cannot be put behind the part before it"},
      {"{source: \"a.{layer}\", shape: [hidden_size - 8, 8]}", "it must be an integer from 1"},
  };
  for (const Case &c : cases) {
    folder.write("llama.yaml",
                 replace(getLlama(), "model.layers.{layer}.mlp.up_proj.weight", c.weight));
    LlamaCheckpoint checkpoint;
    checkpoint.write();
    ImportOptions options = checkpoint.options();
    options.familyDirectories = {folder.str()};
    diagnostics.text.clear();
    EXPECT_TRUE(mlir::failed(loadModel(&context, options))) << c.weight;
    EXPECT_THAT(diagnostics.text, HasSubstr(c.expected)) << c.weight;
    EXPECT_THAT(diagnostics.text, HasSubstr("llama.yaml\":")) << c.weight;
  }
}

// A family whose checkpoints hold q, k and v in one tensor, and gate and up transposed: a new file,
// no new code.
TEST_F(FamilyFile, FusedWeights) {
  std::string text = getLlama();
  text = replace(text, "model_type: [llama]", "model_type: [fused]");
  text = replace(text, "family: llama", "family: fused");
  const std::string qkv = "{source: \"model.layers.{layer}.qkv.weight\", "
                          "shape: [(heads + 2 * kv_heads) * head_dim, hidden_size], "
                          "steps: [{slice: {axis: 0, from: FROM, size: SIZE}}]}";
  auto slice = [&](const char *from, const char *size) {
    return replace(replace(qkv, "FROM", from), "SIZE", size);
  };
  text =
      replace(text, "model.layers.{layer}.self_attn.q_proj.weight", slice("0", "heads * head_dim"));
  text = replace(text, "model.layers.{layer}.self_attn.k_proj.weight",
                 slice("heads * head_dim", "kv_heads * head_dim"));
  text = replace(text, "model.layers.{layer}.self_attn.v_proj.weight",
                 slice("(heads + kv_heads) * head_dim", "kv_heads * head_dim"));
  text = replace(text, "model.layers.{layer}.mlp.up_proj.weight",
                 "{source: \"model.layers.{layer}.up\", shape: [hidden_size, intermediate_size], "
                 "steps: [{transpose: [1, 0]}]}");
  text =
      replace(text, "model.layers.{layer}.mlp.down_proj.weight",
              "{concat: {axis: 0, of: [{source: \"model.layers.{layer}.down.a\", shape: [2, 12]}, "
              "{source: \"model.layers.{layer}.down.b\", shape: [6, 12]}]}}");
  folder.write("fused.yaml", text);

  LlamaCheckpoint checkpoint("F32");
  checkpoint.config["model_type"] = "fused";
  for (int layer = 0; layer < 2; ++layer) {
    for (const char *name :
         {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
          "mlp.up_proj.weight", "mlp.down_proj.weight"})
      checkpoint.tensors.erase(checkpoint.at(layer, name));
    checkpoint.tensors[checkpoint.at(layer, "qkv.weight")] = {"F32", {16, 8}, 0, true};
    checkpoint.tensors[checkpoint.at(layer, "up")] = {"F32", {8, 12}, 0, true};
    checkpoint.tensors[checkpoint.at(layer, "down.a")] = {"F32", {2, 12}, 0, true};
    checkpoint.tensors[checkpoint.at(layer, "down.b")] = {"F32", {6, 12}, 0, true};
  }
  checkpoint.write();
  ImportOptions options = checkpoint.options();
  options.familyDirectories = {folder.str()};
  auto module = importCheckpoint(&context, options);
  ASSERT_TRUE(module) << diagnostics.text;

  auto opened = weights::Checkpoint::open(checkpoint.folder.str());
  ASSERT_TRUE(opened.ok());
  /// The values of a param of layer 1. Element i of each source is i.
  auto evaluate = [&](llvm::StringRef name) {
    std::vector<float> values;
    module->walk([&](ParamOp param) {
      if (param.getName() != name)
        return;
      schema::Recipe recipe;
      ASSERT_TRUE(mlir::succeeded(toRecipe(param, recipe))) << diagnostics.text;
      weights::Bindings bindings;
      bindings.indices["layer"] = 1;
      values = evaluateFloats(recipe, **opened, bindings);
    });
    return values;
  };
  std::vector<float> key = evaluate("layers.{layer}.attention.key.weight");
  ASSERT_EQ(key.size(), 32u);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(key[i], 64 + i);
  std::vector<float> value = evaluate("layers.{layer}.attention.value.weight");
  ASSERT_EQ(value.size(), 32u);
  EXPECT_EQ(value[0], 96);
  EXPECT_EQ(value[31], 127);
  std::vector<float> up = evaluate("layers.{layer}.gated_mlp.up.weight");
  ASSERT_EQ(up.size(), 96u);
  for (int row = 0; row < 12; ++row)
    for (int column = 0; column < 8; ++column)
      EXPECT_EQ(up[row * 8 + column], column * 12 + row);
  std::vector<float> down = evaluate("layers.{layer}.gated_mlp.down.weight");
  ASSERT_EQ(down.size(), 96u);
  EXPECT_EQ(down[23], 23);
  EXPECT_EQ(down[24], 0);
  EXPECT_EQ(down[95], 71);
}

TEST_F(FamilyFile, EarlierFoldersWin) {
  folder.write("llama.yaml", replace(getLlama(), "default: silu, allowed: [silu,",
                                     "default: silu, allowed: [relu, silu,"));
  LlamaCheckpoint checkpoint;
  checkpoint.config["hidden_act"] = "relu";
  checkpoint.write();
  ImportOptions options = checkpoint.options();
  options.familyDirectories = {folder.str()};
  EXPECT_TRUE(mlir::failed(loadModel(&context, options)));
  EXPECT_THAT(diagnostics.text, HasSubstr("there is no activation 'relu'"));
  options.familyDirectories = {"/nonexistent"};
  EXPECT_TRUE(mlir::failed(loadModel(&context, options)));
  EXPECT_THAT(diagnostics.text, HasSubstr("/nonexistent: not a folder of model families"));
}

} // namespace
