"""Tiny checkpoints through adaptc and adapt-run against transformers (data/README.md)."""

import unittest

import numpy as np

from support import DATA, TestCase, compile_bundle, run_greedy, run_logits

TOLERANCE = 1e-4        # against another program
CHUNK_TOLERANCE = 1e-5  # against ourselves, the sums taken in another order


class TinyModel:
    model = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bundle = compile_bundle(DATA / cls.model, cls.folder / "tiny.bundle")
        with np.load(DATA / cls.model / "expected.npz") as expected:
            cls.ids = expected["input_ids"]
            cls.logits = expected["logits"]
            cls.greedy = expected["greedy"]
        # Mixed lengths: one token, within a block of the cache, a whole one, and beyond.
        a, b = cls.greedy
        cls.ragged = [a[:17], b[:1], b[:24], a[:7], a[:16], b[:2], a[:23]]

    def prefixes(self, lengths):
        """Rows of the first tokens of either sequence, and their logits: attention is causal."""
        rows = [self.ids[i % 2][:n] for i, n in enumerate(lengths)]
        return rows, [self.logits[i % 2][:n] for i, n in enumerate(lengths)]

    def test_logits(self):
        self.assertClose(run_logits(self.bundle, self.ids), self.logits, TOLERANCE)

    def test_logits_of_int32_ids(self):
        self.assertSameBits(run_logits(self.bundle, self.ids, dtype=np.int32),
                            run_logits(self.bundle, self.ids))

    def test_logits_alone(self):
        for i in range(2):
            self.assertClose(run_logits(self.bundle, [self.ids[i]]), [self.logits[i]], TOLERANCE)

    def test_logits_ragged(self):
        for lengths in ([16, 1], [1, 16], [3, 12, 1, 16, 7, 2, 15, 1, 1, 9]):
            rows, expected = self.prefixes(lengths)
            self.assertClose(run_logits(self.bundle, rows), expected, TOLERANCE, lengths)

    def test_logits_ragged_in_chunks(self):
        rows, expected = self.prefixes([3, 12, 1, 16, 7, 2, 15])
        for chunk in (1, 4, 5, 11):
            self.assertClose(run_logits(self.bundle, rows, "--chunk", chunk), expected, TOLERANCE, chunk)

    def test_greedy(self):
        start = self.ids.shape[1]
        for options in ((), ("--chunk", 3), ("--threads", 1)):
            found = run_greedy(self.bundle, self.ids, self.greedy.shape[1] - start, *options)
            self.assertEqual(found.tolist(), self.greedy[:, start:].tolist(), options)

    def test_greedy_alone(self):
        start = self.ids.shape[1]
        for row in self.greedy:
            found = run_greedy(self.bundle, [row[:start]], len(row) - start)
            self.assertEqual(found[0].tolist(), row[start:].tolist())

    def test_greedy_ragged(self):
        """Prompts that end at different tokens of the same text go on as it does."""
        starts = [16, 20, 17, 22, 16, 19]
        rows = [self.greedy[i % 2][:start] for i, start in enumerate(starts)]
        expected = [self.greedy[i % 2][start:start + 2].tolist() for i, start in enumerate(starts)]
        for options in ((), ("--chunk", 1), ("--chunk", 7)):
            self.assertEqual(run_greedy(self.bundle, rows, 2, *options).tolist(), expected, options)

    def test_greedy_by_logits_of_every_position(self):
        start = self.ids.shape[1]
        for row, logits in zip(self.greedy, run_logits(self.bundle, self.greedy), strict=True):
            self.assertEqual(logits[start - 1:-1].argmax(-1).tolist(), row[start:].tolist())

    def test_chunks_of_any_size(self):
        whole = run_logits(self.bundle, self.greedy)
        for chunk in range(1, self.greedy.shape[1] + 2):
            self.assertClose(run_logits(self.bundle, self.greedy, "--chunk", chunk), whole,
                             CHUNK_TOLERANCE, f"--chunk {chunk}")

    def test_chunks_of_a_ragged_batch(self):
        whole = run_logits(self.bundle, self.ragged)
        for chunk in (1, 2, 3, 7, 16, 17):
            self.assertClose(run_logits(self.bundle, self.ragged, "--chunk", chunk), whole,
                             CHUNK_TOLERANCE, f"--chunk {chunk}")

    def test_same_bits_with_any_number_of_threads(self):
        for options in ((), ("--chunk", 1), ("--chunk", 5)):
            one = run_logits(self.bundle, self.ragged, "--threads", 1, *options)
            for threads in (2, 3, 7):
                self.assertSameBits(run_logits(self.bundle, self.ragged, "--threads", threads, *options), one,
                                    f"--threads {threads} {options}")

    def test_memory_that_no_kernel_may_read_is_not_read(self):
        for options in ((), ("--chunk", 1), ("--chunk", 5)):
            self.assertSameBits(run_logits(self.bundle, self.ragged, "--poison", *options),
                                run_logits(self.bundle, self.ragged, *options), options)

    def test_same_bytes_when_built_again(self):
        again = compile_bundle(DATA / self.model, self.folder / "again.bundle")
        files = lambda bundle: {p.relative_to(bundle): p.read_bytes() for p in bundle.rglob("*")
                                if p.is_file() and not p.name.startswith("report.")}
        first, second = files(self.bundle), files(again)
        self.assertEqual(first.keys(), second.keys())
        for path in first:
            if path.name != "manifest.json" or b"again" not in second[path]:
                self.assertEqual(first[path], second[path], f"{path} has other bytes")

    def test_weights_by_reference(self):
        bundle = compile_bundle(DATA / self.model, self.folder / "reference.bundle", "--weights=reference")
        stored = list(bundle.rglob("*.safetensors"))
        self.assertEqual(stored, [])
        self.assertSameBits(run_logits(bundle, self.ragged), run_logits(self.bundle, self.ragged))


class TinyLlama(TinyModel, TestCase):
    model = "tiny-llama"


class TinyQwen3(TinyModel, TestCase):
    model = "tiny-qwen3"


if __name__ == "__main__":
    unittest.main()
