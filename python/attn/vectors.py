"""Checks a function by test vectors that name mistakes: python3 -m attn.vectors MODULE:FUNCTION

Each case is small: the inputs of attention, of a layer, of a norm, what is right, and what each well-known mistake makes of it. The
function is called with inputs and parameters by name, and with weights, a dictionary, where there are some. Cases with names that it
does not take are left out, as are those for which it raises NotImplementedError. It returns an array, or several: a tuple in the order
of the case's outputs, or a dictionary. Where a case has several calls, it is also given `state`, None for the first call of a
request, and returns a pair: its result, and the state for the next call.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from . import vector_check
from .arrays import array_of
from .program import Error, OwnFolder, call


LIBRARIES = ("numpy", "torch", "jax")


@dataclass(frozen=True)
class Result:
    """What is said of one case."""

    id: str
    function: str
    message: str  # empty where it passed
    is_left_out: bool = False


def folder_of_vectors() -> Path:
    """The published vectors: of this package, or of the checkout around it."""
    here = Path(__file__).resolve()
    for folder in (here.parent / "vector_cases", here.parents[2] / "vectors" / "cases"):
        if folder.is_dir():
            return folder
    raise Error("there are no vectors beside this package: give a folder, --vectors vectors/cases, or a seed")


def files_in(folder: Path) -> Iterator[dict[str, Any]]:
    try:
        yield from vector_check.files_in(folder).values()
    except vector_check.Damaged as error:
        raise Error(error) from None


def check(function: Callable[..., Any], name: str, folder: Path | None = None, *, dtype: str = "float64", like: str = "numpy") -> list[Result]:
    """Calls a function with each case of the function of that name.

    folder  of the vectors; those of this package unless given
    dtype   of its arguments, and in which it computes: the tolerance is measured for it
    like    the library of its arguments: numpy, torch, jax
    raises  Error where there are no vectors of that function
    """
    results = []
    call_it = adapted(function, dtype, like)
    for file in files_in(folder or folder_of_vectors()):
        for group in file["groups"] if file["function"] == name else []:
            for case in group["cases"]:
                try:
                    inspect.signature(function).bind(**dict.fromkeys(vector_check.names_of(case, group["parameters"])))
                except TypeError as error:  # "got an unexpected keyword argument 'mask'"
                    results.append(Result(case["id"], name, f"{getattr(function, '__name__', 'it')}() {error}", True))
                    continue
                try:
                    message = vector_check.failure(case, group["parameters"], call_it, dtype)
                except NotImplementedError as error:
                    results.append(Result(case["id"], name, str(error) or "not implemented", True))
                    continue
                results.append(Result(case["id"], name, message + sentence(file, message)))
    if not results:
        raise Error(f"there are no vectors of {name}")
    return results


def sentence(file: dict[str, Any], message: str) -> str:
    """The sentence of the mistake, where it is one."""
    name = message.rpartition("those of ")[2].partition(" (")[0]  # "not_rescaled (the output, tiles of 64 or 128)"
    note = file["notes"].get(name)
    return f": {note['sentence']}" if note else ""


def adapted(function: Callable[..., Any], dtype: str, like: str) -> Callable[..., Any]:
    """The function of NumPy's arrays that calls one of other tensors.

    raises  Error where the library has no such numbers, which is no fault of the function
    """
    if dtype not in vector_check.TYPES or like not in LIBRARIES:
        raise Error(f"dtype is {dtype!r} and like is {like!r}, expected one of {', '.join(vector_check.TYPES)}, and of {', '.join(LIBRARIES)}")
    if like == "numpy":
        try:
            np.dtype(dtype)
        except TypeError:
            raise Error(f"NumPy has no {dtype} by itself: --like torch or --like jax has") from None
    if like == "jax" and dtype == "float64":
        importlib.import_module("jax").config.update("jax_enable_x64", True)  # JAX has no float64 unless asked

    def convert(value: Any) -> Any:
        if isinstance(value, dict) and value and all(isinstance(one, np.ndarray) for one in value.values()):
            return {name: convert(one) for name, one in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        kind = dtype if value.dtype.kind == "f" else str(value.dtype)
        if like == "torch":
            torch = importlib.import_module("torch")
            return torch.from_numpy(value).to(getattr(torch, kind))
        if like == "jax":
            return importlib.import_module("jax.numpy").asarray(value, dtype=kind)
        return value.astype(kind)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        return tuple(map(plain, value)) if isinstance(value, tuple) else array_of("the result", value)

    def call_it(**given: Any) -> Any:
        answer = function(**{name: value if name == "state" else convert(value) for name, value in given.items()})
        if "state" in given and isinstance(answer, tuple) and len(answer) == 2:
            return plain(answer[0]), answer[1]  # the state is its own
        return answer if "state" in given else plain(answer)

    return call_it


def to_junit(results: list[Result]) -> str:
    lines = []
    for one in results:
        inside = f"<failure message={quoteattr(one.message)}/>" if one.message else ""
        inside = "<skipped/>" if one.is_left_out else inside
        lines.append(f" <testcase classname={quoteattr(one.function)} name={quoteattr(one.id)}>{inside}</testcase>\n")
    left_out = sum(one.is_left_out for one in results)
    failed = sum(bool(one.message) for one in results) - left_out
    return (f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="vectors" tests="{len(results)}" failures="{failed}" '
            f'skipped="{left_out}">\n{"".join(lines)}</testsuite>\n')


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m attn.vectors", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="what to check: mine:attention")
    parser.add_argument("--as", dest="name", metavar="NAME", help="whose vectors (default: the function's own name)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--vectors", type=Path, metavar="FOLDER", help="the files (default: those of this package)")
    which.add_argument("--seed", metavar="S", help="other vectors of the same kind, which attn makes")
    parser.add_argument("--type", choices=vector_check.TYPES, default="float64", help="in which it computes (default: float64)")
    parser.add_argument("--like", choices=LIBRARIES, default="numpy", help="the library of its arguments (default: numpy)")
    parser.add_argument("--junit", type=Path, metavar="FILE.xml", help="write a report for build servers")
    given = parser.parse_args(words)
    try:
        return run(given)
    except Error as error:
        print(f"attn.vectors: {error}", file=sys.stderr)
        return 2


def run(given: argparse.Namespace) -> int:
    module, _, attribute = given.function.partition(":")
    if not attribute:
        raise Error(f"{given.function} names no function, expected MODULE:FUNCTION, such as mine:attention")
    sys.path.insert(0, "")
    try:
        function = vector_check.function_of(module, attribute)
    except (ImportError, AttributeError) as error:
        raise Error(f"{given.function}: {error}") from error
    with OwnFolder() as made:
        if given.seed is not None:
            call("vectors", "--seed", given.seed, "-o", made)
        results = check(function, given.name or attribute, Path(made) if given.seed is not None else given.vectors, dtype=given.type, like=given.like)
    if given.junit:
        given.junit.write_text(to_junit(results))
    return report(results)


def report(results: list[Result]) -> int:
    checked = [one for one in results if not one.is_left_out]
    failed = [one for one in checked if one.message]
    for one in failed:
        print(f"failed {one.id}: {one.message}")
    for message in sorted({one.message for one in results if one.is_left_out}):
        print(f"left out {sum(one.message == message for one in results)} cases: {message}")
    print(f"{len(checked) - len(failed)} of {len(checked)} cases passed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
