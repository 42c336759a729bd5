"""Inputs of an attention function, chosen by what they kill: each is here for mistakes that those before it do not show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .trace import Array

OTHER_WIDTH = "values of another width than keys"
GROUPS = "fewer heads of keys than of queries"
MEMORY = "arrays that are not contiguous"


@dataclass(frozen=True)
class Case:
    """Sizes, and what the numbers are."""

    n: int
    m: int
    d: int  # features of queries and keys
    numbers: str = "plain"  # a row of NUMBERS
    largest: float = 1.0  # how large they are
    d_v: int | None = None  # features of values; d unless given, since many functions take no others
    heads: tuple[int, int] = (3, 3)  # of queries, of keys; where the function's arguments have heads
    batch: int = 2
    mask: str | None = None  # which keys are hidden: "some", "all" that none is, "first", "last", "one" that all but one are, or
    # "empty" where a query can attend to nothing
    mask_axes: str = "nm"
    memory: str | None = None  # "transposed", as heads that a projection gave are, "column-major" or "sliced"

    @property
    def optional(self) -> str | None:
        """What a right function need not take."""
        has_other_width = self.d_v not in (None, self.d)
        return OTHER_WIDTH if has_other_width else GROUPS if self.heads[0] != self.heads[1] else MEMORY if self.memory else None

    def text(self, axes: str) -> str:
        """axes: of the function's arguments"""
        queries, keys = (f"{count} {one if count == 1 else more}" for count, one, more in ((self.n, "query", "queries"), (self.m, "key", "keys")))
        words = [queries, keys + ("" if not self.mask else ", none of them hidden" if self.mask == "all" else ", some of them hidden")]
        words.append(f"{self.d} features" + (f", values of {self.d_v}" if self.optional == OTHER_WIDTH else ""))
        if "h" in axes and self.heads != (3, 3):
            words.append(f"{self.heads[0]} heads" + (f", keys of {self.heads[1]}" if self.heads[0] != self.heads[1] else ""))
        if self.mask and self.mask_axes != "nm":
            words.append("a mask " + shape_text(self.mask_axes))
        if self.memory:
            words.append(self.memory + " in memory")
        return ", ".join([*words, NUMBERS[self.numbers].format(f"numbers of about {self.largest:.3g}")])


