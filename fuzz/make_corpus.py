#!/usr/bin/env python3
"""Writes a small corpus of safetensors files, right and almost right, into a directory."""
import json
import pathlib
import struct
import sys


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def file(header, data, padding=0):
    text = (header if isinstance(header, str) else json.dumps(header)).encode() + b" " * padding
    return struct.pack("<Q", len(text)) + text + data


SEEDS = {
    "empty": file({}, b""),
    "metadata": file({"__metadata__": {"format": "pt", "a": ""}}, b""),
    "scalar": file({"w": entry("F32", [], 0, 4)}, bytes(4)),
    "padded": file({"w": entry("F32", [1], 0, 4)}, bytes(4), 13),
    "two": file({"a": entry("U8", [1], 0, 1), "b": entry("F32", [2], 1, 9)}, bytes(9)),
    "unordered": file({"b": entry("BF16", [2, 2], 3, 11), "a": entry("I8", [3], 0, 3)}, bytes(11)),
    "empty_tensor": file({"e": entry("F32", [0, 5], 0, 0), "w": entry("I64", [1], 0, 8)}, bytes(8)),
    "narrow": file({"f": entry("F4", [2, 2], 0, 2), "q": entry("F8_E4M3", [3], 2, 5)}, bytes(5)),
    "overlap": file({"k": entry("U8", [4], 0, 4), "v": entry("U8", [4], 0, 4)}, bytes(4)),
    "gap": file({"k": entry("U8", [2], 0, 2), "v": entry("U8", [2], 3, 5)}, bytes(5)),
    "huge": file({"w": entry("F32", [2**33, 2**33], 0, 16)}, bytes(16)),
    "escapes": file('{"\\u0077\\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"),
    "deep": file("{" + '"a":[' * 40, b""),
}


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (directory / name).write_bytes(data)


if __name__ == "__main__":
    main()
