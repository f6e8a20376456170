// A small llama checkpoint whose config and tensors a test may change before it is written.
#pragma once

#include "TestCheckpoint.h"
#include "adapt/Import/Checkpoint.h"

namespace adapt::test {

struct LlamaCheckpoint {
  TempFolder folder;
  llvm::json::Object config;
  std::map<std::string, TestTensor> tensors;

  explicit LlamaCheckpoint(const std::string &dtype = "F32") {
    config = llvm::json::Object{{"model_type", "llama"},    {"vocab_size", 16},
                                {"hidden_size", 8},         {"intermediate_size", 12},
                                {"num_hidden_layers", 2},   {"num_attention_heads", 2},
                                {"num_key_value_heads", 1}, {"max_position_embeddings", 32}};
    tensors["model.embed_tokens.weight"] = {dtype, {16, 8}, 1};
    tensors["lm_head.weight"] = {dtype, {16, 8}, 2};
    tensors["model.norm.weight"] = {dtype, {8}};
    for (int layer = 0; layer < 2; ++layer) {
      tensors[at(layer, "input_layernorm.weight")] = {dtype, {8}};
      tensors[at(layer, "post_attention_layernorm.weight")] = {dtype, {8}};
      tensors[at(layer, "self_attn.q_proj.weight")] = {dtype, {8, 8}};
      tensors[at(layer, "self_attn.k_proj.weight")] = {dtype, {4, 8}};
      tensors[at(layer, "self_attn.v_proj.weight")] = {dtype, {4, 8}};
      tensors[at(layer, "self_attn.o_proj.weight")] = {dtype, {8, 8}};
      tensors[at(layer, "mlp.gate_proj.weight")] = {dtype, {12, 8}};
      tensors[at(layer, "mlp.up_proj.weight")] = {dtype, {12, 8}};
      tensors[at(layer, "mlp.down_proj.weight")] = {dtype, {8, 12}};
    }
  }

  static std::string at(int layer, const std::string &name) {
    return "model.layers." + std::to_string(layer) + "." + name;
  }

  void write() const {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(llvm::json::Object(config));
    folder.write("config.json", text);
    if (!tensors.empty())
      folder.write("model.safetensors", makeSafetensors(tensors));
  }

  ImportOptions options() const {
    ImportOptions options;
    options.path = folder.str();
    return options;
  }

  mlir::FailureOr<LoadedModel> load(mlir::MLIRContext *context) const {
    write();
    return loadModel(context, options());
  }
  mlir::OwningOpRef<mlir::ModuleOp> import(mlir::MLIRContext *context) const {
    write();
    return importCheckpoint(context, options());
  }
};

} // namespace adapt::test