def drawn_type(dtype: str) -> str:
    """NumPy has no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype


def shape_text(axes: str) -> str:
    """ "b1nm" as "(b, 1, n, m)"."""
    return f"({', '.join(axes)}{',' * (len(axes) == 1)})"


NUMBERS = {
    "plain": "{}",
    "below": "{}, all scores far below zero",
    "far": "{}, scores far from zero on both sides",
    "ties": "{}, each key twice and a query of zeros",
}

HALF, FAR, MEDIUM = 16.0, 128.0, 6.0  # FAR: scores beyond -10000, which some take for minus infinity; HALF: the same for float16


def draw(case: Case, random: np.random.Generator) -> dict[str, Array]:
    """queries, keys and values, (b, h, n, d)"""
    shapes = [(case.batch, heads, tokens, width) for heads, tokens, width in
              ((case.heads[0], case.n, case.d), (case.heads[1], case.m, case.d), (case.heads[1], case.m, case.d_v or case.d))]
    queries, keys, values = (random.standard_normal(shape) for shape in shapes)
    factor = case.largest
    if case.largest > MEDIUM:  # products that are exact in each type: roundings of such scores would decide which is the largest
        factor = 2.0 ** math.floor(math.log2(case.largest))
        queries, keys = (random.integers(1, 4, shape) * random.choice((-1.0, 1.0), shape) for shape in shapes[:2])
    if case.numbers in ("below", "far"):
        queries, keys = abs(queries), abs(keys)
        queries[..., ::2 if case.numbers == "far" else 1, :] *= -1
    if case.numbers == "ties":
        keys[..., case.m // 2:, :] = keys[..., :case.m - case.m // 2, :]
        queries[..., 0, :] = 0
    return {"queries": factor * queries, "keys": factor * keys, "values": values if factor > 50 else factor * values}


def draw_mask(case: Case, random: np.random.Generator, causal: str | None) -> Array:
    """True where a query can attend, with the axes of the case's mask. But for the pattern "empty" each query can attend to a key."""
    shape = (case.batch, case.heads[0], case.n, case.m)
    own = np.clip(np.arange(case.n) + (0 if causal == "causal-top-left" else case.m - case.n), 0, case.m - 1)  # a key, of each query
    column = np.arange(case.m)
    allowed = random.random(shape) < 0.6
    if case.mask == "all":
        allowed[...] = True
    elif case.mask == "first":
        allowed[...] = column >= case.m - max(1, case.m // 3)
    elif case.mask == "last":
        lengths = case.m - 1 - random.permutation(case.batch) * case.m // (2 * case.batch)
        allowed[...] = column < np.maximum(lengths, 1)[:, None, None, None]
    elif case.mask == "one":
        allowed[...] = column == (own if causal else (own * 5 + 3) % case.m)[:, None]
    kept = [axis for axis, letter in enumerate("bhnm") if letter in case.mask_axes]
    first = tuple(slice(None) if axis in kept else 0 for axis in range(4))
    allowed = allowed[first]
    if causal or case.mask in ("some", "empty"):
        allowed |= column == (own[:, None] if "n" in case.mask_axes else own.min())
    if case.mask == "empty" and "n" in case.mask_axes:
        allowed[..., 0, :] = False
    return allowed.reshape([shape["bhnm".index(letter)] if letter != "1" else 1 for letter in case.mask_axes])


# Each sees what those before it do not: square scores, more keys than queries, one key, many tokens and features. No tensor has the
# shape of another kind, so that none is taken for it.
FIRST = (Case(4, 4, 3), Case(3, 5, 4), Case(2, 1, 3), Case(9, 9, 16))

# Scores that are large, of both signs and equal.
SCORES = (Case(4, 4, 3, "below", FAR), Case(4, 4, 3, "far", FAR), Case(3, 6, 4, "plain", MEDIUM), Case(4, 6, 4, "ties"), Case(3, 6, 4, "ties", FAR))

# The same over several tiles of keys: the largest score of a row changes from tile to tile.
TILES = (Case(3, 40, 4, "below", FAR, heads=(2, 2)), Case(2, 130, 4, "far", FAR, heads=(2, 2)), Case(3, 140, 4, "plain", MEDIUM, heads=(2, 2)))

# Fewest of each, and one query again, with other numbers; more queries than keys; widths, odd ones among them; heads.
SMALL = (Case(1, 1, 2, heads=(4, 4)), Case(1, 5, 4, heads=(1, 1), batch=3), Case(1, 5, 4, "plain", MEDIUM, heads=(1, 1), batch=3),
         Case(5, 3, 4, heads=(2, 2)), Case(17, 2, 8, heads=(2, 2)), Case(3, 5, 1, heads=(5, 5)), Case(3, 7, 2, heads=(8, 8), batch=3), Case(2, 5, 64, heads=(7, 7)), Case(3, 7, 65, heads=(2, 2)), Case(2, 4, 80, heads=(4, 4)),
         Case(2, 6, 128, heads=(6, 6)), Case(16, 5, 4, heads=(2, 2), batch=3))

# At and beyond the edges of tiles, pages and counters of a byte, each with another of the widths that heads have.
KEYS = tuple(Case(n, m, d, heads=(heads, heads), batch=2 if m < 100 else 1) for n, m, d, heads in (
    (1, 8, 96, 2), (2, 16, 4, 3), (1, 17, 8, 8), (3, 32, 40, 2), (17, 33, 4, 12), (2, 64, 64, 2), (3, 65, 24, 5), (1, 128, 16, 4), (2, 129, 4, 2),
    (3, 160, 8, 2), (1, 256, 48, 3), (17, 257, 4, 2)))
QUERIES = tuple(Case(n, m, d, heads=(heads, heads), batch=batch) for n, m, d, heads, batch in (
    (16, 16, 72, 2, 2), (17, 17, 4, 16, 2), (32, 32, 32, 2, 4), (33, 33, 4, 10, 1), (64, 31, 4, 2, 5), (65, 65, 4, 2, 1), (33, 65, 4, 2, 1),
    (128, 48, 4, 2, 1), (129, 129, 4, 2, 1), (48, 127, 12, 2, 1), (2, 96, 256, 2, 1), (3, 63, 192, 2, 2)))

OTHERS = (Case(3, 5, 4, d_v=2), Case(4, 6, 2, d_v=5), Case(2, 33, 64, d_v=128, heads=(2, 2), batch=1), Case(3, 7, 128, d_v=64, heads=(2, 2)),
          Case(3, 5, 4, memory="transposed"), Case(4, 6, 4, memory="sliced"), Case(17, 33, 8, memory="column-major", heads=(2, 2)))
# Keys do not divide by how many heads share them, so that reshape(b * h, -1, d) of a function that has no shared heads fails.
SHARED = tuple(Case(3, m, 4, heads=heads, batch=3) for m, heads in ((5, (4, 2)), (5, (6, 3)), (5, (6, 2)), (5, (8, 2)), (7, (5, 1)), (5, (8, 4)))) + (
    Case(1, 17, 4, heads=(4, 2)), Case(17, 32, 8, heads=(6, 2), batch=1))

# Sizes that tell the axes of a mask apart: one for batches is refused by a function that takes one for queries, and not misread.
SHAPE = Case(5, 7, 4, heads=(2, 2), batch=3, mask="some")
MASKED_FIRST = (Case(4, 4, 3, mask="some"), Case(3, 5, 4, mask="some"))
MASKED_EACH = (SHAPE, replace(SHAPE, numbers="far", largest=FAR), replace(SHAPE, numbers="below", largest=FAR), Case(5, 40, 4, mask="first", heads=(2, 2), batch=3))  # with each shape of a mask
MASKED = (Case(3, 6, 4, "plain", MEDIUM, mask="some"), Case(4, 6, 4, mask="all"), Case(6, 6, 4, "far", FAR, mask="all"), Case(1, 7, 4, mask="some"),
          Case(1, 9, 4, "below", FAR, mask="last"), Case(3, 40, 4, "below", FAR, mask="first", heads=(2, 2)), Case(17, 33, 4, mask="last", heads=(2, 2)),
          Case(5, 40, 4, mask="one"), Case(8, 3, 4, mask="some"), Case(3, 7, 2, mask="some", heads=(8, 8), batch=3), Case(4, 6, 4, "ties", mask="some"),
          Case(5, 160, 4, mask="first", heads=(2, 2)), Case(2, 257, 4, mask="first", heads=(2, 2), batch=1), Case(65, 65, 4, mask="some", heads=(2, 2), batch=1),
          Case(3, 130, 4, "far", FAR, mask="last", heads=(2, 2)), Case(129, 129, 4, mask="some", heads=(2, 2), batch=1),
          Case(3, 5, 4, mask="some", heads=(6, 2)), Case(4, 7, 4, mask="some", memory="transposed"), Case(3, 5, 4, mask="empty"))


def cases(axes: str, mask_axes: Sequence[str], dtypes: Sequence[str], kv_heads: int | None) -> Iterator[Case]:
    """Those that a function with these arguments can be called with: the plainest first, since they leave the fewest mistakes possible.

    axes       of queries: "bhnd"
    mask_axes  shapes that its mask can have, of which the cases have one after the other; empty where it has none
    dtypes     numbers at which exp() of a score is infinite in these are among them; the first is that of the arguments
    kv_heads   how many heads keys have; as many as queries, or fewer, unless given
    """
    overflowing = tuple(Case(6, 6, 3, "plain", math.sqrt(math.log(np.finfo(one).max))) for one in dtypes)
    each = tuple(replace(case, mask_axes=one) for one in mask_axes for case in MASKED_EACH)
    more = tuple(replace(case, mask_axes=mask_axes[i % len(mask_axes)]) for i, case in enumerate(MASKED)) if mask_axes else ()
    masked = MASKED_FIRST if "nm" in mask_axes else ()
    far = HALF if float(np.finfo(dtypes[0]).max) < 1e6 else FAR
    found = (fitted(case, axes, kv_heads, far) for case in (*FIRST, *overflowing, *SCORES[:2], *masked, *each, *SCORES[2:], *SMALL, *OTHERS,
                                                            *SHARED, *more, *KEYS, *TILES, *QUERIES))
    return iter(dict.fromkeys(found))


def fitted(case: Case, axes: str, kv_heads: int | None, far: float = FAR) -> Case:
    """With the axes and heads that a function's arguments have."""
    heads = case.heads if "h" in axes else (1, 1)
    if kv_heads is not None:
        heads = (kv_heads * max(2 if kv_heads < 3 else 1, heads[0] // kv_heads), kv_heads)
    return replace(case, heads=heads, batch=case.batch if "b" in axes else 1, largest=far if case.largest == FAR else case.largest)
