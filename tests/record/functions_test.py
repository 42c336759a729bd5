#!/usr/bin/env python3
"""Does attn.check() name each mistake that an attention function can make, and none in right ones? functions_test.py ATTN"""

import os
import sys
import unittest

from recorded import np

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["ATTN"] = os.path.abspath(sys.argv.pop(1))

import attn


def softmax(scores, axis=-1):
    exponentials = np.exp(scores - scores.max(axis, keepdims=True))
    return exponentials / exponentials.sum(axis, keepdims=True)


def transposed(x):
    return np.swapaxes(x, -1, -2)


def scaled_scores(q, k):
    return q @ transposed(k) / np.sqrt(q.shape[-1]).astype(q.dtype)


def allowed_keys(q, k, mask=None, causal=False, window=None, shift=0, top_left=False):
    n, m = q.shape[-2], k.shape[-2]
    place = np.arange(n)[:, None] + (0 if top_left else m - n)
    allowed = np.arange(m) <= place + shift if causal else np.ones((n, m), bool)
    if window is not None:
        allowed = allowed & (np.arange(m) >= place - window)
    return allowed if mask is None else allowed & mask


def attention(q, k, v, mask=None, **form):
    scores = scaled_scores(q, k)
    masked = np.where(allowed_keys(q, k, mask, **form), scores, -np.inf)
    weights = softmax(masked)
    return weights @ v


# ------------------------------------------------------------------------------------------------ mistakes

MISTAKES = []
CAUSAL, MASKED, WINDOW, HEADS = {"causal": True}, {"mask": "mask"}, {"causal": True, "left_window": 2}, {"axes": 4}


def makes(mistake, **options):
    def add(function):
        MISTAKES.append((mistake, function, options))
        return function

    return add


def of_scores(mistake, change, **options):
    """A function that changes the scores, or the weights that follow."""

    def function(q, k, v):
        return change(q, k) @ v

    MISTAKES.append((mistake, function, options))


of_scores("keys_reshaped", lambda q, k: softmax(q @ k.reshape(k.shape[::-1]) / np.sqrt(q.shape[-1])))
of_scores("no_scale", lambda q, k: softmax(q @ k.T))
of_scores("scale_d_k", lambda q, k: softmax(q @ k.T / q.shape[-1]))
of_scores("scale_inverse", lambda q, k: softmax(q @ k.T * np.sqrt(q.shape[-1])))
of_scores("scale_divided", lambda q, k: softmax(q @ k.T / 0.3), scale=0.3)
of_scores("scale_default", lambda q, k: softmax(scaled_scores(q, k)), scale=0.3)
of_scores("softmax_axis", lambda q, k: softmax(scaled_scores(q, k), -2))
of_scores("softmax_heads", lambda q, k: softmax(scaled_scores(q, k), 1), **HEADS)
of_scores("softmax_all", lambda q, k: softmax(scaled_scores(q, k), None))
of_scores("softmax_missing", scaled_scores)
of_scores("softmax_twice", lambda q, k: softmax(softmax(scaled_scores(q, k))))
of_scores("softmax_log", lambda q, k: np.log(softmax(scaled_scores(q, k))))
of_scores("softmax_sigmoid", lambda q, k: 1 / (1 + np.exp(-scaled_scores(q, k))))
of_scores("softmax_unnormalized", lambda q, k: np.exp(scaled_scores(q, k)))
of_scores("mask_missing", lambda q, k: softmax(scaled_scores(q, k)), **CAUSAL)


@makes("softmax_overflow")
@makes("softmax_overflow", dtype="float32")
def overflowing(q, k, v):
    exponentials = np.exp(scaled_scores(q, k))
    return exponentials / exponentials.sum(-1, keepdims=True) @ v


@makes("causal_strict", **CAUSAL)
def without_itself(q, k, v):
    masked = np.where(allowed_keys(q, k, causal=True, shift=-1), scaled_scores(q, k), -np.inf)
    exponentials = np.exp(masked)
    return np.nan_to_num(exponentials / exponentials.sum(-1, keepdims=True)) @ v


