"""Limits of time and memory, for two idle cores: scripts/test --full.

The giant is a llama of 70 billion parameters whose files are sparse: headers and holes.
"""

import json
import os
import pathlib
import subprocess
import time
import unittest

import numpy as np

from support import BUILD, TestCase
from test_smollm2 import CHECKPOINT


def measure(name, *args):
    """Runs a tool; its output, seconds and largest resident memory in MB (10^6 bytes)."""
    start = time.monotonic()
    command = [str(BUILD / "bin" / name), *map(str, args)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    if process.returncode:
        raise AssertionError(f"exit code {process.returncode} of {' '.join(command)}\n{output.decode()[-4000:]}")
    return output, seconds, usage.ru_maxrss * 1024 / 1e6


def write_giant(folder, layers):
    """A llama of 70 B parameters at 80 layers, one file a layer and one for the rest; returns the parameters."""
    hidden, inner, heads, kv_heads, head_dim, vocab = 8192, 28672, 64, 8, 128, 128256
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
        "vocab_size": vocab, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False,
        "bos_token_id": 1, "eos_token_id": 2}))
    layer = {
        "input_layernorm": [hidden], "post_attention_layernorm": [hidden],
        "self_attn.q_proj": [heads * head_dim, hidden], "self_attn.k_proj": [kv_heads * head_dim, hidden],
        "self_attn.v_proj": [kv_heads * head_dim, hidden], "self_attn.o_proj": [hidden, heads * head_dim],
        "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}
    files = [{f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()} for i in range(layers)]
    files.append({"model.embed_tokens.weight": [vocab, hidden], "lm_head.weight": [vocab, hidden],
                  "model.norm.weight": [hidden]})
    index, total = {}, 0
    for number, tensors in enumerate(files, 1):
        path = f"model-{number:05}-of-{len(files):05}.safetensors"
        header, offset = {}, 0
        for name, shape in tensors.items():
            size = 2 * int(np.prod(shape))
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
            index[name] = path
            offset += size
        text = json.dumps(header).encode()
        with open(folder / path, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            out.truncate(8 + len(text) + offset)
        total += offset
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": index}))
    return total // 2


class Limits(TestCase):
    def test_smollm2(self):
        cache = self.folder / "cache"
        for limit, what in ((20, "empty"), (5, "full")):
            _, seconds, megabytes = measure("adaptc", CHECKPOINT, "--target=cpu", "--kernel-cache", cache,
                                            "-o", self.folder / f"{what}.bundle")
            print(f"[{what} kernel cache: {seconds:.1f} s, {megabytes:.0f} MB]", end=" ")
            self.assertLess(seconds, limit, f"{what} kernel cache")
            self.assertLess(megabytes, 900, f"{what} kernel cache")

    def test_giant(self):
        parameters = write_giant(self.folder / "giant", 80)
        self.assertEqual(parameters, 70_553_706_496)
        write_giant(self.folder / "sibling", 8)

        output, seconds, megabytes = measure("adaptc", "plan", self.folder / "giant", "--target=cpu")
        print(f"[plan: {seconds:.1f} s, {megabytes:.0f} MB]", end=" ")
        self.assertIn(str(parameters), output.decode())
        self.assertLess(seconds, 2)
        self.assertLess(megabytes, 300)

        cache = self.folder / "kernels"
        build = lambda name, run: measure(
            "adaptc", self.folder / name, "--target=cpu", "--weights=reference", "--kernel-cache", cache,
            "-o", self.folder / f"{name}-{run}.bundle")[1]
        build("sibling", "first")  # fills the cache: what is compared is what grows with depth
        shallow, deep = (min(build(name, run) for run in range(3)) for name in ("sibling", "giant"))
        print(f"[reference build: {shallow:.2f} s of 8 layers, {deep:.2f} s of 80]", end=" ")
        self.assertLess(deep, 1.5 * shallow)


if __name__ == "__main__":
    unittest.main()
