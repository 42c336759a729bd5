#!/usr/bin/env python3
"""How far attn run attention --fast is from exact numbers, beside PyTorch's own attention in float32 on the same inputs.

    tests/oracle/fast_errors.py ATTN [DRAWS]

Draws sizes, masks, lengths, biases and sizes of scores. The error is the root of the mean square of the differences from
PyTorch's float64, over that of the result. Where a few large scores decide, a single computation in float32 can be nearly
exact by luck, so PyTorch's error is the largest of sixteen computations, with features and keys in other orders, which change
sums and nothing else; like the kernel, they multiply by 1/sqrt(d_k), whose rounding is the same for all scores. Ours is at
most twice that in every draw of a hundred numbers or more, and in the mean of the smaller ones, in each of which one
rounding more or less decides. Rows that can attend to nothing are zeros. Exit code 77 where there is no PyTorch.
"""

import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import torch
except ImportError:
    sys.exit(77)

ATTN = Path(sys.argv[1]).resolve()
DRAWS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
ROUNDING, ORDERS = 2.0**-24, 16
MANY = 100  # numbers


def drawn(rng):
    """Arrays for the input, as float32, and whether the mask is causal, too."""
    b, h, n, m = (int(rng.choice(sizes)) for sizes in ([1, 2, 3], [1, 2, 3], [1, 2, 17, 61, 130], [1, 3, 64, 127, 300]))
    d_k, d_v = (int(rng.choice([1, 3, 16, 64])) for _ in range(2))
    size = float(rng.choice([1, 1, 8, 40]))  # of the numbers: scores of thousands with the largest
    numbers = {
        "queries": rng.standard_normal((b, h, n, d_k)) * size,
        "keys": rng.standard_normal((b, h, m, d_k)) * size,
        "values": rng.standard_normal((b, h, m, d_v)),
    }
    if rng.random() < 0.3:
        numbers["bias"] = rng.standard_normal((b, h, n, m)) * size
    arrays = {name: numbers_of.astype(np.float32) for name, numbers_of in numbers.items()}
    if rng.random() < 0.4:
        arrays["mask"] = rng.random((b, 1, n, m)) < 0.7
    if rng.random() < 0.3:
        arrays["lengths"] = rng.integers(1, m + 1, b)
    return arrays, bool(rng.random() < 0.4)


def allowed(arrays, is_causal):
    b, _, n, _ = arrays["queries"].shape
    m = arrays["keys"].shape[2]
    mask = arrays.get("mask", np.ones((b, 1, n, m), bool))
    if "lengths" in arrays:
        mask = mask & (np.arange(m) < arrays["lengths"][:, None])[:, None, None]
    return mask & (np.arange(m) <= np.arange(n)[:, None] + (m - n)) if is_causal else mask


def by_pytorch(arrays, mask, dtype):
    queries, keys, values = (torch.from_numpy(arrays[name]).to(dtype) for name in ("queries", "keys", "values"))
    scores = queries @ keys.transpose(-2, -1) * torch.tensor(1 / math.sqrt(queries.shape[-1]), dtype=dtype)
    if "bias" in arrays:
        scores = scores + torch.from_numpy(arrays["bias"]).to(dtype)
    weights = scores.masked_fill(torch.from_numpy(~mask), -math.inf).softmax(-1)
    return (weights.nan_to_num(0.0) @ values).to(torch.float64).numpy()


def reordered(arrays, mask, rng):
    """The same attention with features and keys in another order."""
    d_k, m = arrays["queries"].shape[-1], arrays["keys"].shape[2]
    features, keys = rng.permutation(d_k), rng.permutation(m)
    other = {"queries": arrays["queries"][..., features], "keys": arrays["keys"][:, :, keys][..., features],
             "values": arrays["values"][:, :, keys]}  # fmt: skip
    if "bias" in arrays:
        other["bias"] = arrays["bias"][..., keys]
    return other, mask[..., keys]


def error_of_pytorch(arrays, mask, exact, rng):
    return max(error(by_pytorch(*reordered(arrays, mask, rng), torch.float32), exact) for _ in range(ORDERS))


def by_attn(arrays, is_causal, folder):
    np.savez(folder / "input.npz", **arrays)
    flags = ["--mask", "causal"] if is_causal else []
    subprocess.run([ATTN, "run", "attention", "--fast", "--quiet", "--input", "input.npz", "--trace", "fast.npz", *flags],
                   cwd=folder, check=True)
    with np.load(folder / "fast.npz") as trace:
        return trace["context"]


def error(found, exact):
    norm = math.sqrt(np.mean(exact**2)) or 1.0
    return math.sqrt(np.mean((found - exact) ** 2)) / norm


def main():
    rng = np.random.default_rng(2026)
    many, few = [], []
    with tempfile.TemporaryDirectory() as folder:
        for draw in range(DRAWS):
            arrays, is_causal = drawn(rng)
            mask = allowed(arrays, is_causal)
            exact = by_pytorch(arrays, mask, torch.float64)
            found = by_attn(arrays, is_causal, Path(folder))
            assert np.isfinite(found).all() and found.shape == exact.shape, f"draw {draw}: {found.shape}, {exact.shape}"
            empty = ~mask.any(-1) & np.ones(exact.shape[:-1], bool)
            assert not found[empty].any(), f"draw {draw}: a row that can attend to nothing is not zero"
            ours, theirs = error(found, exact), error_of_pytorch(arrays, mask, exact, rng)
            ratio = max(ours, ROUNDING) / max(theirs, ROUNDING)
            (many if exact.size >= MANY else few).append(ratio)
            assert exact.size < MANY or ratio <= 2, (
                f"draw {draw}: {ours:.3g}, PyTorch's {theirs:.3g}, shapes {[a.shape for a in arrays.values()]}")
    assert np.mean(few) <= 2, f"{len(few)} draws of few numbers: the error is {np.mean(few):.2f} times PyTorch's"
    print(f"{DRAWS} draws: the error over PyTorch's is {np.median(many):.2f} in the median, at most {max(many):.2f}; "
          f"{np.mean(few):.2f} in the mean, at most {max(few):.2f}, in {len(few)} draws of few numbers")


main()
