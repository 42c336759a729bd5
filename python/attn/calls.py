"""One law over time: each token of each sequence gets the same result, however the tokens are given over calls."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import array_of
from .calls_lines import recorded
from .calls_mistakes import KINDS, MISTAKES, PLACED, Mistake
from .calls_models import calls_of_model
from .calls_reference import Decoder
from .calls_weights import Weighted
from .calls_schedules import (A, ABSENT, B, E, EPSILONS, NAMES, PARTS, ROUNDED, SAME, WRONG, Altered, Calls, Difference, Outcome, Row, Runner, Schedule, differences,
                              schedules)
from .program import Error
from .report import Between, Origin, Report
from .shown import page_of, paragraph

Array = Any
AGAIN = Schedule("asked again", (), "the first sequence at once, after another one")
CLEAR = 8.0  # a difference of so many times what roundings can do is no rounding
AGREED = 1e-5  # of the largest logit: two programs with one model's weights agree to that, whatever their tables are kept in
MOST_WEIGHTS = 4_000_000  # of which mistakes are made with the model's own numbers
PROBED = 3  # wrong schedules of which is asked what a result depends on


def check_calls(model: Any, *, vocabulary: int | None = None, max_tokens: int | None = None, window: int | None = None, kind: str | None = None,
                cache: str | Callable[[], Any] | None = None, like: Any = None, tolerance: float | None = None, seed: int = 0) -> CallsReport:
    """Gives the same tokens in other calls, and says in which the results differ, and which mistake with a cache has that pattern.

    model       a Calls of your own, or a model of transformers as it is
    vocabulary  ids are below it; that of the config for a model
    max_tokens  of the longest sequence: 37 unless given, or as many as the config allows; 12 or more
    window      keys that a query sees, where there is a sliding window; that of the config for a model
    kind        what it is, which leaves fewer mistakes: "rotary", "learned", "alibi", "recurrent", "pages", "scales"
    cache       of a model: "dynamic", "static", or a function that makes one
    like        what ids are: "numpy", "torch", "list" or a function; as the adapter says unless given
    tolerance   differences allowed, over the largest logit; those of roundings unless given. A cache of fewer bits needs more, which cache_type of
                the adapter says
    raises      Error where the whole sequence in one call fails, or gives something else than logits
    """
    adapter, known = calls_of_model(model, cache) if not isinstance(model, Calls) else (model, {})
    if cache is not None and adapter is model:
        raise Error("cache is for a model of transformers: start() of a Calls makes its own")
    vocabulary, window = vocabulary or known.get("vocabulary"), known.get("window", 0) if window is None else window
    if not vocabulary:
        raise Error("vocabulary is needed: how many ids the model has")
    if kind is not None and not any(kind_of(name, kind) for name in KINDS):
        raise Error(f"kind is {kind!r}, expected one of {', '.join(KINDS)}, pages")
    tokens, notes = tokens_of(max_tokens, window, known.get("max_tokens", 1 << 30))
    return Check(adapter, tokens, vocabulary, window, kind or known.get("kind"), like, tolerance, seed, notes).report()


def tokens_of(asked: int | None, window: int, most: int = 1 << 30) -> tuple[int, list[str]]:
    """Of the longest sequence, and what is not looked at for that."""
    tokens = asked or min(max(37, 2 * window + 5) if window else 37, most)
    if tokens < 12:
        raise Error(f"max_tokens is {tokens}, expected 12 or more")
    if not asked and tokens > 1000:
        return 37, [f"past the window of {window} keys: {2 * window + 5} tokens would be needed, say max_tokens={2 * window + 5}"]
    return tokens, []


def kind_of(name: str, asked: str | None) -> bool:
    return asked is None or name == asked or name.startswith(asked + " ")


@dataclass(frozen=True)
class Words:
    """For a report."""

    result: str = "logit"
    ids: str = "ids"
    at_once: str = "what these weights give"
    name: str = ""  # that of the adapter's class, or of its model
    more_bits: str = "model.double(), or say tolerance="
    others: str = ", smaller ids by vocabulary="


class Check:
    """One check of one adapter."""

    def __init__(self, adapter: Any, tokens: int, vocabulary: int, window: int, kind: str | None, like: Any, tolerance: float | None, seed: int,
                 notes: Sequence[str] = (), decoder: Callable[..., Decoder] | None = None, words: Words = Words()):
        """decoder: what it should compute, where that is known; made with kinds of caches"""
        self.runner = Runner(adapter, tokens, vocabulary, seed, like, tolerance)
        self.decoder, self.words = decoder, words
        self.tokens, self.vocabulary, self.window, self.kind, self.seed = tokens, vocabulary, window, kind, seed
        self.page = getattr(adapter, "page_size", 0)
        if not isinstance(self.page, int) or self.page < 0:
            raise Error(f"page_size is {self.page!r}, expected how many tokens a block of the cache has")
        self.reasons: list[str] = []
        self.left_out: dict[str, str] = dict.fromkeys(notes, "")
        self.outcomes: list[Outcome] = []
        self.hint: str | None = None
        self.patterns: dict[tuple[str, ...], Pattern] = {}
        self.not_explained: list[str] = []
        self.weighted: Any = None
        self.positions, self.by_numbers = "", False
        self.is_placed: bool | None = None  # whether a token's result depends on where it stands, however far others are; None where that can't be seen
        self.models: dict[tuple[Mistake, str, bool], Remembered] = {}
        self.find_weights()

    def run_all(self) -> None:
        self.outcomes = []
        for schedule in schedules(self.tokens, self.window, self.page):
            missing = sorted(schedule.needs - self.runner.can)
            if schedule.states > 1 and getattr(self.runner.adapter, "one_state", False):
                self.left_out[schedule.name] = "it has one state at a time"
            elif missing:
                if missing != ["whole"]:
                    self.left_out[schedule.name] = f"step() takes no {missing[0]}" if missing[0] == "mask" else f"there is no {missing[0]}()"
            else:
                outcome = self.runner.run(schedule)
                if outcome.is_refused and not outcome.cells:
                    self.left_out[schedule.name] = outcome.failure
                else:
                    self.outcomes.append(outcome)

    def report(self) -> CallsReport:
        runner = self.runner
        if self.begin():
            self.run_all()
            small, compared = (sum(getattr(one, name) for one in self.outcomes) for name in ("small", "compared"))
            is_small = small > compared / 5 or any(0 < one.small == one.wrong for one in self.outcomes)
            if runner.eps == EPSILONS["float64"] and runner.tolerance is None and is_small:
                runner.eps = EPSILONS["float32"]  # some of it is computed in float32, whatever the type of its result
                self.run_all()
        wrong = [one for one in self.outcomes if one.is_wrong]
        for outcome in self.outcomes:
            if outcome.failure and not outcome.is_refused:
                self.reasons.append(f"{outcome.schedule.name}, {outcome.failure}")
            elif outcome.failure:
                self.left_out[f"the rest of {outcome.schedule.name}"] = outcome.failure
        self.reasons += runner.notes
        worst = max((one.worst for one in wrong), default=0.0)
        if wrong and worst <= CLEAR * runner.allowed():
            more_bits = "a cache of more bits, or say tolerance=" if runner.rounded else f"numbers of more bits, {self.words.more_bits}"
            self.reasons.append(f"differences of {worst:.2g} of the largest {self.words.result}, where roundings do up to {runner.allowed():.2g}: ask with {more_bits}")
        elif wrong:
            if all(one.schedule.states > 1 for one in wrong):
                self.hint = "two states at a time share something: where it can have one only, say one_state = True"
            return CallsReport("different", self, self.named())
        if not any(one.compared and one.schedule.is_law for one in self.outcomes if not one.failure):
            self.reasons.append("no schedule of more than one call for a sequence was compared")
        return CallsReport("undecided" if self.reasons else "the same", self)

    def begin(self) -> bool:
        """The whole sequences: asked twice, and whether anything could be seen. False where nothing can be compared."""
        runner = self.runner
        try:
            before, after, failure = runner.asked_again()
            first = runner.reference(A)
            runner.reference(B)
            self.is_placed = is_placed(runner.reference(E), runner.allowed() * runner.size_of(E))
        except NotImplementedError as error:
            raise Error(f"the whole sequence in one call is not implemented{': ' * bool(str(error))}{error}: what should the others be compared with?") from None
        except Error as error:
            raise Error(f"{self.tokens} tokens in one call: {error}") from None
        except Exception as error:
            raise Error(f"it fails with {self.tokens} tokens in one call: {type(error).__name__}: {error}; fewer are asked by max_tokens={self.words.others}") from error
        if self.weighted and not runner.whole:
            off = float(differences(self.weighted(window=self.window).at_once(runner.sequences[A][None])[0], first).max()) / runner.size_of(A)
            if off > AGREED and np.isfinite(first).all():
                self.weighted = None
                self.left_out["the numbers of mistakes"] = f"the whole is not what the config and the weights give: off by {off:.2g} of the largest logit"
        if not np.isfinite(first).any() or np.isnan(first).any():
            position = int(np.argwhere(~(np.isfinite(first).any(-1) & ~np.isnan(first).any(-1)))[0, 0])
            self.reasons.append(f"the whole sequence in one call gives numbers that are not finite, at position {position} first: there is nothing to compare with")
            return False
        off = np.maximum(differences(after, before).max(-1), differences(runner.ask(A), first).max(-1)) / runner.size_of(A)
        if off.max() > runner.allowed():
            if not failure and self.is_random():
                self.reasons.append("asked twice for the whole sequence, it gives different results, and equal ones with equal seeds: dropout is on (eval() turns it off), "
                                    "or something else is random")
                return False
            position = int(np.argmax(off > runner.allowed()))
            k = int(differences(after, before)[position].argmax())
            outcome = Outcome(AGAIN, again_cells(runner, before, after), {(1, 0): (Row(A, 0, len(after)), after)}, worst=float(off.max()), first=Difference(
                AGAIN.name, 3, "A", position, float(off[position] * runner.size_of(A)), runner.size_of(A), float(after[position, k]), float(before[position, k])))
            self.outcomes.append(outcome)
            self.hint = f"a later request fails: {failure}" if failure else (
                "a request changes what a later one gets; or something is random that no seed of NumPy, random or PyTorch sets")
            return False
        if not self.sees_past(first):
            self.reasons.append("the result of the last token is the same after other tokens: a cache that is wrong could not be seen" + (
                ", with a vocabulary of one id" if self.vocabulary == 1 else ""))
            return False
        return True

    def is_random(self) -> bool:
        import random
        import sys

        def seeded() -> Array:
            random.seed(0)
            np.random.seed(0)
            if "torch" in sys.modules:
                sys.modules["torch"].manual_seed(0)
            return self.runner.ask_with_state(A)

        try:
            first = seeded()
            self.runner.ask_with_state(B)
            return bool(differences(seeded(), first).max() <= self.runner.allowed() * self.runner.size_of(A))
        except Exception:  # a request that fails after another one is not random
            return False

    def sees_past(self, first: Array) -> bool:
        runner, own = self.runner, self.runner.sequences[A]
        changed = own.copy()
        changed[:-1] = (changed[:-1] + 1 + np.arange(len(own) - 1) % max(1, self.vocabulary - 1)) % self.vocabulary
        runner.sequences[A] = changed
        try:
            other = runner.ask(A)
        finally:
            runner.sequences[A] = own
        return bool(differences(other[-1], first[-1]).max() > 2 * runner.allowed() * runner.size_of(A))

    # Names.

    def named(self) -> list[Mistake]:
        """Mistakes that explain what differs. Schedules are looked at by what they need of an adapter, those that need nothing first: a mistake
        stays where it has the pattern of one group after the other. A group that none of them explains is put aside, and said."""
        groups: dict[tuple[str, ...], list[Outcome]] = {}
        for one in self.outcomes:
            if not one.failure:
                groups.setdefault(one.schedule.group, []).append(one)
        some = list(groups.values())
        for takes_tokens in (False, True) if self.weighted else ():
            found, aside = self.explained(some, [
                (one, self.weighted_made(form, kind, takes_tokens)) for one in MISTAKES for form in one.forms for kind in self.kinds(one, True)], Numbers)
            if found:
                self.by_numbers, self.not_explained = True, aside
                return found
        possible = [one for one in MISTAKES if one.is_of_others or not self.weighted]  # the numbers rule out the others
        best: list[Mistake] = []
        for variant in (False, True) if self.positions == "none" else (2, 1, 3):  # a mistake in one layer alone shows elsewhere, and so does a window in three
            found, aside = self.explained(some, [
                (one, self.made(form, kind, variant, placed))
                for one in possible for form in one.forms for kind in self.kinds(one) for placed in self.placings(kind)], self.pattern_of)
            if found and (not best or len(aside) <= len(self.not_explained)):
                best = [*best, *found] if best and len(aside) == len(self.not_explained) else found
                self.not_explained = aside
        return [one for one in MISTAKES if one in best]

    def explained(self, groups: Sequence[Sequence[Outcome]], left: Sequence[tuple[Mistake, Remembered]],
                  pattern_of: Callable[..., Any]) -> tuple[list[Mistake], list[str]]:
        """Mistakes, and the schedules that differ in another way than they do. left: the mistakes, made"""
        first: Sequence[Outcome] = ()
        is_seen, aside = False, []
        for group in groups:
            pattern = pattern_of(self.runner, group, first)
            fitting = [one for one in left if pattern.is_that_of(one[1])]
            if fitting:
                left, first = fitting, first or group
                is_seen = is_seen or pattern.is_wrong
            else:
                aside += [one.schedule.name for one in group]
        return list(dict.fromkeys(mistake for mistake, _ in left)) if is_seen else [], aside

    def pattern_of(self, runner: Runner, group: Sequence[Outcome], first: Sequence[Outcome]) -> Pattern:
        key = tuple(one.schedule.name for one in (*first, *group))
        if key not in self.patterns:
            self.patterns[key] = Pattern(runner, group, first)
        return self.patterns[key]

    def kinds(self, mistake: Mistake, is_weighted: bool = False) -> Iterator[str]:
        for kind in mistake.kinds:
            own = KINDS[kind].get("positions", "rotary")
            is_other = mistake.is_placed or kind != mistake.kinds[0] if self.positions == "none" else own != self.positions
            if is_weighted and (kind in ("source", "recurrent") or (kind in PLACED and is_other)):
                continue
            if not is_weighted and not self.kind and self.is_placed is not None and (kind in PLACED or kind == "recurrent") and (
                    kind not in (("learned", "recurrent") if self.is_placed else ("rotary", "alibi"))):
                continue
            of_window = kind in ("ring", "first kept")
            if (kind == "source") == self.runner.has_source and (bool(self.window) or not of_window) and (of_window or kind_of(kind, self.kind)):
                yield kind

    def placings(self, kind: str) -> Sequence[bool]:
        """Whether a decoder has learned positions: as the adapter, where its kind does not say."""
        if kind in PLACED or kind == "recurrent" or self.positions == "none":
            return [kind == "learned"]
        return [False, True] if self.is_placed is None else [self.is_placed]

    def made(self, mistake: Mistake, kind: str, variant: int, placed: bool) -> Remembered:
        """The small decoder with that mistake, called as the adapter is. variant: how many layers it has; of attention alone, whether a chunk is
        given to it token by token"""
        if self.positions == "none":
            return self.weighted_made(mistake, kind, bool(variant))
        of_window = self.window and kind in ("ring", "first kept", *PLACED)
        return made(mistake, kind, placed, variant, self.window if of_window else 0, self.tokens, min(self.vocabulary, 64), self.seed, "whole" in self.runner.can,
                    tuple(sorted(self.runner.takes)))

    def weighted_made(self, mistake: Mistake, kind: str, takes_tokens: bool) -> Remembered:
        """The same, with the model's own weights. takes_tokens: a chunk is given to it token by token, as some programs do"""
        options = {**KINDS[kind], **({"window": self.window} if self.window else {})}
        if (mistake, kind, takes_tokens) not in self.models:
            decoder = mistake.made(self.weighted, **options)
            if "whole" in self.runner.can:
                decoder.whole = self.weighted(**options).at_once  # type: ignore[attr-defined, misc]
            decoder.takes_tokens = takes_tokens
            self.models[mistake, kind, takes_tokens] = Remembered(decoder, self.tokens, self.vocabulary, self.seed, takes_only=tuple(self.runner.takes))
        return self.models[mistake, kind, takes_tokens]

    def lines_of(self, outcome: Outcome) -> Between | str | None:
        """The wrong call beside the same tokens at once, recorded."""
        if outcome.schedule is AGAIN or outcome.first is None:
            return None
        return recorded(self.runner, outcome.schedule, outcome.first)

    def find_weights(self) -> None:
        """Sets weighted, where the weights are known, and few enough."""
        if self.decoder:
            return self.use(self.decoder)
        given = getattr(self.runner.adapter, "weights", None)
        returned = given() if callable(given) else None
        if returned is None:
            return
        if not isinstance(returned, tuple) or len(returned) != 2 or not all(isinstance(one, Mapping) for one in returned):
            raise Error("weights() has to return a config and a state dict")
        config, weights = returned
        if sum(math.prod(getattr(one, "shape", ())) for one in weights.values()) > MOST_WEIGHTS:
            self.left_out["the numbers of mistakes"] = f"more than {MOST_WEIGHTS} weights: mistakes are told apart by what differs alone"
            return
        self.use(partial(Weighted, config, weights))

    def use(self, weighted: Callable[..., Decoder]) -> None:
        self.positions = weighted().positions  # refuses what it does not know
        self.weighted = weighted
        if "whole" not in self.runner.can:
            self.runner.whole = lambda ids: weighted(window=self.window).at_once(np.asarray(array_of("ids", ids)))
            self.runner.can.add("whole")


