#!/usr/bin/env python3
"""Asks attn about programs that are right, and counts those that it calls wrong.

    false_alarms.py ATTN [--variants COUNT] [--seed S] [--only REFERENCE[.VARIANT]] [--keep FOLDER]

Modules of random shapes and numbers are computed by `attn run`, and by right_ways.py in ways that are all right: another
order of each sum, fused products, float32, float16 and bfloat16, other fills of a mask, softmax with and without its
largest score. Everything is saved, or some of it, or the result alone, under the steps' names or under names and in layouts
of somebody's own. `attn diff` has to pass all of them.

A line per program that is called wrong, with its reference and variant for --only, then how many there are of each kind.
--keep writes the files of these programs. Exit code 0 where no program is called wrong, 1 where one is, 77 where there is
no NumPy.
"""

import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("false_alarms.py: skipped, there is no NumPy")
    sys.exit(77)

import random_modules
import right_ways

VARIANTS = 12  # of each reference
USELESS = 0.25  # of the largest number: an array that rounding moves by more tells nobody anything
FEWEST = 3  # different numbers in a result: fewer don't tell in which type they were computed
# How far from the reference a program in float64 can be; by more, it computes something else.
EXACT = 1e-6


class Fault(Exception):
    """This script or `attn run` did something wrong."""


def call(*command, codes=(0,)):
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode not in codes:
        raise Fault(f"{' '.join(map(str, command))}: exit code {run.returncode}\n{run.stdout[-500:]}{run.stderr}")
    return run


def make_reference(attn, folder, reference):
    """The trace of `attn run`."""
    np.savez(folder / "input.npz", **reference.inputs)
    flags = list(reference.flags)
    if reference.weights:
        np.savez(folder / "weights.npz", **reference.weights)
        flags += ["--weights", folder / "weights.npz"]
    trace = folder / "reference.npz"
    call(attn, "run", reference.module, "--input", folder / "input.npz", *flags, "--quiet", "--trace", trace)
    return trace


def result_of(trace):
    with np.load(trace) as content:
        return content["output"]


def distance(found, expected):
    """Of the largest number."""
    return float(np.nanmax(np.abs(found - expected)) / max(np.nanmax(np.abs(expected)), 1e-300))


# ----------------------------------------------------------------------------------------------------- what is saved


def text(array):
    return np.array([float(f"{number:.9g}") for number in array.ravel()]).reshape(array.shape)


# Numbers as they come to a file: in the type that was computed with, in another one, or by nine digits of text.
DUMPS = {
    "as they are": lambda array: array,
    "as float64": lambda array: array.astype(np.float64),
    "as text": text,
    "as float16": lambda array: array.astype(np.float16),
    "as float32": lambda array: array.astype(np.float32),
}


def draw_dump(draw, way):
    others = {"float32": ["as float64", "as text"], "float16": ["as float16"], "float64": ["as float32"]}.get(way.type, [])
    return draw.choice(["as they are", *others]) if draw.random() < 0.3 else "as they are"


def selected(draw, kept, what):
    if what == "everything":
        return kept
    share = draw.choice([0.1, 0.3, 0.6])
    return [one for one in kept[:-1] if draw.random() < share] + kept[-1:]


def saved(draw, program, heads):
    """The arrays of MINE, and in words what is saved how."""
    kept, way = program.kept, program.way
    what = draw.choice(["everything", "everything", "some", "some", "the result"])
    names = draw.choice(["the steps' names"] * 4 + ["own names"] * 4 + ["own names, some taken"])
    if what == "the result":
        arrays = {"output" if names == "the steps' names" else draw.choice(["out", "y", "result"]): kept[-1].array}
        if kept[-1].has_heads:
            raise Fault("a result has no heads")
    else:
        some = selected(draw, kept, what)
        if names == "the steps' names":
            arrays = right_ways.under_steps(some, heads)
        else:
            arrays = right_ways.under_own_names(draw, some, "taken" in names)
    dump = draw_dump(draw, way)
    arrays = {name: DUMPS[dump](array) if array.dtype.kind == "f" else array for name, array in arrays.items()}
    return arrays, what, names, dump


# ------------------------------------------------------------------------------------------------------------ verdicts


