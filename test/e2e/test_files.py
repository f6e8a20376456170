"""Files that tools read and write: nothing of a user's is lost, nothing half is left, and odd files are refused."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

from support import BUILD, DATA, TestCase, compile_bundle, run_logits, tool

CHECKPOINT = DATA / "tiny-llama"


def contents(folder):
    """The bytes of every file of a bundle but its reports, by path."""
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith("report")}


class Outputs(TestCase):
    def refuse(self, output, *words):
        done = tool("adaptc", CHECKPOINT, "--target=cpu", "-o", output, code=1)
        for word in words:
            self.assertIn(word, done.stderr.decode())

    def test_another_programs_folder_is_not_replaced(self):
        folder = self.folder / "web-app"
        folder.mkdir()
        (folder / "manifest.json").write_text('{"name": "a web app"}')
        (folder / "source").write_text("precious")
        self.refuse(folder, "not a bundle")
        self.assertEqual((folder / "source").read_text(), "precious")

    def test_a_bundle_with_other_files_is_not_replaced(self):
        bundle = compile_bundle(CHECKPOINT, self.folder / "mine.bundle")
        (bundle / "notes.txt").write_text("precious")
        self.refuse(bundle, "notes.txt")
        self.assertEqual((bundle / "notes.txt").read_text(), "precious")

    def test_through_a_symbolic_link(self):
        bundle = compile_bundle(CHECKPOINT, self.folder / "real.bundle")
        before = contents(bundle)
        link = self.folder / "link.bundle"
        link.symlink_to(bundle)
        compile_bundle(CHECKPOINT, link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(contents(bundle), before)

        nowhere = self.folder / "nowhere.bundle"
        nowhere.symlink_to(self.folder / "absent")
        self.refuse(nowhere, "leads nowhere")
        self.assertTrue(nowhere.is_symlink())

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            for command in (["--compile-to=import"], ["plan"]):
                done = subprocess.run([BUILD / "bin/adaptc", *command, CHECKPOINT], stdout=full,
                                      stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"cannot write to stdout", done.stderr)

    def test_logits_do_not_replace_what_is_no_file(self):
        bundle = compile_bundle(CHECKPOINT, self.folder / "logits.bundle")
        ids, folder, out = self.folder / "ids.npy", self.folder / "folder", self.folder / "out.npy"
        np.save(ids, [[5, 6]])
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for place in (folder, pipe):
            folder.mkdir(exist_ok=True)
            done = tool("adapt-run", bundle, "--tokens", ids, "--logits", place, code=1)
            self.assertIn("not a regular file", done.stderr.decode())
        self.assertTrue(pipe.is_fifo())
        # Nor is a pipe waited for.
        tool("adapt-run", bundle, "--tokens", pipe, "--logits", out, code=1)
        # A link stays; what it leads to is written.
        link = self.folder / "link.npy"
        out.write_bytes(b"")
        link.symlink_to(out)
        tool("adapt-run", bundle, "--tokens", ids, "--logits", link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(np.load(out).shape, (1, 2, 256))

    def test_a_signal_leaves_nothing(self):
        """Wherever it strikes: a whole bundle or none, and no folder under a temporary name."""
        for number, delay in ((signal.SIGINT, 0.0), (signal.SIGTERM, 0.05), (signal.SIGINT, 0.1), (signal.SIGHUP, 0.2)):
            folder = self.folder / f"signal-{delay}"
            folder.mkdir()
            process = subprocess.Popen([BUILD / "bin/adaptc", CHECKPOINT, "-o", folder / "x.bundle"],
                                       stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 60
            if delay == 0.0:  # as soon as there is something to leave behind
                while process.poll() is None and not any(folder.iterdir()) and time.monotonic() < deadline:
                    time.sleep(0.0005)
            else:
                time.sleep(delay)
            process.send_signal(number)
            code = process.wait(timeout=60)
            self.assertIn(code, (0, -number))
            # It may strike when all is done, before the process ends.
            names = [path.name for path in folder.iterdir()]
            self.assertIn(names, [["x.bundle"]] if code == 0 else [[], ["x.bundle"]])
            self.assertTrue(not names or (folder / "x.bundle/manifest.json").is_file())


class Inputs(TestCase):
    def refuse(self, checkpoint, *words, options=()):
        done = tool("adaptc", checkpoint, "--target=cpu", "-o", self.folder / "no.bundle", *options, code=1)
        for word in words:
            self.assertIn(word, done.stderr.decode())

    def copy(self, name, **config):
        folder = self.folder / name
        shutil.copytree(CHECKPOINT, folder)
        known = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**known, **config}))
        return folder

    def test_files_without_an_end(self):
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            for kind in ("pipe", "device"):
                checkpoint = self.copy(f"{name}-{kind}")
                (checkpoint / name).unlink(missing_ok=True)
                if kind == "pipe":
                    os.mkfifo(checkpoint / name)
                else:
                    (checkpoint / name).symlink_to("/dev/zero")
                self.refuse(checkpoint, name)

    def test_values_that_contradict_each_other(self):
        self.refuse(self.copy("dtypes", torch_dtype="bfloat16"), "dtype", "torch_dtype", "bfloat16", "float32")
        self.refuse(self.copy("thetas", rope_theta=5.0), "rope_theta", "5")
        self.refuse(self.copy("type", model_type=5), "model_type", "5")

    def test_names_do_not_reach_the_terminal_raw(self):
        checkpoint = self.copy("names")
        weights = checkpoint / "model.safetensors"
        data = weights.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        header["evil\x1b[31m"] = {"dtype": "F32", "shape": [0], "data_offsets": [len(data) - 8 - size] * 2}
        text = json.dumps(header).encode()
        weights.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size:])
        self.refuse(checkpoint, "evil\\x1b[31m")

    def test_a_layer_stored_in_another_type(self):
        """One layer's weights in f64 hold the same values: the same logits."""
        checkpoint = self.copy("mixed")
        weights = checkpoint / "model.safetensors"
        data = weights.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header, out, bytes_ = json.loads(data[8:8 + size]), {}, b""
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            begin, end = tensor["data_offsets"]
            values = np.frombuffer(data[8 + size + begin:8 + size + end], np.float32)
            if name.startswith("model.layers.1."):
                values, tensor["dtype"] = values.astype(np.float64), "F64"
            out[name] = {**tensor, "data_offsets": [len(bytes_), len(bytes_) + values.nbytes]}
            bytes_ += values.tobytes()
        text = json.dumps(out).encode()
        weights.write_bytes(len(text).to_bytes(8, "little") + text + bytes_)
        expected = np.load(CHECKPOINT / "expected.npz")
        for mode in ("converted", "reference"):
            bundle = compile_bundle(checkpoint, self.folder / f"{mode}.bundle", f"--weights={mode}")
            self.assertClose(run_logits(bundle, list(expected["input_ids"])), list(expected["logits"]), 1e-4, mode)


