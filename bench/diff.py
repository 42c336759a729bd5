#!/usr/bin/env python3
"""How long attn diff takes for two large traces, beside what NumPy takes to load both and compare them.

    bench/diff.py ATTN [MIB]        needs NumPy; MIB is the size of each trace, 64 unless given

In turn, so that a machine that slows down slows both alike; medians of several runs. attn is timed as a whole process,
NumPy without its start: np.load of both, and np.array_equal of every array. A line a pair of traces:

    equal        MINE is a copy of the reference
    stored       every number of MINE was rounded to float32
    float64      every number is off by about one rounding in double, as after sums in another order
"""

import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np

RUNS = 9


def make_reference(attn, folder, mib):
    """An encoder layer of random weights and as many tokens as make a trace of that size."""
    rng = np.random.default_rng(1)
    d, hidden, heads = 64, 128, 8
    shapes = {
        "self_attn.in_proj_weight": (3 * d, d), "self_attn.in_proj_bias": (3 * d,), "self_attn.out_proj.weight": (d, d),
        "self_attn.out_proj.bias": (d,), "linear1.weight": (hidden, d), "linear1.bias": (hidden,), "linear2.weight": (d, hidden),
        "linear2.bias": (d,), "norm1.weight": (d,), "norm1.bias": (d,), "norm2.weight": (d,), "norm2.bias": (d,),
    }  # fmt: skip
    np.savez(folder / "weights.npz", **{name: rng.normal(size=shape) / 8 for name, shape in shapes.items()})
    tokens = int((mib * 2**20 / (3 * heads * 8)) ** 0.5 * 0.97)  # three n by n tensors a head, and some smaller ones
    np.savez(folder / "input.npz", x=rng.normal(size=(tokens, d)))
    reference = folder / "reference.npz"
    subprocess.run([attn, "run", "encoder-layer", "--input", folder / "input.npz", "--weights", folder / "weights.npz",
                    "--heads", str(heads), "--quiet", "--trace", reference], check=True)  # fmt: skip
    return reference


def make_mine(reference, path, change):
    with np.load(reference) as arrays:
        changed = {name: arrays[name] for name in arrays.files if not name.endswith(".json")}
    np.savez(path, **{name: change(a) if a.dtype.kind == "f" else a for name, a in changed.items()})


def by_numpy(reference, mine):
    with np.load(reference) as left, np.load(mine) as right:
        common = [name for name in right.files if name in left.files and not name.endswith(".json")]
        return [np.array_equal(left[name], right[name]) for name in common]  # all of them, different or not


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    attn, mib = arguments[0], float(arguments[1]) if len(arguments) == 2 else 64
    rng = np.random.default_rng(2)
    pairs = {
        "equal": lambda a: a,
        "stored": lambda a: a.astype(np.float32).astype(float),
        "float64": lambda a: a * (1 + 2**-53 * rng.choice([-1, 1], a.shape)),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference, mine = make_reference(attn, folder, mib), folder / "mine.npz"
        print(f"a trace of {reference.stat().st_size / 2**20:.0f} MiB, {len(zipfile.ZipFile(reference).namelist())} members")
        for what, change in pairs.items():
            make_mine(reference, mine, change)
            times = {"attn": [], "numpy": []}
            for _ in range(RUNS):
                times["attn"].append(seconds(lambda: subprocess.run([attn, "diff", reference, mine], check=True, capture_output=True)))
                times["numpy"].append(seconds(lambda: by_numpy(reference, mine)))
            ours, theirs = (statistics.median(times[who]) for who in ("attn", "numpy"))
            print(f"{what:8} attn diff {ours:.3f} s, NumPy {theirs:.3f} s: {ours / theirs:.2f} times as long")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
