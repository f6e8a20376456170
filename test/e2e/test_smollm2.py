"""SmolLM2-135M-Instruct against transformers (data/smollm2-goldens.json, data/README.md).

Needs the checkpoint of scripts/make_smollm2.py: $ADAPT_SMOLLM2, else SmolLM2-135M in the root.
"""

import hashlib
import json
import os
import pathlib
import unittest

import numpy as np

from support import DATA, ROOT, TestCase, compile_bundle, run_greedy, run_logits, tool
from test_ranks import Arrays, ways

CHECKPOINT = pathlib.Path(os.environ.get("ADAPT_SMOLLM2", ROOT / "SmolLM2-135M"))


class SmolLM2:
    dtype = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        goldens = json.loads((DATA / "smollm2-goldens.json").read_text())
        with open(CHECKPOINT / "model.safetensors", "rb") as weights:
            digest = hashlib.file_digest(weights, "sha256").hexdigest()
        if digest != goldens["model_safetensors_sha256"]:
            raise AssertionError(f"{CHECKPOINT} is not the checkpoint that the goldens were made from")
        cls.cases, cls.bf16_error = goldens["cases"], goldens["bf16_error"]
        cls.bundle = compile_bundle(CHECKPOINT, cls.folder / "smol.bundle", f"--dtype={cls.dtype}")
        cls.rows = [np.array(c["prompt_ids"] + c["greedy_ids"]) for c in cls.cases]

    def check(self, case, logits):
        raise NotImplementedError

    def test_all_prompts_in_one_ragged_batch(self):
        for case, logits in zip(self.cases, run_logits(self.bundle, self.rows), strict=True):
            self.check(case, logits)

    def test_token_by_token(self):
        logits, = run_logits(self.bundle, self.rows[:1], "--chunk", 1)
        self.check(self.cases[0], logits)

    def test_same_bits_with_any_number_of_threads(self):
        one = run_logits(self.bundle, self.rows[:1], "--threads", 1)
        self.assertSameBits(run_logits(self.bundle, self.rows[:1], "--threads", 3), one)


class SmolLM2Float32(SmolLM2, TestCase):
    dtype = "float32"

    def check(self, case, logits):
        """The 64 greedy tokens, each the best after those before it."""
        found = logits.argmax(-1)[len(case["prompt_ids"]) - 1:-1]
        self.assertEqual(found.tolist(), case["greedy_ids"], case["prompt"])
        second, best = np.partition(logits, -2, axis=-1)[:, -2:].T
        self.assertLess(np.abs(best - second - case["margin"]).max(), 1e-3, case["prompt"])
        self.assertLess(abs(np.abs(logits).max() / case["largest_logit"] - 1), 1e-4, case["prompt"])

    def test_greedy(self):
        prompts = [case["prompt_ids"] for case in self.cases]
        expected = [case["greedy_ids"] for case in self.cases]
        self.assertEqual(run_greedy(self.bundle, prompts, 64).tolist(), expected)

    def test_text(self):
        """What adapt-run writes: the text up to the end token, if there is one within 64 tokens."""
        for case in self.cases:
            expected = case["greedy_text"].split("<|im_end|>")[0]
            done = tool("adapt-run", self.bundle, "--prompt", case["prompt"], "--max-tokens", 64)
            self.assertEqual(done.stdout.decode().rstrip("\n"), expected.rstrip("\n"), case["prompt"])


class SmolLM2Ranks(TestCase):
    """9 query and 3 key/value heads on ranks that do not divide them: the same 32 tokens."""

    def test_greedy(self):
        case = json.loads((DATA / "smollm2-goldens.json").read_text())["cases"][0]
        for tp, pp in ((2, 1), (4, 1), (1, 2), (2, 2)):
            bundle = compile_bundle(CHECKPOINT, self.folder / "ranks.bundle", "--dtype=float32", "--max-seq-len=512",
                                    f"--tp={tp}", f"--pp={pp}")
            with Arrays([np.array(case["prompt_ids"])]) as arrays:
                for name, way in ways(tp * pp).items():
                    self.assertEqual(arrays.greedy(way, bundle, 32)[0].tolist(), case["greedy_ids"][:32],
                                     f"tp={tp} pp={pp}, {name}")


class SmolLM2BFloat16(SmolLM2, TestCase):
    dtype = "bfloat16"

    def check(self, case, logits):
        """The best token wherever bfloat16 can tell: it leads by more than twice what transformers errs."""
        clear = np.array(case["margin"]) > 2 * self.bf16_error
        self.assertGreater(clear.sum(), 0)
        found, expected = logits.argmax(-1), np.array(case["argmax"])
        wrong = np.flatnonzero(clear & (found != expected))
        self.assertEqual(wrong.tolist(), [], f"{case['prompt']!r}: {found[wrong]}, not {expected[wrong]}")
        # That judges a position in four; of all of them it should still be most.
        self.assertGreater((found == expected).mean(), 0.9, case["prompt"])

    def test_quickstart(self):
        done = tool("adapt-run", self.bundle, "--prompt", "The capital of France is", "--max-tokens", 32)
        self.assertIn(" Paris.", done.stdout.decode())


class SmolLM2OnGpus(TestCase):
    def test_first_greedy_tokens_on_simulated_gpus(self):
        """Of the shortest prompt, in the checkpoint's type: its first tokens are clear in bfloat16 too."""
        cases = json.loads((DATA / "smollm2-goldens.json").read_text())["cases"]
        case = min(cases, key=lambda case: len(case["prompt_ids"]))
        for target in ("cuda:sm_90", "hip:gfx942"):
            bundle = self.folder / f"{target[-5:]}.bundle"
            tool("adaptc", CHECKPOINT, f"--target={target}", "--sim", "-o", bundle)
            found = run_greedy(bundle, [case["prompt_ids"]], 4, "--device=sim")
            self.assertEqual(found[0].tolist(), case["greedy_ids"][:4], target)


class Sharded(TestCase):
    """The interpreter on planned programs of several ranks: 9 query and 3 key/value heads are padded to 12 and 4."""

    def logits(self, name, *options):
        module, ids, out = (self.folder / f"{name}{suffix}" for suffix in (".mlir", ".ids.npy", ".npy"))
        module.write_bytes(tool("adaptc", CHECKPOINT, "--target=cpu", "--compile-to=plan", *options).stdout)
        np.save(ids, np.array([[504, 3575, 282, 4649, 314]]))  # "The capital of France is"
        tool("adapt-interpret", module, "--weights", CHECKPOINT, "--tokens", ids, "--logits", out)
        return list(np.load(out))

    def test_logits(self):
        whole = self.logits("whole")
        for options in (["--tp=4"], ["--tp=2", "--pp=2"]):
            self.assertClose(self.logits("ranks", *options), whole, 1e-5, str(options))


if __name__ == "__main__":
    unittest.main()
