#!/usr/bin/env python3
"""PyTorch's attention, timed once per line that is read: a worker of bench/fast.py, see bench/attention.cpp.

    OMP_NUM_THREADS=1 bench/pytorch_attention.py        lines: pytorch forward 2048 1

By torch.nn.functional.scaled_dot_product_attention where there is one, which is fused; by plain functions otherwise. The first
line of output says which, and the version.
"""

import math
import os
import sys
import time

import torch

HEADS, FEATURES = 8, 64
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


def timed(is_backward, n, is_causal):
    inputs = [torch.randn(1, HEADS, n, FEATURES, requires_grad=is_backward) for _ in range(3)]
    if not is_backward:
        with torch.no_grad():
            return seconds(lambda: attend(*inputs, is_causal))
    context = attend(*inputs, is_causal)
    grad_context = torch.randn_like(context)
    return seconds(lambda: context.backward(grad_context))


def main():
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    print(f"PyTorch {torch.__version__}, {'fused' if FUSED else 'plain functions'}", flush=True)
    for line in sys.stdin:
        _, which, n, is_causal = line.split()
        print(timed(which == "backward", int(n), is_causal == "1"), flush=True)


if __name__ == "__main__":
    main()