class Campaign:
    def __init__(self, attn, seed, keep):
        self.attn, self.seed, self.kept = attn, seed, keep
        self.asked, self.wrong, self.left_out = collections.Counter(), collections.Counter(), collections.Counter()
        self.alarms = 0

    def reference(self, number, variant=None):
        """All variants of one reference, or one of them."""
        draw = random.Random(f"{self.seed}/{number}")
        reference = random_modules.draw_reference(draw)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            trace = make_reference(self.attn, folder, reference)
            expected = result_of(trace)
            if np.unique(expected % 1).size < FEWEST:
                return
            exact = self.exact(number, reference, expected)
            for v in range(VARIANTS) if variant is None else [variant]:
                self.variant(folder, trace, reference, exact, number, v)

    def exact(self, number, reference, expected):
        """All arrays in float64, by path; the last of them is the reference's result."""
        kept = right_ways.Program(reference, right_ways.Way()).run()
        found = kept[-1].array
        if found.shape != expected.shape or not distance(found, expected) <= EXACT:
            raise Fault(f"reference {number}, {reference.described()}: right_ways.py gives another result")
        return {one.path: one.array for one in kept}

    def variant(self, folder, trace, reference, exact, number, v):
        draw = random.Random(f"{self.seed}/{number}/{v}")
        way = right_ways.draw_way(draw)
        program = right_ways.Program(reference, way)
        program.run()
        arrays, *what = saved(draw, program, reference.options.get("heads", 0))
        numbers = [one for one in program.kept if not one.path.startswith(right_ways.OWN) and
                   not one.path.endswith(("masked", "scaled", "mean"))]  # which have fills, or nothing but rounding
        is_empty = way.empty == "NaN" and any(np.isnan(one.array).any() for one in numbers)
        if not is_empty and not all(np.isfinite(one.array).all() for one in numbers):
            self.left_out["beyond the type's largest number"] += 1
            return
        is_short = way.type in ("float16", "bfloat16")
        if is_short and not all(distance(one.array, exact[one.path]) <= USELESS for one in numbers if one.path in exact):
            self.left_out[f"{way.type}: rounding makes it another result"] += 1
            return
        self.ask_allclose(way, numbers[-1].array, exact[numbers[-1].path])
        mine = folder / "mine.npz"
        np.savez(mine, **arrays)
        run = call(self.attn, "diff", trace, mine, "--json", codes=(0, 1, 2))
        if "own" in what[1] and what[0] != "the result":
            what[1] += " and arrays that are no step" * any(name.endswith(("shifted", "cos")) for name in arrays)
        self.count(run, way, what, reference, number, v, distance(numbers[-1].array, exact[numbers[-1].path]))
        if run.returncode and self.kept:
            self.keep_files(folder, f"{number}.{v}", reference)

    @staticmethod
    def is_emptied(reference):
        return "mask" in reference.inputs and not reference.inputs["mask"].any(-1).all()

    def ask_allclose(self, way, found, expected):
        for tolerance in (1e-3, 1e-5):
            kind = f"allclose {tolerance}, of the result in {way.type}"
            self.asked[kind] += 1
            self.wrong[kind] += not np.allclose(np.nan_to_num(found), expected, rtol=tolerance, atol=tolerance)

    def count(self, run, way, what, reference, number, v, off):
        type = way.type + (" of float32 inputs" if way.given != way.type else "") + (", promoted" if way.promoted else "")
        kinds = ["in all", f"module: {reference.module}", f"type: {type}", f"saved: {what[0]}, {what[1]}",
                 f"dump: {way.type} {what[2]}", f"sums: {way.sums}", f"softmax: {way.softmax}", f"fill: {way.fill}",
                 f"masking: {way.masking}", f"norm: {way.norm}", f"rounding: {way.rounding}",
                 *["a query that can attend to nothing is " + way.empty] * self.is_emptied(reference)]  # fmt: skip
        self.asked.update(kinds)
        if run.returncode == 0:
            return
        if run.returncode == 1 and self.tells_too_little(json.loads(run.stdout)):
            self.left_out[f"{way.type}: what is saved tells too little"] += 1
            return
        self.wrong.update(kinds)
        self.alarms += 1
        case = f"{', '.join(what)}; {reference.described()}; {self.words(way)}"
        print(f"{number}.{v}: {self.reason(run)}; off by {off:.2g}; {case}", flush=True)

    @staticmethod
    def tells_too_little(found):
        """Undecided since most mistakes would pass, and not since one of them would explain the numbers."""
        power = found.get("power")
        return power is not None and not power["nearer"] and power["times_off"] <= 1 and 2 * power["seen"] < power["possible"]

    @staticmethod
    def reason(run):
        if run.returncode == 2:
            return f"ERROR {run.stderr.strip()}"
        found = json.loads(run.stdout)
        if found["first_wrong"] is None:
            others = [f"{step['mine']} {step['verdict']}" for step in found["steps"] if step["verdict"] == "inherited"]
            return f"NO STEP is wrong, but it fails: extra {found['extra'][:5]}, {others[:3]}"
        step = next(step for step in found["steps"] if step["step"] == found["first_wrong"])
        worst = step.get("worst") or {}
        numbers = f"{worst.get('expected')} {worst.get('found')} tolerance {worst.get('tolerance')}" if worst else ""
        return f"{step['verdict']}: {found['first_wrong']} ({step['mine']}) as {found['type']}: {numbers} {step['message'][:100]}"

    @staticmethod
    def words(way):
        chosen = " ".join(f"{name}={value}" for name, value in vars(way).items() if name != "given" and value is not False)
        return chosen + " inputs=True" * (way.given != way.type)

    def keep_files(self, folder, name, reference):
        into = Path(self.kept) / name
        into.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("*.npz"):
            (into / file.name).write_bytes(file.read_bytes())
        (into / "reference.txt").write_text(reference.described() + "\n")

    def table(self):
        for kind in sorted(self.asked):
            print(f"{self.wrong[kind]:5} of {self.asked[kind]:5} called wrong: {kind}")
        for why, count in sorted(self.left_out.items()):
            print(f"{count:5} left out: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attn")
    parser.add_argument("--variants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--keep")
    given = parser.parse_args()
    campaign = Campaign(given.attn, given.seed, given.keep)
    if given.only:
        number, _, variant = given.only.partition(".")
        campaign.reference(int(number), int(variant) if variant else None)
    else:
        number, start = 0, time.time()
        while campaign.asked["in all"] < given.variants:
            campaign.reference(number)
            number += 1
        print(f"{number} references in {time.time() - start:.0f} s")
    campaign.table()
    return 1 if campaign.alarms else 0


if __name__ == "__main__":
    sys.exit(main())
