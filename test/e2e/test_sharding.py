"""Bundles of several ranks, as they lie on disk, and what `adaptc plan` says of them before they are written."""

import json

import numpy as np

from support import DATA, ROOT, TestCase, compile_bundle, tool

MODEL = "tiny-llama"
HIDDEN, VOCABULARY, LAYERS, QUERY_HEADS, KV_HEADS, HEAD, MLP = 64, 256, 4, 4, 2, 16, 96
F32 = 4
MESHES = [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2)]  # tp, pp


def read_safetensors(path):
    """The header's metadata and all tensors that are not padding; f32 and u8 only."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        begin, end = (8 + size + at for at in entry["data_offsets"])
        if not name.startswith("__pad."):
            assert entry["dtype"] == "F32", entry
            tensors[name] = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
    return metadata, tensors


def unpack(tensor, rows, columns):
    """A packed [ceil(N/n), ceil(K/k), n, k] as [N, K]."""
    blocks, panels, n, k = tensor.shape
    return tensor.transpose(0, 2, 1, 3).reshape(blocks * n, panels * k)[:rows, :columns]


class Sharding(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bundles = {}
        for tp, pp in MESHES:
            cls.bundles[tp, pp] = compile_bundle(DATA / MODEL, cls.folder / f"{tp}x{pp}.bundle", f"--tp={tp}",
                                                 f"--pp={pp}")
        _, cls.checkpoint = read_safetensors(DATA / MODEL / "model.safetensors")

    def manifest(self, mesh):
        return json.loads((self.bundles[mesh] / "manifest.json").read_text())

    def plan(self, mesh, *options):
        tp, pp = mesh
        return json.loads(tool("adaptc", "plan", DATA / MODEL, "--target=cpu", f"--tp={tp}", f"--pp={pp}", "--json",
                               *options).stdout)

    def weights(self, mesh, rank):
        """A rank's weights of all its files."""
        tensors = {}
        for path in sorted((self.bundles[mesh] / f"rank{rank}").glob("weights-*.safetensors")):
            tensors.update(read_safetensors(path)[1])
        return tensors

    def test_manifest(self):
        for tp, pp in MESHES:
            manifest = self.manifest((tp, pp))
            self.assertEqual(manifest["parallel"], {"tp": tp, "pp": pp, "dp": 1, "ep": 1})
            self.assertEqual(len(manifest["ranks"]), tp * pp)
            layers, files = [], {file["path"] for file in manifest["files"]}
            for number, rank in enumerate(manifest["ranks"]):
                stage = number // tp
                self.assertEqual((rank["directory"], rank["pp_rank"], rank["tp_rank"]),
                                 (f"rank{number}", stage, number % tp))
                self.assertEqual(rank["program"], f"rank{stage * tp}/program.pb")
                self.assertEqual(rank["weights"], f"rank{number}/weights.pb")
                self.assertEqual(rank["kernels"], "rank0/kernels.so")
                self.assertLessEqual({rank["program"], rank["weights"], rank["kernels"]}, files)
                if rank["tp_rank"] == 0:
                    first, last = rank["layers"]
                    layers += range(first, last + 1)
                self.assertEqual(rank["layers"], [first, last])
            self.assertEqual(layers, list(range(LAYERS)))
            # Nothing is written twice, and nothing else.
            on_disk = {str(path.relative_to(self.bundles[tp, pp])) for path in self.bundles[tp, pp].rglob("*")
                       if path.is_file()}
            self.assertEqual(on_disk - files, {"manifest.json", "report.md", "report.json"})
            self.assertEqual(sum(path.endswith("program.pb") for path in files), pp)

    def test_metadata(self):
        for tp, pp in MESHES:
            for number, rank in enumerate(self.manifest((tp, pp))["ranks"]):
                files = list((self.bundles[tp, pp] / f"rank{number}").glob("weights-*.safetensors"))
                self.assertEqual(len(files), 1)
                metadata, _ = read_safetensors(files[0])
                expected = {"producer": "adaptc", "layers": "{}-{}".format(*rank["layers"]), "tp_rank": number % tp,
                            "tp_size": tp, "pp_rank": number // tp, "pp_size": pp, "ep_rank": 0, "ep_size": 1}
                self.assertEqual(metadata, {key: str(value) for key, value in expected.items()})

    def test_weights(self):
        """The ranks' parts make up the checkpoint's weights."""
        for tp, pp in MESHES:
            stages = [rank["layers"] for rank in self.manifest((tp, pp))["ranks"][::tp]]
            for layer in range(LAYERS):
                stage = next(s for s, (first, last) in enumerate(stages) if first <= layer <= last)
                ranks = [self.weights((tp, pp), stage * tp + rank) for rank in range(tp)]
                source = lambda name: self.checkpoint[f"model.layers.{layer}.{name}.weight"]
                find = lambda rank, name: ranks[rank][f"layers.{layer}.{name}.weight"]
                # Columns of what comes after a split value, rows of what makes one.
                down = [unpack(find(r, "gated_mlp.down"), HIDDEN, MLP // tp) for r in range(tp)]
                np.testing.assert_array_equal(np.concatenate(down, 1), source("mlp.down_proj"))
                gate = [unpack(find(r, "gated_mlp.gate"), MLP // tp, HIDDEN) for r in range(tp)]
                np.testing.assert_array_equal(np.concatenate(gate, 0), source("mlp.gate_proj"))
                output = [unpack(find(r, "attention.output"), HIDDEN, QUERY_HEADS * HEAD // tp) for r in range(tp)]
                np.testing.assert_array_equal(np.concatenate(output, 1), source("self_attn.o_proj"))
                # Of 2 key/value heads each of 4 ranks has a copy of one: ranks 0 and 1 of the first.
                queries, heads = QUERY_HEADS // tp, max(KV_HEADS // tp, 1)
                for r in range(tp):
                    qkv = unpack(find(r, "attention.query+key+value"), (queries + 2 * heads) * HEAD, HIDDEN)
                    head = r * KV_HEADS // tp
                    of = lambda name, first, count: source(name)[first * HEAD:(first + count) * HEAD]
                    np.testing.assert_array_equal(qkv, np.concatenate([
                        of("self_attn.q_proj", r * queries, queries), of("self_attn.k_proj", head, heads),
                        of("self_attn.v_proj", head, heads)]))
                    np.testing.assert_array_equal(find(r, "attention.norm"), source("input_layernorm"))

    def test_plan_bytes(self):
        """`plan` knows each rank's bytes before anything is written."""
        for tp, pp in MESHES:
            ranks = self.plan((tp, pp))["ranks"]
            self.assertEqual([(rank["pp_rank"], rank["tp_rank"]) for rank in ranks],
                             [(number // tp, number % tp) for number in range(tp * pp)])
            for number, rank in enumerate(ranks):
                stored = sum(tensor.nbytes for tensor in self.weights((tp, pp), number).values())
                self.assertEqual(rank["resident_bytes"], stored)
                layers = rank["layers"][1] - rank["layers"][0] + 1
                heads = max(KV_HEADS, tp) // tp
                self.assertEqual(rank["state_bytes_per_token"], layers * 2 * heads * HEAD * F32)

    def test_plan_wire(self):
        """Two sums a layer and one of the embedding, the logits gathered; a ring of n sends a sum 2 (n - 1) times."""
        tokens = 32
        for tp, pp in MESHES:
            plan = self.plan((tp, pp), f"--max-num-tokens={tokens}")
            rows = plan["communication"]
            sums = sum(row["count"] for row in rows if row["kind"] == "all_reduce")
            self.assertEqual(sums, (2 * LAYERS + 1) * (tp > 1))
            self.assertEqual(sum(row["count"] for row in rows if row["kind"] == "all_gather"), int(tp > 1))
            transfers = [row for row in rows if row["kind"] == "transfer"]
            self.assertEqual([(row["stage"], row["peer"], row["count"], row["groups"]) for row in transfers],
                             [(stage, stage + 1, 1, tp) for stage in range(pp - 1)])
            for step, count in enumerate([1, tokens]):
                hidden, logits = count * HIDDEN * F32, VOCABULARY * F32
                expected = {"all_reduce": (hidden, 2 * (tp - 1) * hidden), "transfer": (hidden, hidden),
                            "all_gather": (logits, (tp - 1) * logits)}
                for row in rows:
                    found = row["steps"][step]
                    self.assertEqual((found["payload_bytes"], found["wire_bytes"]), expected[row["kind"]], row)
                total = sums * 2 * (tp - 1) * hidden + (tp - 1) * logits + (pp - 1) * tp * hidden
                self.assertEqual(plan["communication_total"][step]["wire_bytes"], total)

    def test_padding_is_said(self):
        report = json.loads((self.bundles[4, 1] / "report.json").read_text())
        self.assertIn("tp=4: 2 key/value heads become 4: each is copied 2 times", report["notes"])
        text = tool("adaptc", "plan", DATA / MODEL, "--target=cpu", "--tp=3").stdout.decode()
        self.assertIn("note: tp=3: 2 key/value heads become 3", text)

    def test_same_bytes(self):
        again = compile_bundle(DATA / MODEL, self.folder / "again.bundle", "--tp=2", "--pp=2")
        first = json.loads((again / "manifest.json").read_text())["files"]
        self.assertEqual(first, self.manifest((2, 2))["files"])

    def test_memory_is_refused_by_rank(self):
        (self.folder / "tight.yaml").write_text(
            (ROOT / "targets/cpu.yaml").read_text().replace("target: cpu", "target: tight")
            .replace("{name: host}", "{name: ram, bytes: 1500 kB}"))
        done = tool("adaptc", "plan", DATA / MODEL, "--target=tight", "--target-dir", self.folder, "--pp=2", code=1)
        error = done.stderr.decode()
        self.assertIn("rank 1 does not fit into ram of 1.5 MB", error)
        self.assertNotIn("rank 0 does not fit", error)
