#!/usr/bin/env python3
"""check-gxx.py BUILD [-j N] [FILE…]: does g++ accept what clang compiles, without a warning?

Takes each of our sources from BUILD/compile_commands.json (only those named, if any are) and checks its syntax with
g++, through ccache, with a precompiled header of its own. BUILD must be built: the sources include generated headers.
Last line: `N passed, N failed`.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
GXX = os.environ.get("GXX", "g++")
FLAGS = ["-std=c++17", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
PCH_SOURCE = ROOT / "cmake/pch.h"


class Unit:
    """A source, and those of clang's options that say what it means; paths relative to the build folder."""

    def __init__(self, build, entry):
        words = entry.get("arguments") or shlex.split(entry["command"])
        relative = lambda path: os.path.relpath(os.path.join(entry["directory"], path), build)
        self.source = relative(entry["file"])
        self.name = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        self.options = []
        self.precompiled = "-include-pch" in words
        for word, following in zip(words, words[1:] + [""]):
            if word.startswith("-D"):
                self.options.append(word)
            elif word.startswith("-I"):
                self.options.append("-I" + relative(word[2:]))
            elif word == "-isystem":
                self.options += [word, relative(following)]

    @property
    def defines(self):
        return [word for word in self.options if word.startswith("-D")]


def is_ours(entry, build):
    path = pathlib.Path(entry["directory"], entry["file"]).resolve()
    return path.suffix == ".cpp" and path.is_relative_to(ROOT) and not path.is_relative_to(build)


def precompile(build, unit):
    """gxx/pch.h.gch for units with these options. It is no part of ccache's keys; the checksum beside it is."""
    folder = build / "gxx"
    folder.mkdir(exist_ok=True)
    header, result = folder / "pch.h", folder / "pch.h.gch"
    header.write_text("#include <cmake/pch.h>\n")
    version = subprocess.run([GXX, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
    # The headers are MLIR's, whose version its CMake file knows.
    mlir = next(build.glob("CMakeCache.txt")).read_text().split("MLIR_DIR:PATH=")[1].split("\n")[0]
    stated = (pathlib.Path(mlir) / "MLIRConfigVersion.cmake").read_bytes()
    key = hashlib.sha256(stated + PCH_SOURCE.read_bytes() + version.encode() + " ".join(unit.options).encode()).hexdigest()
    checksum = folder / "pch.h.gch.sum"
    if result.exists() and checksum.exists() and checksum.read_text() == key:
        return
    flags = [f for f in FLAGS if f not in ("-fsyntax-only", "-Werror")]
    subprocess.run([GXX, *flags, *unit.options, "-x", "c++-header", "gxx/pch.h", "-o", "gxx/pch.h.gch"],
                   cwd=build, check=True)
    checksum.write_text(key)


def check(build, unit):
    include = ["-include", "gxx/pch.h"] if unit.precompiled else []
    environment = {**os.environ, "CCACHE_NOHASHDIR": "1", "CCACHE_PCH_EXTSUM": "1",
                   "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime"}
    command = ["ccache", GXX, *FLAGS, *unit.options, *include, unit.source]
    done = subprocess.run(command, cwd=build, env=environment, capture_output=True, text=True)
    return unit, done.returncode == 0, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    build = args.build.resolve()

    entries = json.loads((build / "compile_commands.json").read_text())
    units = {}
    for entry in entries:
        if is_ours(entry, build):
            unit = Unit(build, entry)
            units.setdefault(unit.name, unit)
    units = [u for name, u in sorted(units.items()) if not args.files or name in args.files]
    precompiled = [u for u in units if u.precompiled]
    if precompiled:
        precompile(build, precompiled[0])

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for unit, good, output in pool.map(lambda u: check(build, u), units):
            failed += not good
            if not good:
                print(f"FAILED: {unit.name}\n{output}", flush=True)
    failed += not units
    print(f"{len(units) - failed if units else 0} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
