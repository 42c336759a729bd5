"""The verdict of attn diff."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from .program import Error, OwnFolder, call
from .shown import Rows, page_of, paragraph, side_by_side


@dataclass(frozen=True)
class Place:
    """A step of the reference that differs, and where yours was assigned."""

    step: str
    mine: str  # its name among yours
    message: str
    formula: str
    index: tuple[int, ...] = ()  # of its worst number
    expected: float | None = None
    found: float | None = None
    file: str | None = None  # where it was recorded
    line: int | None = None
    variable: str | None = None
    function: str | None = None
    window: Window | None = None  # of numbers around the worst one
    arithmetic: str = ""  # of the worst number, as it should be


@dataclass(frozen=True)
class Window:
    """Rows and columns of a step."""

    begin: tuple[int, ...]  # the index of its first number
    expected: Rows
    found: Rows


@dataclass(frozen=True)
class Origin:
    """Where an array was assigned."""

    file: str | None = None
    line: int | None = None
    variable: str | None = None
    function: str | None = None

    def __str__(self) -> str:
        return f"{self.variable} ({self.file}:{self.line})"


@dataclass(frozen=True)
class Between:
    """The fault is after the one and not after the other, where no line can be blamed."""

    last_right: Origin | None
    first_wrong: Origin


@dataclass(frozen=True)
class Mistake:
    """A well-known mistake that gives these numbers."""

    id: str
    sentence: str
    link: str
    steps: tuple[str, ...]
    formula: str  # what was computed
    right: str


class Report:
    """What attn diff says. It is true where nothing is wrong; its text is the program's.

    verdict         "the same", "different" or "undecided"
    first_wrong     the first step that is wrong by itself; None where there is none
    between         last_right and first_wrong, each a file, line and variable, where no single line can be blamed; else None
    checked         what was asked about and compared, where a module was checked
    why_undecided   what is missing for a verdict
    mistakes        the well-known mistakes that give its numbers
    type            that yours were computed in: "float32"
    case            the input that it is about, where a function was checked on several
    hint            what else can be the cause: training mode, results that change from call to call
    json            all of it, as attn diff --json gives it
    """

    def __init__(self, json_text: str, text: str, reference: Path, mine: Path, keeps: Sequence[object] = ()):
        """reference and mine: the files that were compared; keeps: the folders that they are in"""
        self._files, self._keeps = (reference, mine), keeps
        self.json: dict[str, Any] = json.loads(json_text)
        self.text = text
        self.checked: str | None = None
        self.why_undecided: list[str] = list(self.json.get("why_undecided", ()))
        self.case: str | None = None
        self.hint: str | None = None
        self.verdict: str = self.json["verdict"]
        self.ok: bool = self.json["same"]
        self.type: str = self.json["type"]
        steps = {step["step"]: step for step in self.json["steps"]}
        first = steps.get(self.json["first_wrong"])
        self.first_wrong = place_of(first, reference) if first else None
        between = self.json.get("between")
        self.between = Between(between["last_right"] and Origin(**between["last_right"]), Origin(**between["first_wrong"])) if between else None
        self.mistakes = tuple(Mistake(one["id"], one["sentence"], one["link"], tuple(one["steps"]), one["formula"], one["right"])
                              for one in self.json.get("looks_like", ()))

    @property
    def reference(self) -> Path:
        """The trace that it was compared with, while this report lasts."""
        return self._files[0]

    def computed(self) -> set[str]:
        """Those of MINE's arrays that were compared with what a formula gives: equal inputs are no evidence."""
        return {step["mine"].split("[")[0] for step in self.json["steps"] if step["formula"]}

    def doubt(self, *reasons: str) -> None:
        """It can't be the same where something that was asked about is not compared."""
        if reasons and self.verdict != "different":
            self.verdict, self.ok = "undecided", False
            self.why_undecided += reasons
            self.json.update(verdict="undecided", same=False, why_undecided=self.why_undecided)
            self.text += "".join(f"undecided: {reason}\n" for reason in reasons)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes what was compared, reference.npz and mine.npz, which attn diff reads again, and verdict.txt and verdict.json."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for path, name in zip(self._files, ("reference", "mine")):
            if path.is_dir():
                shutil.copytree(path, place / name, dirs_exist_ok=True)
            else:
                shutil.copyfile(path, place / (name + ".npz"))
        Path(place, "verdict.txt").write_text(str(self), encoding="utf-8")
        Path(place, "verdict.json").write_text(json.dumps(self.json, indent=1), encoding="utf-8")

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"with {self.case}\n"] if self.case else [f"checked: {self.checked}\n"] if self.checked else []
        return "".join([*lines, self.text, f"hint: {self.hint}\n" if self.hint else ""])

    def _repr_html_(self) -> str:
        place, parts = self.first_wrong, []
        if self.case:
            parts.append(paragraph(escape("with " + self.case)))
        if self.checked:
            parts.append(paragraph(escape("checked: " + self.checked)))
        if self.between:
            before = f"last right: {self.between.last_right}; " if self.between.last_right else ""
            parts.append(paragraph(escape(f"{before}first wrong: {self.between.first_wrong}")))
        elif place:
            where = f" ({escape(place.file)}:{place.line})" if place.file else ""
            parts.append(paragraph(f"first wrong: {escape(place.variable or place.mine)}{where}",
                                   f"{escape(place.step)} {escape(place.message)}"))
        if self.hint:
            parts.append(paragraph(escape(self.hint)))
        for mistake in self.mistakes:
            parts.append(paragraph(f'looks like <a href="{escape(mistake.link)}">{escape(mistake.id)}</a>: {escape(mistake.sentence)}'))
        if place and place.window:
            parts.append(side_by_side(place.window.expected, place.window.found, ((0, 0) + place.window.begin)[-2:]))
            parts.append(f"<pre>{escape(place.arithmetic)}</pre>" if place.arithmetic else "")
        return page_of(self.ok, str(self), *parts)

    def __repr__(self) -> str:
        return f"<attn.Report: {self.verdict}" + (f", first in {self.first_wrong.step}>" if self.first_wrong else ">")


