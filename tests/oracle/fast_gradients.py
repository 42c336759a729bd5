#!/usr/bin/env python3
"""Holds fast::attention() and its gradients against PyTorch's autograd.

    fast_gradients.py FAST_GRADIENTS [SEED]

Both compute in float32 what PyTorch also computes in float64, with the same numbers: sizes that are prime or one, shared key/value
heads, masks, softcaps, and scores up to about 1, 1000 and 10,000. The error of a tensor is the root mean square of its numbers'
errors, as a multiple of the largest number that its terms make where nothing cancels. For each tensor and each size of
scores, the root mean square of the errors of fast::attention() in all cases has to be at most twice that of PyTorch's in float32.

A line for each tensor and size. Exit code 0 where all hold, 1 where one does not, 77 where there is no PyTorch.
"""

import math
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError:
    sys.exit(77)

CASES = 100
TENSORS = ("context", "grad_queries", "grad_keys", "grad_values")


def drawn(rng, size):
    b, g, shared = int(rng.choice([1, 2])), int(rng.choice([1, 2, 3])), int(rng.choice([1, 2]))
    n, m = int(rng.choice([1, 2, 7, 31, 61, 131])), int(rng.choice([1, 3, 13, 61, 127, 257]))
    d_k, d_v = int(rng.choice([1, 3, 8, 17, 64])), int(rng.choice([1, 5, 8, 33, 64]))
    mask = rng.random((n, m)) < rng.choice([0.3, 1])
    mask[:, 0] = True  # softmax() of a row without any is NaN in PyTorch
    given = {"queries": size * rng.uniform(-1, 1, (b, g * shared, n, d_k)), "keys": size * rng.uniform(-1, 1, (b, g, m, d_k)),
             "values": rng.uniform(-1, 1, (b, g, m, d_v)), "grad_context": rng.uniform(-1, 1, (b, g * shared, n, d_v))}  # fmt: skip
    given = {name: tensor.astype(np.float32).astype(float) for name, tensor in given.items()} | {"mask": mask}
    given["scale"] = np.array([1 / math.sqrt(d_k)], np.float32)
    if rng.random() < 0.3:
        given["softcap"] = np.array([5.0])
    return given


def by_pytorch(given, dtype):
    queries, keys, values, grad_context = (torch.tensor(given[name], dtype=dtype, requires_grad=name != "grad_context")
                                           for name in ("queries", "keys", "values", "grad_context"))  # fmt: skip
    shared = queries.shape[1] // keys.shape[1]
    scores = queries @ keys.repeat_interleave(shared, 1).transpose(-2, -1) * given["scale"].item()
    if "softcap" in given:
        scores = given["softcap"].item() * torch.tanh(scores / given["softcap"].item())
    weights = scores.masked_fill(~torch.tensor(given["mask"]), -math.inf).softmax(-1)
    context = weights @ values.repeat_interleave(shared, 1)
    context.backward(grad_context)
    results = (context.detach(), queries.grad, keys.grad, values.grad)
    return {name: result.numpy().astype(float) for name, result in zip(TENSORS, results)}


def error(found, exact, name, given):
    terms = given["scale"].item() * np.abs(given["keys"]).max() if name in ("grad_queries", "grad_keys") else 1
    return math.sqrt(np.mean((found - exact) ** 2)) / terms


def together(errors):
    return math.sqrt(sum(error**2 for error in errors) / len(errors))


def errors_of(program, rng, size, folder):
    """Per tensor, the errors of fast::attention() and of PyTorch in each case."""
    source, result = Path(folder, "input.npz"), Path(folder, "output.npz")
    errors = {name: ([], []) for name in TENSORS}
    for _ in range(CASES):
        given = drawn(rng, size)
        np.savez(source, **given)
        subprocess.run([program, source, result], check=True)
        exact, theirs = by_pytorch(given, torch.float64), by_pytorch(given, torch.float32)
        with np.load(result) as ours:
            for name in TENSORS:
                errors[name][0].append(error(ours[name], exact[name], name, given))
                errors[name][1].append(error(theirs[name], exact[name], name, given))
    return errors


def main():
    program, rng = Path(sys.argv[1]).resolve(), np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 15)
    holds = True
    with tempfile.TemporaryDirectory() as folder:
        for size, scores in ((1, 1), (30, 1000), (100, 10000)):
            for name, (ours, theirs) in errors_of(program, rng, size, folder).items():
                ratio = together(ours) / together(theirs)
                holds &= ratio <= 2
                print(f"scores to {scores:5} {name:12} error {together(ours):.2e}, PyTorch's {together(theirs):.2e}: {ratio:.2f} times")
    return 0 if holds else 1


sys.exit(main())