class Phases(TestCase):
    """--compile-from goes on where --compile-to stopped, to the same program, weights and kernels."""

    def test_from_each_phase(self):
        whole = contents(compile_bundle(CHECKPOINT, self.folder / "whole.bundle"))
        self.assertEqual(contents(compile_bundle(CHECKPOINT, self.folder / "again.bundle")), whole)
        limits = json.loads(whole[next(p for p in whole if p.name == "manifest.json")])["limits"]
        for phase in ("import", "simplify", "map", "fuse", "plan"):
            module = self.folder / f"{phase}.mlir"
            module.write_bytes(tool("adaptc", CHECKPOINT, f"--compile-to={phase}").stdout)
            bundle = self.folder / f"{phase}.bundle"
            tool("adaptc", module, f"--compile-from={phase}", "--checkpoint", CHECKPOINT, "-o", bundle)
            found = contents(bundle)
            for path, data in whole.items():
                if path.parts[0] == "rank0":
                    self.assertEqual(found[path], data, f"{path} from {phase}")
            self.assertEqual(json.loads((bundle / "manifest.json").read_text())["limits"], limits)
            # What is said to be the module after a phase is that.
            self.assertEqual((bundle / "ir/import.mlirbc").exists(), phase == "import", phase)

    def test_what_cannot_be_gone_on_from(self):
        module = self.folder / "fuse.mlir"
        module.write_bytes(tool("adaptc", CHECKPOINT, "--compile-to=fuse", "--target=cpu:x86-64-v2").stdout)
        out = self.folder / "no.bundle"
        run = lambda *args, code: tool("adaptc", *args, "-o", out, code=code).stderr.decode()
        self.assertIn("x86-64-v2", run(module, "--compile-from=fuse", "--target=cpu:x86-64-v3", code=1))
        self.assertIn("run the phase plan", run(module, "--compile-from=plan", "--target=cpu:x86-64-v2", code=1))
        self.assertIn("--checkpoint", run(module, "--compile-from=fuse", "--target=cpu:x86-64-v2", code=1))
        self.assertIn("is a folder", run(CHECKPOINT, "--compile-from=fuse", code=1))
        run(module, "--compile-from=fuse", "--compile-to=map", code=2)
        run(module, "--compile-from=fuse", "--dtype=float16", code=2)
        run(CHECKPOINT, "--checkpoint", CHECKPOINT, code=2)
        module.write_text('module attributes {adapt.model = {name = "../evil"}} {}')
        text = run(module, "--compile-from=import", code=1)
        for key in ("'name'", "'vocab_size'", "'max_seq_len'", "'eos_token_ids'"):
            self.assertIn(key, text)


if __name__ == "__main__":
    unittest.main()
