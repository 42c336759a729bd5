"""The line where a call goes wrong: the arrays of a wrong call beside those of the same tokens at once, both recorded from their source."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attn_record
import numpy as np

from .calls_models import ModelCalls
from .calls_schedules import NAMES, Difference, Outcome, Playing, Row, Runner, Schedule
from .comparison import Comparison, Side, compare
from .program import Error, OwnFolder
from .report import Between, Origin


def recorded(runner: Runner, schedule: Schedule, first: Difference) -> Between | str | None:
    """The arrays between which it goes wrong, or why that is not known. The ids of a row are all different here, where there are so many."""
    number, sequences, at_once = NAMES.index(first.sequence), list(runner.sequences), dict(runner.at_once)
    call = [one for one in schedule.calls if one.do in ("step", "packed")][first.call - 1]
    row = next(row for row in call.rows if row.sequence == number)
    has_whole = "whole" in runner.can and not runner.whole
    if call.do == "step" and first.call == 1 and not has_whole:
        return "the first call is wrong, and there is no whole() to compare it with"
    with OwnFolder() as folder:
        a, b = str(Path(folder, "at_once.npz")), str(Path(folder, "calls.npz"))

        def watch(path: str) -> Any:
            return attn_record.to(path, own=own_folders(runner.adapter), quiet=True)

        try:
            if runner.vocabulary >= len(sequences[number]):
                runner.sequences[number] = np.random.default_rng(1).permutation(runner.vocabulary)[:len(sequences[number])]
            ids = runner.sequences[number][None, :row.end]
            if has_whole:
                with watch(a):
                    runner.guarded(runner.adapter.whole, runner.given(ids))
            else:
                runner.watched, state = watch(a), runner.start([row])
                runner.step(state, ids, None, None)
            runner.watch = lambda call: watch(b) if call == first.call else None
            Playing(runner, Outcome(schedule), until=first.call).play()
            return between_of(compare(a, b), row if len(call.rows) == 1 and row.begin else None)
        except Error as error:
            return str(error).splitlines()[0]
        except Exception as error:
            return f"recording it fails: {type(error).__name__}: {error}"
        finally:
            runner.watch, runner.watched, runner.sequences, runner.at_once = None, None, sequences, at_once


def between_of(found: Comparison, row: Row | None) -> Between | None:
    """The first array of the call that is not that of these tokens, and the last one before it that is. row: of a call of one row, which tokens
    it has: an array that has the numbers of other tokens is wrong, such as their positions."""
    last = None
    for pair in found.pairs:
        is_same = pair.verdict in ("bits equal", "rounding", "without effect")
        if pair is found.first_different or (is_same and row and is_misplaced(pair.part, row, [one.part for one in found.pairs])):
            return Between(last, origin_of_side(pair.b))
        slices = slices_of(pair.part)
        if is_same and pair.b.file and (not row or not slices or (row.begin, row.end) in slices.values()):  # of these tokens, certainly
            last = origin_of_side(pair.b)
    return None


def slices_of(part: str) -> dict[int, tuple[int, int]]:
    """Of a part such as "[:, 5:8, :] of A", of the tokens at once: {1: (5, 8)}. Those of a batch are of B."""
    if not part.endswith("] of A"):
        return {}
    found = enumerate(part[1:-len("] of A")].split(", "))
    return {axis: (int(begin), int(end)) for axis, one in found for begin, _, end in [one.partition(":")] if begin and end}


def is_misplaced(part: str, row: Row, others: Sequence[str]) -> bool:
    """Whether it is of other tokens than those of the call. An axis is one of tokens if, of all arrays with so many axes, it alone has these
    tokens; of one or two axes, any is. What is as long as all before this call may be what is stored of them."""
    slices, own = slices_of(part), (row.begin, row.end)
    axes = {axis for other in others if other.count(",") == part.count(",") for axis, one in slices_of(other).items() if one == own}
    if own in slices.values() or (part.count(",") > 1 and len(axes) != 1):
        return False
    return any(end - begin == row.end - row.begin and (begin, end) != (0, row.begin) and (part.count(",") < 2 or axis in axes)
               for axis, (begin, end) in slices.items())


def origin_of_side(side: Side) -> Origin:
    return Origin(side.file, side.line, side.variable, side.function)


def own_folders(adapter: Any) -> list[str] | None:
    """Where the code of a model is, if attn's own adapter calls it; None for all code that is not installed."""
    if not isinstance(adapter, ModelCalls):
        return None
    return [os.path.dirname(os.path.abspath(inspect.getfile(type(adapter.model))))]