def is_placed(same: Array, bound: float) -> bool | None:
    """Of the results of one id again and again, at once. With rotary positions or ALiBi all keys' values are the same there, and so are all
    results. With learned positions each differs from the one before it, and the last do as the first; a state, or a sink, is soon where it stays."""
    with np.errstate(all="ignore"):
        steps = abs(np.diff(same, axis=0)).max(-1)
    third = len(steps) // 3
    if not np.isfinite(steps).all():
        return None
    return False if steps.max() <= bound else True if np.median(steps[-third:]) > max(bound, np.median(steps[:third]) / 5) else None


@lru_cache(maxsize=512)
def made(mistake: Mistake, kind: str, placed: bool, layers: int, window: int, tokens: int, vocabulary: int, seed: int, has_whole: bool, takes: tuple[str, ...]) -> Remembered:
    options = {**KINDS[kind], **({"positions": "learned"} if placed else {}), "layers": layers, "vocabulary": vocabulary, **({"window": window} if window else {})}
    decoder = mistake.made(**options)
    if has_whole:
        decoder.whole = Decoder(**options).at_once  # type: ignore[attr-defined]
    return Remembered(decoder, tokens, vocabulary, seed, takes_only=takes)


def again_cells(runner: Runner, before: Array, after: Array) -> dict[tuple[int, int], str]:
    off = differences(after, before).max(-1)
    return {(1, 0): "".join(WRONG if one > runner.allowed() * runner.size_of(A) else SAME for one in off)}


