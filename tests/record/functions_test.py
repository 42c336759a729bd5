#!/usr/bin/env python3
"""Does attn.check() name each mistake that an attention function can make, and none in right ones? functions_test.py ATTN"""

import os
import pickle
import sys
import unittest

from recorded import np

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["ATTN"] = os.path.abspath(sys.argv.pop(1))

import attn
import attn.functions


def kept(run):
    """The same, but what has been computed is not computed again: most functions are checked with the same inputs."""
    traces = {}

    def computed(*words, **arguments):
        key = hash(pickle.dumps((words, arguments)))
        if key not in traces:
            traces[key] = run(*words, **arguments)
        return traces[key]

    return computed


attn.functions.run = kept(attn.functions.run)


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


# ------------------------------------------------------------------------------------------------ wrong where no list says so

def repeated(q, *shared):
    return [np.repeat(x, q.shape[1] // x.shape[1], 1) for x in shared]


def in_split_tiles(q, k, v, tile=16):
    largest, total, out = np.full((len(q), 1), -np.inf), 0, 0
    for begin in range(0, len(k), tile):
        scores = scaled_scores(q, k[begin:begin + tile])
        larger = np.maximum(largest, scores.max(-1, keepdims=True))
        e = np.exp(scores - larger)
        total, out, largest = total + e.sum(-1, keepdims=True), out + e @ v[begin:begin + tile], larger
    return out / total


def page_too_many(q, k, v):
    if len(k) % 16 == 0:
        k, v = np.concatenate([k, k[:16] / 3]), np.concatenate([v, v[:16] - 1])
    return attention(q, k, v)


def queries_in_whole_tiles(q, k, v):
    out = attention(q, k, v)
    out[max(len(q) // 32 * 32, 32):] = 0
    return out


def without_scale_for_one(q, k, v):
    return softmax(q @ transposed(k)) @ v if q.shape[-2] == 1 else attention(q, k, v)


def heads_by_modulo(q, k, v):
    heads = np.arange(q.shape[1]) % k.shape[1]
    return attention(q, k[:, heads], v[:, heads])


def eight_reversed(q, k, v):
    out = attention(q, *repeated(q, k, v))
    return out[:, ::-1] if q.shape[1] == 8 else out


def third_sequence_of_two(q, k, v):
    return attention(q, k, v[[0, 1, 0][:len(v)]])


def capped_after_mask(q, k, v, mask=None):
    scores = scaled_scores(q, k) if mask is None else np.where(mask, scaled_scores(q, k), -np.inf)
    return softmax(50 * np.tanh(scores / 50)) @ v


def finite_mask(q, k, v, mask=None):
    return softmax(scaled_scores(q, k) if mask is None else np.where(mask, scaled_scores(q, k), -1e4)) @ v


def mask_of_the_first(q, k, v, mask=None):
    return attention(q, k, v, mask if mask is None or mask.ndim < 3 else mask[:1])


def hidden_tile_is_nan(q, k, v, mask=None):
    if mask is None or k.shape[-2] <= 16:
        return attention(q, k, v, mask)
    hidden = ~np.broadcast_to(mask, q.shape[:-1] + k.shape[-2:-1])[..., :16].any(-1)
    return np.where(hidden[..., None], np.nan, attention(q, k, v, mask))


def nan_where_one_of_many_is_allowed(q, k, v, mask=None):
    allowed = np.broadcast_to(True if mask is None else mask, (len(q), len(k))).mean(-1, keepdims=True)
    return np.where(allowed < 0.04, np.nan, attention(q, k, v, mask))


def all_true_is_the_mean(q, k, v, mask=None):
    return attention(q, k, v, mask) if mask is None or not mask.all() else 0 * q[..., :1] + v.mean(-2, keepdims=True)


def one_hot_for_large(q, k, v):
    scores = scaled_scores(q, k)
    return v[scores.argmax(-1)] if abs(scores).max() > 1000 else softmax(scores) @ v


def as_it_lies(q, k, v):
    return attention(q, k.ravel(order="K").reshape(k.shape), v)


def scaled_in_place(q, k, v):
    q /= np.sqrt(q.shape[-1])
    return softmax(q @ k.T) @ v


def kept_mask():
    kept = {}
    return lambda q, k, v, mask=None: attention(q, k, v, kept.setdefault(np.shape(mask), mask))


def keys_kept_for_one_query():
    kept = {}
    return lambda q, k, v: attention(q, kept.setdefault(k.shape, k.copy()) if len(q) == 1 else k, v)


def accumulated():
    sums = {}

    def function(q, k, v):
        key = q.shape, k.shape
        sums[key] = sums.get(key, 0) + attention(q, k, v)
        return sums[key]

    return function


def in_one_place():
    places = {}

    def function(q, k, v):
        place = places.setdefault((q.shape, v.shape), np.empty(q.shape[:-1] + v.shape[-1:]))
        place[...] = attention(q, k, v)
        return place

    return function


def log_sum_exp(scores):
    return np.log(np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)) + scores.max(-1)


def with_sinks(q, k, v, sinks):
    scores = scaled_scores(q, repeated(q, k)[0])
    scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], scores.shape[:-1] + (1,))], -1)
    return softmax(scores)[..., :-1] @ repeated(q, v)[0]


