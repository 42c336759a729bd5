"""Two runs of one's own, compared without a reference."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from .arrays import write_arrays
from .program import Error, OwnFolder, call
from .report import Between, Origin, number_of
from .shown import growth_plot, page_of, paragraph
from .trace import Trace


@dataclass(frozen=True)
class Side:
    """An array of one run, and where it was assigned."""

    name: str
    index: tuple[int, ...]  # of the number that is furthest off
    value: float
    file: str | None = None
    line: int | None = None
    variable: str | None = None
    function: str | None = None


@dataclass(frozen=True)
class Pair:
    """An array of A and what it is in B."""

    a: Side
    b: Side
    verdict: str  # "bits equal", "rounding", "without effect", "undecided" or "different"
    off: float  # the root mean square of the differences over that of the numbers
    allowed: float  # of that, what roundings can do
    part: str  # that was compared: "[0:1, :5] of B"; empty where both have one size
    follows: bool  # different, and computed from one that is
    has_effect: bool  # False where it is different, and nothing that was computed from it


@dataclass(frozen=True)
class Growth:
    """How far off a layer is."""

    layer: str
    last: str  # its last array
    off: float  # of that
    worst: float  # of the array that is furthest off


@dataclass(frozen=True)
class Result:
    """What a run returned, or what nothing later was computed from."""

    run: str  # "A" or "B"
    name: str


class Comparison:
    """What attn diff says of two runs. It is true where each result of both was compared, and they differ by roundings at most;
    its text is the program's.

    verdict          "bits equal", "rounding", "different", or "undecided" where a result was not compared
    why_undecided    the reasons, and what to do
    between          the lines before and at the first difference, where no single line can be blamed; else None
    compared, not_compared   the results of both runs
    first_different  the first pair that roundings don't explain; None where there is none
    pairs            all of them, in the order in which they were computed
    only_a, only_b   the names of arrays that the other run doesn't have
    layers           how the difference grows; empty where there are not two layers
    type             that was computed in: "float32"
    """

    def __init__(self, json_text: str, text: str):
        self.json: Mapping[str, Any] = json.loads(json_text)
        self.text = text
        self.ok: bool = self.json["same"]
        self.verdict: str = self.json["verdict"]
        self.type: str = self.json["type"]
        self.pairs = tuple(map(pair_of, self.json["pairs"]))
        first = self.json["first_different"]
        self.first_different = None if first is None else self.pairs[first]
        between = self.json["between"]
        self.between = between and Between(origin_of(between["last_right"]), Origin(**between["first_wrong"]))
        self.why_undecided: tuple[str, ...] = tuple(self.json["why_undecided"])
        self.compared = tuple(Result(**one) for one in self.json["compared"]["results"])
        self.not_compared = tuple(Result(**one) for one in self.json["compared"]["not_compared"])
        self.only_a: tuple[str, ...] = tuple(self.json["only_a"])
        self.only_b: tuple[str, ...] = tuple(self.json["only_b"])
        self.layers = tuple(Growth(one["layer"], one["last"], number_of(one["off"]), number_of(one["worst"]))
                            for one in self.json["layers"])

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        first = self.first_different
        return f"<attn.Comparison: {self.verdict}" + (f", first in {first.a.name}>" if first else ">")

    def _repr_html_(self) -> str:
        first, parts = self.first_different, []
        if first:
            sides = [f"{name}{list(side.index)} is {side.value:.9g}" + (f" ({side.file}:{side.line})" if side.file else "")
                     for name, side in ((f"A's {first.a.name}", first.a), (f"B's {first.b.name}", first.b))]
            parts.append(paragraph(f"first different: off by {first.off:.3g} of its size; roundings can do {first.allowed:.2g}",
                                   *map(escape, sides)))
        return page_of(self.ok, self.text, *parts, growth_plot([(one.layer, one.worst) for one in self.layers]))


def origin_of(origin: Mapping[str, Any] | None) -> Origin | None:
    return origin and Origin(**origin)


def side_of(side: Mapping[str, Any]) -> Side:
    origin = side["origin"] or {}
    return Side(side["name"], tuple(side["index"]), number_of(side["value"]), origin.get("file"), origin.get("line"),
                origin.get("variable"), origin.get("function"))


def pair_of(pair: Mapping[str, Any]) -> Pair:
    return Pair(side_of(pair["a"]), side_of(pair["b"]), pair["verdict"], number_of(pair["off"]), number_of(pair["allowed"]),
                pair["part"], pair["follows"], pair["has_effect"])


def compare(a: Any, b: Any) -> Comparison:
    """Compares two runs, neither of which is a reference: eager and fused, in a padded batch and alone, with a cache and at once.

    Each is the path of an .npz file or of a folder of .npy files, what attn.record() wrote, arrays by name, or a Trace, whose
    formulas are not used here.

    raises  Error where one is none of these, or damaged
    """
    with OwnFolder() as folder:
        paths = [path_of(run, Path(folder, name)) for run, name in ((a, "a.npz"), (b, "b.npz"))]
        as_json = Path(folder, "verdict.json")
        text = call("diff", *paths, "--json-file", as_json, passing=(0, 1)).stdout
        return Comparison(as_json.read_text(encoding="ascii"), text)


def path_of(run: Any, place: Path) -> str:
    """Where it is; written to the place where it is in memory, or has steps that would make it a reference."""
    if isinstance(run, (str, os.PathLike)):
        return os.fspath(run)
    if isinstance(run, Trace):
        run = {name: run[name] for name in run.steps}
    elif hasattr(run, "commands") and hasattr(run, "path"):  # what attn.record() gives
        return str(os.fspath(run.path))
    if not isinstance(run, Mapping):
        raise Error(f"a run is of the type {type(run).__name__}, expected a path, arrays by name, a recording or a Trace")
    write_arrays(place, run)
    return str(place)
