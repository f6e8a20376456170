"""Devices for bundles of GPUs: threads, seeds and chunks on the simulated ones, fake drivers, and what does not fit.

What is simulated is right by test_gpu.py.
"""

import contextlib
import os
import unittest

import numpy as np

from support import BUILD, DATA, TestCase, compile_bundle, run_logits, tool

TOLERANCE = 1e-5  # against the CPU's kernels, which take sums in another order
ORDERS = ("reverse", "permuted:2", "permuted:12345")
DRIVERS = {"cuda": ("ADAPT_CUDA_DRIVER", BUILD / "test/unit/runtime/fake_cuda.so"),
           "hip": ("ADAPT_HIP_DRIVER", BUILD / "test/unit/runtime/fake_hip.so")}


def compile_for(target, checkpoint, bundle, *options):
    tool("adaptc", checkpoint, f"--target={target}", *options, "-o", bundle)
    return bundle


@contextlib.contextmanager
def environment(**values):
    before = dict(os.environ)
    os.environ.update({name: str(value) for name, value in values.items()})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class TinyOnGpu:
    model, target, arch = "tiny-llama", None, None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bundle = compile_for(f"{cls.target}:{cls.arch}", DATA / cls.model, cls.folder / "gpu.bundle", "--sim")
        cls.cpu = compile_bundle(DATA / cls.model, cls.folder / "cpu.bundle")
        with np.load(DATA / cls.model / "expected.npz") as expected:
            a, b = expected["greedy"]
        cls.ragged = [a[:17], b[:1], b[:24], a[:7], a[:16]]

    def test_orders_of_lanes_and_threads_give_the_same_bits(self):
        first = run_logits(self.bundle, self.ragged, "--device=sim", "--threads=1")
        for options in (*(("--threads=2", f"--lane-order={order}") for order in ORDERS), ("--threads=3", "--poison")):
            self.assertSameBits(run_logits(self.bundle, self.ragged, "--device=sim", *options), first, options)

    def test_ragged_batches_in_chunks(self):
        cpu = run_logits(self.cpu, self.ragged)
        for chunk in (5, 24):
            found = run_logits(self.bundle, self.ragged, "--device=sim", "--chunk", chunk)
            self.assertClose(found, cpu, TOLERANCE, f"--chunk {chunk}")

    def test_by_the_driver(self):
        """What the device of a real GPU does, down to the driver's functions."""
        name, driver = DRIVERS[self.target]
        module = self.bundle / "rank0/kernels.sim.so"
        arch = self.arch.removeprefix("sm_")
        with environment(**{name: driver, "ADAPT_FAKE_MODULE": module, "ADAPT_FAKE_ARCH": arch}):
            found = run_logits(self.bundle, self.ragged)
        self.assertSameBits(found, run_logits(self.bundle, self.ragged, "--device=sim"))


class TinyLlamaSm90(TinyOnGpu, TestCase):
    target, arch = "cuda", "sm_90"


class TinyLlamaGfx942(TinyOnGpu, TestCase):
    target, arch = "hip", "gfx942"


class TinyQwen3Sm90(TinyOnGpu, TestCase):
    model, target, arch = "tiny-qwen3", "cuda", "sm_90"


class TinyQwen3Gfx942(TinyOnGpu, TestCase):
    model, target, arch = "tiny-qwen3", "hip", "gfx942"


class WhatDoesNotFit(TestCase):
    """One sentence on stderr that says what to do, and exit code 1."""

    def refused(self, bundle, *options):
        ids = self.folder / "ids.npy"
        np.save(ids, np.array([[1, 2, 3]]))
        done = tool("adapt-run", bundle, "--tokens", ids, "--logits", self.folder / "logits.npy", *options, code=1)
        message = done.stderr.decode()
        self.assertEqual(message.count("\n"), 1, message)
        return message

    def test_all(self):
        checkpoint = DATA / "tiny-llama"
        bundle = compile_for("cuda:sm_90", checkpoint, self.folder / "cuda.bundle")
        cpu = compile_bundle(checkpoint, self.folder / "cpu.bundle")
        self.assertIn("no kernels for the simulated GPU: compile it with --target=cuda:sm_90 --sim",
                      self.refused(bundle, "--device=sim"))
        self.assertIn("compile with --target=cuda or --target=hip and --sim", self.refused(cpu, "--device=sim"))
        self.assertIn("compile with --target=cpu", self.refused(bundle, "--device=cpu"))
        with environment(ADAPT_CUDA_DRIVER="/nowhere/libcuda.so.1"):
            self.assertIn("no CUDA driver on this machine", self.refused(bundle))
        with environment(ADAPT_CUDA_DRIVER=DRIVERS["cuda"][1], ADAPT_FAKE_ARCH="75"):
            self.assertIn("is sm_75: compile with --target=cuda:sm_75", self.refused(bundle))


if __name__ == "__main__":
    unittest.main()
