#!/usr/bin/env python3
"""Makes test/e2e/data/smollm2-goldens.json: what transformers computes for SmolLM2-135M-Instruct.

    python3 -m venv VENV && VENV/bin/pip install torch==2.13.0 transformers==5.24.0
    VENV/bin/python scripts/goldens/smollm2.py SmolLM2-135M [-o FILE]

The checkpoint is the one of scripts/make_smollm2.py, whose hash is stored in the result. Run once and committed: torch is large,
and neither building nor testing needs it. docs of the fields: test/e2e/data/README.md.
"""

import argparse
import hashlib
import json
import pathlib

import torch
import transformers
from tokenizers import Tokenizer

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n",
    "Water boils at 100 degrees Celsius because",
    "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n",
]
NEW_TOKENS = 64


def load(directory, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)
    return model.eval()


def logits(model, ids):
    """f32 logits [len(ids), vocabulary] of one whole pass."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def greedy(model, prompt):
    """NEW_TOKENS tokens, each the argmax of a whole pass: no cache, and no stop at end of sequence."""
    ids = list(prompt)
    for _ in range(NEW_TOKENS):
        ids.append(int(logits(model, ids)[-1].argmax()))
    return ids[len(prompt):]


def rounded(values):
    return [float(f"{v:.6g}") for v in values.tolist()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=pathlib.Path)
    default = pathlib.Path(__file__).parents[2] / "test/e2e/data/smollm2-goldens.json"
    parser.add_argument("-o", "--output", type=pathlib.Path, default=default)
    args = parser.parse_args()

    tokenizer = Tokenizer.from_file(str(args.checkpoint / "tokenizer.json"))
    exact = load(args.checkpoint, torch.float32)
    rough = load(args.checkpoint, torch.bfloat16)
    eos = exact.config.eos_token_id

    cases = []
    for prompt in PROMPTS:
        prompt_ids = tokenizer.encode(prompt).ids
        new_ids = greedy(exact, prompt_ids)
        reference = logits(exact, prompt_ids + new_ids)
        top2 = reference.topk(2).values
        cases.append({
            "prompt": prompt,
            "prompt_ids": prompt_ids,
            "greedy_ids": new_ids,
            "greedy_text": tokenizer.decode(new_ids, skip_special_tokens=False),
            "ends": eos in new_ids,
            "argmax": reference.argmax(-1).tolist(),
            "margin": rounded(top2[:, 0] - top2[:, 1]),
            "largest_logit": float(reference.abs().max()),
            "bf16_error": float((logits(rough, prompt_ids + new_ids) - reference).abs().max()),
        })
        print(repr(prompt), repr(cases[-1]["greedy_text"]), "smallest margin", min(cases[-1]["margin"]),
              "bf16 error", cases[-1]["bf16_error"])

    with open(args.checkpoint / "model.safetensors", "rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    result = {
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "model_safetensors_sha256": digest,
        "bf16_error": max(case["bf16_error"] for case in cases),
        "cases": cases,
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    args.output.write_text(text + "\n", encoding="utf-8")
    judged = sum(m > 2 * result["bf16_error"] for case in cases for m in case["margin"])
    total = sum(len(case["margin"]) for case in cases)
    print(f"bf16 error {result['bf16_error']:.4f}: {judged} of {total} positions are judged in bfloat16")


if __name__ == "__main__":
    main()