for name, options, form in (("causal_next", CAUSAL, {"shift": 1}), ("causal_top_left", CAUSAL, {"top_left": True}),
                            ("window_missing", WINDOW, {}), ("window_off_by_one", WINDOW, {"window": 1}),
                            ("window_off_by_one", WINDOW, {"window": 3})):
    MISTAKES.append((name, lambda q, k, v, form=form: attention(q, k, v, causal=True, **form), options))


for name, options, function in (
    ("mask_missing", MASKED, lambda q, k, v, mask=None: attention(q, k, v)),
    ("mask_one_dropped", {**CAUSAL, **MASKED}, lambda q, k, v, mask=None: attention(q, k, v, causal=True)),
    ("mask_one_dropped", {**CAUSAL, **MASKED}, lambda q, k, v, mask=None: attention(q, k, v, mask, causal=mask is None)),
):
    MISTAKES.append((name, function, options))


@makes("mask_inverted", **MASKED)
def inverted(q, k, v, mask=None):
    return attention(q, k, v, None if mask is None else ~mask)


@makes("mask_added", **MASKED)
def added(q, k, v, mask=None):
    return softmax(scaled_scores(q, k) + (0 if mask is None else mask)) @ v


@makes("mask_transposed", **MASKED)
def over_the_queries(q, k, v, mask=None):
    return attention(q, k, v, mask.T if mask is not None and len(q) == len(k) else mask)


@makes("mask_zero", **CAUSAL)
def zeroed(q, k, v):
    scores = np.tril(scaled_scores(q, k), len(k) - len(q))
    return softmax(scores) @ v


@makes("mask_finite", **CAUSAL)
def with_a_number(q, k, v):
    return softmax(np.where(allowed_keys(q, k, causal=True), scaled_scores(q, k), -1e4)) @ v


@makes("mask_after_softmax", **CAUSAL)
def masked_late(q, k, v):
    return np.where(allowed_keys(q, k, causal=True), softmax(scaled_scores(q, k)), 0) @ v


@makes("dropout_on")
def dropped(q, k, v):
    weights = softmax(scaled_scores(q, k))
    kept = np.random.default_rng(1).random(weights.shape) < 0.8
    weights = np.where(kept, weights, 0) / 0.8
    return weights @ v


@makes("weights_transposed")
def mixed_by_columns(q, k, v):
    weights = softmax(scaled_scores(q, k))
    return weights.T @ v if len(q) == len(k) else weights @ v


@makes("kv_tiled", kv_heads=2, **HEADS)
def tiled(q, k, v):
    k, v = np.tile(k, (1, 2, 1, 1)), np.tile(v, (1, 2, 1, 1))
    return attention(q, k, v)


# ------------------------------------------------------------------------------------------------ right ones

RIGHT = [attention]


def right(function):
    RIGHT.append(function)
    return function


@right
def with_a_large_number(q, k, v, mask=None, **form):
    scores = (q * q.dtype.type(q.shape[-1] ** -0.5)) @ transposed(k)
    scores = np.where(allowed_keys(q, k, mask, **form), scores, np.finfo(q.dtype).min)
    return softmax(scores) @ v


@right
def with_an_added_mask(q, k, v, mask=None, **form):
    factor = q.dtype.type(q.shape[-1] ** -0.25)
    scores = np.einsum("...nd,...md->...nm", q * factor, k * factor)
    scores = scores + np.where(allowed_keys(q, k, mask, **form), 0, -np.inf).astype(q.dtype)
    weights = softmax(scores)
    return np.einsum("...nm,...md->...nd", weights, v)


