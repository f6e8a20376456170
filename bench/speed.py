#!/usr/bin/env python3
"""Tokens per second of a bundle beside llama.cpp's and OpenVINO GenAI's, in one run.

  bench/speed.py --bundle smol.bundle --peers FOLDER     (FOLDER: bench/setup-peers)

Programs run in turn, ours and a peer's, --runs times; medians of each and of the ratios pair by pair are
printed. Run it on an idle machine: the threads of each program spin.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

OPENVINO = r"""
import json, sys, time, openvino_genai as ov
gguf, threads, prompt, repetitions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
pipe = ov.LLMPipeline(gguf, "CPU", INFERENCE_PRECISION_HINT="bf16", INFERENCE_NUM_THREADS=threads)
import numpy, openvino
random = numpy.random.default_rng(0)
mask = openvino.Tensor(numpy.ones((1, prompt), numpy.int64))
config = ov.GenerationConfig(); config.max_new_tokens = 1; config.ignore_eos = True
config.apply_chat_template = False
speeds = []
for i in range(repetitions + 1):
    # Another prompt each time: what it has seen before, it does not compute again.
    ids = openvino.Tensor(random.integers(1000, 40000, (1, prompt), dtype=numpy.int64))
    result = pipe.generate(ov.TokenizedInputs(ids, mask), config)
    speeds.append(prompt / (result.perf_metrics.get_ttft().mean / 1e3))
print(json.dumps(sorted(speeds[1:])[len(speeds[1:]) // 2]))
"""


def ours(args, what):
    command = [args.adapt_run, args.bundle, "--bench", "--json", "--threads", args.threads,
               "--bench-prompt", args.prompt, "--bench-context", args.context,
               "--bench-decode", args.decode, "--bench-repetitions", args.repetitions]
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True)
    result = json.loads(done.stdout)
    return result[what]["tokens_per_second"], result


def llama(args, what):
    bench = args.peers / "llama.cpp/build/bin/llama-bench"
    shape = (["-p", args.prompt, "-n", 0] if what == "prefill" else
             ["-p", 0, "-n", args.decode, "-d", args.context])
    command = [bench, "-m", args.peers / "bf16.gguf", "-t", args.threads, *shape,
               "-r", args.repetitions, "-o", "json"]
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True)
    return json.loads(done.stdout)[0]["avg_ts"]


def openvino(args):
    command = [args.peers / "venv/bin/python", "-c", OPENVINO, args.peers / "f16.gguf", args.threads,
               args.prompt, args.repetitions]
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--adapt-run", default=ROOT / "build/release/bin/adapt-run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=3, help="within a program")
    parser.add_argument("--runs", type=int, default=7, help="of each program, in turn")
    parser.add_argument("--only", default="", help="rows whose names hold this")
    args = parser.parse_args()

    rows = {
        "decode, llama.cpp bf16": (lambda: ours(args, "decode")[0], lambda: llama(args, "decode")),
        "prefill, llama.cpp bf16": (lambda: ours(args, "prefill")[0], lambda: llama(args, "prefill")),
        "prefill, OpenVINO GenAI f16 as bf16": (lambda: ours(args, "prefill")[0], lambda: openvino(args)),
    }
    for name, (mine, theirs) in rows.items():
        if args.only not in name:
            continue
        pairs = []
        for _ in range(args.runs):
            pairs.append((mine(), theirs()))
            print(f"  {name}: {pairs[-1][0]:.1f} / {pairs[-1][1]:.1f}", file=sys.stderr)
        a, b = zip(*pairs)
        ratios = [x / y for x, y in pairs]
        print(f"{name}: ours {statistics.median(a):.1f}, theirs {statistics.median(b):.1f} tokens/s, "
              f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
