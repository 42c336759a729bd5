"""A function of attention with a cache, called as a model is: each id has a query, a key and a value of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

import numpy as np

from .arrays import array_of
from .calls import CallsReport, Check, Words, tokens_of
from .calls_reference import Array, Decoder, State
from .calls_schedules import EPSILONS, Calls, type_of
from .inputs import Case, drawn_type, fitted
from .program import Error

VOCABULARY = 64
OPERATIONS = ("reorder", "fork", "truncate", "join")


class Attention(Decoder):
    """Attention alone, in the decoder whose decisions mistakes change.

    tables   of each id the queries, keys and values, (ids, heads, d)
    options  of attn run attention: scale, softcap
    """

    def __init__(self, tables: Mapping[str, Array], options: Mapping[str, Any], **others: Any):
        self.tables, self.options = tables, options
        _, heads, d = tables["queries"].shape
        super().__init__(**{**others, "positions": "none", "layers": 1, "heads": heads, "d": d, "capacity": 1, "vocabulary": 1})

    def computed(self, ids: Array, state: State, order: Array, positions: Array | None, documents: Array | None) -> Array:
        return self.attend(state, 0, ids, order, np.maximum(order, 0), documents)

    def maps(self, layer: int, x: Array) -> tuple[Array, Array, Array]:
        queries, keys, values = (table[x] for table in self.tables.values())
        return queries, *(np.repeat(one, self.heads // one.shape[2], 2) for one in (keys, values))  # type: ignore[return-value]

    def scores(self, queries: Array, keys: Array) -> Array:
        scale, cap = (self.options.get(name) for name in ("scale", "softcap"))
        scores = super().scores(queries, keys) if scale is None else np.einsum("bnhd,bmhd->bhnm", queries, keys) * scale
        return cap * np.tanh(scores / cap) if cap else scores


class AttentionCalls(Calls):
    """step(queries, keys, values, cache), as an adapter. form: how it is called, a Form of functions.py"""

    def __init__(self, function: Callable[..., Any], form: Any, cache: Any, mask_axes: str | None, needs_mask: bool, seed: int):
        self.function, self.form, self.cache, self.mask_axes, self.needs_mask = function, form, cache, mask_axes, needs_mask
        self.notes: dict[str, None] = {}
        self.coarsest = EPSILONS[form.dtype]
        self.one_state, self.cache_type, self.page_size = bool(getattr(cache, "one_state", False)), getattr(cache, "cache_type", None), getattr(cache, "page_size", 0)
        heads, random = fitted(Case(4, 4, 4, heads=(2, 2)), form.axes, form.kv_heads).heads, np.random.default_rng(seed)
        drawn = {name: random.standard_normal((1, count, VOCABULARY, 4)).astype(drawn_type(form.dtype))
                 for name, count in (("queries", heads[0]), ("keys", heads[1]), ("values", heads[1]))}
        self.tables = {name: self.inwards(form.make(form.outwards(array)))[0] for name, array in drawn.items()}  # as they are in its type
        self.drawn = {name: array[0].swapaxes(0, 1) for name, array in drawn.items()}
        for name in OPERATIONS:
            if callable(getattr(cache, name, None)):
                setattr(self, name, partial(self.done, name))
        if "b" in (mask_axes or ""):
            self.step = self.called  # type: ignore[method-assign]

    def decoder(self, **options: Any) -> Attention:
        """What it should compute; with kinds of caches."""
        kept = {"kept": self.form.options["kept"]} if self.form.options.get("kept") else {}
        return Attention(self.tables, self.form.options, **{**options, **kept})

    def start(self, batch: int) -> Any:
        if batch > 1 and "b" not in self.form.axes:
            raise NotImplementedError("its arguments have no axis of sequences")
        begin = getattr(self.cache, "start", self.cache)
        return begin(batch) if callable(begin) else None, 0

    def step(self, ids: Any, state: Any) -> tuple[Any, Any]:
        return self.called(ids, state)

    def called(self, ids: Any, state: Any, mask: Any = None) -> tuple[Any, Any]:
        (cache, columns), form = state, self.form
        given = {name: form.make(form.outwards(table[ids].swapaxes(1, 2))) for name, table in self.drawn.items()}
        before = {name: array_of(name, one).copy() for name, one in given.items()}
        columns += ids.shape[1]
        hides = {}
        if form.name is not None and (mask is not None or self.needs_mask):
            hides[form.name] = form.make(self.mask_of(np.ones((len(ids), columns), bool) if mask is None else np.asarray(mask, bool), ids.shape[1]))
        result, cache = output_and_cache(self.function(*given.values(), cache, **hides))
        self.notes.update({f"it changes its argument {name}": None for name, one in given.items() if not np.array_equal(array_of(name, one), before[name])})
        array, expected = array_of("the result", result), before["queries"].shape
        if array.shape != expected:
            raise Error(f"it returned an array {array.shape}, expected {expected}, ({', '.join(form.axes)}), as its queries are")
        if array.dtype.kind not in "fiu":
            raise Error(f"it returned numbers of the type {array.dtype}, expected real ones")
        self.coarsest = max(self.coarsest, EPSILONS.get(type_of(result), 0.0))
        return self.inwards(result).reshape(*ids.shape, -1), (cache, columns)

    def mask_of(self, real: Array, n: int) -> Array:
        """real: (b, columns), where tokens are"""
        sizes = {"b": real.shape[0], "h": self.tables["queries"].shape[1], "n": n, "m": real.shape[1]}
        seen = np.broadcast_to(real[:, None, None], [sizes[axis] for axis in "bhnm"])
        kept = seen[tuple(slice(None) if axis in (self.mask_axes or "") else 0 for axis in "bhnm")]
        allowed = kept.reshape([sizes.get(axis, 1) for axis in self.mask_axes or ""]).copy()
        return self.form.hiding(allowed, np.zeros(allowed.shape, drawn_type(self.form.dtype)))

    def done(self, name: str, state: Any, *given: Any) -> Any:
        """An operation on caches, of which a state has one beside the count of columns."""
        cache, columns = state
        if name == "join":
            return self.cache.join(cache, given[0][0]), max(columns, given[0][1])
        return getattr(self.cache, name)(cache, *given), given[0] if name == "truncate" else columns

    def inwards(self, value: Any) -> Array:
        """(b, n, h, d)"""
        array = self.form.inwards(array_of("the result", value)).astype(np.float64)
        array = array if "h" in self.form.axes else array[..., None, :, :]
        return array.reshape(-1, *array.shape[-3:]).swapaxes(1, 2)


def in_two_calls(calls: AttentionCalls) -> Callable[..., Any]:
    """The output alone, where tokens before those of the queries are given in a call of their own."""
    form = calls.form

    @wraps(calls.function)
    def attention(queries: Any, keys: Any, values: Any, **hides: Any) -> Any:
        sizes, axis = dict(zip(form.axes, queries.shape)), form.axes.index("n")
        cache, before = calls.start(sizes.get("b", 1))[0], keys.shape[axis] - sizes["n"]
        if before:
            part = (slice(None),) * axis
            first = form.make(np.zeros([before if name == "n" else size for name, size in sizes.items()], drawn_type(form.dtype)))
            cache = output_and_cache(calls.function(first, keys[(*part, slice(before))], values[(*part, slice(before))], cache))[1]
            keys, values = keys[(*part, slice(before, None))], values[(*part, slice(before, None))]
        return output_and_cache(calls.function(queries, keys, values, cache, **hides))[0]
    return attention


def check_calls_of(calls: AttentionCalls, max_tokens: int | None, seed: int) -> CallsReport:
    left = calls.form.options.get("left_window")
    window = 0 if left is None else left + 1
    tokens, notes = tokens_of(max_tokens, window)
    words = Words("number of a result", "different tokens", "attention at once", getattr(calls.function, "__name__", type(calls.function).__name__),
                  'dtype="float64"', "")
    tolerance = 8 * calls.coarsest if calls.coarsest > 1e-5 and not calls.cache_type else None  # there is one layer, where a model has many
    check = Check(calls, tokens, VOCABULARY, window, None, "numpy", tolerance, seed, notes, calls.decoder, words)
    check.runner.notes = calls.notes
    return check.report()


def output_and_cache(returned: Any) -> tuple[Any, Any]:
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        what = f"{len(returned)} things" if isinstance(returned, (tuple, list)) else type(returned).__name__
        raise Error(f"it returned {what}, expected the output and the cache for the next call")
    if returned[1] is None:
        raise Error("it returned None for its cache, with which the next call would be a first one: expected the cache, also where it was changed in place")
    return returned[0], returned[1]
