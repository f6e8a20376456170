"""ONNX graphs through adaptc and adapt-run, against what PyTorch and onnxruntime computed.

The models are in test/import/onnx (README.md there says where they come from)."""

import json
import math
import shutil
import unittest

import numpy as np

import onnx_writer as onnx
from support import DATA, HERE, ROOT, TestCase, compile_bundle, run_logits, tool

MODELS = ROOT / "test/import/onnx"
RANGE_TOLERANCE = 1e-5  # of the reference's largest less its smallest element
SHAPE = "batch=8,seq=64"


def run_graph(bundle, inputs, folder, *options):
    """The outputs of a graph, by name."""
    folder.mkdir(exist_ok=True)
    arguments = []
    for index, (name, value) in enumerate(inputs.items()):
        np.save(folder / f"in{index}.npy", value)
        arguments += ["--input", f"{name}={folder / f'in{index}.npy'}"]
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    tool("adapt-run", bundle, *arguments, "--output-dir", out, *options)
    return {path.stem: np.load(path) for path in out.glob("*.npy")}


class OnnxTestCase(TestCase):
    def assertEqualOutputs(self, actual, expected, what=""):
        self.assertEqual(actual.keys(), expected.keys(), what)
        for name, reference in expected.items():
            self.assertEqual(actual[name].shape, reference.shape, f"{what} {name}")
            self.assertEqual(actual[name].dtype, reference.dtype, f"{what} {name}")
            limit = RANGE_TOLERANCE * (reference.max() - reference.min())
            found = np.abs(actual[name].astype(np.float64) - reference).max()
            self.assertTrue(found <= limit, f"{what} {name}: {found:.3g} above {limit:.3g}")


class Graph:
    model = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bundle = cls.compile(cls.folder / "graph.bundle")

    @classmethod
    def compile(cls, bundle, *options):
        shape = SHAPE if cls.has_sequence else "batch=8"
        tool("adaptc", MODELS / cls.model / "model.onnx", "--target=cpu", "--shape", shape, *options,
             "-o", bundle)
        return bundle

    has_sequence = True

    def arrays(self, name):
        with np.load(MODELS / self.model / name) as arrays:
            return {key: arrays[key] for key in arrays.files}

    def goldens(self):
        arrays = self.arrays("goldens.npz")
        for index in sorted({key.split(".")[0] for key in arrays}):
            pick = lambda kind: {key.removeprefix(f"{index}.{kind}."): value for key, value in
                                 arrays.items() if key.startswith(f"{index}.{kind}.")}
            yield pick("in"), pick("out")

    def test_expected(self):
        actual = run_graph(self.bundle, self.arrays("inputs.npz"), self.folder / "expected")
        self.assertEqualOutputs(actual, self.arrays("expected.npz"))

    def test_other_batches_and_lengths(self):
        for number, (inputs, outputs) in enumerate(self.goldens()):
            actual = run_graph(self.bundle, inputs, self.folder / "goldens")
            self.assertEqualOutputs(actual, outputs, number)

    def test_memory_that_no_kernel_may_read_is_not_read(self):
        inputs, _ = next(self.goldens())
        plain = run_graph(self.bundle, inputs, self.folder / "plain")
        poisoned = run_graph(self.bundle, inputs, self.folder / "poisoned", "--poison")
        for name, value in plain.items():
            self.assertEqual(value.tobytes(), poisoned[name].tobytes(), name)

    def test_same_bits_with_any_number_of_threads(self):
        inputs, _ = list(self.goldens())[-1]
        one = run_graph(self.bundle, inputs, self.folder / "one", "--threads", 1)
        three = run_graph(self.bundle, inputs, self.folder / "three", "--threads", 3)
        for name, value in one.items():
            self.assertEqual(value.tobytes(), three[name].tobytes(), name)


