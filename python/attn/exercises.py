"""The exercises of the lessons, checked where they are written: in a notebook, or a program of yours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from .program import Error, OwnFolder, call

FOLDER = Path(__file__).with_name("exercises")
STAGES = {"what": (), "step": ("--hint",), "line": ("--hint",)}


class Checked:
    """What is said of the functions of an exercise. It is true where all that were given are right."""

    def __init__(self, is_right: bool, text: str) -> None:
        self.is_right, self.text = is_right, text

    def __bool__(self) -> bool:
        return self.is_right

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = "#2a9d4a" if self.is_right else "#d1343f"
        return f'<pre style="border-left: 4px solid {colour}; padding-left: 1em; white-space: pre-wrap">{escape(self.text)}</pre>'


def exercise(topic: str, /, *functions: Callable[..., Any], hint: str = "what") -> Checked:
    """Checks functions of a lesson's exercise, under the names that it gives them, and names well-known mistakes.

        attn.exercise("06_multi_head", my_merged_heads)

    hint    how much is said of a wrong one: "what" is wrong, the "step" to look at, or the "line" that is right
    raises  Error where there is no such exercise, or it has no function of that name; what a function itself raises
    """
    if hint not in STAGES:
        raise Error(f'hint is {hint!r}, expected "what", "step" or "line"')
    path = FOLDER / f"{topic}.npz"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.npz")))
        raise Error(f"there is no exercise {topic}; there are {known}")
    calls, arrays = read_calls(path)
    by_name = {function.__name__: function for function in functions}
    names = list(dict.fromkeys(one["function"] for one in calls))
    if not functions or not by_name.keys() <= set(names):
        given = ", ".join(sorted(by_name.keys() - set(names))) or "nothing"
        raise Error(f"exercise {topic} asks for {', '.join(names)}, and was given {given}")
    found = {}
    for number, one in enumerate(calls):
        if one["function"] in by_name:
            result = by_name[one["function"]](*arguments_of(one, number, arrays))
            found[f"call.{number}"] = result_of(one, result)
    with OwnFolder() as folder:
        mine = Path(folder, "found.npz")
        np.savez(mine, **found)
        ended = call("exercise", path, mine, *STAGES[hint], passing=(0, 1))
    text = ended.stdout.strip()
    if hint == "line":
        text = re.sub(r"^With --answer .*\n?", "", text, flags=re.MULTILINE) + solved(topic, [name for name in by_name if re.search(rf"^{name}('s \w+)? is ", text, re.MULTILINE)])
    return Checked(ended.returncode == 0, with_keyword(text))


def solved(topic: str, names: list[str]) -> str:
    """Lines of functions that are right, as lessons/make_notebooks.py wrote them down."""
    lines = json.loads((FOLDER / "solved.json").read_text(encoding="utf-8"))[topic]
    return "".join(f"\nLines of {name} that are right:\n  " + lines[name].replace("\n", "\n  ") for name in names)


def with_keyword(text: str) -> str:
    """The flags of the program as this function has them."""
    return text.replace("--hint", 'hint="step"').replace("--answer", 'hint="line"')


def read_calls(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The calls that an exercise's program wrote with --calls, and their arrays."""
    with np.load(path) as content:
        calls = json.loads(content["calls.json"])
        return calls, {name: in_double(content[name]) for name in content.files if name.startswith("call.")}


def in_double(array: Any) -> Any:
    """Real numbers as float64: a file has float32 where that loses nothing. Whole numbers as int64."""
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


def arguments_of(one: Mapping[str, Any], number: int, arrays: Mapping[str, Any]) -> Iterator[Any]:
    """The arguments of one call. Weights are a dictionary of arrays, and a single number is a Python number."""
    for parameter in one["parameters"]:
        name = f"call.{number}.{parameter}"
        if name in arrays:
            yield arrays[name].item() if arrays[name].ndim == 0 else arrays[name].copy()
        else:
            yield {key[len(name) + 1 :]: arrays[key].copy() for key in arrays if key.startswith(f"{name}.")}


def result_of(one: Mapping[str, Any], result: Any) -> Any:
    """What a function returned for a call, as an array of numbers; of several results the one that the call is about."""
    name, place = one["function"], one.get("place")
    if place is not None:
        if not isinstance(result, tuple) or len(result) <= place:
            raise Error(f"{name} returned {type(result).__name__}, expected several results: return a, b")
        result = result[place]
    try:
        array = np.asarray(result)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise Error(f"{name} returned {type(result).__name__}, expected an array of numbers")
    return in_double(array)
