#!/usr/bin/env python3
"""Writes test/import/onnx/MODEL/goldens.npz: what onnxruntime computes at other batches and lengths.

Needs onnxruntime and numpy, in an environment of their own:
  python3 -m venv goldens && goldens/bin/pip install onnxruntime numpy && goldens/bin/python scripts/goldens/onnx.py
Arrays: "N.in.NAME" and "N.out.NAME" for N = 0, 1, ….
"""

import pathlib

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2] / "test/import/onnx"
SIZES = [(1, 1), (3, 5), (2, 33), (5, 2)]


def make_input(port, sizes, random):
    shape = [sizes[d] if isinstance(d, str) else d for d in port.shape]
    if port.name == "attention_mask":
        mask = np.ones(shape, np.int64)
        for row in range(shape[0]):
            mask[row, max(1, shape[1] - row):] = 0
        return mask
    if port.type == "tensor(int64)":
        return random.integers(0, 256, shape, np.int64)
    return random.standard_normal(shape, np.float32)


for folder in sorted(p.parent for p in ROOT.glob("*/model.onnx")):
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    arrays = {}
    named = any("seq" in port.shape for port in session.get_inputs())
    for index, (batch, seq) in enumerate(SIZES if named else SIZES[:2]):
        inputs = {port.name: make_input(port, {"batch": batch, "seq": seq}, random)
                  for port in session.get_inputs()}
        for port, value in zip(session.get_outputs(), session.run(None, inputs), strict=True):
            arrays[f"{index}.out.{port.name}"] = value
        for name, value in inputs.items():
            arrays[f"{index}.in.{name}"] = value
    np.savez_compressed(folder / "goldens.npz", **arrays)
    print(folder.name, len(arrays))
