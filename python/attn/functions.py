"""From a function of one's own to a verdict, on inputs that tell mistakes apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import attn_record

from .arrays import array_of
from .program import Error, OwnFolder
from .report import Report
from .trace import Array, Trace, run


@dataclass(frozen=True)
class Case:
    """Sizes, and how large the numbers are."""

    n: int
    m: int
    d_k: int
    d_v: int
    largest: float = 1.0
    is_masked: bool = False  # by a mask that hides some keys, none of them from all queries

    def __str__(self) -> str:
        masked = ", some of them hidden" if self.is_masked else ""
        return f"{self.n} queries, {self.m} keys{masked}, d_k {self.d_k}, d_v {self.d_v}, numbers of about {self.largest:g}"


# Each sees what those before it do not: square scores, other numbers of keys and features, one key, a softmax that overflows. No
# tensor has the shape of another kind, so that none is taken for it.
CASES = (Case(4, 4, 3, 3), Case(3, 5, 4, 4), Case(3, 5, 4, 2), Case(2, 1, 3, 3), Case(9, 9, 16, 8), Case(4, 4, 3, 3, 40.0))
MASKED = (Case(4, 4, 3, 3, 1.0, True), Case(3, 5, 4, 4, 1.0, True))


def check_function(function: Callable[..., Any], what: str, *, causal: bool = False, mask: str | None = None, axes: int = 2,
                   like: Callable[[Array], Any] = np.asarray, dtype: str = "float64", seed: int = 0, **options: Any) -> Report:
    """Calls function(queries, keys, values) with small inputs, and says which mistake it makes, on the first that shows it.

    Its own tensors are recorded, so that the report names file and line.

    what     "attention": attn run attention is what it should compute
    causal   no query attends to a later key; the last query stands at the last key
    mask     the name of its argument that is true where a query can attend; masked cases are tried where there is one
    axes     2 for (n, d), 3 for a batch (b, n, d), 4 for heads, (b, h, n, d)
    like     makes its arguments of NumPy's arrays: torch.from_numpy
    dtype    of the arguments
    options  flags of attn run attention that say what it should compute: scale=1, softcap=50
    raises   Error where it fails, with the sizes that it was called with
    """
    if what != "attention":
        raise Error(f'"{what}" can\'t be checked as a function, only "attention": a module has weights, see run() and Trace.diff()')
    if axes not in (2, 3, 4):
        raise Error(f"axes is {axes}, expected 2, 3 or 4")
    random = np.random.default_rng(seed)
    first: Report | None = None  # that is not right
    for case in CASES + (MASKED if mask else ()):
        if causal and case.m < case.n:
            continue  # a query that can attend to nothing has no answer that all agree on
        front = (2, 3)[: axes - 2]
        inputs = {name: (case.largest * random.standard_normal((*front, *shape))).astype(dtype) for name, shape in
                  dict(queries=(case.n, case.d_k), keys=(case.m, case.d_k), values=(case.m, case.d_v)).items()}
        arguments = [like(array) for array in inputs.values()]
        named = {}
        near = np.arange(case.m) <= np.arange(case.n)[:, None] + case.m - case.n
        if case.is_masked:
            allowed = random.random(near.shape) < 0.6
            allowed |= np.arange(case.m) == np.arange(case.n)[:, None] + case.m - case.n
            named[mask] = like(allowed)
            reference = run("attention", **inputs, **options, mask=allowed & near if causal else allowed)
        else:
            reference = run("attention", **inputs, **options, mask="causal" if causal else None)
        report = checked_call(function, reference, arguments, named, case)
        if report.verdict == "different":
            return report
        if not report:
            first = first or report
    return first or report


def checked_call(function: Callable[..., Any], reference: Trace, arguments: list[Any], named: Any, case: Case) -> Report:
    """What it computes from these, compared."""
    with OwnFolder() as folder:
        path = Path(folder, "mine.npz")
        recording = attn_record.to(str(path), quiet=True)
        try:
            with recording:
                output = function(*arguments, **named)
        except Exception as error:
            raise Error(f"it fails with {case}: {type(error).__name__}: {error}") from error
        own = f"{attn_record.word(getattr(function, '__name__', ''))}.return"
        report = reference.diff(path, map=[own + "=output"]) if has(path, own, output) else reference.diff(output)
    report.case = str(case)
    return report


def has(path: Path, name: str, output: Any) -> bool:
    """Whether the result was recorded under that name."""
    with np.load(path) as file:
        return name in file.files and np.array_equal(file[name], array_of("the result", output), equal_nan=True)
