"""Writes small ONNX models without the onnx package: Protobuf by hand, fields as in onnx.proto."""

import numpy as np

ELEMENTS = {np.dtype(name): number for name, number in
            (("f4", 1), ("i1", 3), ("i2", 5), ("i4", 6), ("i8", 7), ("?", 9), ("f2", 10), ("f8", 11))}


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, array, external=None, dims=None):
    """A TensorProto; `external` are the entries of external_data instead of the data."""
    array = np.asarray(array)
    out = b"".join(field(1, d) for d in (array.shape if dims is None else dims))
    out += field(2, ELEMENTS[array.dtype]) + field(8, name)
    if external is None:
        return out + field(9, array.tobytes())
    out += b"".join(field(13, field(1, key) + field(2, str(value))) for key, value in external.items())
    return out + field(14, 1)


def attribute(name, value):
    out = field(1, name)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + np.float32(value).tobytes() + field(20, 1)
    if isinstance(value, int):
        return out + field(3, value) + field(20, 2)
    if isinstance(value, str):
        return out + field(4, value) + field(20, 3)
    if isinstance(value, bytes):
        return out + field(6, value) + field(20, 5)
    return out + b"".join(field(8, v) for v in value) + field(20, 7)


def node(op, inputs, outputs, name="", domain="", **attributes):
    return field(7, domain) + (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(3, name) +
            field(4, op) + b"".join(field(5, attribute(k, v)) for k, v in attributes.items()))


def value(name, dtype, shape):
    dims = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, ELEMENTS[np.dtype(dtype)]) + field(2, dims)))


def graph(nodes, inputs, outputs, initializers=()):
    """A GraphProto, which may be an attribute too."""
    return (b"".join(field(1, n) for n in nodes) + field(2, "graph") + b"".join(field(5, t) for t in initializers) +
            b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs))


def function(domain, name, inputs, outputs, nodes, opsets):
    return (field(1, name) + b"".join(field(4, i) for i in inputs) + b"".join(field(5, o) for o in outputs) +
            b"".join(field(7, n) for n in nodes) + opset_imports(opsets) + field(10, domain))


def opset_imports(opsets, number=9):
    return b"".join(field(number, field(1, domain) + field(2, version)) for domain, version in opsets.items())


def model(nodes, inputs, outputs, initializers=(), opset=18, domains=None, functions=()):
    return (field(1, 10) + field(7, graph(nodes, inputs, outputs, initializers)) +
            opset_imports({"": opset, **(domains or {})}, 8) + b"".join(field(25, f) for f in functions))
