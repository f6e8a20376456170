"""What the end-to-end tests share: running the built tools, and the measure of error."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = HERE / "data"
BUILD = pathlib.Path(os.environ.get("ADAPT_BUILD", ROOT / "build/release")).resolve()
TIMEOUT_S = 300


def tool(name, *args, code=0):
    """Runs a tool of the build and checks its exit code; returns the finished process, output as bytes."""
    command = [str(BUILD / "bin" / name), *map(str, args)]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    if done.returncode != code:
        raise AssertionError(
            f"exit code {done.returncode}, not {code}, of: {' '.join(command)}\n"
            f"{done.stdout.decode(errors='replace')[-2000:]}{done.stderr.decode(errors='replace')[-4000:]}")
    return done


def compile_bundle(checkpoint, bundle, *options):
    tool("adaptc", checkpoint, "--target=cpu", *options, "-o", bundle)
    return bundle


def pad(rows):
    """Rows of unequal lengths as one array, filled up with a token that is valid but must not matter."""
    ids = np.full((len(rows), max(map(len, rows))), 3, dtype=np.int64)
    for row, values in zip(ids, rows):
        row[:len(values)] = values
    return ids


def run_logits(bundle, rows, *options, dtype=np.int64):
    """The logits of each row of token ids, f32 [len(row), vocabulary], as one ragged batch."""
    lengths = [len(row) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        ids, out = pathlib.Path(folder, "ids.npy"), pathlib.Path(folder, "logits.npy")
        np.save(ids, pad(rows).astype(dtype))
        if min(lengths) != max(lengths):
            options = (*options, "--lengths", ",".join(map(str, lengths)))
        tool("adapt-run", bundle, "--tokens", ids, "--logits", out, *options)
        logits = np.load(out)
    if logits.dtype != np.float32 or logits.shape[:2] != (len(rows), max(lengths)):
        raise AssertionError(f"logits are {logits.dtype} {logits.shape}")
    return [row[:length] for row, length in zip(logits, lengths)]


def run_greedy(bundle, rows, count, *options):
    """`count` greedy tokens after each row, i64 [rows, count], as one ragged batch with a cache."""
    with tempfile.TemporaryDirectory() as folder:
        ids, out = pathlib.Path(folder, "ids.npy"), pathlib.Path(folder, "tokens.npy")
        np.save(ids, pad(rows))
        lengths = ",".join(str(len(row)) for row in rows)
        tool("adapt-run", bundle, "--tokens", ids, "--lengths", lengths, "--generate", count,
             "--output-tokens", out, *options)
        return np.load(out)


def error(actual, reference):
    """max|a-b| / max|ref|; infinite where anything is not finite."""
    actual, reference = np.concatenate(actual), np.concatenate(reference)
    if actual.shape != reference.shape or not np.isfinite(actual).all():
        return float("inf")
    return float(np.abs(actual.astype(np.float64) - reference).max() / np.abs(reference).max())


class TestCase(unittest.TestCase):
    """A test with a folder that lives as long as its class."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def assertClose(self, actual, reference, limit, what=""):
        found = error(actual, reference)
        self.assertLessEqual(found, limit, f"{what}: error {found:.3g} above {limit:.3g}")

    def assertSameBits(self, actual, reference, what=""):
        for row, (a, b) in enumerate(zip(actual, reference, strict=True)):
            differ = int((a.view(np.uint32) != b.view(np.uint32)).sum()) if a.shape == b.shape else -1
            self.assertEqual(differ, 0, f"{what}: {differ} logits of row {row} have other bits")
