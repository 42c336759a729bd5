"""How the tokens of some sequences are given over several calls: as data, and run."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .arrays import array_of
from .program import Error

Array = Any


class Calls:
    """What a model with a cache can do. Derive from it, and write start() and step(); what else there is makes more schedules possible.

    start(batch)          a new state, for so many rows; start(batch, source) of an encoder–decoder, whose source ids are (batch, s)
    step(ids, state)      the logits (batch, n, vocabulary) of ids (batch, n), and the state for the next call. Logits (batch, 1, vocabulary)
                          are those of the last token
    step(…, mask)         for rows of unequal lengths: (batch, tokens so far and now), 1 for a token, 0 for padding
    step(…, positions)    (batch, n): of each token in its sequence. mask and positions are None where no row has padding
    whole(ids)            the logits of the model without a cache, which are what the others are compared with
    weights()             the config and the state dict of GPT-2, or of a model like Llama, as transformers names them: what config.json and the
                          weights say is then computed by a decoder of attn, and mistakes are known by their numbers
    reorder(state, rows)  the state whose row i goes on as rows[i] did, as beams need it
    fork(state)           a state of its own that goes on from there
    truncate(state, n)    the state after the first n columns, as speculation needs it
    join(state, other)    the rows of both, what is shorter with padding before it
    packed(ids, documents, positions)    logits of several sequences in one row (1, n): documents says which one a token is of

    One that can't do something for these sizes raises NotImplementedError. ids are NumPy's integers; like = "torch" makes them tensors.
    one_state = True says that a new state ends the one before it, cache_type = "int8" that keys and values are rounded between calls, a row of
    CACHE_STEPS, and page_size = 16 that they stand in blocks of so many tokens.
    """

    like: str | Callable[[Array], Any] = "numpy"
    cache_type: str | None = None
    page_size = 0
    one_state = False  # True where there is one at a time, such as in buffers of a module, which start() empties

    def start(self, batch: int) -> Any:
        raise NotImplementedError

    def step(self, ids: Any, state: Any) -> tuple[Any, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class Row:
    """Tokens [begin, end) of a sequence, with padding before and after them."""

    sequence: int
    begin: int
    end: int
    left: int = 0
    right: int = 0

    @property
    def width(self) -> int:
        return self.left + self.end - self.begin + self.right


@dataclass(frozen=True)
class Call:
    """A call, or an operation on a state.

    do      "start", "step", "reorder", "fork", "truncate", "join", "packed" or "whole"
    state   which one it is about
    rows    what a row of it gets; of "start" the sequences
    order   of "reorder": whose place a row takes
    other   of "fork": what the new state is called; of "join": whose rows are added
    length  of "truncate": columns that remain
    told    mask and positions are given although no row has padding, as generate() of transformers does
    """

    do: str
    state: str = "s"
    rows: tuple[Row, ...] = ()
    order: tuple[int, ...] = ()
    other: str = ""
    length: int = 0
    told: bool = False


@dataclass(frozen=True)
class Schedule:
    name: str
    calls: tuple[Call, ...]
    says: str = ""

    @property
    def needs(self) -> frozenset[str]:
        """What an adapter has to be able to do."""
        found = {call.do for call in self.calls} - {"start", "step"}
        if any(row.left or row.right for call in self.calls for row in call.rows):
            found.add("mask")
        return frozenset(found | ({"mask"} if "join" in found or any(call.told for call in self.calls) else set()))

    @property
    def group(self) -> tuple[str, ...]:
        """Schedules that ask for the same of an adapter. Rows with padding are a group of their own."""
        is_padded = any(row.left or row.right for call in self.calls for row in call.rows)
        return tuple(sorted(self.needs)) + ("padding",) * is_padded

    @property
    def steps(self) -> int:
        return sum(call.do in ("step", "packed", "whole") for call in self.calls)

    @property
    def states(self) -> int:
        """At a time."""
        return len({call.state for call in self.calls if call.state} | {call.other for call in self.calls if call.other})

    @property
    def is_law(self) -> bool:
        """It gives a row in more than one call, or beside others."""
        steps = [call for call in self.calls if call.do == "step"]
        return any(row.begin or len(call.rows) > 1 for call in steps for row in call.rows) or any(call.do == "packed" for call in self.calls)

    def json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(data: dict[str, Any]) -> Schedule:
        """From what json() gave."""
        calls = [Call(**{**call, "rows": tuple(Row(**row) for row in call["rows"]), "order": tuple(call["order"])}) for call in data["calls"]]
        return Schedule(data["name"], tuple(calls), data.get("says", ""))


# Which sequences there are: A and C have all tokens, B a third of them. D goes on otherwise one token after A's first third, where no page
# is full: a page that two rows share is then written by both. P is what is proposed after A's first third, and taken back. E has one id again and again: only where a token stands tells it from another.
A, B, C, D, P, E = range(6)
NAMES = "ABCDPE"


def tokens_of_short(tokens: int) -> int:
    """Of B. Neither its length nor that of A fills a page, as far as 37 tokens are asked for."""
    return max(tokens // 3, 6) + 1


def drawn(tokens: int, vocabulary: int, seed: int) -> tuple[list[Array], list[Array]]:
    """The ids of each sequence, and of its source."""
    random = np.random.default_rng(seed)
    third = tokens // 3
    a, c, d, p = (random.integers(0, vocabulary, tokens) for _ in range(4))
    b = random.integers(0, vocabulary, tokens_of_short(tokens))
    sources = [random.integers(0, vocabulary, 7) for _ in range(3)]
    for other, begin in ((d, third + 1), (p, third)):
        other[:begin] = a[:begin]
        if vocabulary > 1:  # another one, or there is nothing to take back
            other[begin] = (a[begin] + 1 + (other is p and vocabulary > 2)) % vocabulary
    e = np.full(third, a[0])
    return [a, b, c, d, p, e], [sources[A], sources[B], sources[C], *[sources[A]] * 3]


def steps_of(sequences: Sequence[int], sizes: Sequence[int], state: str = "s", begin: int = 0, told: bool = False) -> Iterator[Call]:
    """Rows side by side, which get so many tokens in each call."""
    for size in sizes:
        yield Call("step", state, tuple(Row(one, begin, begin + size) for one in sequences), told=told)
        begin += size


def start_of(sequences: Sequence[int], state: str = "s") -> Call:
    return Call("start", state, tuple(Row(one, 0, 0) for one in sequences))


def cut(total: int, *sizes: int) -> list[int]:
    """These, and the rest, as far as there are so many."""
    found: list[int] = []
    for size in sizes:
        found.append(min(size, total - sum(found)))
    return [size for size in [*found, total - sum(found)] if size > 0]


def padded(name: str, says: str, prompts: Sequence[tuple[int, int, int, int]], after: Sequence[int]) -> Schedule:
    """prompts: sequence, tokens, padding before, padding after; after: how many tokens each row gets in each later call"""
    calls = [start_of([one for one, *_ in prompts]), Call("step", rows=tuple(Row(one, 0, n, left, right) for one, n, left, right in prompts))]
    done = 0
    for size in after:
        calls.append(Call("step", rows=tuple(Row(one, n + done, n + done + size) for one, n, *_ in prompts)))
        done += size
    return Schedule(name, tuple(calls), says)


def schedules(tokens: int, window: int = 0, page: int = 0) -> list[Schedule]:
    """The simplest first.

    tokens  of the longest sequences, 12 or more
    window  keys that a query sees, where that is known
    page    tokens of a block of the cache, where that is known
    """
    third, prompt = tokens // 3, min(5, tokens // 3)
    fork = third + 1
    short = tokens_of_short(tokens)
    ones = [1] * tokens

    def alone(name: str, says: str, *sizes: int, told: bool = False) -> Schedule:
        return Schedule(name, (start_of([A]), *steps_of([A], cut(tokens, *sizes), told=told)), says)

    def repeated(size: int) -> list[int]:
        return [size] * (tokens // size)

    found = [
        Schedule("whole", (start_of([A]), *steps_of([A], [tokens]), Call("whole", "", (Row(A, 0, tokens),)), start_of([B]), *steps_of([B], [short])),
                 "a call with a state, and one without a cache"),
        Schedule("shorter", tuple(call for n in (1, 2, prompt, tokens - 1) for call in (start_of([A]), *steps_of([A], [n]))),
                 "the first tokens alone: later ones change nothing"),
        alone("two calls", "all but the last token, and that", tokens - 1),
        alone("step by step", f"a prompt of {prompt} tokens, then one for each call", prompt, *ones),
        alone("one by one", "one token for each call", *ones),
        *(alone(f"chunks of {size}", f"{size} tokens for each call", *repeated(size)) for size in (2, 5, 16) if size < tokens),
        alone("uneven chunks", "1, 7, 3, 9, 1 tokens, and the rest", 1, 7, 3, 9, 1),
        alone("long after short", "a chunk that is longer than what was before it", 3, tokens - 6),
        *([alone("at the window's edge", "chunks of one token less than the window, of as many and of one more",
                 *cut(tokens, window - 1, 1, 1, window, 1, window + 1))] if window > 1 else []),
        *([alone("at a page's edge", "chunks that fill a page but for one token, fill it, and go beyond",
                 *cut(tokens, page - 1, 1, 1, page - 1, page, page + 1))] if page > 1 else []),
        Schedule("second request", (start_of([A]), *steps_of([A], cut(tokens, prompt, *ones[:4])[:5]), start_of([B]), *steps_of([B], cut(short, 3, 1, 1)),
                                    start_of([A]), *steps_of([A], cut(tokens, prompt, 1, 1))), "a new state after another one was used"),
        *(Schedule(name, (start_of([E]), *steps_of([E], cut(third, *sizes))), says) for name, sizes, says in (
            ("one word", ones, "one id again and again, one token for each call"),
            ("one word prompted", (3, 1, 1, 2, 1), "one id again and again, after a prompt of 3 tokens"))),
        Schedule("in turn", (start_of([A], "s"), start_of([B], "t"), *(call for i in range(3) for call in (
            *steps_of([A], [3], "s", 3 * i), *steps_of([B], [2], "t", 2 * i)))), "two states, a call of the one and a call of the other"),
        alone("told step by step", "the same, with a mask of ones and all positions", prompt, *ones, told=True),
        Schedule("batch", (start_of([A, C]), *steps_of([A, C], cut(tokens, prompt, 1, 1, 1, 4))), "two rows of one length"),
        padded("padded right", "a batch of unequal lengths, in one call", [(A, third, 0, 0), (B, 3, 0, third - 3)], ()),
        padded("padded left", "a batch of unequal lengths, in one call", [(A, third, 0, 0), (B, 3, third - 3, 0)], ()),
        padded("padding between calls", "padding between the tokens of two calls", [(A, third, 0, 0), (B, 3, 0, third - 3), (C, 2, 0, third - 2)], [1, 1, 1]),
        padded("steps after left padding", "padding in an earlier call", [(A, third, 0, 0), (B, 3, third - 3, 0), (C, 2, third - 2, 0)], [1, 1, 1]),
        padded("left padding in the first row", "the row with padding is the first", [(B, 3, third - 3, 0), (A, third, 0, 0)], [1, 1, 1]),
        padded("padded on both sides", "padding before and after", [(A, third, 0, 0), (B, 3, 1, third - 4)], [1, 1, 1]),
        Schedule("reordered", (start_of([A, C]), *steps_of([A, C], [prompt, 1]), Call("reorder", order=(1, 0)),
                               *steps_of([C, A], [1, 1], begin=prompt + 1)), "two beams that change places"),
        Schedule("one beam goes on", (start_of([C, A]), *steps_of([C, A], [fork]), Call("reorder", order=(1, 1)), *steps_of([A, D], [1, 1, 3], begin=fork)),
                 "a beam takes the other's place, and they differ after that"),
        Schedule("forked", (start_of([A]), *steps_of([A], [fork]), Call("fork", other="t"), *(call for i in range(3) for call in (
            *steps_of([A], [1], "s", fork + i), *steps_of([D], [1], "t", fork + i)))), "one prefix, continued twice"),
        Schedule("taken back", (start_of([A]), *steps_of([A], [third]), *steps_of([P], [3], begin=third), Call("truncate", length=third),
                                *steps_of([A], [1, 1], begin=third)), "three tokens are proposed, and none is taken"),
        Schedule("taken back in part", (start_of([A]), *steps_of([A], [third - 2]), Call("step", rows=(Row(P, third - 2, third + 2),)), Call("truncate", length=third),
                                        *steps_of([A], [3, 1], begin=third)), "four tokens are proposed, and two are taken"),
        Schedule("joined later", (start_of([A], "s"), *steps_of([A], [third - 2, 1, 1], "s"), start_of([B], "t"), *steps_of([B], [3], "t"),
                                  Call("join", "s", other="t"), *(Call("step", rows=(Row(A, third + i, third + i + 1), Row(B, 3 + i, 4 + i))) for i in range(3)),
                                  ), "a sequence enters while another is under way"),
        Schedule("leaves", (start_of([C, A]), *steps_of([C, A], [third, 1]), Call("reorder", order=(1,)), *steps_of([A], [1, 1], begin=third + 1)),
                 "one of two sequences ends"),
        Schedule("packed", (Call("packed", "", (Row(A, 0, third), Row(B, 0, short), Row(C, 0, third))),), "three sequences in one row"),
    ]
    return found


# A mark for each token of a call's row.
SAME, WRONG, ABSENT = ".x "

Cells = dict  # (call, row): a string of marks


@dataclass
class Difference:
    """Of a token's result in a schedule."""

    schedule: str
    call: int  # 1 is the first
    sequence: str
    position: int
    off: float  # the largest difference of its logits
    size: float  # of the largest logit at once
    found: float
    expected: float