class Remembered(Runner):
    """Runs nothing twice."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.outcomes: dict[Any, Outcome] = {}
        self.again: tuple[Array, Array] | None = None

    def run(self, schedule: Schedule, altered: Altered | None = None) -> Outcome:
        if (schedule, altered) not in self.outcomes:
            self.outcomes[schedule, altered] = super().run(schedule, altered)
        return self.outcomes[schedule, altered]

    def marks_again(self) -> dict[tuple[int, int], str]:
        """Marks of the first sequence, asked for at once before and after another one."""
        return again_cells(self, *self.twice())

    def twice(self) -> tuple[Array, Array]:
        if self.again is None:
            self.again = self.asked_again()[:2]
        return self.again


class Pattern:
    """What differs in some schedules: in which rows and tokens; which wrong results are equal to each other, and to those of the schedules
    before these; and what a wrong result depends on."""

    def __init__(self, runner: Runner, outcomes: Sequence[Outcome], before: Sequence[Outcome] = ()):
        self.before = before
        self.outcomes = sorted(outcomes, key=lambda one: (not one.is_wrong, one.schedule.steps))  # what rules out most comes first
        self.is_again = outcomes[0].schedule is AGAIN
        self.is_wrong = any(one.is_wrong for one in outcomes)
        self.traits = list(traits(runner, self.outcomes, known_of(runner, before))) if not self.is_again else []

    def is_that_of(self, made: Remembered) -> bool:
        if self.is_again:
            return made.marks_again() == self.outcomes[0].cells
        found = (self.same_cells(made, mine) for mine in self.outcomes)
        before = [one for one in (self.same_cells(made, mine) for mine in self.before) if one]
        for mine, other in zip(self.traits, traits(made, found, known_of(made, before))):
            if other != mine:
                return False
        return WRONG not in made.marks_again()[1, 0]

    def same_cells(self, made: Remembered, mine: Outcome) -> Outcome | None:
        """None where other tokens differ. What is not compared here is not compared there."""
        if mine.schedule.needs - made.can:
            return None
        other = made.run(mine.schedule)
        if other.failure or not alike(mine.cells, other.cells):
            return None
        cells, values = {}, {}
        for key, marks in mine.cells.items():
            absent = marks.count(ABSENT)
            cells[key] = marks[:absent] + other.cells[key][absent:]
            row, found = other.values[key]
            values[key] = row, found[len(found) - len(marks) + absent:]
        return replace(other, cells=cells, values=values)


class Numbers:
    """The results of some schedules, token for token, where the mistakes are made with the model's own weights."""

    def __init__(self, runner: Runner, outcomes: Sequence[Outcome], before: Sequence[Outcome] = ()):
        self.runner = runner
        self.outcomes = sorted(outcomes, key=lambda one: (not one.is_wrong, one.schedule.steps))
        self.bound = max(CLEAR * runner.allowed(), AGREED)
        self.is_wrong = any(one.worst > CLEAR * self.bound for one in outcomes)

    def is_that_of(self, made: Remembered) -> bool:
        return all(self.agree(mine, made) for mine in self.outcomes)

    def agree(self, mine: Outcome, made: Remembered) -> bool:
        if mine.schedule is AGAIN:
            theirs = {key: (row, made.twice()[1]) for key, (row, _) in mine.values.items()}
        elif mine.schedule.needs - made.can:
            return False
        else:
            other = made.run(mine.schedule)
            if other.failure:
                return False
            theirs = other.values
        return mine.values.keys() == theirs.keys() and all(
            differences(theirs[key][1][len(theirs[key][1]) - len(found):], found).max(initial=0) <= self.bound * self.runner.size_of(row.sequence)
            for key, (row, found) in mine.values.items())


