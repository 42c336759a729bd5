"""Plants plainly wrong arrays in traces, and asks attn whether they are the same as the right ones.

    python3 plainly_wrong.py ATTN LESSON_20_RESTRICTED [SHARE]

The references are traces of `attn run` (attention, GRU and LSTM with lengths, an encoder layer with padding) and of the
lesson on restricted attention. Each is computed again by NumPy from its formulas, step by step, with every number
rounded to float64, float32, float16 or bfloat16: none of these right runs may be called wrong, whether all of their
arrays are saved or one alone. Then, step by step, an array is replaced by zeros, ones, a constant, its own numbers
shuffled, scaled, negated or moved by one index, or by what a program gives that ignores lengths: none of these may be
called the same.

SHARE of the wrong arrays are tried, all with 1, and always those that ignore lengths; the same ones each time. A line per trace and type. Exit code 0 where
every verdict is right, 1 where one isn't, 77 where there is no NumPy.
"""

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import formulas  # ends with 77 where there is no NumPy
import numpy as np
import planted

PLAINLY = 0.1  # of the largest number: a wrong array is off by more


def as_float16(array):
    return np.array(array).astype(np.float16).astype(np.float32) if np.array(array).dtype.kind == "f" else np.array(array)


KEPT = {"float64": planted.as_float64, "float32": planted.as_float32, "float16": as_float16, "bfloat16": planted.as_bfloat16}

# ------------------------------------------------------------------------------------------------------------ references


def normal(rng, *shape):
    return rng.normal(size=shape)


def attention(rng):
    arrays = {name: normal(rng, 5, n, 4) for name, n in (("queries", 4), ("keys", 6), ("values", 6))}
    return "attention", {**arrays, "lengths": np.array([6.0, 3.0, 1.0, 5.0, 2.0])}, None, []


def padded_layer(rng):
    d, hidden = 8, 12
    shapes = {
        "self_attn.in_proj_weight": (3 * d, d), "self_attn.in_proj_bias": (3 * d,), "self_attn.out_proj.weight": (d, d),
        "self_attn.out_proj.bias": (d,), "linear1.weight": (hidden, d), "linear1.bias": (hidden,), "linear2.weight": (d, hidden),
        "linear2.bias": (d,), "norm1.weight": (d,), "norm1.bias": (d,), "norm2.weight": (d,), "norm2.bias": (d,),
    }  # fmt: skip
    weights = {name: normal(rng, *shape) / 2 for name, shape in shapes.items()}
    return "encoder-layer", {"x": normal(rng, 4, 5, d), "lengths": np.array([5.0, 3.0, 1.0, 4.0])}, weights, ["--heads", "2"]


def recurrent(gates):
    def of_that(rng):
        d, hidden = 3, 4
        shapes = {"weight_ih_l0": (gates * hidden, d), "weight_hh_l0": (gates * hidden, hidden),
                  "bias_ih_l0": (gates * hidden,), "bias_hh_l0": (gates * hidden,)}  # fmt: skip
        weights = {name: normal(rng, *shape) for name, shape in shapes.items()}
        arrays = {"x": normal(rng, 5, 4, d), "lengths": np.array([4.0, 2.0, 1.0, 3.0, 2.0])}
        return "gru" if gates == 3 else "lstm", arrays, weights, []

    return of_that


def call(*command, codes=(0,)):
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode not in codes or run.stderr:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return run


class Trace:
    """A reference, with what NumPy makes of its formulas."""

    def __init__(self, name, path):
        self.name, self.path = name, path
        content = np.load(path)
        index = json.loads(bytes(content["steps.json"]))
        self.steps = index["steps"] if isinstance(index, dict) else index
        aliases = index["aliases"] if isinstance(index, dict) else []
        self.aliases = {alias["path"]: alias["target"] for alias in aliases}
        self.arrays = {step["path"]: content[step["path"]] for step in self.steps}
        self.arrays = {path: a.astype(float) if a.dtype.kind == "f" else a for path, a in self.arrays.items()}

    def inputs(self):
        return [step["path"] for step in self.steps if not step["formula"]]

    def computed(self, kept, change=None):
        """All steps from the inputs, in the type that `kept` makes; `change` replaces inputs by path."""
        known = {}
        for step in self.steps:
            if kept is as_float16 and step["path"].startswith("cost."):
                continue  # counts beyond 65504, float16's largest number
            path, whole = step["path"], self.arrays[step["path"]].dtype.kind in "bi"
            if change and path in change:
                array = change[path]
            elif not step["formula"]:
                array = self.arrays[path]
            else:
                array = formulas.evaluate(step["formula"], known, self.aliases, path)
            known[path] = array.astype(self.arrays[path].dtype) if whole else kept(array)
        return known


def make_traces(attn, lesson, folder):
    traces = []
    for number, make in enumerate((attention, padded_layer, recurrent(3), recurrent(4))):
        module, arrays, weights, flags = make(np.random.default_rng(number))
        np.savez(folder / "input.npz", **arrays)
        if weights:
            np.savez(folder / "weights.npz", **weights)
            flags = [*flags, "--weights", folder / "weights.npz"]
        path = folder / f"{module}.npz"
        call(attn, "run", module, "--input", folder / "input.npz", *flags, "--quiet", "--trace", path)
        traces.append(Trace(module, path))
    call(lesson, "--quiet", "--trace", folder / "restricted.npz")
    return [*traces, Trace("restricted", folder / "restricted.npz")]


