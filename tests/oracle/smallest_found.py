#!/usr/bin/env python3
"""How small a mistake attn diff still finds, beside what numpy.allclose finds.

    smallest_found.py ATTN [--layers L ...] [--seed S]

A pre-norm encoder with GELU and a causal mask is computed in float32 by right_ways.py, with one mistake that has a size: a
factor 1 + s, one number off by s. By bisection, the smallest s with which the program is called wrong: by attn diff from
everything that is saved and from the result alone, and by numpy.allclose(mine, reference, rtol=t, atol=t) of the result for
t = 1e-3 and 1e-5. Behind each s of the result stands how many times the noise the mistake then changes the result by: noise
is what the right program in float32 is off by. Nothing with a ratio of less than one can be found.
"""

import argparse
import dataclasses
import json
import math
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import false_alarms  # ends with 77 where there is no NumPy
import numpy as np
import random_modules
import right_ways

WIDTH, HEADS, TOKENS = 64, 4, 16
STEPS = 11  # of a bisection


@dataclasses.dataclass
class Mistake:
    """A mistake of size s: other options of the program, or other weights or inputs."""

    name: str
    options: Callable = lambda s: {}
    numbers: Callable = lambda s, layer: {}  # what is added to which number: {(name, index): by}
    least: float = 1e-9
    positions: str = "none"
    shown: Callable = lambda s: f"{s:.1e}"


GELU = Mistake("GELU, by a share s the one by tanh", lambda s: {"other_gelu": s}, least=1e-6)
MISTAKES = [
    Mistake("every epsilon is 1e-5 + s", lambda s: {"epsilon": 1e-5 + s}),
    GELU,
    Mistake("scores times 1 + s", lambda s: {"scale_factor": 1 + s}),
    Mistake("what is added to the residual, times 1 + s", lambda s: {"residual_factor": 1 + s}),
    Mistake("one number of W_q off by s", numbers=lambda s, layer: {(layer + "self_attn.in_proj_weight", (5, 7)): s}),
    Mistake("one number of W_2 off by s", numbers=lambda s, layer: {(layer + "linear2.weight", (5, 7)): s}),
    Mistake("one gain off by s", numbers=lambda s, layer: {(layer + "norm1.weight", (3,)): s}),
    Mistake("one number of x off by s", numbers=lambda s, layer: {("x", (4, 7)): s}),
    Mistake("masked scores are -F, not -inf", lambda s: {"fill": math.log(s)}, least=1e-14, shown=lambda s: f"F={-math.log(s):.1f}"),
    Mistake("dropout of s left on the weights", lambda s: {"dropout": s}, least=1e-9),
    Mistake("rotary base times 1 + s", lambda s: {"base": 10000.0 * (1 + s)}, positions="rotary"),
    Mistake("ALiBi's slopes times 1 + s", lambda s: {"slope_factor": 1 + s}, positions="alibi"),
]


def encoder(layers, positions, width=WIDTH, seed=1):
    """A reference of weights as after training."""
    draw = random.Random(seed)
    numbers = random_modules.Numbers(draw, np.random.default_rng(seed))
    numbers.scale, numbers.type = "trained", "float32"
    weights = {}
    for i in range(layers):
        weights |= {f"layers.{i}.{name}": array for name, array in random_modules.layer_weights(numbers, width, 4 * width).items()}
    weights |= random_modules.norm_weights(numbers, "norm", width)
    options = {"heads": HEADS, "norm": "pre", "activation": "gelu", "epsilon": 1e-5, "layers": layers, "causal": True}
    options["positions"] = positions
    flags = ["--heads", HEADS, "--norm", "pre", "--activation", "gelu", "--layers", layers, "--mask", "causal"]
    if positions == "rotary":
        options |= {"rotary": "halves", "base": 10000.0}
        flags += ["--rotary-layout", "halves"]
    if positions != "none":
        flags += ["--positions", positions]
    inputs = {"x": numbers.stored(numbers.rng.normal(size=(TOKENS, width)))}
    return random_modules.Reference("encoder", options, inputs, weights, flags)


