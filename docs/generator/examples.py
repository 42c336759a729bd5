"""Runs the NumPy lines of a lesson's page, and compares what they compute with the lesson's run.

A fenced block marked python is run, after those before it on the page, with np and every tensor that is given to the lesson
(its steps without a formula) under its name. A name of the program's steps, with _ for each dot, must have the step's numbers;
a block that computes none of them is refused, unless it only defines functions. A block marked py is shown and not run.
"""

import builtins
import re

import numpy as np

from .traces import shape_text

FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
TOLERANCE = 1e-12


def variable(path):
    return path.replace(".", "_")


def in_double(array):
    """What a trace stores in single precision, since its numbers fit, is computed with in double."""
    return array.astype(np.float64) if array.dtype == np.float32 else array


def run_examples(text, trace, located):
    """Runs all blocks of a page; located(position, message) is the error of a place on it. Returns the steps they computed."""
    known = {variable(step["path"]): trace.arrays[step["path"]] for step in trace.steps}
    given = {variable(step["path"]): trace.arrays[step["path"]] for step in trace.steps if not step.get("formula")}
    names = {"np": np, "__builtins__": builtins} | {name: in_double(array) for name, array in given.items()}
    compared = set()
    for block in FENCE.finditer(text):
        before = dict(names)
        try:
            exec(compile(block[1], "<page>", "exec"), names)  # noqa: S102 (the page is ours)
        except Exception as error:
            raise located(block.start(), f"the NumPy lines fail: {type(error).__name__}: {error}") from None
        changed = {name for name, value in names.items() if before.get(name) is not value}
        for name in sorted(changed & known.keys()):
            check(name, names[name], known[name], lambda message: located(block.start(), message))
        compared |= changed & known.keys()
        if not changed & known.keys() and not all(callable(names[name]) for name in changed):
            raise located(block.start(), f"the NumPy lines compute {', '.join(sorted(changed))}, none of which is a step of {trace.name}")
    return compared


def check(name, found, expected, failure):
    found = np.asarray(found)
    if found.shape != expected.shape:
        raise failure(f"the NumPy lines make {name} {shape_text(found.shape)}, the run has {shape_text(expected.shape)}")
    with np.errstate(invalid="ignore"):
        close = np.isclose(found.astype(float), expected.astype(float), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    if not close.all():
        place = tuple(int(i) for i in np.argwhere(~close)[0])
        raise failure(f"the NumPy lines make {name}{list(place)} {found[place]!r}, the run has {expected[place]!r}")
