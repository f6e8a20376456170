"""Makes variants/: tiny checkpoints of config values that the families support, with reference outputs.

Needs torch 2.13 and transformers 5.24: python make_variants.py [FOLDER]
Weights are random and stored in bfloat16; expected.safetensors holds `input_ids` [1, 12] (i64) and `logits`
[1, 12, 64] (f32), computed by transformers in f32 from the stored weights.
"""
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

BASE = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.1, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64, rope_theta=10000.0)
VARIANTS = {
    "llama-bias": (LlamaConfig, LlamaForCausalLM, dict(attention_bias=True, mlp_bias=True, hidden_act="gelu")),
    "llama-tied": (LlamaConfig, LlamaForCausalLM,
                   dict(tie_word_embeddings=True, hidden_act="gelu_pytorch_tanh", rms_norm_eps=1e-3)),
    "llama-head-dim": (LlamaConfig, LlamaForCausalLM, dict(head_dim=12, num_key_value_heads=1)),
    "llama-rope-linear": (LlamaConfig, LlamaForCausalLM,
                          dict(rope_scaling=dict(rope_type="linear", factor=4.0, rope_theta=500.0))),
    "llama-rope-llama3": (LlamaConfig, LlamaForCausalLM, dict(rope_scaling=LLAMA3)),
    "qwen3-bias-tied": (Qwen3Config, Qwen3ForCausalLM,
                        dict(head_dim=16, attention_bias=True, tie_word_embeddings=True)),
}

root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "variants")
for name, (config_class, model_class, options) in VARIANTS.items():
    torch.manual_seed(1)
    config = config_class(**{**BASE, **options})
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim <= 1:  # so that no norm is one and no bias zero
                parameter.add_(0.1 * torch.randn_like(parameter))
            parameter.copy_(parameter.bfloat16())  # parameters only: rope's frequencies stay f32
    folder = os.path.join(root, name)
    ids = torch.randint(3, 60, (1, 12), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits
    model.to(torch.bfloat16).save_pretrained(folder)
    save_file({"input_ids": ids, "logits": logits.contiguous()}, os.path.join(folder, "expected.safetensors"))
    if os.path.exists(os.path.join(folder, "generation_config.json")):
        os.remove(os.path.join(folder, "generation_config.json"))