class Llama(Graph, OnnxTestCase):
    model = "llama"

    def test_sizes_that_do_not_fit_are_refused(self):
        ids = np.zeros((9, 4), np.int64)
        np.save(self.folder / "ids.npy", ids)
        done = tool("adapt-run", self.bundle, "--input", f"input_ids={self.folder / 'ids.npy'}",
                    "--output-dir", self.folder / "none", code=1)
        self.assertIn("'batch' is 9, the bundle was compiled for 1 to 8", done.stderr.decode())

    def test_inputs_that_do_not_fit_are_refused(self):
        np.save(self.folder / "floats.npy", np.zeros((1, 4), np.float32))
        for arguments, message in (
                (("--input", f"input_ids={self.folder / 'floats.npy'}"), "'<f4', wanted are '<i8'"),
                (("--input", f"ids={self.folder / 'floats.npy'}"), "there is no input 'ids'"),
                ((), "input 'input_ids' [batch, seq] is missing")):
            done = tool("adapt-run", self.bundle, *arguments, "--output-dir", self.folder / "none", code=1)
            self.assertIn(message, done.stderr.decode())

    def test_ids_out_of_the_vocabulary_do_not_crash(self):
        for value in (-1, 256, -257, 2**62, -2**63):
            run_graph(self.bundle, {"input_ids": np.full((1, 3), value)}, self.folder / "outside")

    def test_unknown_sizes_are_refused(self):
        done = tool("adaptc", MODELS / "llama/model.onnx", "--shape", "sequence=3", "-o",
                    self.folder / "x.bundle", code=1)
        self.assertIn("no size is called 'sequence'; there are: batch, seq", done.stderr.decode())


class Gpt2(Graph, OnnxTestCase):
    model = "gpt2"

    def compile_for(self, target, *options, code=0):
        return tool("adaptc", *options, MODELS / "gpt2/model.onnx", "--shape", SHAPE, "--target-dir",
                    HERE / "data/targets" / target, code=code)

    def test_target_without_the_composites(self):
        """A target that keeps no softmax and no layer_norm decomposes them."""
        bundle = self.folder / "plain.bundle"
        tool("adaptc", MODELS / "gpt2/model.onnx", "--shape", SHAPE, "--target-dir",
             HERE / "data/targets/plain", "-o", bundle)
        actual = run_graph(bundle, self.arrays("inputs.npz"), self.folder / "plain-expected")
        self.assertEqualOutputs(actual, self.arrays("expected.npz"))

    def test_target_without_exp(self):
        """All that cannot be done is listed, with counts and the nodes' names."""
        message = self.compile_for("no-exp", "-o", self.folder / "x.bundle", code=1).stderr.decode()
        self.assertIn("adapt.exp: 4 in @main", message)
        self.assertIn("adapt.tanh: 4 in @main", message)

    def test_inspect(self):
        rows = {}
        for target in ("plain", "no-exp"):
            report = json.loads(self.compile_for(target, "inspect", "--json").stdout)
            rows[target] = {row["operation"]: row for row in report["coverage"]}
        softmax = rows["plain"]["adapt.softmax"]
        self.assertEqual((softmax["composite"], softmax["missing"]), (4, 0))
        softmax = rows["no-exp"]["adapt.softmax"]
        self.assertEqual((softmax["composite"], softmax["missing"]), (0, 4))
        self.assertRegex(softmax["reasons"][0], "needs adapt.exp, .*: .*, .*, .*, ")
        self.assertEqual(rows["plain"]["adapt.matmul"]["generated"], 16)


class Siglip(Graph, OnnxTestCase):
    model = "siglip_vision_model"
    has_sequence = False


class Bert(Graph, OnnxTestCase):
    model = "bert"


