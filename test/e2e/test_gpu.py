"""Bundles for GPUs on the simulated devices: tiny models on all targets and in all orders of lanes."""

import json

import numpy as np

from test_onnx import MODELS, run_graph

from support import DATA, TestCase, compile_bundle, run_greedy, run_logits, tool

TARGETS = ("cuda:sm_80", "cuda:sm_90", "hip:gfx90a", "hip:gfx942")
ORDERS = ("forward", "reverse", "permuted")
# Of f32 and sums of 96 products: c * sqrt(K) * epsilon (include/adapt/Interpreter/Tolerance.h).
TOLERANCE = 4 * 96 ** 0.5 * 2 ** -24


def compile_for(target, checkpoint, bundle, *options):
    tool("adaptc", checkpoint, f"--target={target}", "--sim", *options, "-o", bundle)
    return bundle


class TinyOnGpus(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.checkpoint = DATA / "tiny-llama"
        with np.load(cls.checkpoint / "expected.npz") as expected:
            cls.ids, cls.logits, cls.greedy = expected["input_ids"], expected["logits"], expected["greedy"]
        cls.bundles = {target: compile_for(target, cls.checkpoint, cls.folder / f"{target[-5:]}.bundle")
                       for target in TARGETS}
        cls.cpu = compile_bundle(cls.checkpoint, cls.folder / "cpu.bundle")

    def test_logits_equal_the_cpu_in_all_orders_of_lanes(self):
        a, b = self.ids
        for rows in ([a, b], [a[:1], b[:7], a[:16]]):
            expected = run_logits(self.cpu, rows)
            for target in TARGETS:
                first = None
                for order in ORDERS:
                    found = run_logits(self.bundles[target], rows, "--device=sim", f"--lane-order={order}")
                    self.assertClose(found, expected, TOLERANCE, f"{target} {order}")
                    first = first or found
                    self.assertSameBits(found, first, f"{target} {order}")

    def test_logits_equal_the_reference(self):
        for target in TARGETS:
            found = run_logits(self.bundles[target], self.ids, "--device=sim", "--poison")
            self.assertClose(found, self.logits, 1e-4, target)

    def test_greedy(self):
        start = self.ids.shape[1]
        for target in TARGETS:
            found = run_greedy(self.bundles[target], self.ids, self.greedy.shape[1] - start, "--device=sim")
            self.assertEqual(found.tolist(), self.greedy[:, start:].tolist(), target)

    def test_narrow_types(self):
        for dtype, tolerance in (("bfloat16", 2e-2), ("float16", 2e-3)):
            cpu = compile_bundle(self.checkpoint, self.folder / f"cpu-{dtype}.bundle", f"--dtype={dtype}")
            expected = run_logits(cpu, self.ids)
            for target in ("cuda:sm_90", "hip:gfx942"):
                bundle = compile_for(target, self.checkpoint, self.folder / f"{target[-5:]}-{dtype}.bundle",
                                     f"--dtype={dtype}")
                found = run_logits(bundle, self.ids, "--device=sim")
                self.assertClose(found, expected, tolerance, f"{target} {dtype}")

    def test_two_simulated_ranks(self):
        bundle = compile_for("hip:gfx942", self.checkpoint, self.folder / "ranks.bundle", "--tp=2")
        for order in ORDERS:
            found = run_logits(bundle, self.ids, "--device=sim", "--ranks=local", f"--lane-order={order}")
            self.assertClose(found, self.logits, 1e-4, order)

    def test_manifest(self):
        """What of a bundle says what it is for; PTX is kept where ptxas made a cubin of it."""
        for target, bundle in self.bundles.items():
            manifest = json.loads((bundle / "manifest.json").read_text())
            name, arch = target.split(":")
            wanted = {"name": name, "arch": arch, **({"wavefront": 64} if name == "hip" else {})}
            self.assertEqual(manifest["target"], wanted)
            rank, = manifest["ranks"]
            self.assertEqual(rank["sim"], "rank0/kernels.sim.so")
            if name == "hip":
                self.assertEqual(rank["kernels"], "rank0/kernels.hsaco")
            elif rank["kernels"] == "rank0/kernels.cubin":
                self.assertEqual(rank["ptx"], "rank0/kernels.ptx")
            else:
                self.assertEqual(rank["kernels"], "rank0/kernels.ptx")
                self.assertIn("ptxas", (bundle / "report.md").read_text())

    def test_graphs(self):
        """Convolution, softmax, layer norms, gathers: by the row form, against onnxruntime."""
        for model, shape in (("gpt2", "batch=8,seq=64"), ("siglip_vision_model", "batch=8")):
            with np.load(MODELS / model / "inputs.npz") as inputs:
                inputs = dict(inputs)
            with np.load(MODELS / model / "expected.npz") as expected:
                expected = dict(expected)
            for target in ("cuda:sm_90", "hip:gfx942"):
                bundle = self.folder / f"{model}-{target[-5:]}.bundle"
                tool("adaptc", MODELS / model / "model.onnx", f"--target={target}", "--sim", "--shape", shape,
                     "-o", bundle)
                for order in ORDERS:
                    found = run_graph(bundle, inputs, self.folder / f"{model}-{order}", "--device=sim",
                                      f"--lane-order={order}", "--poison")
                    for name, reference in expected.items():
                        worst = np.abs(found[name].astype(np.float64) - reference).max()
                        self.assertLess(worst, 1e-5 * np.ptp(reference), f"{model} {target} {order} {name}")

    def test_without_sim(self):
        bundle = self.folder / "plain.bundle"
        tool("adaptc", self.checkpoint, "--target=hip:gfx942", "-o", bundle)
        self.assertFalse((bundle / "rank0/kernels.sim.so").exists())
        np.save(self.folder / "ids.npy", self.ids)
        done = tool("adapt-run", bundle, "--device=sim", "--tokens", self.folder / "ids.npy", "--logits",
                    self.folder / "no.npy", code=1)
        self.assertIn(b"--sim", done.stderr)

    def test_refused(self):
        for options, words in ((("--target=cuda:sm_52",), ("sm_52", "sm_90")),
                               (("--target=hip:gfx1100",), ("gfx1100", "gfx942")),
                               (("--target=cpu", "--sim"), ("--sim",))):
            done = tool("adaptc", self.checkpoint, *options, "-o", self.folder / "no.bundle", code=1)
            for word in words:
                self.assertIn(word, done.stderr.decode())
        self.assertFalse((self.folder / "no.bundle").exists())
