#!/usr/bin/env python3
"""PyTorch's attention and encoder layer in float32, timed once per line that is read: a peer of bench/fast/fast.py.

    OMP_NUM_THREADS=1 bench/fast/pytorch.py        lines: attention forward 2048 1, or encoder 8 128

Attention by torch.nn.functional.scaled_dot_product_attention where there is one, which is fused; by plain functions otherwise.
The first line of output says which, the version, and whose products it computes with.
"""

import functools
import math
import os
import sys
import time
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit(0)  # nobody is introduced

from rows import D_FF, D_MODEL, FEATURES, HEADS

FUSED = getattr(torch.nn.functional, "scaled_dot_product_attention", None)


def attend(queries, keys, values, is_causal):
    if FUSED:
        return FUSED(queries, keys, values, is_causal=is_causal)
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    if is_causal:
        n = queries.shape[-2]
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ values


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def attention(direction, n, is_causal):
    is_backward = direction == "backward"
    inputs = [torch.randn(1, HEADS, int(n), FEATURES, requires_grad=is_backward) for _ in range(3)]
    if not is_backward:
        with torch.no_grad():
            return seconds(lambda: attend(*inputs, is_causal == "1"))
    context = attend(*inputs, is_causal == "1")
    grad_context = torch.randn_like(context)
    return seconds(lambda: context.backward(grad_context))


@functools.lru_cache
def layer():
    return torch.nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, dropout=0.0, batch_first=True).eval()


def encoder(b, n):
    x = torch.randn(int(b), int(n), D_MODEL)
    with torch.inference_mode():
        return seconds(lambda: layer()(x))


def blas():
    """Whose products: of what this process has loaded."""
    loaded = Path("/proc/self/maps").read_text().lower()
    known = {"openblas": "OpenBLAS", "libmkl": "MKL", "libblis": "BLIS", "libblas": "reference BLAS"}
    return next((name for word, name in known.items() if word in loaded), "its own products")


def main():
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    print(f"PyTorch {torch.__version__}, attention {'fused' if FUSED else 'plain'}, {blas()}", flush=True)
    for line in sys.stdin:
        what, *sizes = line.split()
        print({"attention": attention, "encoder": encoder}[what](*sizes), flush=True)


if __name__ == "__main__":
    main()