# ------------------------------------------------------------------------------------------------------------------ wrong


def shifted(array):
    return np.roll(array, 1, axis=max(range(array.ndim), key=lambda axis: array.shape[axis])) if array.ndim else array + 1


WRONG = {
    "zeros": lambda a, rng: np.zeros_like(a),
    "ones": lambda a, rng: np.ones_like(a),
    "a constant": lambda a, rng: np.full_like(a, True if a.dtype == bool else 5 if a.dtype.kind == "i" else 5.3),
    "shuffled": lambda a, rng: rng.permutation(a.ravel()).reshape(a.shape),
    "scaled": lambda a, rng: a * (2 if a.dtype.kind == "i" else 1.5),
    "negated": lambda a, rng: ~a if a.dtype == bool else -a,
    "moved by one": lambda a, rng: shifted(a),
}


def is_plainly_wrong(right, wrong):
    if right.dtype == bool:
        return not np.array_equal(right, wrong)
    with np.errstate(all="ignore"):
        right, wrong = right.astype(float), wrong.astype(float)
        finite = np.isfinite(right)
        if not np.array_equal(finite, np.isfinite(wrong)):
            return True
        scale = np.max(np.abs(right[finite]), initial=0)
        return bool(np.max(np.abs(right - wrong)[finite], initial=0) > PLAINLY * scale)


def wrong_runs(trace, kept, rng):
    """What is wrong, the wrong steps, and arrays of which each wrong step's is wrong."""
    right = trace.computed(kept)
    for path, array in right.items():
        for what, make in WRONG.items():
            with np.errstate(all="ignore"):
                wrong = make(array, rng)
            wrong = wrong if wrong.dtype.kind in "bi" else kept(wrong)
            if is_plainly_wrong(array, wrong):
                yield f"{path}: {what}", path, {**right, path: wrong}
    for path in trace.inputs():
        if "lengths" not in path:
            continue
        longest = np.full_like(trace.arrays[path], trace.arrays[path].max())
        ignoring = {**trace.computed(kept, {path: longest}), path: right[path]}
        for step, array in ignoring.items():
            if is_plainly_wrong(right[step], array):
                yield f"{step}: without {path}", step, ignoring


# --------------------------------------------------------------------------------------------------------------- verdicts


def verdicts(attn, folder, trace, arrays, number):
    mine = folder / f"mine{number}.npz"
    np.savez(mine, **arrays)
    found = call(attn, "diff", trace.path, mine, "--json", codes=(0, 1))
    mine.unlink()
    json_of_it = json.loads(found.stdout)
    # Inputs alone are no evidence: that nothing of them is wrong is all that can be said.
    is_same = found.returncode == 0 or json_of_it["verdict"] == "undecided" and json_of_it["compared"]["computed"] == 0
    return {step["mine"]: step["verdict"] for step in json_of_it["steps"]}, is_same, json_of_it["type"]


def tells(array):
    """False for a few numbers that are of every type: 1.5 alone, where 1.5002 is right, is wrong in all but the shortest."""
    return array.dtype.kind != "f" or array.size > 1 or bool(array * 16 % 1)


def passes(verdict):
    return verdict in ("equal", "noise")


def check(attn, folder, trace, kind, share):
    """@return (right runs, those called wrong), (wrong arrays, those called the same)"""
    kept, rng = KEPT[kind], np.random.default_rng(7)
    right = trace.computed(kept)
    cases = [("right: all", None, right)]
    cases += [(f"right: {path}", None, {path: array}) for path, array in right.items() if kind == "float64" or tells(array)]
    for what, path, arrays in wrong_runs(trace, kept, rng):
        for saved, some in (("all saved", arrays), ("alone", {path: arrays[path]})):
            if rng.random() < share or what.endswith("lengths"):
                cases.append((f"{what}, {saved}", path, some))
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda c: verdicts(attn, folder, trace, c[1][2], c[0]), enumerate(cases)))
    counts = {False: [0, 0], True: [0, 0]}
    for (what, path, arrays), (by_array, is_same, seen) in zip(cases, answers):
        is_wrong = path is not None
        if is_wrong and len(arrays) > 1:  # all saved: something has to be wrong, not necessarily that array alone
            failed = is_same
        else:
            failed = is_same if is_wrong else not is_same
        counts[is_wrong][0] += 1
        counts[is_wrong][1] += failed
        if failed:
            bad = [name for name, verdict in by_array.items() if not passes(verdict)]
            print(f"  {trace.name} in {kind}, compared as {seen}: {what}: {'called the same' if is_wrong else f'called wrong: {bad[:4]}'}")
    return counts[False], counts[True]


def main(arguments):
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    attn, lesson, share = *arguments[:2], float(arguments[2]) if len(arguments) == 3 else 0.03
    total = np.zeros((2, 2), int)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for trace in make_traces(attn, lesson, folder):
            for kind in KEPT:
                counts = check(attn, folder, trace, kind, share)
                total += np.array(counts)
                (right, blamed), (wrong, missed) = counts
                print(f"{trace.name} in {kind}: {blamed} of {right} right runs called wrong, {missed} of {wrong} wrong arrays called the same")
    print(f"in all: {total[0][1]} of {total[0][0]} right runs called wrong, {total[1][1]} of {total[1][0]} wrong arrays called the same")
    return 1 if total[:, 1].any() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