def known_of(runner: Runner, outcomes: Iterable[Outcome]) -> dict[tuple[int, int], list[Array]]:
    """The wrong results of each token, without those that are equal to an earlier one."""
    right = runner.reference(E)
    known = {(E, 0): [right[0, ::max(1, right.shape[1] // 32)]]}
    for outcome in outcomes:
        labels(runner, outcome, known)
    return known


def traits(runner: Runner, outcomes: Iterable[Outcome | None], known: dict[tuple[int, int], list[Array]]) -> Iterator[Any]:
    """Of each schedule: which wrong results are equal to an earlier one, and of the first of them what they depend on."""
    probed = 0
    for outcome in outcomes:
        if outcome is None:
            yield None
            return
        is_probed = outcome.is_wrong and probed < PROBED
        probed += is_probed
        yield labels(runner, outcome, known), probe(runner, outcome) if is_probed else ""


def alike(mine: Mapping[Any, str], other: Mapping[Any, str]) -> bool:
    """The same tokens differ, of those that were compared."""
    return mine.keys() == other.keys() and all(
        len(a) == len(b) and all(x == y or x == ABSENT for x, y in zip(a, b)) for a, b in ((marks, other[key]) for key, marks in mine.items()))


def labels(runner: Runner, outcome: Outcome, known: dict[tuple[int, int], list[Array]]) -> list[int]:
    """Of each wrong result, in order: the number of the first wrong result of that token that it is equal to; of one id again and again also the
    first right one. known: the earlier ones"""
    found = []
    for key, marks in outcome.cells.items():
        row, values = outcome.values[key]
        bound = 4 * runner.allowed() * runner.size_of(row.sequence)
        for j, one in enumerate(values):
            if marks[len(marks) - len(values) + j] == WRONG:
                place = 0 if row.sequence == E else row.end - len(values) + j  # tokens that are all the same are one
                others = known.setdefault((row.sequence, place), [])
                same = next((i for i, other in enumerate(others) if differences(one, other).max() <= bound), len(others))
                others += [one] * (same == len(others))
                found.append(same)
    return found


def probe(runner: Runner, outcome: Outcome) -> str:
    """What the first wrong result of a schedule depends on: a digit for each of PARTS."""
    call, row = next(key for key, marks in outcome.cells.items() if WRONG in marks)
    if not outcome.states.get(call):
        return ""
    column = outcome.cells[call, row].index(WRONG)
    own, values = outcome.values[call, row]
    j = column - (len(outcome.cells[call, row]) - len(values))
    bound = runner.allowed() * runner.size_of(own.sequence)
    digits = ""
    has_proposals = any(one.do == "truncate" for one in outcome.schedule.calls)
    for part in PARTS if has_proposals else PARTS[:-1]:
        other = runner.run(outcome.schedule, Altered(part, call, row, own.left + column, outcome.states[call]))
        if (call, row) in other.values:
            theirs = other.values[call, row][1]
            digits += str(int(differences(theirs[j - len(values)], values[j]).max() > bound))
        else:
            digits += "?"
    return digits


class CallsReport:
    """What was asked and compared, and what differs. It is true where all is the same.

    verdict         "the same", "different" or "undecided"
    first_wrong     the simplest schedule that differs: schedule, call, sequence, position, off, size, found, expected; None where there is none
    mistakes        the mistakes that have this pattern: id, sentence, why, link. Several, where it doesn't tell them apart
    between         last_right and first_wrong: arrays of the wrong call, with file, line, variable and function; None where none was recorded
    by_numbers      the mistakes were made with the model's own weights, and give these results, not only this pattern
    not_explained   schedules in which something else is wrong than these mistakes do
    pattern         of each schedule that was run, its marks: {"step by step": {"A": "....|x|x"}}
    checked         what was asked about and compared
    case            the inputs of one prompt that were compared besides, where a function of attention was checked; else None
    left_out        schedules that were not run, each with the reason
    why_undecided   what is missing for a verdict
    hint            what else can be the cause
    schedules       those that were run, as data
    json            all of it
    """

    def __init__(self, verdict: str, check: Check, mistakes: Sequence[Mistake] = ()):
        runner = check.runner
        self.verdict, self.ok, self.hint = verdict, verdict == "the same", check.hint
        self.not_explained, self.by_numbers = list(check.not_explained), check.by_numbers
        self.mistakes = tuple(mistakes)
        self.why_undecided, self.failures = (list(check.reasons), []) if verdict != "different" else ([], list(check.reasons))
        self.left_out = dict(check.left_out)
        self.schedules = [one.schedule for one in check.outcomes]
        self.pattern = {one.schedule.name: marks_of(one) for one in check.outcomes}
        wrong = [one for one in check.outcomes if one.is_wrong]
        self.first_wrong = wrong[0].first if wrong and verdict == "different" else None
        lines = check.lines_of(wrong[0]) if self.first_wrong else None
        self.between = lines if isinstance(lines, Between) else None
        if isinstance(lines, str):
            self.left_out["lines of the source"] = lines
        self.case: str | None = None
        results = sum(one.compared for one in check.outcomes)
        steps = sum(one.schedule.steps for one in check.outcomes)
        name = check.words.name or type(getattr(runner.adapter, "model", runner.adapter)).__name__
        reference = (check.words.at_once if runner.whole else "the whole without a cache") if "whole" in runner.can else "the whole in one call"
        self.checked = (f"{name}: {results} results of {len(check.outcomes)} schedules, {steps} calls, compared with {reference}; sequences of {check.tokens} and "
                        f"{len(runner.sequences[B])} tokens, {check.vocabulary} {check.words.ids}" + f", a window of {check.window}" * bool(check.window))
        if runner.eps:
            self.checked += f", as {next(name for name, eps in EPSILONS.items() if eps == runner.eps)}"
        if runner.rounded:
            self.checked += f", with a cache of {runner.adapter.cache_type}"
        self.worst = max((one.worst for one in check.outcomes), default=0.0)
        self.allowed = runner.allowed() if runner.eps else 0.0
        self._result = check.words.result
        self._wrong = {one.schedule.name: one.schedule for one in wrong}
        self.json = {"verdict": verdict, "same": self.ok, "checked": self.checked, "first_wrong": self.first_wrong and finite(asdict(self.first_wrong)),
                     "looks_like": [{"id": one.id, "sentence": one.sentence, "why": one.why, "link": one.link} for one in self.mistakes],
                     "between": self.between and asdict(self.between), "not_explained": self.not_explained, "by_numbers": self.by_numbers,
                     "pattern": self.pattern, "left_out": self.left_out, "why_undecided": self.why_undecided, "hint": self.hint,
                     "worst": finite(self.worst), "allowed": self.allowed, "schedules": [one.json() for one in self.schedules]}

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines())

    def add(self, one: Report) -> None:
        """What one call of a function shows besides."""
        self.case = one.case if one else None
        if not one and (one.between or one.first_wrong and one.first_wrong.file):
            place = one.first_wrong
            self.between = one.between or Between(None, Origin(place.file, place.line, place.variable, place.function))
            self.left_out.pop("lines of the source", None)
        self.json.update(case=self.case, between=self.between and asdict(self.between), left_out=self.left_out)

    def lines(self) -> Iterator[str]:
        first = self.first_wrong
        if first:
            schedule = self._wrong[first.schedule]
            yield (f"first wrong: {first.schedule} ({schedule.says}), call {first.call}, sequence {first.sequence}, position {first.position}: "
                   f"off by {first.off:.3g}, where the largest {self._result} is {first.size:.3g}: {first.found:.6g}, expected {first.expected:.6g}")
            width = max(len(name) for name in self._wrong)
            yield f"{SAME} the same, {WRONG} different, | between calls of several tokens:"
            for name in self._wrong:
                for i, (row, marks) in enumerate(self.pattern[name].items()):
                    yield f"  {name if i == 0 else '':{width}}  {row}  {shortened(marks)}"
            if self.between:
                beside = ", beside those at once" * (first.schedule != "whole")
                yield f"first wrong array of that call{beside}: {self.between.first_wrong}" + (
                    f"; last right: {self.between.last_right}" if self.between.last_right else "")
            right = [one.name for one in self.schedules if one.name not in self._wrong]
            yield f"right: {', '.join(right) or 'none'}"
            if self.by_numbers:
                yield "the results are those of the mistake, made with the same numbers"
            if len(self.mistakes) > 1:
                yield f"this pattern is that of each of these {len(self.mistakes)}, and may be that of others:"
            for mistake in self.mistakes:
                said = "looks like" if self.by_numbers else "of the mistakes that are known here one has this pattern:"
                yield f"{said} {mistake.id}: {mistake.sentence} {mistake.why}" if len(self.mistakes) == 1 else f"  {mistake.id}: {mistake.sentence}"
                yield f"  seen: {mistake.link}"
            if not self.mistakes:
                yield "no mistake that is known here has this pattern"
            elif self.not_explained:
                yield f"that does not explain: {', '.join(self.not_explained)}"
        else:
            yield f"schedules: {', '.join(one.name for one in self.schedules) or 'none'}"
            yield f"differences: at most {self.worst:.2g} of the largest {self._result}; allowed {self.allowed:.2g}"
        for failure in self.failures:
            yield f"besides: {failure}"
        reasons: dict[str, list[str]] = {}
        for name, why in self.left_out.items():
            reasons.setdefault(why, []).append(name)
        for why, names in reasons.items():
            yield f"not looked at: {', '.join(names)}{': ' * bool(why)}{why}"
        for reason in self.why_undecided:
            yield f"undecided: {reason}"
        if self.hint:
            yield f"hint: {self.hint}"
        yield f"calls: {self.verdict}"

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes verdict.txt and verdict.json."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        Path(place, "verdict.txt").write_text(str(self), encoding="utf-8")
        Path(place, "verdict.json").write_text(json.dumps(self.json, indent=1), encoding="utf-8")

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return f"checked: {self.checked}\n" + f"and a prompt, and a chunk after one, with {self.case}\n" * bool(self.case) + self.text

    def __repr__(self) -> str:
        return f"<attn.CallsReport: {self.verdict}" + (f", first in {self.first_wrong.schedule}>" if self.first_wrong else ">")

    def _repr_html_(self) -> str:
        links = [f'looks like <a href="{escape(one.link)}">{escape(one.id)}</a>: {escape(one.sentence)}' for one in self.mistakes]
        return page_of(self.ok, str(self), paragraph(escape(self.checked)), *([paragraph(*links)] if links else []))


def finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: they are text."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def marks_of(outcome: Outcome) -> dict[str, str]:
    """Of each sequence, in the order of its calls; a bar stands between calls of several tokens."""
    found: dict[str, str] = {}
    for index, ((call, row), marks) in enumerate(outcome.cells.items()):
        own = outcome.values.get((call, row))
        name = NAMES[own[0].sequence] if own else "A"
        before = found.get(name, "")
        last = before.rsplit("|", 1)[-1]
        is_bar = before and not (len(marks) == 1 and index and before.endswith(tuple((SAME, WRONG, ABSENT))) and len(last) >= 1 and outcome_is_single(outcome, call, row))
        found[name] = before + "|" * bool(is_bar) + marks
    return found


def outcome_is_single(outcome: Outcome, call: int, row: int) -> bool:
    before = outcome.cells.get((call - 1, row))
    return before is not None and len(before) == 1


def shortened(marks: str) -> str:
    return marks if len(marks) <= 100 else marks[:70] + " … " + marks[-25:]
