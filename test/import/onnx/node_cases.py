#!/usr/bin/env python3
"""Runs cases in the layout of ONNX's backend tests through adaptc and adapt-run.

  node_cases.py [--cases DIR|ARCHIVE] [--tolerances FILE] [--write-passed FILE] [--verbose] [NAME…]

Without --cases: node_cases.tar.xz beside this file, all of which must pass. With it, it says what passes, what
fails, and what is unsupported by reason; a crash (a signal, exit code 3, no end within a minute) is always a
failure. A case is a folder with model.onnx and test_data_set_0/{input,output}_N.pb. Last line: `N passed, N failed`.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ADAPT_BUILD", HERE.parents[2] / "build/release")).resolve()
TIMEOUT_S = 120

# TensorProto.DataType by number: NumPy type, the field that holds elements that are not raw, and its wire format.
TYPES = {1: ("<f4", 4, "<f4"), 2: ("u1", 5, "varint"), 3: ("i1", 5, "varint"), 4: ("<u2", 5, "varint"),
         5: ("<i2", 5, "varint"), 6: ("<i4", 5, "varint"), 7: ("<i8", 7, "varint"), 9: ("?", 5, "varint"),
         10: ("<f2", 5, "varint"), 11: ("<f8", 10, "<f8"), 12: ("<u4", 11, "varint"), 13: ("<u8", 11, "varint"),
         16: ("<u2", 5, "varint")}


class Unsupported(Exception):
    pass


def read_fields(data):
    """(number, value) of a Protobuf message; value is an integer, or bytes."""
    at = 0

    def varint():
        nonlocal at
        result = shift = 0
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            yield key >> 3, data[at:at + size]
            at += size


def read_varints(data):
    values, at = [], 0
    while at < len(data):
        result = shift = 0
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        values.append(result)
    return values


def read_tensor(path):
    """A TensorProto as (name, array)."""
    dims, kind, name, raw, typed = [], 0, "", None, {}
    for number, value in read_fields(path.read_bytes()):
        if number == 1:
            dims += [value] if isinstance(value, int) else read_varints(value)
        elif number == 2:
            kind = value
        elif number == 8:
            name = value.decode()
        elif number == 9:
            raw = value
        else:
            typed.setdefault(number, []).append(value)
    if kind not in TYPES:
        raise Unsupported(f"test data of element type {kind}")
    dtype, field, wire = TYPES[kind]
    if raw is None:
        parts = typed.get(field, [])
        if wire == "varint":
            values = [v for part in parts for v in ([part] if isinstance(part, int) else read_varints(part))]
            bits = np.array(values, np.uint64)
            array = bits.astype(f"<u{np.dtype(dtype).itemsize}").view(dtype)
        else:
            array = np.frombuffer(b"".join(parts), wire)
    else:
        array = np.frombuffer(raw, dtype)
    return name, array.reshape(dims), kind


def run(name, *args):
    """Runs a tool; its exit code and what it said."""
    try:
        done = subprocess.run([BUILD / "bin" / name, *args], capture_output=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return -1, f"no end within {TIMEOUT_S} s"
    return done.returncode, done.stderr.decode(errors="replace")


def get_reason(message):
    """An error as a kind: without the case's own names and numbers."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    reasons = []
    for line in lines:
        if match := re.match(r"^([A-Za-z.0-9]+): \d+ nodes? \(", line):
            reasons.append(f"operator {match[1]}")
    if reasons:
        return ", ".join(reasons)
    text = lines[1] if len(lines) > 1 and lines[0].endswith(":") else " ".join(lines[:1])
    text = re.sub(r"^('[^']*'|input '[^']*'|initialiser '[^']*')(, .*?)?: ", "", text)
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'…'", text))[:120]


def read_ports(model):
    """The names of the graph's inputs that have no initialiser, and of its outputs, from model.onnx."""
    graph = next(value for number, value in read_fields(model.read_bytes()) if number == 7)
    initializers, inputs, outputs = set(), [], []
    for number, value in read_fields(graph):
        if number == 5:
            initializers |= {v.decode() for n, v in read_fields(value) if n == 8}
        if number in (11, 12):
            (inputs if number == 11 else outputs).extend(v.decode() for n, v in read_fields(value) if n == 1)
    return [name for name in inputs if name not in initializers], outputs


