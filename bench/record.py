#!/usr/bin/env python3
"""How much longer programs take under attn_record: bench/record.py     needs NumPy; PyTorch where it is there

In turn, so that a machine that slows down slows both alike; the fastest of several runs each, with one thread of BLAS. A
line per program: its time alone, recorded, their ratio, how many arrays were recorded and how large the file is.

    loop               a million lines of Python that compute no tensor
    decoder n d        two pre-norm layers in NumPy, n tokens of d features, four heads
    pytorch n d        nn.TransformerEncoder, the same sizes
    only               the larger ones again, of which only attention weights are recorded
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import attn_record  # noqa: E402

RUNS = 7
SIZES = ((8, 16), (64, 128), (128, 768))


def loop():
    total = 0
    for i in range(500_000):
        total += i
    return total


def norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(x, weights, heads=4):
    n, d = x.shape
    packed = x @ weights["qkv"]
    q, k, v = packed.reshape(n, 3, heads, d // heads).transpose(1, 2, 0, 3)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(d // heads)
    scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    shares = exponentials / exponentials.sum(-1, keepdims=True)
    return (shares @ v).transpose(1, 0, 2).reshape(n, d) @ weights["out"]


def decoder(x, layers):
    for weights in layers:
        x = x + attention(norm(x), weights)
        hidden = np.maximum(norm(x) @ weights["up"], 0)
        x = x + hidden @ weights["down"]
    return x


def numpy_program(n, d):
    draw = np.random.default_rng(1).normal
    shapes = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
    layers = [{name: draw(size=shape).astype("f4") / d**0.5 for name, shape in shapes.items()} for _ in range(2)]
    x = draw(size=(n, d)).astype("f4")
    return lambda: decoder(x, layers)


def pytorch_program(n, d):
    import torch

    torch.set_num_threads(1)
    layer = torch.nn.TransformerEncoderLayer(d, 4, 4 * d, dropout=0, batch_first=True, norm_first=True)
    encoder, x = torch.nn.TransformerEncoder(layer, 2), torch.randn(1, n, d)
    return lambda: encoder(x)


def measure(name, program, **options):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        path, alone, recorded = Path(folder) / "mine.npz", [], []
        for _ in range(RUNS):
            begin = time.perf_counter()
            program()
            alone.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            with attn_record.to(path, own=[ROOT / "bench"], **options):
                program()
            recorded.append(time.perf_counter() - begin)
        arrays, size = len(json.loads(np.load(path)["attn_record.json"])["arrays"]), path.stat().st_size
    alone, recorded = min(alone), min(recorded)
    print(f"{name:<22} {alone * 1e3:9.2f} ms {recorded * 1e3:9.2f} ms {recorded / alone:7.1f} times {arrays:5d} arrays "
          f"{size / 2**20:7.2f} MiB")


def main():
    measure("loop", loop)
    for n, d in SIZES:
        measure(f"decoder {n} {d}", numpy_program(n, d))
    measure("decoder 128 768 only", numpy_program(*SIZES[-1]), only="shares")
    try:
        import torch  # noqa: F401
    except ImportError:
        print("pytorch: skipped, it is not there (apt-get install python3-torch)")
        return
    for n, d in SIZES:
        measure(f"pytorch {n} {d}", pytorch_program(n, d))
    measure("pytorch 128 768 only", pytorch_program(*SIZES[-1]), only="*.self_attn")


if __name__ == "__main__":
    main()
