"""Runs the NumPy lines of a lesson's page, and compares what they compute with the lesson's run.

A fenced block marked python is run, after HARNESS, which the page shows, too, and after those before it on the page. What the
lines compute must have the numbers of the step whose name it has, as a variable or by its path in the dictionary `mine`; a block
that computes no step is refused, unless it only defines functions. A block marked py is shown and not run.
"""

import ast
import builtins
import re
from typing import NamedTuple

import numpy as np

from .traces import shape_text

FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
TOLERANCE = 1e-12

# What every program begins with that has the lines of a page.
KEEP = """given, mine = {}, {}   # steps by name: those given, and those computed here

def keep(path, array, among=mine):
    # norm1.output is also the variable norm1_output
    among[path] = globals()[path.replace(".", "_")] = array
    return array
"""

# What a reader puts in front of a page's lines, to compute with what a run was given.
HARNESS = f"""import json
import numpy as np

{KEEP}
trace = np.load("t.npz")
for step in json.loads(trace["steps.json"])["steps"]:
    if not step.get("formula"):
        array = trace[step["path"]]
        if array.dtype == np.float32:   # stored so where that loses nothing
            array = array.astype(float)
        keep(step["path"], array, given)
"""


class Block(NamedTuple):
    """A block of a page: where it begins, its lines, and the steps that they computed."""

    position: int
    lines: str
    computed: list  # (what it is called in the lines, the step's path, its numbers)


class Noting:
    """A mapping that notes which of its entries are asked for."""

    def __init__(self, entries):
        self.entries, self.asked = entries, {}

    def __getitem__(self, key):
        self.asked[key] = True
        return self.entries[key]

    def get(self, key, default=None):
        return self[key] if key in self.entries else default


def variable(path):
    return path.replace(".", "_")


def run_examples(text, trace, located):
    """Runs all blocks of a page; located(position, message) is the error of a place on it.

    Returns the blocks, and the steps of the run that they start from, by path."""
    known = {variable(step["path"]): step["path"] for step in trace.steps}
    names = {"__builtins__": builtins}
    exec(HARNESS.replace('"t.npz"', repr(str(trace.path))), names)  # noqa: S102 (as below)
    given = names["given"]
    names["given"], names["trace"] = Noting(given), Noting(names["trace"])
    blocks, read = [], set()
    for block in FENCE.finditer(text):
        before, mine_before = dict(names), dict(names["mine"])
        try:
            code = compile(block[1], "<page>", "exec", ast.PyCF_ONLY_AST)
            read |= {part.id for part in ast.walk(code) if isinstance(part, ast.Name)}
            exec(compile(code, "<page>", "exec"), names)  # noqa: S102 (the page is ours)
        except Exception as error:
            raise located(block.start(), f"the NumPy lines fail: {type(error).__name__}: {error}") from None
        changed = {name for name, value in names.items() if before.get(name) is not value}
        computed = [(name, known[name], names[name]) for name in sorted(changed & known.keys(), key=list(names).index)]
        for path, value in names["mine"].items():
            if mine_before.get(path) is not value:
                if path not in trace:
                    raise located(block.start(), f"the NumPy lines compute {path}, which is no step of {trace.name}")
                if all(name != variable(path) for name, _, _ in computed):
                    computed.append((variable(path), path, value))
        for name, path, value in computed:
            check(name, value, trace[path], lambda message: located(block.start(), message))
        if not computed and not all(callable(names[name]) for name in changed):
            raise located(block.start(), f"the NumPy lines compute {', '.join(sorted(changed))}, none of which is a step of {trace.name}")
        blocks.append(Block(block.start(), block[1], computed))
    start = {path: array for path, array in given.items() if variable(path) in read or path in names["given"].asked}
    return blocks, {**start, **{path: names["trace"].entries[path] for path in names["trace"].asked}}


def check(name, found, expected, failure):
    found = np.asarray(found)
    if found.shape != expected.shape:
        raise failure(f"the NumPy lines make {name} {shape_text(found.shape)}, the run has {shape_text(expected.shape)}")
    with np.errstate(invalid="ignore"):
        close = np.isclose(found.astype(float), expected.astype(float), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    if not close.all():
        place = tuple(int(i) for i in np.argwhere(~close)[0])
        raise failure(f"the NumPy lines make {name}{list(place)} {found[place]!r}, the run has {expected[place]!r}")
