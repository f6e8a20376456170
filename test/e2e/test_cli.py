"""Exit codes and messages of the tools: 1 for an input that can't be done, 2 for wrong usage."""

import json
import shutil
import unittest

import numpy as np

from support import DATA, ROOT, TestCase, compile_bundle, run_logits, tool


class CommandLine(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bundle = compile_bundle(DATA / "tiny-llama", cls.folder / "tiny.bundle")

    def assertSays(self, done, *words):
        text = done.stderr.decode()
        for word in words:
            self.assertIn(str(word), text)

    def copy(self, source, name):
        """A copy of a checkpoint or bundle that the test may spoil."""
        target = self.folder / name
        shutil.copytree(source, target)
        return target

    def save_ids(self, ids):
        path = self.folder / "ids.npy"
        np.save(path, np.asarray(ids))
        return path

    def test_version(self):
        for name in ("adaptc", "adapt-run"):
            self.assertRegex(tool(name, "--version").stdout.decode(), r"\d+\.\d+\.\d+")
        self.assertIn("22.", tool("adaptc", "--version").stdout.decode())

    def test_wrong_usage(self):
        self.assertSays(tool("adaptc", "--no-such-option", code=2), "--no-such-option")
        self.assertSays(tool("adapt-run", self.bundle, "--no-such-option", code=2), "--no-such-option")
        tool("adaptc", code=2)
        tool("adapt-run", code=2)

    def test_no_checkpoint(self):
        done = tool("adaptc", self.folder / "nowhere", "--target=cpu", "-o", self.folder / "n.bundle", code=1)
        self.assertSays(done, "nowhere")
        self.assertFalse((self.folder / "n.bundle").exists())

    def test_unknown_target(self):
        done = tool("adaptc", DATA / "tiny-llama", "--target=abacus", "-o", self.folder / "a.bundle", code=1)
        self.assertSays(done, "abacus", "cpu")

    def test_target_of_ones_own_runs_on_its_code_generators_device(self):
        (self.folder / "mine.yaml").write_text(
            (ROOT / "targets/cpu.yaml").read_text().replace("target: cpu", "target: mine"))
        mine = self.folder / "mine.bundle"
        tool("adaptc", DATA / "tiny-llama", "--target=mine", "--target-dir", self.folder, "-o", mine)
        self.assertEqual(json.loads((mine / "manifest.json").read_text())["target"]["name"], "cpu")
        rows = [[1, 2, 3, 4, 5]]
        self.assertSameBits(run_logits(mine, rows), run_logits(self.bundle, rows))

    def test_config_value_of_no_family_is_refused_by_name(self):
        checkpoint = self.copy(DATA / "tiny-llama", "odd")
        config = json.loads((checkpoint / "config.json").read_text())
        config["hidden_act"] = "squircle"
        (checkpoint / "config.json").write_text(json.dumps(config))
        done = tool("adaptc", checkpoint, "--target=cpu", "-o", self.folder / "odd.bundle", code=1)
        self.assertSays(done, "hidden_act", "squircle")

    def test_truncated_weights(self):
        checkpoint = self.copy(DATA / "tiny-llama", "short")
        weights = checkpoint / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        done = tool("adaptc", checkpoint, "--target=cpu", "-o", self.folder / "short.bundle", code=1)
        self.assertSays(done, "model.safetensors")
        self.assertFalse((self.folder / "short.bundle").exists())

    def test_damaged_bundle(self):
        for name in ("program.pb", "weights.pb", "kernels.so"):
            bundle = self.copy(self.bundle, f"damaged-{name}.bundle")
            path = bundle / "rank0" / name
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
            ids = self.save_ids([[5, 6]])
            done = tool("adapt-run", bundle, "--tokens", ids, "--logits", self.folder / "out.npy", code=1)
            self.assertSays(done, name)

    def test_bundle_of_a_later_format(self):
        bundle = self.copy(self.bundle, "later.bundle")
        manifest = json.loads((bundle / "manifest.json").read_text())
        manifest["format_version"] += 98
        (bundle / "manifest.json").write_text(json.dumps(manifest))
        done = tool("adapt-run", bundle, "--tokens", self.save_ids([[5]]), "--logits",
                    self.folder / "out.npy", code=1)
        self.assertSays(done, manifest["format_version"])

    def test_token_ids_outside_the_vocabulary(self):
        for bad in (256, -1):
            done = tool("adapt-run", self.bundle, "--tokens", self.save_ids([[5, bad]]), "--logits",
                        self.folder / "out.npy", code=1)
            self.assertSays(done, bad)

    def test_token_ids_of_a_wrong_type_or_rank(self):
        for ids in (np.zeros((1, 4), np.float32), np.zeros((2, 2, 2), np.int64)):
            tool("adapt-run", self.bundle, "--tokens", self.save_ids(ids), "--logits",
                 self.folder / "out.npy", code=1)

    def test_longer_than_the_context(self):
        ids = self.save_ids(np.full((1, 129), 7))  # max_position_embeddings is 128
        done = tool("adapt-run", self.bundle, "--tokens", ids, "--logits", self.folder / "out.npy", code=1)
        self.assertSays(done, 128, 129)

    def test_prompt_without_a_tokenizer(self):
        self.assertSays(tool("adapt-run", self.bundle, "--prompt", "Hello", code=1), "tokenizer")


if __name__ == "__main__":
    unittest.main()