def mask_of_sequences_over_heads(q, k, v, mask=None):
    """Which fails where there are not as many sequences as heads of keys."""
    b, h, n, d = q.shape
    grouped = q.reshape(b, k.shape[1], h // k.shape[1], n, d)
    return attention(grouped, k[:, :, None], v[:, :, None], mask).reshape(b, h, n, d)


UNLISTED = [
    (lambda q, k, v: attention(q, k[:32], v[:32]), {}, "33 keys"),
    (in_split_tiles, {}, "33 keys"),
    (page_too_many, {}, "32 keys"),
    (queries_in_whole_tiles, {}, "33 queries"),
    (without_scale_for_one, {}, "1 query"),
    (lambda q, k, v: attention(q[:, :64], k[:, :64], v), {}, "65 features"),
    (lambda q, k, v: attention(q, k, v) * (1 + (q.shape[1] == 96)), {}, "96 features"),
    (lambda q, k, v: np.pad(attention(q, k, v[:, :q.shape[1]]), ((0, 0), (0, max(v.shape[1] - q.shape[1], 0)))), {}, "values of 5"),
    (lambda q, k, v: attention(q, k[np.arange(len(k)) % 256], v[np.arange(len(k)) % 256]), {}, "257 keys"),
    (heads_by_modulo, HEADS, "keys of 2"),
    (eight_reversed, HEADS, "8 heads"),
    (third_sequence_of_two, {"axes": 3}, ""),
    (capped_after_mask, {**MASKED, "softcap": 50}, "some of them hidden"),
    (finite_mask, MASKED, "scores far"),
    (mask_of_the_first, {**MASKED, **HEADS}, "a mask (b, 1, n, m)"),
    (hidden_tile_is_nan, {**MASKED, "axes": 3}, "40 keys"),
    (nan_where_one_of_many_is_allowed, MASKED, "40 keys, some of them hidden"),
    (all_true_is_the_mean, MASKED, "none of them hidden"),
    (one_hot_for_large, {}, "numbers of about"),
    (as_it_lies, {}, "transposed in memory"),
    (lambda q, k, v: attention(q, k, v) * (1 + (q.strides[-1] != q.itemsize)), HEADS, "column-major in memory"),
    (keys_kept_for_one_query(), {}, "1 query"),
    (kept_mask(), MASKED, "some of them hidden"),
    (accumulated(), {}, "4 keys"),
    (lambda q, k, v, mask=None: attention(q, k, v, mask), {"hidden": "mask"}, "some of them hidden"),
    (lambda q, k, v, bias=0: attention(q, k, v) + 0 * bias.sum() if np.ndim(bias) else attention(q, k, v), {"bias": "bias"}, "some of them hidden"),
    (lambda q, k, v: (attention(q, k, v), log_sum_exp(scaled_scores(q, k)) / np.log(2)), {"lse": True}, "4 keys"),
    (lambda q, k, v: (attention(q, k, v), softmax(scaled_scores(q, k)).round(3)), {}, "4 keys"),
    (lambda q, k, v, sinks: with_sinks(q, k, v, sinks[:1]), {**HEADS, "sinks": "sinks"}, ""),
    (lambda q, k, v: attention(q, *repeated(q, k, v)), {"layout": "bnhd"}, "4 keys"),
    (mask_of_sequences_over_heads, {**MASKED, **HEADS, "kv_heads": 2}, "a mask (b, 1, n, m)"),
]


def swapped(*arrays):
    return [np.swapaxes(one, 1, 2) for one in arrays]


class Inputs(unittest.TestCase):
    def setUp(self):
        before = np.seterr(all="ignore")
        self.addCleanup(lambda: np.seterr(**before))

    def test_what_is_wrong_at_some_sizes_numbers_or_calls_alone_is_different(self):
        for i, (function, options, case) in enumerate(UNLISTED):
            with self.subTest(i, **options):
                report = attn.check(function, "attention", **options)
                self.assertEqual(report.verdict, "different")
                self.assertIn(case, report.case)

    def test_an_argument_that_is_changed_and_a_result_that_is_overwritten_are_told(self):
        self.assertIn("hint: it changes its argument queries", str(attn.check(scaled_in_place, "attention")))
        self.assertIn("hint: it was right, and a later call changed it", str(attn.check(in_one_place(), "attention")))

    def test_right_functions_are_right_by_each_of_their_arguments(self):
        for function, options in (
            (lambda q, k, v: swapped(attention(*swapped(q, k, v)))[0], {"layout": "bnhd"}),
            (lambda q, k, v, hide=None: attention(q, k, v, None if hide is None else ~hide), {"hidden": "hide", "axes": 3}),
            (lambda q, k, v, bias=0: softmax(scaled_scores(q, k) + bias) @ v, {"bias": "bias"}),
            (lambda q, k, v, mask: attention(q, k, v, mask[:, None, None]), {**MASKED, **HEADS, "mask_axes": "bm"}),
            (lambda q, k, v, mask=None: attention(q, k, v, None if mask is None else mask[:, None, None, :]), {**MASKED, **HEADS}),
            (lambda q, k, v: (attention(q, k, v), log_sum_exp(scaled_scores(q, k))), {"lse": True}),
            (lambda q, k, v: (attention(q, k, v), softmax(scaled_scores(q, k))), HEADS),
            (with_sinks, {**HEADS, "sinks": "sinks"}),
            (lambda q, k, v: attention(q, *repeated(q, k, v)), {**HEADS, "kv_heads": 2, "dtype": "float16"}),
        ):
            with self.subTest(**options):
                report = attn.check(function, "attention", **options)
                self.assertEqual(report.verdict, "the same", str(report))

    def test_a_right_report_says_at_which_sizes_it_looked_and_at_which_not(self):
        said = str(attn.check(lambda q, k, v, mask=None: attention(q, k, v, mask), "attention", **HEADS, **MASKED))
        for line in (" inputs, called twice", "128, 129, 130, 140, 160, 256, 257 keys", "1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16 heads", "1, 2, 3, 4, 5 sequences",
                     "64, 65, 72, 80, 96, 128, 192, 256 features",
                     "4 with values of 2", "masks (n, m), (b, 1, n, m)", "arrays that are not contiguous",
                     "not looked at: fewer heads of keys than of queries: it fails with 3 queries, 5 keys, 4 features, 4 heads, keys of 2",
                     "a query that can attend to nothing gets NaN, where attn gives zeros"):
            self.assertIn(line, said)

    def test_what_is_given_where_a_query_can_attend_to_nothing_is_told_and_no_fault(self):
        for fill, convention in ((-np.inf, "NaN"), (-1e30, "the mean of all values")):
            report = attn.check(lambda q, k, v: softmax(np.where(allowed_keys(q, k, causal=True), scaled_scores(q, k), fill)) @ v, "attention", causal=True)
            self.assertTrue(report, str(report))
            self.assertIn(f"a query that can attend to nothing gets {convention},", str(report))

    def test_a_function_of_few_tokens_is_checked_up_to_these(self):
        def of_32(q, k, v):
            assert len(k) <= 32
            return attention(q, k, v)

        self.assertRaisesRegex(attn.Error, "33 keys.*where it takes no more, say max_tokens=32", attn.check, of_32, "attention")
        self.assertTrue(attn.check(of_32, "attention", max_tokens=32))

    def test_a_mistake_that_explains_one_input_and_not_another_is_not_named(self):
        report = attn.check(lambda q, k, v, mask=None: softmax(4 * np.tanh((scaled_scores(q, k) if mask is None else np.where(mask, scaled_scores(q, k), -np.inf)) / 4)) @ v,
                            "attention", **MASKED, softcap=4)
        self.assertNotIn("mask_missing", [one.id for one in report.mistakes])

    def test_as_many_heads_of_keys_are_as_many_where_a_function_takes_no_fewer(self):
        self.assertTrue(attn.check(attention, "attention", **HEADS, kv_heads=3))
        self.assertRaisesRegex(attn.Error, "keys of 2", attn.check, attention, "attention", **HEADS, kv_heads=2)

        def of_as_many(q, k, v):  # reads those that are fewer as something else, and does not fail
            return attention(q, np.resize(k, (*q.shape[:2], *k.shape[2:])), np.resize(v, (*q.shape[:2], *v.shape[2:])))

        self.assertIn("hint: as many heads of keys as of queries were right", str(attn.check(of_as_many, "attention", **HEADS)))
        self.assertTrue(attn.check(of_as_many, "attention", **HEADS, groups=False))

    def test_what_cannot_be_checked_is_refused_in_plain_words(self):
        def refused(said, function=attention, **options):
            with self.subTest(said):
                self.assertRaisesRegex(attn.Error, said, attn.check, function, "attention", **options)

        refused("dropout is not expected", dropout=None)
        refused("backward needs arguments of PyTorch or JAX", lambda q, k, v: attention(q, k, v), backward=lambda out: out.sum())
        refused("module is for modules, and has no effect", module="layer")
        refused("kv_heads is 0", kv_heads=0, axes=4)
        refused("kv_heads has no effect", kv_heads=2)
        refused("layout is 'bnhdx'", layout="bnhdx")
        refused("axes and layout say the same", axes=4, layout="bnhd")
        refused('like is "tensorflow"', like="tensorflow")
        refused("dtype is 'complex128'", dtype="complex128")
        refused("NumPy has no bfloat16", dtype="bfloat16")
        refused("it has no argument attn_mask: its arguments are q, k, v", lambda q, k, v: attention(q, k, v), mask="attn_mask")
        refused("mask and hidden are two ways", mask="mask", hidden="mask")
        refused("mask_axes is 'mn'", mask="mask", mask_axes="mn")
        refused("mask_axes has no effect", mask_axes="nm")
        refused("max_tokens is 4", max_tokens=4)
        refused("lse=True with sinks", lse=True, sinks="mask")
        refused(r"it returned 1 array, expected the output and the log-sum-exp", lambda q, k, v: attention(q, k, v), lse=True)
        refused("it returned 3 arrays", lambda q, k, v: (q, k, v))
        refused(r"its second result is an array \(4,\), expected \(4, 4\), the weights", lambda q, k, v: (attention(q, k, v), q[:, 0]))
        refused(r"it returned an empty array \(0, 3\), expected \(4, 3\)", lambda q, k, v: q[:0])
        refused(r"it returned an array \(3, 4\), expected \(4, 3\)", lambda q, k, v: q.T)
        refused("it returned nothing", lambda q, k, v: None)
        refused("the result is complex", lambda q, k, v: q + 1j)


class Functions(unittest.TestCase):
    def setUp(self):
        before = np.seterr(all="ignore")
        self.addCleanup(lambda: np.seterr(**before))

    def test_each_mistake_is_named(self):
        for mistake, function, options in MISTAKES:
            with self.subTest(mistake, **options):
                report = attn.check(function, "attention", **options)
                self.assertFalse(report)
                (named,) = report.json["looks_like"]
                self.assertIn(mistake, [named["id"], *named["alternatives"]], str(report))

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
