"""Bundles of several ranks, run as threads (--ranks=local) and as processes (mpirun), against one rank."""

import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

from support import BUILD, DATA, TestCase, compile_bundle, pad, tool

MODEL = "tiny-llama"
MESHES = [(2, 1), (4, 1), (1, 2), (2, 2)]  # tp, pp
TOLERANCE = 1e-5  # against one rank: sums in another order
LIMIT_S = 300
MPIRUN = shutil.which("mpirun") if (BUILD / "lib/libadapt-mpi.so").exists() else None


def ways(ranks):
    """How to start adapt-run: the words before its arguments, by name."""
    program = str(BUILD / "bin/adapt-run")
    result = {"threads": [program, "--ranks=local"]}
    if MPIRUN:
        result["processes"] = [MPIRUN, "--oversubscribe", "--bind-to", "none", "--allow-run-as-root", "-n", str(ranks),
                               program]
    return result


def run(way, *args):
    done = subprocess.run([*way, *map(str, args)], capture_output=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode} of {way} {args}\n{done.stderr.decode(errors='replace')}")
    return done


class Arrays:
    """Files of token ids in and of what comes out, in a folder of their own."""

    def __init__(self, rows):
        self.folder = tempfile.TemporaryDirectory()
        self.ids, self.out, self.stats = (pathlib.Path(self.folder.name, name)
                                          for name in ("ids.npy", "out.npy", "stats.json"))
        self.lengths = [len(row) for row in rows]
        np.save(self.ids, pad(rows))
        self.options = ["--tokens", self.ids, "--lengths", ",".join(map(str, self.lengths))]

    def logits(self, way, bundle, *options):
        run(way, bundle, *self.options, "--logits", self.out, *options)
        return [row[:length] for row, length in zip(np.load(self.out), self.lengths)]

    def greedy(self, way, bundle, count, *options):
        run(way, bundle, *self.options, "--generate", count, "--output-tokens", self.out, *options)
        return np.load(self.out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()


class Ranks(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.one = compile_bundle(DATA / MODEL, cls.folder / "one.bundle")
        cls.bundles = {(tp, pp): compile_bundle(DATA / MODEL, cls.folder / f"{tp}x{pp}.bundle", f"--tp={tp}",
                                                f"--pp={pp}") for tp, pp in MESHES}
        with np.load(DATA / MODEL / "expected.npz") as expected:
            cls.greedy = expected["greedy"]
            cls.prompt = expected["input_ids"].shape[1]
        a, b = cls.greedy
        cls.rows = [a[:17], b[:1], b[:24], a[:7], a[:16], b[:2], a[:23]]
        cls.alone = [str(BUILD / "bin/adapt-run")]

    def test_logits(self):
        with Arrays(self.rows) as arrays:
            expected = arrays.logits(self.alone, self.one)
            for (tp, pp), bundle in self.bundles.items():
                found = {name: arrays.logits(way, bundle) for name, way in ways(tp * pp).items()}
                for name, logits in found.items():
                    self.assertClose(logits, expected, TOLERANCE, f"tp={tp} pp={pp}, {name}")
                    # The order of sums is that of the ranks, whatever carries them.
                    self.assertSameBits(logits, found["threads"], f"tp={tp} pp={pp}, {name}")

    def test_logits_in_chunks(self):
        with Arrays(self.rows) as arrays:
            expected = arrays.logits(self.alone, self.one, "--chunk", 5)
            for (tp, pp), bundle in self.bundles.items():
                way = ways(tp * pp)["threads"]
                for options in (("--chunk", 5), ("--chunk", 5, "--threads", 2, "--poison")):
                    self.assertClose(arrays.logits(way, bundle, *options), expected, TOLERANCE, f"tp={tp} pp={pp}")

    def test_greedy(self):
        count = self.greedy.shape[1] - self.prompt
        with Arrays([row[:self.prompt] for row in self.greedy]) as arrays:
            for (tp, pp), bundle in self.bundles.items():
                for name, way in ways(tp * pp).items():
                    self.assertEqual(arrays.greedy(way, bundle, count).tolist(),
                                     self.greedy[:, self.prompt:].tolist(), f"tp={tp} pp={pp}, {name}")

    def test_weights_by_reference(self):
        """Each rank computes its part of the weights from the checkpoint."""
        bundle = compile_bundle(DATA / MODEL, self.folder / "reference.bundle", "--tp=2", "--pp=2",
                                "--weights=reference")
        with Arrays(self.rows) as arrays:
            way = ways(4)["threads"]
            self.assertSameBits(arrays.logits(way, bundle), arrays.logits(way, self.bundles[2, 2]))

    def test_bytes_on_the_wire(self):
        """What the ranks count is what `adaptc plan` printed, for each function's collectives."""
        tokens = 16
        for (tp, pp), bundle in self.bundles.items():
            plan = json.loads(tool("adaptc", "plan", DATA / MODEL, "--target=cpu", f"--tp={tp}", f"--pp={pp}", "--json",
                                   f"--max-num-tokens={tokens}").stdout)
            for step, length in enumerate([1, tokens]):
                planned = collections.Counter()
                for row in plan["communication"]:
                    kind = "send" if row["kind"] == "transfer" else row["kind"]
                    planned[row["stage"], row["function"], kind] += (row["count"] * row["groups"] *
                                                                     row["steps"][step]["wire_bytes"])
                self.assertGreater(sum(planned.values()), 0)
                with Arrays([self.greedy[0][:length]]) as arrays:
                    for name, way in ways(tp * pp).items():
                        arrays.greedy(way, bundle, 1, "--stats", arrays.stats)
                        stats, counted = json.loads(arrays.stats.read_text()), collections.Counter()
                        for row in stats["communication"]:
                            if row["kind"] != "receive":
                                counted[row["stage"], row["step"].split("'")[1], row["kind"]] += row["bytes"]
                        self.assertEqual(counted, planned, f"tp={tp} pp={pp}, {length} tokens, {name}")
                        self.assertEqual(stats["bytes"], plan["communication_total"][step]["wire_bytes"])

    def test_wrong_number_of_ranks(self):
        with Arrays(self.rows) as arrays:
            done = tool("adapt-run", self.bundles[2, 2], *arrays.options, "--logits", arrays.out, code=1)
            for words in ("4 ranks", "tp=2, pp=2", "--ranks=local", "mpirun -n 4 adapt-run"):
                self.assertIn(words, done.stderr.decode())


class SimulatedRanks(TestCase):
    """Ranks that are simulated GPUs: what they exchange goes through the host's memory."""

    def test_logits(self):
        with np.load(DATA / MODEL / "expected.npz") as expected:
            rows, logits = list(expected["input_ids"]), list(expected["logits"])
        for target, tp, pp in (("hip:gfx942", 2, 1), ("cuda:sm_90", 2, 2)):
            bundle = self.folder / f"{target[-5:]}.bundle"
            tool("adaptc", DATA / MODEL, f"--target={target}", f"--tp={tp}", f"--pp={pp}", "--sim", "-o", bundle)
            first = None
            with Arrays(rows) as arrays:
                for name, way in ways(tp * pp).items():
                    for order in ("forward", "permuted"):
                        found = arrays.logits(way, bundle, "--device=sim", f"--lane-order={order}")
                        self.assertClose(found, logits, 1e-5, f"{target} {name} {order}")
                        first = first or found
                        self.assertSameBits(found, first, f"{target} {name} {order}")


@unittest.skipUnless(MPIRUN, "no MPI")
class Faults(TestCase):
    """Ranks that are stopped or killed while they run."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bundle = compile_bundle(DATA / MODEL, cls.folder / "faults.bundle", "--tp=2", "--pp=2")

    def start(self, timeout):
        """A run that takes long; its process and those of its ranks."""
        process = subprocess.Popen([*ways(4)["processes"], self.bundle, "--bench", "--bench-prompt", "16",
                                    "--bench-context", "4", "--bench-decode", "64", "--bench-repetitions", "100000",
                                    "--timeout", str(timeout)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(process.kill)
        ranks, deadline = {}, time.monotonic() + 60
        while len(ranks) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
            for folder in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    if "adapt-run" not in os.readlink(folder / "exe") or \
                            int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) != process.pid:
                        continue
                    variables = dict(item.partition("=")[::2]
                                     for item in (folder / "environ").read_text().split("\0"))
                    ranks[int(variables["OMPI_COMM_WORLD_RANK"])] = int(folder.name)
                except (OSError, KeyError):
                    continue
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        time.sleep(3)
        self.assertIsNone(process.poll(), "ended too early")
        return process, ranks

    def end(self, process, within):
        begin = time.monotonic()
        _, text = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertLess(time.monotonic() - begin, within, text)
        return [line for line in text.splitlines() if line.startswith("adapt-run: error: ")], text

    def assertGone(self, ranks):
        """No rank runs on. (A zombie has ended, whoever should fetch its exit code.)"""
        state = lambda pid: pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        for rank, pid in ranks.items():
            deadline = time.monotonic() + 10
            while pathlib.Path(f"/proc/{pid}").exists() and state(pid) != "Z":
                self.assertLess(time.monotonic(), deadline, f"rank {rank} is still there")
                time.sleep(0.1)

    def test_a_stopped_rank_is_named(self):
        for stopped in (2, 0):
            process, ranks = self.start(timeout=2)
            os.kill(ranks[stopped], signal.SIGSTOP)
            errors, text = self.end(process, within=20)
            self.assertEqual(errors, [f"adapt-run: error: rank {stopped} did not answer within 2 s"], text)
            self.assertGone(ranks)

    def test_a_killed_rank_ends_all(self):
        process, ranks = self.start(timeout=60)
        os.kill(ranks[1], signal.SIGKILL)
        errors, text = self.end(process, within=20)
        self.assertEqual(errors, [], text)  # mpirun saw it first, and names the rank
        self.assertRegex(text, r"rank 1 .*signal 9")
        self.assertGone(ranks)


if __name__ == "__main__":
    unittest.main()