def run_case(folder, tolerance, target):
    """("pass" | "fail" | "crash" | "unsupported", why)"""
    try:
        names, output_names = read_ports(folder / "model.onnx")
        data = folder / "test_data_set_0"
        read = lambda kind, count: [read_tensor(data / f"{kind}_{i}.pb") for i in range(count)]
        inputs = read("input", len(names))
        outputs = read("output", len(output_names))
    except (Unsupported, FileNotFoundError, StopIteration, ValueError) as error:
        return "unsupported", str(error) if isinstance(error, Unsupported) else "test data of another kind"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        simulated = target != "cpu"
        code, message = run("adaptc", folder / "model.onnx", "-o", scratch / "case.bundle", "--threads", "1",
                            "--no-kernel-cache", f"--target={target}", *["--sim"] * simulated)
        if code not in (0, 1):
            return "crash", f"adaptc: exit code {code}: {message[-300:]}"
        if code:
            return "unsupported", get_reason(message)
        arguments = []
        for index, (name, (_, array, kind)) in enumerate(zip(names, inputs)):
            np.save(scratch / f"{index}.npy", array.view(np.int16) if kind == 16 else array)
            arguments += ["--input", f"{name}={scratch / f'{index}.npy'}"]
        code, message = run("adapt-run", scratch / "case.bundle", *arguments, "--output-dir", scratch / "out",
                            "--threads", "1", *["--device=sim"] * simulated)
        if code not in (0, 1):
            return "crash", f"adapt-run: exit code {code}: {message[-300:]}"
        if code:
            return "fail", message.strip()
        for name, (_, expected, kind) in zip(output_names, outputs):
            file = re.sub(r"[/\\\x00-\x1f]", "_", name)
            actual = np.load(scratch / "out" / f"{file}.npy")
            if kind == 16:
                actual, expected = (a.view(np.uint16).astype(np.uint32) << 16 for a in (actual, expected))
                actual, expected = actual.view(np.float32), expected.view(np.float32)
            if actual.shape != expected.shape or actual.dtype != expected.dtype:
                return "fail", (f"output '{name}' is {actual.dtype} {actual.shape}, not {expected.dtype} "
                                f"{expected.shape}")
            if not np.allclose(actual.astype(np.float64), expected.astype(np.float64), equal_nan=True,
                               rtol=tolerance.get("rtol", 1e-3), atol=tolerance.get("atol", 1e-7)):
                worst = np.nanmax(np.abs(actual.astype(np.float64) - expected.astype(np.float64)))
                return "fail", f"output '{name}' is off by up to {worst:.3g}"
    return "pass", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=pathlib.Path)
    parser.add_argument("--tolerances", type=pathlib.Path)
    parser.add_argument("--write-passed", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--target", default="cpu", help="a GPU's kernels run on the simulated device")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        cases = options.cases or HERE / "node_cases.tar.xz"
        if cases.is_file():
            with tarfile.open(cases) as archive:
                # Python before 3.11.4, as on Debian 12, has no filters.
                safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                archive.extractall(scratch, **safe)
            cases = pathlib.Path(scratch)
        tolerances = options.tolerances or next(cases.rglob("node_tol.json"), None)
        tolerances = json.loads(tolerances.read_text()) if tolerances else {}
        folders = {f.parent.name: f.parent for f in sorted(cases.rglob("model.onnx"))}
        if options.names:
            folders = {name: folders[name] for name in options.names}

        def one(item):
            name, folder = item
            tolerance = tolerances.get(name, {})
            if isinstance(tolerance, list):
                tolerance = dict(zip(("rtol", "atol"), tolerance))
            return name, *run_case(folder, tolerance, options.target)

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(one, folders.items()))
    counts = collections.Counter(kind for _, kind, _ in results)
    reasons = collections.Counter(why for _, kind, why in results if kind == "unsupported")
    for reason, count in reasons.most_common():
        print(f"unsupported {count:5}  {reason}")
    for name, kind, why in results:
        if kind in ("fail", "crash") or options.verbose:
            print(f"{kind} {name}: {why}")
    print(", ".join(f"{counts[kind]} {kind}" for kind in ("pass", "fail", "crash", "unsupported")))
    if options.write_passed:
        options.write_passed.write_text("".join(f"{name}\n" for name, kind, _ in results if kind == "pass"))
    passed = counts["pass"]
    failed = counts["fail"] + counts["crash"] + (0 if options.cases else counts["unsupported"])
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