@dataclass
class Outcome:
    """What a schedule gave."""

    schedule: Schedule
    cells: Cells = field(default_factory=dict)
    values: dict[tuple[int, int], tuple[Row, Array]] = field(default_factory=dict)  # some of each token's logits
    states: dict[int, str] = field(default_factory=dict)  # of each call
    first: Difference | None = None
    worst: float = 0.0  # difference, over the size of the logits
    small: int = 0  # differences that would be roundings in float32
    failure: str = ""
    is_refused: bool = False  # it can't do that, as it says

    @property
    def compared(self) -> int:
        return sum(len(marks) - marks.count(ABSENT) for marks in self.cells.values())

    @property
    def wrong(self) -> int:
        return sum(marks.count(WRONG) for marks in self.cells.values())

    @property
    def is_wrong(self) -> bool:
        return self.wrong > 0


class Runner:
    """Calls an adapter as schedules say, and compares each token's result with that at once."""

    def __init__(self, adapter: Any, tokens: int, vocabulary: int, seed: int = 0, like: Any = None, tolerance: float | None = None,
                 takes_only: Any = ("mask", "positions")):
        self.adapter, self.vocabulary, self.tolerance = adapter, vocabulary, tolerance
        self.sequences, self.sources = drawn(tokens, vocabulary, seed)
        self.make = maker(like or getattr(adapter, "like", "numpy"))
        self.takes = {name for name in takes_only if takes(adapter.step, name)}
        self.has_source = takes(adapter.start, "source")
        self.can = {name for name in ("whole", "reorder", "fork", "truncate", "join", "packed") if callable(getattr(adapter, name, None))} | self.takes
        self.whole: Callable[[Any], Array] | None = None  # instead of the adapter's
        self.watch: Callable[[int], Any] | None = None  # of a call's number: what it is made in, or None
        self.watched: Any = None
        self.at_once: dict[int, Array] = {}
        self.eps = 0.0
        self.rounded = 0.0  # of the largest logit: what roundings of the cache can do
        kept = getattr(adapter, "cache_type", None)
        if kept is not None:
            if kept not in CACHE_STEPS:
                raise Error(f"cache_type is {kept!r}, expected one of {', '.join(CACHE_STEPS)}")
            self.rounded = 4 * CACHE_STEPS[kept]
        self.notes: dict[str, None] = {}
        self.width = 0
        self.calls = 0

    def reference(self, sequence: int) -> Array:
        """The logits of a whole sequence, (n, vocabulary); computed at the first call."""
        if sequence not in self.at_once:
            self.at_once[sequence] = self.ask(sequence)
        return self.at_once[sequence]

    def ask(self, sequence: int) -> Array:
        ids = self.sequences[sequence][None]
        if "whole" in self.can:
            return self.logits(self.guarded(self.whole or self.adapter.whole, self.given(ids)), 1, ids.shape[1], "whole()")[0]
        return self.ask_with_state(sequence)

    def ask_with_state(self, sequence: int) -> Array:
        ids, rows = self.sequences[sequence][None], (Row(sequence, 0, 0),)
        found = self.step(self.start(rows), ids, None, None)[0][0]
        if len(found) == ids.shape[1]:
            return found
        before = [self.step(self.start(rows), ids[:, :n], None, None)[0][0, -1] for n in range(1, ids.shape[1])]
        return np.stack([*before, found[-1]])

    def size_of(self, sequence: int) -> float:
        """The largest logit."""
        array = self.reference(sequence)
        return float(abs(array[np.isfinite(array)]).max(initial=0)) or 1.0

    def given(self, array: Array) -> Any:
        return self.make(array.copy())

    def guarded(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        with np.errstate(all="ignore"), no_gradients():
            try:
                return function(*arguments, **named)
            except SystemExit as end:  # which would end whoever checks, with success where its code is 0
                raise Error(f"{getattr(function, '__name__', 'it')}() calls sys.exit({end.code!r})") from None

    def start(self, rows: Sequence[Row]) -> Any:
        source = {"source": self.given(np.stack([self.sources[row.sequence] for row in rows]))} if self.has_source else {}
        return self.guarded(self.adapter.start, len(rows), **source)

    def step(self, state: Any, ids: Array, mask: Array | None, positions: Array | None) -> tuple[Array, Any]:
        named = {name: self.given(array) for name, array in (("mask", mask), ("positions", positions)) if array is not None and name in self.takes}
        own = self.given(ids)
        with self.watched or contextlib.nullcontext():
            returned = self.guarded(self.adapter.step, own, state, **named)
        self.watched = None
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise Error(f"step() returned {'a tuple of ' + str(len(returned)) if isinstance(returned, tuple) else type(returned).__name__}, "
                        "expected logits and the state for the next call")
        if not np.array_equal(np.asarray(array_of("ids", own)), ids):
            self.notes["step() changes the ids that it is given"] = None
        return self.logits(returned[0], *ids.shape, "step()"), returned[1]

    def logits(self, value: Any, batch: int, n: int, who: str) -> Array:
        array = np.asarray(array_of("the result", value))
        if array.ndim == 2 and batch == 1:
            array = array[None]
        elif array.ndim == 2:
            array = array[:, None]
        width = self.width or (array.shape[2] if array.ndim == 3 else 0)
        if array.ndim != 3 or array.shape[0] != batch or array.shape[1] not in (n, 1) or array.shape[2] != width or width == 0:
            expected = f"({batch}, {n}, {width or 'vocabulary'})"
            raise Error(f"{who} returned an array {array.shape} for ids ({batch}, {n}), expected {expected}, or ({batch}, 1, …) of the last token")
        if array.dtype.kind not in "fiu":
            raise Error(f"{who} returned numbers of the type {array.dtype}, expected real ones")
        self.width = width
        self.eps = max(self.eps, EPSILONS.get(type_of(value), EPSILONS["float64"]), getattr(self.adapter, "coarsest", 0.0))
        return array.astype(np.float64)

    def asked_again(self) -> tuple[Array, Array, str]:
        """The first sequence in one call with a state, as the first request of all, and after others, where it is furthest off; and why
        that fails, if it does."""
        ask = self.ask_with_state
        try:
            first = ask(A)
        except NotImplementedError:
            if "whole" not in self.can:
                raise
            ask = self.ask  # it has no cache, and can be asked for packed sequences
            first = ask(A)
        if "whole" not in self.can:
            self.at_once[A] = first
        try:
            ask(B)
            later = [ask(A), ask(A)]
            return first, max(later, key=lambda one: float(differences(one, first).max())), ""
        except Exception as error:
            return first, np.full(first.shape, np.nan), f"{type(error).__name__}: {error}"

    def allowed(self) -> float:
        """Of the largest logit: what roundings can do."""
        if self.tolerance is not None:
            return self.tolerance
        return max(self.rounded, (ROUNDED if self.eps < 1e-5 else 24) * self.eps)

    def run(self, schedule: Schedule, altered: Altered | None = None) -> Outcome:
        outcome = Outcome(schedule)
        try:
            Playing(self, outcome, altered).play()
        except NotImplementedError as error:
            outcome.failure, outcome.is_refused = str(error) or "it says that it can't", True
        except Exception as error:
            where = f"call {len({call for call, _ in outcome.cells}) + 1}"
            outcome.failure = f"{where}: {error}" if isinstance(error, Error) else f"{where} fails: {type(error).__name__}: {error}"
        return outcome


@dataclass(frozen=True)
class Altered:
    """A run with other ids in one part of what a token's result can depend on.

    part  "before": tokens of its row in earlier calls; "not the first": these, but for the first token of all; "after": of its row in its call,
          behind it; "padding"; "others": of other rows of its state; "requests": of other states; "taken back": what was proposed in earlier calls
    """

    part: str
    call: int
    row: int
    column: int
    state: str

    def changes(self, call: int, state: str, row: int, tokens: Row) -> Array:
        """(width): of a row of a call, which ids are others."""
        column = np.arange(tokens.width)
        is_token = (column >= tokens.left) & (column < tokens.width - tokens.right)
        own = state == self.state and row == self.row
        before = is_token & (own and call < self.call)
        return {"before": before, "not the first": before & (column - tokens.left + tokens.begin > 0), "after": is_token & (own and call == self.call) & (column > self.column),
                "padding": ~is_token & (state == self.state), "others": is_token & (state == self.state and not own and call <= self.call),
                "requests": is_token & (state != self.state), "taken back": before & (tokens.sequence == P)}[self.part]


PARTS = ("before", "not the first", "after", "padding", "others", "requests", "taken back")


class Playing:
    """One run of a schedule: the states, and what each row has had so far."""

    def __init__(self, runner: Runner, outcome: Outcome, altered: Altered | None = None, until: int = 0):
        self.runner, self.outcome, self.altered = runner, outcome, altered
        self.until = altered.call if altered else until  # the last call; 0 for all
        self.generation: dict[str, int] = {}  # how often a state was started
        self.states: dict[str, Any] = {}
        self.real: dict[str, Array] = {}  # (b, columns)
        self.call = 0

    def play(self) -> None:
        for sequence in {row.sequence for call in self.outcome.schedule.calls if call.do in ("step", "packed") for row in call.rows}:
            self.runner.reference(sequence)  # before this schedule's states, of which some adapters have one at a time
        for call in self.outcome.schedule.calls:
            getattr(self, call.do)(call)
            if self.until and self.call >= self.until:
                break

    def start(self, call: Call) -> None:
        self.generation[call.state] = self.generation.get(call.state, 0) + 1
        self.states[call.state] = self.runner.start(call.rows)
        self.real[call.state] = np.ones((len(call.rows), 0), bool)

    def name_of(self, state: str) -> str:
        return f"{state}{self.generation.get(state, 0)}"

    def step(self, call: Call) -> None:
        runner, before = self.runner, self.real[call.state]
        width = call.rows[0].width
        ids, now = np.zeros((len(call.rows), width), np.int64), np.zeros((len(call.rows), width), bool)
        for i, row in enumerate(call.rows):
            tokens = slice(row.left, row.left + row.end - row.begin)
            ids[i, tokens], now[i, tokens] = runner.sequences[row.sequence][row.begin:row.end], True
            if self.altered:
                changed = self.altered.changes(self.call + 1, self.name_of(call.state), i, row)
                ids[i, changed] = (ids[i, changed] + 1 + runner.vocabulary // 3) % runner.vocabulary
        real = np.concatenate([before, now], 1)
        positions = np.maximum(before.sum(1, keepdims=True) + np.cumsum(now, 1) - 1, 0)
        is_told = call.told or not real.all()
        runner.watched = runner.watch(self.call + 1) if runner.watch else None
        logits, self.states[call.state] = runner.step(self.states[call.state], ids, real.astype(np.int64) if is_told else None, positions if is_told else None)
        self.real[call.state] = real
        self.state = self.name_of(call.state)
        self.compare(call.rows, logits)

    def whole(self, call: Call) -> None:
        pass  # the reference is that, where it can be asked for

    def packed(self, call: Call) -> None:
        runner, rows = self.runner, call.rows
        ids = np.concatenate([runner.sequences[row.sequence][row.begin:row.end] for row in rows])[None]
        documents = np.concatenate([np.full(row.end - row.begin, i) for i, row in enumerate(rows)])[None]
        positions = np.concatenate([np.arange(row.begin, row.end) for row in rows])[None]
        with (runner.watch(self.call + 1) if runner.watch else None) or contextlib.nullcontext():
            returned = runner.guarded(runner.adapter.packed, runner.given(ids), runner.given(documents), runner.given(positions))
        logits = runner.logits(returned, 1, ids.shape[1], "packed()")[0]
        self.state = ""
        ends = np.cumsum([row.end - row.begin for row in rows])
        if len(logits) != ends[-1]:
            raise Error(f"packed() returned the logits of {len(logits)} token, expected those of all {ends[-1]}")
        self.compare_rows([(row, logits[end - (row.end - row.begin):end]) for row, end in zip(rows, ends)])

    def reorder(self, call: Call) -> None:
        rows = np.array(call.order)
        self.states[call.state] = self.runner.guarded(self.runner.adapter.reorder, self.states[call.state], self.runner.given(rows))
        self.real[call.state] = self.real[call.state][rows]

    def fork(self, call: Call) -> None:
        self.states[call.other] = self.runner.guarded(self.runner.adapter.fork, self.states[call.state])
        self.real[call.other] = self.real[call.state]

    def truncate(self, call: Call) -> None:
        self.states[call.state] = self.runner.guarded(self.runner.adapter.truncate, self.states[call.state], call.length)
        self.real[call.state] = self.real[call.state][:, :call.length]

    def join(self, call: Call) -> None:
        self.states[call.state] = self.runner.guarded(self.runner.adapter.join, self.states[call.state], self.states.pop(call.other))
        both = [self.real[call.state], self.real[call.other]]
        longest = max(one.shape[1] for one in both)
        self.real[call.state] = np.concatenate([np.concatenate([np.zeros((len(one), longest - one.shape[1]), bool), one], 1) for one in both])

    def compare(self, rows: Sequence[Row], logits: Array) -> None:
        """logits (b, n, vocabulary), or those of the last column alone"""
        if logits.shape[1] == rows[0].width:
            self.compare_rows([(row, logits[i, row.left:row.left + row.end - row.begin]) for i, row in enumerate(rows)])
        else:
            self.compare_rows([(row, logits[i, :0 if row.right else 1]) for i, row in enumerate(rows)])

    def compare_rows(self, found: Sequence[tuple[Row, Array]]) -> None:
        outcome, self.call = self.outcome, self.call + 1
        for i, (row, logits) in enumerate(found):
            expected = self.runner.reference(row.sequence)[row.end - len(logits):row.end]
            size = self.runner.size_of(row.sequence)
            off = differences(logits, expected)
            marks = ABSENT * (row.end - row.begin - len(logits))
            for j, one in enumerate(off.max(-1, initial=0)):
                is_wrong = not one <= self.runner.allowed() * size
                marks += WRONG if is_wrong else SAME
                outcome.worst = max(outcome.worst, one / size)
                outcome.small += bool(is_wrong and one <= ROUNDED * EPSILONS["float32"] * size)
                if is_wrong and outcome.first is None:
                    k = int(off[j].argmax())
                    outcome.first = Difference(outcome.schedule.name, self.call, NAMES[row.sequence], row.end - len(logits) + j, float(one), size,
                                               float(logits[j, k]), float(expected[j, k]))
            outcome.cells[self.call, i] = marks
            outcome.states[self.call] = self.state
            outcome.values[self.call, i] = row, logits[:, ::max(1, logits.shape[1] // 32)]


def differences(found: Array, expected: Array) -> Array:
    """Infinite where one is not a number, or infinite, and the other is not."""
    with np.errstate(all="ignore"):
        off = abs(found - expected)
    return np.where(found == expected, 0, np.where(np.isfinite(off), off, np.inf))


ROUNDED = 256  # times the step of a type, over the largest logit: what roundings can do
CACHE_STEPS = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7, "float8": 2.0 ** -3, "int8": 1 / 127, "int4": 1 / 7}  # over the number, or the largest of a scale
EPSILONS = {"float64": 2.0 ** -52, "float32": 2.0 ** -23, "float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}


def type_of(value: Any) -> str:
    return str(getattr(value, "dtype", "float64")).rsplit(".", 1)[-1]


def takes(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def maker(like: Any) -> Callable[[Array], Any]:
    if callable(like):
        return like
    if like == "numpy":
        return np.asarray
    if like == "list":
        return lambda array: array.tolist()
    if like == "torch":
        try:
            import torch
        except ImportError:
            raise Error('like="torch" needs torch, which this Python does not have') from None
        return torch.from_numpy
    raise Error(f'like is {like!r}, expected "numpy", "torch", "list", or a function that makes ids of a NumPy array')


def no_gradients() -> Any:
    """Where the adapter uses PyTorch, it is in memory."""
    import sys

    torch = sys.modules.get("torch")
    return torch.no_grad() if torch is not None and hasattr(torch, "no_grad") else contextlib.nullcontext()