class Faults(OnnxTestCase):
    """Models that cannot be imported, and operators whose meaning tools get wrong."""

    def write(self, content):
        self.models.mkdir(exist_ok=True)
        path = self.models / "model.onnx"
        path.write_bytes(content)
        return path

    @property
    def models(self):
        return self.folder / "models"

    def refused(self, content, *messages):
        text = tool("adaptc", self.write(content), "-o", self.folder / "x.bundle", code=1).stderr.decode()
        for message in messages:
            self.assertIn(message, text)

    def run_model(self, content, inputs):
        tool("adaptc", self.write(content), "-o", self.folder / "x.bundle")
        return run_graph(self.folder / "x.bundle", inputs, self.folder / "run")

    def one_node(self, op, inputs, output, initializers=(), opset=18, **attributes):
        """A model of one node, its graph inputs as NAME: array."""
        names = [*inputs, *(name for name, _ in initializers)]
        return onnx.model([onnx.node(op, names, ["y"], **attributes)],
                          [onnx.value(name, array.dtype, array.shape) for name, array in inputs.items()],
                          [onnx.value("y", *output)], [onnx.tensor(*i) for i in initializers], opset)

    def test_not_a_model(self):
        self.refused(b"", "IR version 0")
        self.refused(b"\xff" * 100, "cannot be parsed")

    def test_every_unsupported_operator_is_listed(self):
        text = tool("adaptc", self.write(onnx.model(
            [onnx.node("NonZero", ["x"], ["a"], "first"), onnx.node("Unique", ["x"], ["b"], "second"),
             onnx.node("NonZero", ["x"], ["c"], "third")],
            [onnx.value("x", "f4", [2])], [onnx.value("a", "i8", [1, "n"])])), "-o", self.folder / "x.bundle",
            code=1).stderr.decode()
        self.assertIn("2 operators cannot be imported:\n  NonZero: 2 nodes (first, third)\n"
                      "  Unique: 1 node (second)", text)

    def test_what_does_not_bind_is_said_for_all_nodes(self):
        self.refused(onnx.model(
            [onnx.node("Reshape", ["x", "shape"], ["a"], "one"), onnx.node("Mod", ["x", "x"], ["b"], "two")],
            [onnx.value("x", "f4", [2]), onnx.value("shape", "i8", [1])],
            [onnx.value("a", "f4", ["n"]), onnx.value("b", "f4", [2])]),
            "'one': Reshape: input 1 ('shape') must be known when compiling",
            "'two': Mod: of floating-point numbers needs fmod=1")

    def external(self, entries, message):
        weights = np.arange(600, dtype=np.float32)
        self.models.mkdir(exist_ok=True)
        for path in (self.models / "w.bin", self.folder / "outside.bin"):
            path.write_bytes(weights.tobytes())
        link = self.models / "link.bin"
        if not link.is_symlink():
            link.symlink_to(self.folder / "outside.bin")
        content = onnx.model([onnx.node("Add", ["x", "w"], ["y"])], [onnx.value("x", "f4", [600])],
                             [onnx.value("y", "f4", [600])], [onnx.tensor("w", weights, entries)])
        if message:
            return self.refused(content, "initialiser 'w': " + message)
        result = self.run_model(content, {"x": np.ones(600, np.float32)})
        np.testing.assert_array_equal(result["y"], weights + 1)

    def test_external_data(self):
        self.external({"location": "w.bin"}, None)
        self.external({"location": "w.bin", "offset": 0, "length": 2400}, None)

    def test_external_data_that_is_not_there(self):
        for entries, message in (
                ({"location": "../outside.bin"}, "external data '../outside.bin' lies outside"),
                ({"location": str(self.folder / "outside.bin")}, "external data '/"),
                ({"location": "link.bin"}, "external data 'link.bin' lies outside"),
                ({"location": "."}, "external data '.'"),
                ({"location": "none.bin"}, "external data 'none.bin': No such file"),
                ({}, "external data has no location"),
                ({"location": "w.bin", "offset": 4}, "external data: bytes 4 + 2400 of 'w.bin', which has 2400"),
                ({"location": "w.bin", "offset": -4}, "external data: offset '-4' is no number"),
                ({"location": "w.bin", "offset": 2**62}, "external data: bytes 4611686018427387904 + 2400"),
                ({"location": "w.bin", "offset": 2**64 - 2400}, "external data: bytes 18446744073709549216"),
                ({"location": "w.bin", "length": 2396}, "external data: 2396 bytes where its shape needs 2400")):
            self.external(entries, message)

    def test_shapes_that_overflow(self):
        for dims in ([2**62], [2**33, 2**33], [-1]):
            self.refused(
                onnx.model([onnx.node("Add", ["x", "w"], ["y"])], [onnx.value("x", "f4", [1])],
                           [onnx.value("y", "f4", [1])],
                           [onnx.tensor("w", np.zeros(1, np.float32), {"location": "w.bin"}, dims)]), "'w': ")

    def test_two_initialisers_of_one_name(self):
        w = onnx.tensor("w", np.zeros(1, np.float32))
        self.refused(onnx.model([onnx.node("Add", ["x", "w"], ["y"])], [onnx.value("x", "f4", [1])],
                                [onnx.value("y", "f4", [1])], [w, w]), "two initialisers have the name 'w'")

    def test_softmax_by_version(self):
        x = np.log(np.array([[[1, 2], [3, 4]]], np.float32))
        for opset, attributes, expected in (
                (11, {}, [.1, .2, .3, .4]), (13, {}, [1 / 3, 2 / 3, 3 / 7, 4 / 7]),
                (13, {"axis": 1}, [.25, 1 / 3, .75, 2 / 3])):
            y = self.run_model(self.one_node("Softmax", {"x": x}, ("f4", [1, 2, 2]), opset=opset, **attributes),
                               {"x": x})["y"]
            np.testing.assert_allclose(y.ravel(), expected, rtol=1e-6)

    def test_slice_clamps(self):
        x = np.array([1, 2, 3], np.float32)
        low, high = -2**63, 2**63 - 1
        for start, end, step, expected in ((-1, low, -1, [3, 2, 1]), (-1, high, -1, []), (5, 6, 1, []),
                                           (5, 0, -1, [3, 2])):
            initializers = [(name, np.array([v])) for name, v in (("s", start), ("e", end), ("a", 0), ("t", step))]
            y = self.run_model(self.one_node("Slice", {"x": x}, ("f4", [len(expected)]), initializers), {"x": x})
            self.assertEqual(y["y"].tolist(), expected)

    def test_mod_and_division(self):
        a, b = np.array([-5, 5, -5], np.int32), np.array([3, -3, -3], np.int32)
        for op, attributes, expected in (("Mod", {}, [1, -1, -2]), ("Mod", {"fmod": 1}, [-2, 2, -2]),
                                         ("Div", {}, [-1, -1, 1])):
            y = self.run_model(self.one_node(op, {"a": a, "b": b}, ("i4", [3]), **attributes), {"a": a, "b": b})
            self.assertEqual(y["y"].tolist(), expected, op)

    def test_division_that_would_trap(self):
        a, b = np.array([1, -2**31, 7], np.int32), np.array([0, -1, 2], np.int32)
        for op in ("Div", "Mod"):
            y = self.run_model(self.one_node(op, {"a": a, "b": b}, ("i4", [3])), {"a": a, "b": b})["y"]
            self.assertEqual(y[2], 3 if op == "Div" else 1)

    def test_a_value_with_another_consumer_stays(self):
        """p = x + w, r = relu(p), y = p + r; y and p are outputs."""
        w = np.array([-2, 3], np.float32)
        y = self.run_model(onnx.model(
            [onnx.node("Add", ["x", "w"], ["p"]), onnx.node("Relu", ["p"], ["r"]), onnx.node("Add", ["p", "r"], ["y"])],
            [onnx.value("x", "f4", [2])], [onnx.value("y", "f4", [2]), onnx.value("p", "f4", [2])],
            [onnx.tensor("w", w)]), {"x": np.zeros(2, np.float32)})
        self.assertEqual((y["y"].tolist(), y["p"].tolist()), ([-2, 6], [-2, 3]))

    def test_names_of_graphs_inside_of_nodes(self):
        """A17: what stands for a value outside must not be named anew inside."""
        w = onnx.tensor("w", np.ones(2, np.float32))
        y = onnx.value("y", "f4", [2])
        branch = lambda result, *initializers: onnx.graph(
            [onnx.node("Add", ["x", "w"], [result])], [], [onnx.value(result, "f4", [2])], initializers)
        self.refused(onnx.model(
            [onnx.node("If", ["c"], ["y"], then_branch=branch("a", w), else_branch=branch("b"))],
            [onnx.value("x", "f4", [2]), onnx.value("c", "?", [])], [y], [w]),
            "'w' of a graph inside of a node is also the name of a value outside")

    def test_functions_that_multiply(self):
        """40 functions, each of which calls the next one twice."""
        opsets = {"": 18, "f": 1}
        functions = [onnx.function("f", f"F{i}", ["a"], ["b"], [
            onnx.node(f"F{i + 1}", ["a"], ["c"], domain="f"), onnx.node(f"F{i + 1}", ["c"], ["b"], domain="f")], opsets)
            for i in range(39)]
        functions.append(onnx.function("f", "F39", ["a"], ["b"], [onnx.node("Neg", ["a"], ["b"])], opsets))
        x, y = onnx.value("x", "f4", [2]), onnx.value("y", "f4", [2])
        model = lambda first: onnx.model([onnx.node(first, ["x"], ["y"], domain="f")], [x], [y], domains={"f": 1},
                                         functions=functions)
        self.refused(model("F0"), "the model's functions, inlined, make more than 1048576 nodes")
        self.assertEqual(self.run_model(model("F38"), {"x": np.array([1, 2], np.float32)})["y"].tolist(), [1, 2])

    def test_outputs_that_nothing_computes(self):
        """An output that is an input, and one that is an initialiser."""
        x, w = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
        y = self.run_model(onnx.model(
            [onnx.node("Identity", ["x"], ["y"])], [onnx.value("x", "f4", [2])],
            [onnx.value(name, "f4", [2]) for name in ("y", "w")], [onnx.tensor("w", w)]), {"x": x})
        self.assertEqual({name: value.tolist() for name, value in y.items()}, {"y": [1, 2], "w": [3, 4]})
        y = self.run_model(onnx.model([onnx.node("Identity", ["x"], ["y"])], [onnx.value("x", "f4", [2])],
                                      [onnx.value("y", "f4", [2])]), {"x": x})
        self.assertEqual(y["y"].tolist(), [1, 2])
        x, y = onnx.value("x", "f4", [2]), onnx.value("y", "f4", [2])
        self.refused(onnx.model([onnx.node("Neg", ["x"], ["y"])], [x], [x, y, y]),
                     "output 'x': is also an input of the graph", "output 'y': is given twice")

    def test_many_operands_and_long_chains(self):
        x = np.array([[1, 2]], np.float32)
        nodes = [onnx.node("Concat", ["x"] * 100, ["c"], axis=1), onnx.node("Sum", ["x"] * 300, ["s"])]
        nodes += [onnx.node("Neg", [f"t{i}" if i else "x"], [f"t{i + 1}"]) for i in range(501)]
        y = self.run_model(onnx.model(nodes, [onnx.value("x", "f4", ["n", 2])], [
            onnx.value("c", "f4", ["n", 200]), onnx.value("s", "f4", ["n", 2]), onnx.value("t501", "f4", ["n", 2])]),
            {"x": x})
        np.testing.assert_array_equal(y["c"], np.concatenate([x] * 100, axis=1))
        np.testing.assert_array_equal(y["s"], x * 300)
        np.testing.assert_array_equal(y["t501"], -x)

    def test_sizes_out_of_bounds(self):
        x, y, z = (onnx.value(name, "f4", dims) for name, dims in (("x", ["N", 3]), ("y", ["a", "b"]), ("z", ["M"])))
        numbers = lambda *values: onnx.tensor("s", np.array(values, np.int64))
        squares = [onnx.node("Shape", ["z"], ["s0"])]
        squares += [onnx.node("Mul", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(60)]
        for nodes, initializers, message in (
                (squares + [onnx.node("ConstantOfShape", ["s60"], ["y"])], [], "become too long an expression"),
                ([onnx.node("Tile", ["x", "s"], ["y"])], [numbers(2**62, 2**62)], "2^60 elements or more"),
                ([onnx.node("Expand", ["x", "s"], ["y"])], [numbers(2**40, 2**40, 1, 3)], "2^60 elements or more"),
                ([onnx.node("Pad", ["x", "s"], ["y"])], [numbers(2**62, 0, 2**62, 0)], "pads: 4611686018427387904"),
                ([onnx.node("Concat", ["x", "x"], ["y"], axis=-2**63)], [], "axis -9223372036854775808 of a tensor")):
            self.refused(onnx.model(nodes, [x, z], [y], initializers), message)

    def test_reductions_of_nothing(self):
        """A04"""
        x, none = np.array([[1, 2], [3, 4]], np.float32), ("axes", np.zeros(0, np.int64))
        for op, expected in (("ReduceSum", x), ("ReduceSumSquare", x * x)):
            for initializers in ((), (none,)):
                y = self.run_model(self.one_node(op, {"x": x}, ("f4", [2, 2]), initializers, keepdims=0,
                                                 noop_with_empty_axes=1), {"x": x})["y"]
                np.testing.assert_array_equal(y, expected, op)
        empty = np.zeros((2, 0), np.float32)
        for op, expected in (("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -np.inf)):
            y = self.run_model(self.one_node(op, {"x": empty}, ("f4", [2]), [("axes", np.array([1]))], opset=20,
                                             keepdims=0), {"x": empty})["y"]
            self.assertEqual(y.tolist(), [expected, expected], op)

    def test_clip(self):
        """A10: a limit that is left out, limits that are the wrong way round."""
        x = np.array([-3, 7], np.float32)
        scalar = lambda name, number: onnx.tensor(name, np.array(number, np.float32))
        for inputs, expected in ((["x", "", "max"], [-3, 6]), (["x", "low", "high"], [2, 2])):
            y = self.run_model(onnx.model([onnx.node("Clip", inputs, ["y"])], [onnx.value("x", "f4", [2])], [
                onnx.value("y", "f4", [2])], [scalar("max", 6), scalar("low", 5), scalar("high", 2)]), {"x": x})
            self.assertEqual(y["y"].tolist(), expected)

    def test_pad_and_gather_elements(self):
        """A15, A02"""
        x = np.array([1, 2, 3], np.float32)
        y = self.run_model(self.one_node("Pad", {"x": x}, ("f4", [4]), [("pads", np.array([-1, 2]))]), {"x": x})["y"]
        self.assertEqual(y.tolist(), [2, 3, 0, 0])
        data, indices = np.array([[1, 2], [3, 4]], np.float32), np.array([[0, 0], [1, 0]])
        y = self.run_model(self.one_node("GatherElements", {"d": data, "i": indices}, ("f4", [2, 2]), axis=-1),
                           {"d": data, "i": indices})["y"]
        self.assertEqual(y.tolist(), [[1, 1], [4, 3]])

    def test_operators_of_another_domain(self):
        x = np.array([1, -3], np.float32)
        y = self.run_model(onnx.model(
            [onnx.node("Gelu", ["x"], ["y"], domain="com.microsoft"),
             onnx.node("FastGelu", ["x"], ["t"], domain="com.microsoft")],
            [onnx.value("x", "f4", [2])], [onnx.value("y", "f4", [2]), onnx.value("t", "f4", [2])],
            domains={"com.microsoft": 1}), {"x": x})
        np.testing.assert_allclose(y["y"], [.841345, -.0040497], rtol=1e-5)  # D07
        np.testing.assert_allclose(y["t"], [.841192, -.0036374], rtol=1e-5)
        self.refused(onnx.model([onnx.node("Gelu", ["x"], ["y"], "one", domain="org.example")],
                                [onnx.value("x", "f4", [2])], [onnx.value("y", "f4", [2])], domains={"org.example": 1}),
                     "org.example.Gelu: 1 node (one)")

    def test_composites_decompose(self):
        """Softmax, LayerNormalization and Gelu on a target that keeps none of them."""
        random = np.random.default_rng(0)
        x = random.standard_normal((3, 16), np.float32)
        scale, bias = (random.standard_normal(16, np.float32) for _ in range(2))
        path = self.write(onnx.model(
            [onnx.node("LayerNormalization", ["x", "scale", "bias"], ["n"]), onnx.node("Gelu", ["n"], ["g"]),
             onnx.node("Softmax", ["g"], ["y"])], [onnx.value("x", "f4", ["batch", 16])],
            [onnx.value("y", "f4", ["batch", 16])], [onnx.tensor("scale", scale), onnx.tensor("bias", bias)], opset=20))
        wide = x.astype(np.float64)
        n = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * scale + bias
        g = np.exp(n * .5 * (1 + np.vectorize(math.erf)(n / np.sqrt(2))))
        results = []
        for target in ("plain", None):
            options = ("--target-dir", HERE / "data/targets" / target) if target else ()
            tool("adaptc", path, *options, "-o", self.folder / "x.bundle")
            results.append(run_graph(self.folder / "x.bundle", {"x": x}, self.folder / "run")["y"])
            np.testing.assert_allclose(results[-1], g / g.sum(1, keepdims=True), rtol=1e-5)
            rows = json.loads(tool("adaptc", "inspect", "--json", path, *options).stdout)["coverage"]
            whole = {row["operation"]: row["composite"] for row in rows}
            self.assertEqual([whole[f"adapt.{name}"] for name in ("softmax", "layer_norm", "gelu")],
                             [1 if target else 0] * 3)

    def test_a_symbolic_size_in_an_index(self):
        """Shape -> Gather with negative indices, one of them symbolic."""
        x = np.zeros((8, 5, 8, 1), np.float32)
        y = self.run_model(onnx.model(
            [onnx.node("Shape", ["x"], ["s"]), onnx.node("Gather", ["s", "i"], ["y"])],
            [onnx.value("x", "f4", ["n", 5, 8, 1])], [onnx.value("y", "i8", [2])],
            [onnx.tensor("i", np.array([-1, -4]))]), {"x": x})
        self.assertEqual(y["y"].tolist(), [1, 8])


class CProgram(TestCase):
    """examples/run_bundle.c, which is C, runs both kinds of bundle through adapt.h."""

    def test_graph(self):
        tool("adaptc", MODELS / "gpt2/model.onnx", "--shape", SHAPE, "-o", self.folder / "graph.bundle")
        logits = run_graph(self.folder / "graph.bundle", {"input_ids": np.array([[5, 6, 7]])}, self.folder / "run")
        (name, expected), = logits.items()
        line = tool("run_bundle", self.folder / "graph.bundle", 5, 6, 7).stdout.decode()
        head, _, values = line.partition("]")
        self.assertEqual(head, f"{name} [{', '.join(map(str, expected.shape))}")
        np.testing.assert_array_equal(np.array(values.split(), np.float32), expected.ravel()[:8])

    def test_language_model(self):
        bundle = compile_bundle(DATA / "tiny-llama", self.folder / "model.bundle")
        logits = run_logits(bundle, [[5, 6, 7]])[0][-1]
        word, token, logit = tool("run_bundle", bundle, 5, 6, 7).stdout.decode().split()
        self.assertEqual((word, int(token), np.float32(logit)), ("next", int(logits.argmax()), logits.max()))

    def test_errors(self):
        self.assertIn("none", tool("run_bundle", self.folder / "none", 1, code=1).stderr.decode())
        bundle = compile_bundle(DATA / "tiny-llama", self.folder / "other.bundle")
        self.assertIn("vocabulary", tool("run_bundle", bundle, 10**6, code=1).stderr.decode())


if __name__ == "__main__":
    unittest.main()
