// What a config.json may say, and what becomes of it.
#include "LlamaCheckpoint.h"
#include "gmock/gmock.h"

using namespace adapt;
using namespace adapt::test;
using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

class Config : public testing::Test {
protected:
  /// The diagnostics of loading a llama of this config; empty if it loads.
  std::string load(llvm::StringRef key, Value value, llvm::StringRef modelType = "llama") {
    LlamaCheckpoint checkpoint;
    checkpoint.tensors.clear();
    checkpoint.config["model_type"] = modelType;
    checkpoint.config[key] = std::move(value);
    checkpoint.write();
    diagnostics.text.clear();
    ImportOptions options = checkpoint.options();
    options.allowAbsentWeights = true;
    bool loads = mlir::succeeded(loadModel(&context, options));
    EXPECT_EQ(loads, diagnostics.text.empty()) << key.str();
    return diagnostics.text;
  }
  mlir::MLIRContext context;
  Diagnostics diagnostics{&context};
};

TEST_F(Config, Refused) {
  struct Case {
    const char *key;
    Value value;
    const char *expected;
  };
  const Case cases[] = {
      {"hidden_act", "relu",
       "hidden_act = \"relu\" is not supported by the family llama; supported: \"silu\", \"gelu\", "
       "\"gelu_pytorch_tanh\""},
      {"hidden_act", 3, "hidden_act = 3: must be a string"},
      {"hidden_size", 0, "hidden_size = 0: must be an integer from 1 to 2147483647"},
      {"hidden_size", -8, "hidden_size = -8: must be"},
      {"hidden_size", 8.5, "hidden_size = 8.5: must be"},
      {"hidden_size", "8", "hidden_size = \"8\": must be"},
      {"hidden_size", int64_t(1) << 40, "hidden_size = 1099511627776: must be"},
      {"hidden_size", nullptr, "hidden_size is null; the family llama needs it"},
      {"hidden_size", 9, "9 / 2 is not a whole number"},
      {"num_attention_heads", 3, "3 is not a whole number"},
      {"num_key_value_heads", 3,
       "num_key_value_heads must divide num_attention_heads (heads = 2, "
       "kv_heads = 3)"},
      {"num_hidden_layers", 1 << 30, "1073741824 layers; the limit is 10000"},
      {"head_dim", 5, "rope needs an even number of elements, not 5"},
      {"rms_norm_eps", "1e-6", "rms_norm_eps = \"1e-6\": must be a number"},
      {"rms_norm_eps", -1, "rms_norm_eps = -1: must be at least 0"},
      {"attention_bias", 1, "attention_bias = 1: must be true or false"},
      {"pretraining_tp", 2,
       "pretraining_tp = 2 is not supported by the family llama; supported: 1"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor = 0.5 is not supported"},
      {"rope_interleaved", true, "rope_interleaved = true is not supported"},
      {"is_encoder_decoder", true, "is_encoder_decoder = true is not supported; supported: false"},
      {"pruned_heads", Object{{"0", Array{1}}}, "pruned_heads = {\"0\":[1]} is not supported"},
      {"rope_scaling", Object{{"type", "yarn"}, {"factor", 2.0}},
       "rope scaling of kind 'yarn' is not supported; supported are default, linear and llama3"},
      {"rope_parameters", Object{{"rope_type", "longrope"}, {"rope_theta", 1e4}},
       "rope scaling of kind 'longrope' is not supported"},
      {"rope_parameters", Object{{"rope_type", "default"}, {"partial_rotary_factor", 0.25}},
       "does not know partial_rotary_factor = 0.25"},
      {"rope_theta", 0, "theta above 0"},
      {"rope_scaling", "linear", "rope_scaling = \"linear\": must be a map"},
      // Keys that nobody knows.
      {"num_experts", 8, "num_experts = 8 is not known to the family llama"},
      {"sliding_window", 4096, "sliding_window = 4096 is not known to the family llama"},
      {"quantization_config", Object{{"bits", 4}},
       "quantization_config = {\"bits\":4} is not known"},
      {"hiden_size", 8,
       "hiden_size = 8 is not known to the family llama (did you mean "
       "'hidden_size'?)"},
      {"text_config", Object{{"tie_word_embeddings", true}}, "is not known to the family llama"},
      // Token ids.
      {"eos_token_id", 16, "eos_token_id = 16; token ids go from 0 to 15"},
      {"eos_token_id", Array{1, -1}, "token ids go from 0 to 15"},
      {"bos_token_id", "<s>", "bos_token_id = \"<s>\""},
      // The model's kind and type.
      {"model_type", "lama", "no family has model_type 'lama' (did you mean 'llama'?)"},
      {"model_type", "mixtral", "known: llama, qwen3"},
      {"dtype", "float8_e4m3fn",
       "dtype = \"float8_e4m3fn\" is not supported; supported: float32, bfloat16, float16"},
      {"torch_dtype", 16, "dtype = 16 is not supported"},
  };
  for (const Case &c : cases)
    EXPECT_THAT(load(c.key, c.value), HasSubstr(c.expected));
}

TEST_F(Config, Qwen3Refused) {
  struct Case {
    const char *key;
    Value value;
    const char *expected;
  };
  const Case cases[] = {
      {"use_sliding_window", true,
       "use_sliding_window = true is not supported by the family qwen3"},
      {"layer_types", Array{"full_attention", "sliding_attention"},
       "layer 1 is of no variant of the family qwen3"},
      {"layer_types", Array{"full_attention"}, "layer_types must have an entry for each of"},
      {"num_key_value_heads", nullptr, "num_key_value_heads is null; the family qwen3 needs it"},
      {"mlp_bias", true, "mlp_bias = true is not known to the family qwen3"},
  };
  for (const Case &c : cases)
    EXPECT_THAT(load(c.key, c.value, "qwen3"), HasSubstr(c.expected));
}

TEST_F(Config, Accepted) {
  const std::pair<const char *, Value> cases[] = {
      {"hidden_act", "gelu"},
      {"rope_scaling", nullptr},
      {"rope_scaling", Object{{"type", "linear"}, {"factor", 2}}},
      {"num_key_value_heads", nullptr},
      {"transformers_version", "5.24.0"},
      {"attention_dropout", 0.1},
      {"torch_dtype", "torch.bfloat16"},
      {"eos_token_id", Array{1, 2}},
      {"eos_token_id", nullptr},
      {"pruned_heads", Object{}},
      {"is_encoder_decoder", nullptr},
  };
  for (const auto &[key, value] : cases)
    EXPECT_EQ(load(key, value), "");
}

TEST_F(Config, AllProblemsAtOnce) {
  LlamaCheckpoint checkpoint;
  checkpoint.config["hidden_act"] = "relu";
  checkpoint.config["num_experts"] = 8;
  checkpoint.config["mlp_bias"] = "no";
  checkpoint.config.erase("vocab_size");
  EXPECT_TRUE(mlir::failed(checkpoint.load(&context)));
  for (const char *key : {"hidden_act", "num_experts", "mlp_bias", "vocab_size is missing"})
    EXPECT_THAT(diagnostics.text, HasSubstr(checkpoint.folder.str() + "/config.json: " + key));
}

TEST_F(Config, Files) {
  const std::pair<std::string, const char *> cases[] = {
      {"", "not valid JSON"},
      {"[1]", "must hold a JSON object"},
      {"{\"a\": ", "not valid JSON"},
      {"{\"a\": \"\xff\"}", "not valid JSON"},
      {std::string(100000, '['), "nested more than 100 levels deep"},
      {"{}", "no model_type, and no family has the architectures []"},
      {"{\"architectures\": [\"GPT2LMHeadModel\"]}", "architectures [GPT2LMHeadModel]"},
      {"{\"model_type\": \"llama\"}", "hidden_size is missing"},
  };
  for (const auto &[text, expected] : cases) {
    TempFolder folder;
    folder.write("config.json", text);
    ImportOptions options;
    options.path = folder.str();
    options.allowAbsentWeights = true;
    diagnostics.text.clear();
    EXPECT_TRUE(mlir::failed(loadModel(&context, options))) << text.substr(0, 50);
    EXPECT_THAT(diagnostics.text, HasSubstr(expected)) << text.substr(0, 50);
    EXPECT_THAT(diagnostics.text, HasSubstr("config.json")) << text.substr(0, 50);
  }
  ImportOptions options;
  options.path = "/nonexistent";
  diagnostics.text.clear();
  EXPECT_TRUE(mlir::failed(loadModel(&context, options)));
  EXPECT_THAT(diagnostics.text, HasSubstr("/nonexistent: not a folder"));
  TempFolder empty;
  options.path = empty.str();
  EXPECT_TRUE(mlir::failed(loadModel(&context, options)));
  EXPECT_THAT(diagnostics.text, HasSubstr("config.json: cannot be read"));
}

TEST_F(Config, ArchitecturesStandInForModelType) {
  LlamaCheckpoint checkpoint;
  checkpoint.config.erase("model_type");
  checkpoint.config["architectures"] = Array{"LlamaForCausalLM"};
  auto loaded = checkpoint.load(&context);
  ASSERT_TRUE(mlir::succeeded(loaded)) << diagnostics.text;
  EXPECT_EQ(loaded->model.family, "llama");
}

TEST_F(Config, TokenIds) {
  LlamaCheckpoint checkpoint;
  checkpoint.config["bos_token_id"] = 1;
  checkpoint.config["eos_token_id"] = 2;
  // The generation config has the last word on what it says.
  checkpoint.folder.write("generation_config.json", "{\"eos_token_id\": [3, 4]}");
  auto loaded = checkpoint.load(&context);
  ASSERT_TRUE(mlir::succeeded(loaded)) << diagnostics.text;
  EXPECT_THAT(loaded->model.bosTokenIds, ElementsAre(1));
  EXPECT_THAT(loaded->model.eosTokenIds, ElementsAre(3, 4));
  checkpoint.folder.write("generation_config.json", "{\"eos_token_id\": 99}");
  EXPECT_TRUE(mlir::failed(checkpoint.load(&context)));
  EXPECT_THAT(diagnostics.text, HasSubstr("generation_config.json says eos_token_id = 99"));
}

TEST_F(Config, RopeThetaOfBothForms) {
  const std::pair<const char *, Value> cases[] = {
      {"rope_theta", 500.0},
      {"rope_parameters", Object{{"rope_theta", 500.0}, {"rope_type", "default"}}}};
  for (const auto &[key, value] : cases) {
    LlamaCheckpoint checkpoint;
    checkpoint.config[key] = value;
    auto loaded = checkpoint.load(&context);
    ASSERT_TRUE(mlir::succeeded(loaded)) << diagnostics.text;
    EXPECT_THAT(loaded->model.inverseFrequencies, ElementsAre(1.0f, testing::FloatEq(0.04472136f)));
  }
  LlamaCheckpoint both;
  both.config["rope_parameters"] = Object{{"rope_theta", 500.0}};
  both.config["rope_scaling"] = Object{{"rope_theta", 600.0}};
  EXPECT_TRUE(mlir::failed(both.load(&context)));
  EXPECT_THAT(diagnostics.text, HasSubstr("contradict each other"));
}

TEST_F(Config, Dtype) {
  struct Case {
    const char *option;
    Value config;
    const char *stored;
    std::string expected, origin;
  };
  const Case cases[] = {
      {"auto", "float16", "BF16", "f16", "config.json"},
      {"auto", "bfloat16", "F32", "bf16", "config.json"},
      {"auto", nullptr, "BF16", "bf16", "the stored tensors"},
      {"auto", nullptr, "F64", "f32", "the stored tensors"},
      {"float32", "bfloat16", "BF16", "f32", "--dtype"},
      {"bfloat16", nullptr, "F32", "bf16", "--dtype"},
  };
  for (const Case &c : cases) {
    LlamaCheckpoint checkpoint(c.stored);
    checkpoint.config["dtype"] = c.config;
    checkpoint.write();
    ImportOptions options = checkpoint.options();
    options.dtype = c.option;
    auto loaded = loadModel(&context, options);
    ASSERT_TRUE(mlir::succeeded(loaded)) << diagnostics.text;
    std::string text;
    llvm::raw_string_ostream(text) << loaded->model.dtype;
    EXPECT_EQ(text, c.expected);
    EXPECT_EQ(loaded->model.dtypeOrigin, c.origin);
    EXPECT_TRUE(bool(importCheckpoint(&context, options))) << diagnostics.text;
  }
  LlamaCheckpoint checkpoint;
  checkpoint.write();
  ImportOptions options = checkpoint.options();
  options.dtype = "int8";
  EXPECT_TRUE(mlir::failed(loadModel(&context, options)));
  EXPECT_THAT(diagnostics.text, HasSubstr("there is no dtype 'int8'"));
}

// Counted by transformers on the meta device; the parts' names are theirs but for mlp
// ("mlp_other").
TEST_F(Config, Parameters70B) {
  ImportOptions options;
  options.path = ADAPT_TEST_DIR "/import/data/llama-70b-like";
  options.allowAbsentWeights = true;
  auto loaded = loadModel(&context, options);
  ASSERT_TRUE(mlir::succeeded(loaded)) << diagnostics.text;
  const Model &model = loaded->model;
  EXPECT_THAT(model.countParameters(),
              ElementsAre(std::pair("attention", 12079595520), std::pair("embed", 1050673152),
                          std::pair("head", 1050673152), std::pair("mlp", 56371445760),
                          std::pair("norm", 1318912)));
  EXPECT_EQ(model.layers.size(), 80u);
  EXPECT_EQ(model.layerKinds.size(), 1u);
  EXPECT_EQ(model.dtypeOrigin, "assumed");
  EXPECT_EQ(model.getStateBytesPerToken(), 327680); // in bf16
  EXPECT_TRUE(model.weightsAreAbsent);
  // Without the option it is an error that no weights are there.
  options.allowAbsentWeights = false;
  EXPECT_TRUE(mlir::failed(loadModel(&context, options)));
  EXPECT_THAT(diagnostics.text, HasSubstr("llama-70b-like"));
}

TEST_F(Config, TinyModelsCount) {
  // meta.json of the checkpoints, counted by transformers.
  for (auto [name, expected] : {std::pair("llama", 156224), std::pair("qwen3", 156352)}) {
    ImportOptions options;
    options.path = std::string(ADAPT_TEST_DIR "/e2e/data/tiny-") + name;
    auto loaded = loadModel(&context, options);
    ASSERT_TRUE(mlir::succeeded(loaded)) << diagnostics.text;
    int64_t total = 0;
    for (const auto &[part, count] : loaded->model.countParameters())
      total += count;
    EXPECT_EQ(total, expected) << name;
  }
}

} // namespace