class Case:
    """A reference, and what the right program makes of it."""

    def __init__(self, attn, folder, layers, positions, seed, width=WIDTH):
        self.attn, self.folder, self.layers = attn, folder, layers
        self.reference = encoder(layers, positions, width, seed)
        self.trace = false_alarms.make_reference(attn, folder, self.reference)
        self.exact = self.result("float64")
        right = self.run("float32")
        self.noise = np.max(np.abs(right[-1].array - self.exact))
        self.right_found = {how: self.finds(how, right) for how in HOW}
        self.allowed = self.tolerance(right)

    def run(self, type, changes=None, added=None):
        reference = self.reference
        if added:
            weights, inputs = ({name: array.copy() for name, array in arrays.items()} for arrays in (reference.weights, reference.inputs))
            for (name, index), by in added.items():
                (inputs if name == "x" else weights)[name][index] += by
            reference = dataclasses.replace(reference, weights=weights, inputs=inputs)
        return right_ways.Program(reference, right_ways.Way(type=type, given=type), changes).run()

    def result(self, type, *changed):
        return self.run(type, *changed)[-1].array

    def changed(self, mistake, s):
        return mistake.options(s), mistake.numbers(s, f"layers.{self.layers // 2}.")

    def effect(self, mistake, s):
        """In float64, as a multiple of the noise."""
        return np.max(np.abs(self.result("float64", *self.changed(mistake, s)) - self.exact)) / self.noise

    def diff(self, arrays):
        np.savez(self.folder / "mine.npz", **arrays)
        return false_alarms.call(self.attn, "diff", self.trace, self.folder / "mine.npz", "--type", "float32", "--json", codes=(0, 1))

    def tolerance(self, kept):
        found = json.loads(self.diff({"output": kept[-1].array}).stdout)["steps"][0]
        return found["worst"]["tolerance"] if found.get("worst") else math.nan

    def finds(self, how, kept):
        """Whether a program is called wrong."""
        if how in ALLCLOSE:
            return not np.allclose(kept[-1].array, self.exact, rtol=ALLCLOSE[how], atol=ALLCLOSE[how])
        arrays = {"output": kept[-1].array} if how == "the result" else right_ways.under_steps(kept, HEADS)
        return self.diff(arrays).returncode == 1

    def smallest(self, how, mistake):
        """The smallest size with which a mistake is found; None where none is."""
        is_found = lambda exponent: self.finds(how, self.run("float32", *self.changed(mistake, 10**exponent)))
        low, high = math.log10(mistake.least), -1e-9
        if not is_found(high):
            return None
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if is_found(middle) else (middle, high)
        return 10**high


ALLCLOSE = {"allclose 1e-5": 1e-5, "allclose 1e-3": 1e-3}
HOW = ("all saved", "the result", *ALLCLOSE)


def cell(case, how, mistake):
    if case.right_found[how]:
        return "calls the right one wrong"
    s = case.smallest(how, mistake)
    if s is None:
        return "not found"
    return mistake.shown(s) + ("" if how == "all saved" else f" ({case.effect(mistake, s):.3g})")


def bessel(attn, layers, seed):
    """The mistake whose size is the width: d - 1 in place of d."""
    for width in (16, 64, 256):
        with tempfile.TemporaryDirectory() as name:
            case = Case(attn, Path(name), layers, "none", seed, width)
            mistake = Mistake("", lambda s: {"bessel": True})
            kept = case.run("float32", {"bessel": True})
            found = ["found" if case.finds(how, kept) else "not found" for how in HOW]
            print(f"| variance over d - 1, d = {width} ({case.effect(mistake, 1):.3g}) | {' | '.join(found)} |", flush=True)


def noted(case, positions):
    gelu = case.effect(GELU, 1)
    return (f"positions {positions}: noise {case.noise:.2g} of numbers up to {np.max(np.abs(case.exact)):.2g}; "
            f"attn diff allows {case.allowed:.2g} in the result alone, {case.allowed / case.noise:.3g} times the noise; "
            f"GELU by tanh changes it by {gelu * case.noise:.2g}, {gelu:.3g} times")  # fmt: skip


def table(attn, layers, seed):
    print(f"\n{layers} layer{'s' * (layers > 1)}, float32; the smallest size (times the noise, in the result)\n")
    print("| mistake | " + " | ".join(HOW) + " |\n|" + "---|" * (len(HOW) + 1))
    notes = []
    for positions in ("none", "rotary", "alibi"):
        with tempfile.TemporaryDirectory() as name:
            case = Case(attn, Path(name), layers, positions, seed)
            for mistake in [one for one in MISTAKES if one.positions == positions]:
                print(f"| {mistake.name} | " + " | ".join(cell(case, how, mistake) for how in HOW) + " |", flush=True)
            notes.append(noted(case, positions))
    bessel(attn, layers, seed)
    print("\n" + "\n".join(notes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attn")
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 12])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for layers in given.layers:
        table(given.attn, layers, given.seed)


if __name__ == "__main__":
    main()
