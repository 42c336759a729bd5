"""From a function of one's own to a verdict, on inputs that tell mistakes apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import attn_record

from .arrays import array_of
from .program import Error, OwnFolder
from .report import Report, report_of
from .trace import Array, Trace, run


@dataclass(frozen=True)
class Case:
    """Sizes, and how large the numbers are."""

    n: int
    m: int
    d: int  # features of queries, keys and values
    largest: float = 1.0
    is_masked: bool = False  # by a mask that hides some keys, none of them from all queries
    is_below_zero: bool = False  # all scores

    def __str__(self) -> str:
        masked = ", some of them hidden" if self.is_masked else ""
        return f"{self.n} queries, {self.m} keys{masked}, {self.d} features, numbers of about {self.largest:.3g}"

    def draw(self, random: np.random.Generator, fronts: Sequence[tuple[int, ...]], dtype: str) -> dict[str, Array]:
        """fronts: the axes before tokens and features of queries, keys and values"""
        arrays = [self.largest * random.standard_normal((*front, tokens, self.d)) for front, tokens in zip(fronts, (self.n, self.m, self.m))]
        if self.is_below_zero:
            arrays[0], arrays[1] = abs(arrays[0]), -abs(arrays[1])
        return {name: array.astype(dtype) for name, array in zip(("queries", "keys", "values"), arrays)}


# Each sees what those before it do not: square scores, more keys than queries, one key, many tokens and features. No tensor has the
# shape of another kind, so that none is taken for it. Values are as wide as keys, since many functions, such as
# jax.nn.dot_product_attention, take no others.
CASES = (Case(4, 4, 3), Case(3, 5, 4), Case(2, 1, 3), Case(9, 9, 16))
MASKED = (Case(4, 4, 3, is_masked=True), Case(3, 5, 4, is_masked=True))
FAR = Case(4, 4, 3, 400.0, is_below_zero=True)  # scores further below zero than -10000, which some take for minus infinity


def check_function(function: Callable[..., Any], what: str, *, causal: bool | str = False, mask: str | None = None, axes: int = 2,
                   kv_heads: int = 3, like: Callable[[Array], Any] = np.asarray, dtype: str = "float64", seed: int = 0,
                   **options: Any) -> Report:
    """Calls function(queries, keys, values) with small inputs, and says which mistake it makes, on the first that shows it.

    Its own tensors are recorded, so that the report names file and line. Where an input leaves several mistakes possible, the
    report is about a later one that leaves one of them.

    what      "attention": attn run attention is what it should compute
    causal    no query attends to a later key; True where the last query stands at the last key, as a cache needs it, and
              "top-left" where the first query stands at the first key, as is_causal of PyTorch and JAX has it
    mask      the name of its argument that is true where a query can attend; masked cases are tried where there is one
    axes      2 for (n, d), 3 for a batch (b, n, d), 4 for heads, (b, h, n, d)
    kv_heads  with 4 axes, keys and values have so many heads, which the three or six of the queries share
    like      makes its arguments of NumPy's arrays: torch.from_numpy
    dtype     of the arguments
    options   flags of attn run attention that say what it should compute: scale=1, softcap=50
    raises    Error where it fails, with the sizes that it was called with
    """
    if what != "attention":
        raise Error(f'"{what}" can\'t be checked as a function, only "attention": a module has weights, see run() and Trace.diff()')
    if axes not in (2, 3, 4):
        raise Error(f"axes is {axes}, expected 2, 3 or 4")
    if causal not in (False, True, "top-left"):
        raise Error(f'causal is {causal!r}, expected True or "top-left"')
    form = {False: None, True: "causal", "top-left": "causal-top-left"}[causal]
    heads = 3 if 3 % kv_heads == 0 else 2 * kv_heads
    fronts = [((), (2,), (2, one))[axes - 2] for one in (heads, kv_heads, kv_heads)]
    random = np.random.default_rng(seed)
    types = dict.fromkeys((dtype, "float64"))  # what is float32 can become float64 on the way
    overflowing = [Case(6, 6, 3, math.sqrt(math.log(np.finfo(one).max))) for one in types]  # exp() of some scores is infinite
    far = (FAR,) if (causal or mask) and np.finfo(dtype).max > 1e6 else ()
    first: Report | None = None  # that is not right
    count = 0
    for case in (*CASES, *overflowing, *far, *(MASKED if mask else ())):
        if causal is True and case.m < case.n:
            continue  # a query that can attend to nothing has no answer that all agree on
        inputs = case.draw(random, fronts, dtype)
        arguments = [like(array) for array in inputs.values()]
        named = {}
        if case.is_masked:
            ahead = np.arange(case.m) - np.arange(case.n)[:, None] - (0 if causal == "top-left" else case.m - case.n)
            allowed = (random.random(ahead.shape) < 0.6) | (ahead == 0)  # so that each query can attend to a key
            named[mask] = like(allowed)
            reference = run("attention", **inputs, **options, mask=(allowed, form))
        else:
            reference = run("attention", **inputs, **options, mask=form)
        try:
            report = checked_call(function, reference, arguments, named, case)
        except Error:
            if first is not None:
                break  # what is wrong before says more
            raise
        count += 1
        if report:
            continue
        if first is None or is_clearer(report, first):
            first = report
        if report.verdict == "different" and len(first.mistakes) == 1:
            break
    if first is not None:  # a report that is not right is false
        return first
    report.case = f"each of {count} inputs, the last of them {report.case}"
    return report


def is_clearer(report: Report, first: Report) -> bool:
    """True where it is different, and leaves fewer of the mistakes that the first one leaves."""
    if report.verdict != "different" or first.verdict != "different":
        return report.verdict == "different"
    names, left = ({mistake.id for mistake in one.mistakes} for one in (report, first))
    return bool(names) and (not left or names < left)


def checked_call(function: Callable[..., Any], reference: Trace, arguments: list[Any], named: Any, case: Case) -> Report:
    """What it computes from these, compared."""
    folder = OwnFolder()
    path = Path(folder.name, "mine.npz")
    recording = attn_record.to(str(path), quiet=True)
    try:
        with recording:
            output = function(*arguments, **named)
    except Exception as error:
        raise Error(f"it fails with {case}: {type(error).__name__}: {error}") from error
    name = recorded_name(path, output)
    if name is None:
        report = reference.diff(output)
    else:
        report = report_of(reference.path, path, "--map", name + "=output", keeps=[reference, folder])
    report.case = str(case)
    if not report and is_random(function, arguments, named):
        report.hint = "two calls with the same arguments give different results: dropout is on, or something else is random"
    return report


def is_random(function: Callable[..., Any], arguments: list[Any], named: Any) -> bool:
    first, second = (array_of("the result", function(*arguments, **named)) for _ in range(2))
    return not np.array_equal(first, second, equal_nan=True)


def recorded_name(path: Path, output: Any) -> str | None:
    """What the result is called in the recording: the last array that is the same."""
    result = array_of("the result", output)
    with np.load(path) as file:
        names = [name for name in file.files if not name.endswith(".json")]
        return next((name for name in reversed(names) if np.array_equal(file[name], result, equal_nan=True)), None)
