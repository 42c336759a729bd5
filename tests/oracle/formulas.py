#!/usr/bin/env python3
"""Evaluates every formula of a trace by NumPy: a third computation, which shares no code with the other two.

    formulas.py TRACE.npz
    formulas.py LESSON        runs the program of a lesson for its trace

A formula is NumPy but for its dotted names and a few functions, defined below. Exit code 0 where all steps agree, 1 at
the first that doesn't, 77 where there is no NumPy.
"""

import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("formulas.py: skipped, there is no NumPy")
    sys.exit(77)


def whole(key):
    """A subscript with whole numbers in it, whatever type they come as: 4 / 2 is 2 in a formula."""
    if isinstance(key, tuple):
        return tuple(map(whole, key))
    if isinstance(key, slice):
        return slice(*map(whole, (key.start, key.stop, key.step)))
    if isinstance(key, (float, np.floating)):
        return int(key)
    return key.astype(int) if isinstance(key, np.ndarray) and key.dtype.kind == "f" else key


class Tensor(np.ndarray):
    """An array whose .T swaps the last two axes, and which takes whole numbers of any type for subscripts."""

    @property
    def T(self):
        return self.swapaxes(-1, -2) if self.ndim > 1 else self

    def __getitem__(self, key):
        return super().__getitem__(whole(key))


def softmax(x, axis=-1):
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(x - np.max(x, axis=axis, keepdims=True))
        weights = exponentials / np.sum(exponentials, axis=axis, keepdims=True)
    return np.where(np.all(x == -np.inf, axis=axis, keepdims=True), 0.0, weights)


def interleave(first, second):
    return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)


def pad(x, before, after, axis):
    widths = [(0, 0)] * x.ndim
    widths[axis] = (int(before), int(after))
    return np.pad(x, widths)


def scatter_add(rows, ids, count):
    result = np.zeros((int(count), *rows.shape[ids.ndim :]))
    np.add.at(result, ids.astype(int), rows)
    return result


def top_k(x, k, axis=-1):
    """The first k of a stable sort, the largest first."""
    order = np.argsort(-np.asarray(x), axis=axis, kind="stable")
    result = np.zeros(x.shape, bool)
    np.put_along_axis(result, np.take(order, np.arange(int(k)), axis=axis), True, axis)
    return result


def nearest(digits, smallest, largest):
    """Rounds to numbers of so many binary digits, whose least exponent and largest number are given; NaN beyond where that is 448."""

    def rounded(x):
        spacing = 2.0 ** (np.maximum(np.frexp(x)[1] - 1, smallest) - digits + 1)
        near = np.round(x / spacing) * spacing
        return np.where(np.abs(near) <= largest, near, np.nan if largest == 448 else np.sign(x) * np.inf)

    return rounded


FUNCTIONS = {
    "float32": nearest(24, -126, (2 - 2.0**-23) * 2.0**127),
    "float16": nearest(11, -14, 65504),
    "bfloat16": nearest(8, -126, (2 - 2.0**-7) * 2.0**127),
    "float8_e4m3": nearest(4, -6, 448),
    "float8_e5m2": nearest(3, -14, 57344),
    "softmax": softmax,
    "top_k": top_k,
    "interleave": interleave,
    "pad": pad,
    "scatter_add": scatter_add,
    "where": np.where,
    "concat": lambda *parts, axis: np.concatenate(parts, axis=axis),
    "arange": lambda count: np.arange(float(count)),
    "repeat": np.repeat,
    "sigmoid": lambda x: 0.5 * (1 + np.tanh(x / 2)),
    "relu": lambda x: np.where(x < 0, 0, x),
    "erf": np.vectorize(math.erf),
    "permute": lambda x, *order: np.transpose(x, order),
    "reshape": lambda x, *shape: np.reshape(x, whole(shape)),
    **{name: getattr(np, name) for name in "exp log sqrt tanh abs sin cos floor round sum mean max min maximum minimum diag outer".split()},
}
TENSOR_FUNCTIONS = {name: lambda *given, of=of, **named: np.asarray(of(*given, **named)).view(Tensor) for name, of in FUNCTIONS.items()}
CONSTANTS = {"inf": np.inf, "pi": np.pi, "None": None, "True": True, "False": False}
NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.(?!T\b|shape\b)\w+)*(\s*\(|\s*=(?!=))?")


def resolve(arrays, aliases, path, name):
    """What a name means in the formula of a step. A gradient's stands in the scope of the step that it is the gradient of."""
    before = ""
    if path.startswith("grad."):
        path = path.removeprefix("grad.")
        before = "grad." if name.startswith("grad.") else ""
        name = name.removeprefix("grad.")
    scope = path.split(".")[:-1]
    while True:
        whole = before + ".".join([*scope, name])
        whole = aliases.get(whole, whole)
        if whole in arrays:
            return arrays[whole]
        if not scope:
            raise KeyError(f"no earlier step is called {name}")
        scope = scope[:-1]


def evaluate(formula, arrays, aliases, path):
    found = {}

    def stand_in(match):
        name, after = match.group(0), match.group(1)
        if after or name in CONSTANTS:
            return name
        key = f"step_{len(found)}"
        found[key] = resolve(arrays, aliases, path, name).view(Tensor)
        return key

    text = NAME.sub(stand_in, formula)
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, {"__builtins__": {}}, {**TENSOR_FUNCTIONS, **CONSTANTS, **found}))


def check(path):
    trace = np.load(path)
    listed = json.loads(bytes(trace["steps.json"]))
    steps, aliases = (listed["steps"], listed["aliases"]) if isinstance(listed, dict) else (listed, [])
    aliases = {alias["path"]: alias["target"] for alias in aliases}
    arrays, recomputed = {}, 0
    for step in steps:
        recorded = trace[step["path"]]
        if recorded.dtype.kind != "b":  # float32 and int64 are only how a file stores what fits
            recorded = recorded.astype(np.float64)
        if step["formula"]:
            again = evaluate(step["formula"], arrays, aliases, step["path"]).astype(np.float64)
            scale = np.max(np.abs(again[np.isfinite(again)]), initial=1)
            close = 1e-5 if step.get("options", {}).get("type") == "float32" else 1e-12  # what it was computed in
            same = again.shape == recorded.shape and np.allclose(recorded.astype(np.float64), again, rtol=close, atol=close * scale, equal_nan=True)
            if not same:
                print(f"{path}: {step['path']} is not {step['formula']}:\n{recorded}\n{again}")
                return 1
            recomputed += 1
        arrays[step["path"]] = recorded
    print(f"{path}: {recomputed} steps recomputed by NumPy")
    return 0 if recomputed else 1


def main(argument):
    if argument.endswith(".npz"):
        return check(argument)
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/{Path(argument).name}.npz"
        subprocess.run([argument, "--quiet", "--trace", trace], check=True)
        return check(trace)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