@right
def divided_at_the_end(q, k, v, mask=None, **form):
    scores = np.where(allowed_keys(q, k, mask, **form), scaled_scores(q, k), -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    out = e @ v
    return out / e.sum(-1, keepdims=True)


@right
def in_tiles(q, k, v, mask=None, **form):
    allowed = np.broadcast_to(allowed_keys(q, k, mask, **form), q.shape[:-1] + k.shape[-2:-1])
    largest = np.full(q.shape[:-1] + (1,), -np.inf, q.dtype)
    total, out = np.zeros_like(largest), np.zeros(q.shape[:-1] + v.shape[-1:], q.dtype)
    for begin in range(0, k.shape[-2], 2):
        scores = np.where(allowed[..., begin:begin + 2], scaled_scores(q, k[..., begin:begin + 2, :]), -np.inf)
        larger = np.maximum(largest, scores.max(-1, keepdims=True))
        shift = np.where(np.isinf(larger), 0, larger)
        e, correction = np.exp(scores - shift), np.exp(largest - shift)
        total = total * correction + e.sum(-1, keepdims=True)
        out = out * correction + e @ v[..., begin:begin + 2, :]
        largest = larger
    return out / total


@right
def row_by_row(q, k, v, mask=None, **form):
    allowed = allowed_keys(q, k, mask, **form)
    out = np.empty(q.shape[:-1] + v.shape[-1:], q.dtype)
    for at in np.ndindex(q.shape[:-1]):
        keep = allowed[at[-1]]
        scores = k[at[:-1]][keep] @ q[at] / q.dtype.type(np.sqrt(q.shape[-1]))
        out[at] = softmax(scores) @ v[at[:-1]][keep]
    return out


@right
def by_columns(q, k, v, mask=None, **form):
    scores = k @ transposed(q) / q.dtype.type(np.sqrt(q.shape[-1]))
    scores = np.where(transposed(allowed_keys(q, k, mask, **form)), scores, -np.inf)
    weights = softmax(scores, -2)
    return transposed(weights) @ v


@right
def in_powers_of_two(q, k, v, mask=None, **form):
    scores = q @ transposed(k) * q.dtype.type(q.shape[-1] ** -0.5 / np.log(2))
    scores = np.where(allowed_keys(q, k, mask, **form), scores, -np.inf)
    p = np.exp2(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return p @ v


@right
def query_by_query(q, k, v, mask=None, **form):
    allowed = np.broadcast_to(allowed_keys(q, k, mask, **form), q.shape[:-1] + k.shape[-2:-1])
    rows = []
    for i in range(q.shape[-2]):
        scores = np.where(allowed[..., i:i + 1, :], scaled_scores(q[..., i:i + 1, :], k), -np.inf)
        rows.append(softmax(scores) @ v)
    return np.concatenate(rows, -2)


class Functions(unittest.TestCase):
    def setUp(self):
        before = np.seterr(all="ignore")
        self.addCleanup(lambda: np.seterr(**before))

    def test_each_mistake_is_named(self):
        for mistake, function, options in MISTAKES:
            with self.subTest(mistake, **options):
                report = attn.check(function, "attention", **options)
                self.assertFalse(report)
                names = {one.id for one in report.mistakes}
                if mistake == "window_missing":
                    names.discard("mask_one_dropped")  # which it is, too
                self.assertEqual(names, {mistake}, str(report))

    def test_none_is_named_in_right_functions(self):
        forms = (({}, {}), ({"causal": True}, CAUSAL), ({"causal": True, "top_left": True}, {"causal": "top-left"}))
        for i, function in enumerate(RIGHT):
            for k, (form, options) in enumerate(forms):
                axes, dtype, masks = 2 + (i + k) % 3, ("float64", "float32")[(i + k) % 2], (MASKED, {})[i % 2]
                with self.subTest(function.__name__, axes=axes, dtype=dtype, **options, **masks):
                    report = attn.check(lambda q, k, v, mask=None: function(q, k, v, mask, **form), "attention", axes=axes,
                                        dtype=dtype, **options, **masks)
                    self.assertTrue(report, str(report))


if __name__ == "__main__":
    unittest.main()
