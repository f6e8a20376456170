"""The interpreter on the IR of every phase agrees with transformers, and compiled bundles with the interpreter."""

import unittest

import numpy as np

from support import DATA, TestCase, pad, run_logits, tool

PHASES = ["import", "simplify", "shard", "map", "fuse", "plan"]


class Interpreter(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.models = ["tiny-llama", "tiny-qwen3"]
        for model in cls.models:
            tool("adaptc", DATA / model, "--target=cpu", "--dump-phases", cls.folder / model,
                 "-o", cls.folder / f"{model}.bundle")

    def phase(self, model, name):
        found = sorted((self.folder / model).glob(f"*{name}*.mlir*"))
        self.assertEqual(len(found), 1, f"{name}: {found}")
        return found[0]

    def interpret(self, model, module, rows, *options):
        """As support.run_logits, but interpreted."""
        ids, out = self.folder / "ids.npy", self.folder / "logits.npy"
        np.save(ids, pad(rows))
        lengths = [len(row) for row in rows]
        tool("adapt-interpret", module, "--weights", DATA / model, "--tokens", ids, "--logits", out,
             "--lengths", ",".join(map(str, lengths)), *options)
        return [row[:length] for row, length in zip(np.load(out), lengths)]

    def test_every_phase(self):
        for model in self.models:
            expected = np.load(DATA / model / "expected.npz")
            rows, reference = list(expected["input_ids"]), list(expected["logits"])
            for phase in PHASES:
                for mode in ("wide", "typed"):
                    logits = self.interpret(model, self.phase(model, phase), rows, "--mode", mode)
                    self.assertClose(logits, reference, 1e-5, f"{model} after {phase}, {mode}")

    def test_ragged_and_chunked(self):
        for model in self.models:
            expected = np.load(DATA / model / "expected.npz")
            rows = [expected["input_ids"][0][:11], expected["input_ids"][1], expected["input_ids"][0][:1]]
            reference = [expected["logits"][0][:11], expected["logits"][1], expected["logits"][0][:1]]
            for phase in ("import", "plan"):
                for chunk in (1, 3, 16):
                    logits = self.interpret(model, self.phase(model, phase), rows, "--chunk", chunk)
                    self.assertClose(logits, reference, 1e-5, f"{model} after {phase}, chunks of {chunk}")

    def test_ranks(self):
        # 4 query and 2 key/value heads: on 3 and 4 ranks they are padded or copied.
        for model in self.models:
            expected = np.load(DATA / model / "expected.npz")
            rows, reference = list(expected["input_ids"]), list(expected["logits"])
            for options in (["--tp=2"], ["--tp=3"], ["--tp=4"], ["--pp=2"], ["--tp=2", "--pp=2"]):
                for phase in ("shard", "fuse", "plan"):
                    module = self.folder / f"{model}.mlir"
                    module.write_bytes(tool("adaptc", DATA / model, "--target=cpu", *options,
                                           f"--compile-to={phase}").stdout)
                    for mode in ("wide", "typed"):
                        logits = self.interpret(model, module, rows, "--mode", mode)
                        self.assertClose(logits, reference, 1e-5,
                                         f"{model} {options} after {phase}, {mode}")

    def test_ranks_refused(self):
        def refuse(*options):
            return tool("adaptc", DATA / "tiny-llama", "--target=cpu", *options, code=1).stderr.decode()

        self.assertIn("without padding --tp can be 1, 2", refuse("--tp=3", "--no-padding", "--compile-to=shard"))
        self.assertIn("too few for 5 stages", refuse("--pp=5", "--compile-to=shard"))

    def test_bundle(self):
        for model in self.models:
            expected = np.load(DATA / model / "expected.npz")
            rows = [expected["input_ids"][0][:7], expected["input_ids"][1]]
            interpreted = self.interpret(model, self.phase(model, "plan"), rows, "--mode", "typed")
            compiled = run_logits(self.folder / f"{model}.bundle", rows)
            self.assertClose(compiled, interpreted, 1e-5, f"{model}: compiled against interpreted")


if __name__ == "__main__":
    unittest.main()