def number_of(value: Any) -> float:
    """JSON has no infinity and no NaN: they are text."""
    return float(value)


def window_of(window: Mapping[str, Any]) -> Window:
    columns = window["shape"][1]

    def rows(numbers: list[Any]) -> Rows:
        return [[number_of(one) for one in numbers[i:i + columns]] for i in range(0, len(numbers), columns)]

    return Window(tuple(window["begin"]), rows(window["expected"]), rows(window["found"]))


def place_of(step: Mapping[str, Any], reference: Any) -> Place:
    worst, origin = step.get("worst"), step.get("origin") or {}
    place = Place(step["step"], step["mine"], step["message"], step["formula"], file=origin.get("file"), line=origin.get("line"),
                  variable=origin.get("variable"), function=origin.get("function"))
    if worst is None:
        return place
    index = tuple(worst["index"])
    return replace(place, index=index, expected=number_of(worst["expected"]), found=number_of(worst["found"]),
                   window=window_of(step["window"]), arithmetic=arithmetic_of(reference, step["step"], index))


def arithmetic_of(reference: Any, step: str, index: tuple[int, ...]) -> str:
    """Empty for a number that is given."""
    try:
        return call("explain", reference, step + (f"[{','.join(map(str, index))}]" if index else "")).stdout.rstrip("\n")
    except Error:
        return ""


def report_of(reference: Any, mine: Any, *flags: str, keeps: Sequence[object] = ()) -> Report:
    """What attn diff says of these files.

    keeps  the folders that they are in, which last as long as the report
    """
    with OwnFolder() as folder:
        as_json = Path(folder, "verdict.json")
        text = call("diff", reference, mine, *flags, "--diagnose", "--json-file", as_json, passing=(0, 1)).stdout
        return Report(as_json.read_text(encoding="ascii"), text, Path(reference), Path(mine), keeps)
