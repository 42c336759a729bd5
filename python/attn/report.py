"""The verdict of attn diff."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .program import call


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
    mistakes        the well-known mistakes that give its numbers
    type            that yours were computed in: "float32"
    case            the input that it is about, where a function was checked on several
    json            all of it, as attn diff --json gives it
    """

    def __init__(self, json_text: str, text: str):
        self.json: Mapping[str, Any] = json.loads(json_text)
        self.text = text
        self.case: str | None = None
        self.verdict: str = self.json["verdict"]
        self.ok: bool = self.json["same"]
        self.type: str = self.json["type"]
        steps = {step["step"]: step for step in self.json["steps"]}
        first = steps.get(self.json["first_wrong"])
        self.first_wrong = place_of(first) if first else None
        self.mistakes = tuple(Mistake(one["id"], one["sentence"], one["link"], tuple(one["steps"]), one["formula"], one["right"])
                              for one in self.json.get("looks_like", ()))

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.text if self.case is None else f"with {self.case}\n{self.text}"

    def __repr__(self) -> str:
        return f"<attn.Report: {self.verdict}" + (f", first in {self.first_wrong.step}>" if self.first_wrong else ">")


def place_of(step: Mapping[str, Any]) -> Place:
    worst, origin = step.get("worst") or {}, step.get("origin") or {}
    return Place(step["step"], step["mine"], step["message"], step["formula"], tuple(worst.get("index", ())),
                 worst.get("expected"), worst.get("found"), origin.get("file"), origin.get("line"), origin.get("variable"),
                 origin.get("function"))


def compare(*words: Any) -> Report:
    """attn diff with these words."""
    answers = [call("diff", *words, "--diagnose", *more, passing=(0, 1)).stdout for more in (("--json",), ())]
    return Report(*answers)
