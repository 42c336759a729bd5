#!/usr/bin/env python3
"""Does attn.check(step, "attention", cache=True) accept right functions with a cache, and name the mistake of wrong ones? cache_test.py ATTN"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from recorded import ROOT, np

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["ATTN"] = os.path.abspath(sys.argv.pop(1))

import attn
from attn.calls_reference import softmax
from attn.testing import assert_attends


def attend(queries, keys, values, allowed):
    scores = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1])
    return softmax(np.where(allowed, scores, -np.inf)) @ values


def lower(n, m):
    return np.tril(np.ones((n, m), bool), m - n)


def grown(cache, keys, values):
    return (keys, values) if cache is None else (np.concatenate([cache[0], keys], -2), np.concatenate([cache[1], values], -2))


def attention(allowed=lower, kept=lambda before, now: now, read=lambda cache: cache):
    """A function with a cache, each part of which can be another. allowed: of how many queries and keys"""
    def step(queries, keys, values, cache):
        now = grown(read(cache), keys, values)
        return attend(queries, *now, allowed(queries.shape[-2], now[0].shape[-2])), kept((keys, values), now)
    return step


def padded(allowed_by=lambda mask, n, first: mask):
    """Of batches, with a mask of all keys so far."""
    def step(queries, keys, values, cache, mask=None):
        now, n = grown(cache, keys, values), queries.shape[-2]
        allowed = lower(n, now[0].shape[-2])
        if mask is not None:
            allowed = allowed & allowed_by(mask, n, cache is None)[:, None, None, :]
        return attend(queries, *now, allowed), now
    return step


class Store:
    """A cache that is written in place, and what can be done with it."""

    def __init__(self, wrong=""):
        self.wrong = wrong

    def start(self, batch):
        return {"keys": None, "values": None}

    def step(self, queries, keys, values, cache):
        cache["keys"], cache["values"] = grown(None if cache["keys"] is None else (cache["keys"], cache["values"]), keys, values)
        return attend(queries, cache["keys"], cache["values"], lower(queries.shape[2], cache["keys"].shape[2])), cache

    def reorder(self, cache, rows):
        return {name: array if self.wrong == "reorder" or (self.wrong == "values" and name == "values") else array[rows] for name, array in cache.items()}

    def fork(self, cache):
        return cache if self.wrong == "fork" else dict(cache)

    def truncate(self, cache, length):
        return {name: array[:, :, :length - (self.wrong == "truncate")] for name, array in cache.items()}


def ring(short=0, window=6):
    """(b, n, h, d)"""
    def step(queries, keys, values, cache):
        b, n, h, d = queries.shape
        slots, order, past = (np.zeros((2, b, window, h, d)), np.full(window, -1), 0) if cache is None else (cache[0].copy(), cache[1].copy(), cache[2])
        own = past + np.arange(n)
        both, places = np.concatenate([slots, np.stack([keys, values])], 2), np.concatenate([order, own])
        for i, place in enumerate(own):
            slots[:, :, place % window], order[place % window] = (keys[:, i], values[:, i]), place
        far = own[:, None] - places
        allowed = (places >= 0) & (far >= 0) & (far < window - short * (past > 0))
        queries, keys, values = (one.swapaxes(1, 2) for one in (queries, *both))
        return attend(queries, keys, values, allowed).swapaxes(1, 2), (slots, order, past + n)
    return step


def names(report):
    return [mistake.id for mistake in report.mistakes]


class RightOnes(unittest.TestCase):
    def accepted(self, step, *lines, cache=True, **options):
        report = attn.check(step, "attention", cache=cache, **options)
        self.assertEqual(report.verdict, "the same", report)
        for line in lines:
            self.assertIn(line, str(report))
        return report

    def test_a_function_of_two_axes(self):
        report = self.accepted(attention(), "compared with attention at once", "257 keys", "scores far from zero on both sides")
        self.assertIn("one by one", report.pattern)
        self.assertEqual(report.left_out["batch"], "its arguments have no axis of sequences")
        self.assertIn("129 queries", report.json["case"])

    def test_rows_with_padding(self):
        report = self.accepted(padded(), axes=4, mask="mask")
        self.assertIn("steps after left padding", report.pattern)
        self.accepted(padded(lambda hidden, n, first: ~hidden), axes=4, hidden="mask", mask_axes="bm", max_tokens=20)

    def test_a_mask_that_it_needs(self):
        def step(queries, keys, values, cache, bias):
            now = grown(cache, keys, values)
            scores = queries @ np.swapaxes(now[0], -1, -2) / np.sqrt(queries.shape[-1]) + bias
            return softmax(np.where(lower(*scores.shape[-2:]), scores, -np.inf)) @ now[1], now
        self.accepted(step, axes=4, bias="bias", mask_axes="b11m", max_tokens=20)

    def test_a_cache_that_is_written_in_place(self):
        store = Store()
        report = self.accepted(store.step, axes=4, cache=store, max_tokens=20)
        for schedule in ("reordered", "forked", "taken back"):
            self.assertIn(schedule, report.pattern)
        self.accepted(store.step, axes=4, cache=store.start, max_tokens=20)

    def test_a_ring(self):
        report = self.accepted(ring(), layout="bnhd", left_window=5, max_tokens=20)
        self.assertIn("at the window's edge", report.pattern)

    def test_options_and_types(self):
        def capped(queries, keys, values, cache):
            now = grown(cache, keys, values)
            scores = 2 * np.tanh(0.7 * queries @ np.swapaxes(now[0], -1, -2) / 2)
            return softmax(np.where(lower(*scores.shape[-2:]), scores, -np.inf)) @ now[1], now
        self.accepted(capped, scale=0.7, softcap=2, max_tokens=20)
        self.accepted(attention(), dtype="float32", layout="hnd", max_tokens=20)
        self.accepted(attention(), "as float16", dtype="float16", max_tokens=20)

        def shared(queries, keys, values, cache):
            now = grown(cache, keys, values)
            more = queries.shape[1] // keys.shape[1]
            return attend(queries, *(np.repeat(one, more, 1) for one in now), lower(queries.shape[2], now[0].shape[2])), now
        self.accepted(shared, axes=4, kv_heads=2, max_tokens=20)

    def test_pytorch(self):
        try:
            import torch
        except ImportError as error:
            self.skipTest(str(error))

        def step(queries, keys, values, cache, mask=None):
            if cache is not None:
                keys, values = torch.cat([cache[0], keys], 2), torch.cat([cache[1], values], 2)
            allowed = torch.ones(queries.shape[2], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - queries.shape[2])
            allowed = allowed if mask is None else allowed & mask[:, None, None, :]
            scores = (queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5).masked_fill(~allowed, -torch.inf)
            return scores.softmax(-1) @ values, (keys, values)
        for dtype in ("float64", "float32", "bfloat16"):
            self.accepted(step, axes=4, like="torch", dtype=dtype, mask="mask", mask_axes="bm", groups=False, max_tokens=20)


class WrongOnes(unittest.TestCase):
    def expect(self, step, mistake, schedule, cache=True, **options):
        report = attn.check(step, "attention", cache=cache, **options)
        self.assertEqual(report.verdict, "different", report)
        self.assertEqual(names(report), [mistake], report)
        self.assertEqual(report.first_wrong.schedule, schedule, report)
        return report

    def test_masks(self):
        def all_seen(n, m):
            return np.ones((n, m), bool)
        for allowed, mistake, schedule in ((all_seen, "mask_skipped_with_cache", "whole"),
                                           (lambda n, m: lower(n, m) if n == m else all_seen(n, m), "chunk_unmasked", "chunks of 2"),
                                           (lambda n, m: np.tril(all_seen(n, m)) if n > 1 else all_seen(n, m), "chunk_masked_top_left", "chunks of 2"),
                                           (lambda n, m: np.tril(all_seen(n, m)), "mask_at_first_key", "two calls")):
            with self.subTest(mistake=mistake):
                report = self.expect(attention(allowed), mistake, schedule)
                self.assertTrue(report.by_numbers)
                self.assertEqual(Path(report.between.first_wrong.file).name, "cache_test.py", report)
        self.expect(padded(lambda mask, n, first: np.ones_like(mask)), "padding_not_masked", "padded left", axes=4, mask="mask", mask_axes="bm")
        self.expect(padded(lambda mask, n, first: mask if first else np.arange(mask.shape[1]) >= 0 * mask), "padding_seen_later", "padding between calls",
                    axes=4, mask="mask", mask_axes="bm")
        self.expect(padded(lambda mask, n, first: mask[:1]), "mask_of_first_row", "padded left", axes=4, mask="mask", mask_axes="bm")

    def test_what_is_stored(self):
        last = []

        def of_last_request(cache):
            return last[-1] if cache is None and last else cache

        def remembered(own, now):
            last[:] = [now]
            return now
        self.expect(attention(kept=lambda own, now: own), "cache_overwritten", "step by step")
        self.expect(attention(read=lambda cache: None), "cache_ignored", "two calls")
        self.expect(attention(kept=remembered, read=of_last_request), "last_request", "asked again")

        def of_first_row(cache):
            return cache and tuple(np.broadcast_to(one[:1], one.shape) for one in cache)
        self.expect(attention(read=of_first_row), "first_row_cache", "batch", axes=4)

    def test_operations(self):
        for wrong, mistake, schedule in (("reorder", "not_reordered", "reordered"), ("values", "values_not_reordered", "reordered"),
                                         ("fork", "fork_shares_cache", "forked"), ("truncate", "one_too_many_taken_back", "taken back")):
            with self.subTest(mistake=mistake):
                store = Store(wrong)
                self.expect(store.step, mistake, schedule, cache=store, axes=4)

    def test_windows(self):
        self.expect(ring(1), "window_one_short", "two calls", layout="bnhd", left_window=5)

    def test_scales_of_a_cache(self):
        """Keys and values are kept as parts of a scale for each token."""
        def scaled(wrong):
            def step(queries, keys, values, cache):
                past = [] if cache is None else [unscaled(*one) for one in cache]
                now = [np.concatenate([*one, new], -2) for one, new in zip((past[:1], past[1:]), (keys, values))]
                stored = [(new / size, size) for new in (keys, values) for size in [abs(new).max(-1, keepdims=True)]]
                cache = stored if cache is None else [tuple(np.concatenate(both, -2) for both in zip(*pair)) for pair in zip(cache, stored)]
                return attend(queries, *now, lower(queries.shape[-2], now[0].shape[-2])), cache

            def unscaled(array, size):
                return {"": array * size, "scales_dropped": array, "scales_twice": array * size * size, "scales_of_other_token": array * size[..., ::-1, :]}[wrong]
            return step
        self.assertEqual(attn.check(scaled(""), "attention", cache=True, max_tokens=20).verdict, "the same")
        for mistake in ("scales_dropped", "scales_twice", "scales_of_other_token"):
            with self.subTest(mistake=mistake):
                self.expect(scaled(mistake), mistake, "two calls")

    def test_what_is_wrong_in_one_call_has_its_own_name(self):
        def halved(queries, keys, values, cache):
            now = grown(cache, keys, values)
            scores = queries @ np.swapaxes(now[0], -1, -2) / queries.shape[-1]
            weights = softmax(np.where(lower(*scores.shape[-2:]), scores, -np.inf))
            return weights @ now[1], now
        report = attn.check(halved, "attention", cache=True)
        self.assertEqual((names(report), report.first_wrong.variable), (["scale_d_k"], "scores"), report)

    def test_scores_that_are_far_from_zero_in_a_later_call(self):
        def finite(queries, keys, values, cache):
            now = grown(cache, keys, values)
            scores = queries @ np.swapaxes(now[0], -1, -2) / np.sqrt(queries.shape[-1])
            weights = softmax(np.where(lower(*scores.shape[-2:]), scores, -np.inf if cache is None else -1e4))
            return weights @ now[1], now
        report = attn.check(finite, "attention", cache=True)
        self.assertEqual(report.verdict, "different")
        self.assertIn("mask_finite", str(report))

    def test_in_a_test(self):
        assert_attends(attention(), cache=True, max_tokens=20)
        with self.assertRaises(AssertionError) as caught:
            assert_attends(attention(lambda n, m: np.tril(np.ones((n, m), bool))), cache=True)
        self.assertIn("mask_at_first_key", str(caught.exception))


class Hostile(unittest.TestCase):
    """A plain message, and never "the same"."""

    def refused(self, step, *words, cache=True, **options):
        with self.assertRaises(attn.Error) as caught:
            attn.check(step, "attention", cache=cache, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def undecided(self, step, *words, **options):
        report = attn.check(step, "attention", cache=True, **options)
        self.assertEqual(report.verdict, "undecided", report)
        for word in words:
            self.assertIn(word, str(report))

    def changed(self, change):
        right = attention()

        def step(queries, keys, values, cache):
            output, now = right(queries, keys, values, cache)
            return change(output, now, cache, (queries, keys, values))
        return step

    def test_what_it_returns(self):
        self.refused(self.changed(lambda output, now, cache, given: output), "it returned ndarray, expected the output and the cache")
        self.refused(self.changed(lambda output, now, cache, given: (output, *now)), "it returned 3 things")
        self.refused(self.changed(lambda output, now, cache, given: None), "it returned NoneType")
        self.refused(self.changed(lambda output, now, cache, given: (output, None)), "None for its cache")
        self.refused(self.changed(lambda output, now, cache, given: (now, output)), "(2, 37, 4)")
        self.refused(self.changed(lambda output, now, cache, given: (output[:1], now)), "(1, 4), expected (37, 4), (n, d)")
        self.refused(self.changed(lambda output, now, cache, given: (output.T, now)), "(4, 37), expected (37, 4)")
        self.refused(self.changed(lambda output, now, cache, given: (output * 1j, now)), "complex")
        self.refused(self.changed(lambda output, now, cache, given: ("output", now)), "the result")

    def test_a_cache_of_another_type_in_a_later_call(self):
        self.undecided(self.changed(lambda output, now, cache, given: (output, "cache")), "call 2 fails")
        self.undecided(self.changed(lambda output, now, cache, given: (output, now if cache is None else None)), "None for its cache")

    def test_it_fails_in_the_second_call(self):
        def raised(output, now, cache, given):
            if cache is not None:
                raise RuntimeError("no second call")
            return output, now
        self.undecided(self.changed(raised), "call 2 fails: RuntimeError: no second call")

    def test_it_ends_python(self):
        self.refused(self.changed(lambda output, now, cache, given: sys.exit(0)), "sys.exit(0)")
        self.undecided(self.changed(lambda output, now, cache, given: (output, now) if cache is None else sys.exit(0)), "sys.exit(0)")
        code = f"import attn\ndef step(q, k, v, c):\n    raise SystemExit\nprint(attn.check(step, 'attention'{{}}))"
        for more in ("", ", cache=True"):
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
            done = subprocess.run([sys.executable, "-c", code.format(more)], env=environment, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("Error", done.stderr)

    def test_not_finite(self):
        self.assertEqual(attn.check(self.changed(lambda output, now, cache, given: (output * np.nan, now)), "attention", cache=True).verdict, "different")
        later = attn.check(self.changed(lambda output, now, cache, given: (output if cache is None else output * np.nan, now)), "attention", cache=True)
        self.assertEqual((later.verdict, later.first_wrong.schedule, names(later)), ("different", "two calls", []))

    def test_it_changes_its_arguments(self):
        def changed(output, now, cache, given):
            given[1][:] = 0
            return output, now
        self.undecided(self.changed(lambda output, now, cache, given: changed(output, tuple(map(np.copy, now)), cache, given)), "changes its argument keys")

    def test_random_results(self):
        random = np.random.default_rng(1)
        report = attn.check(self.changed(lambda output, now, cache, given: (output + random.standard_normal(output.shape), now)), "attention", cache=True)
        self.assertEqual((report.verdict, names(report)), ("different", []))

    def test_no_state(self):
        self.refused(lambda queries, keys, values: queries, "positional arguments")

    def test_arguments(self):
        right = attention()
        self.refused(right, "causal", causal="top-left")
        self.refused(right, "sinks", sinks="cache")
        self.refused(right, "lse", lse=True)
        self.refused(right, "backward", backward=lambda result: result)
        self.refused(right, "right_window", right_window=2)
        self.refused(right, "12 or more", max_tokens=9)
        self.refused(right, "cache is of the type int", cache=3)
        self.refused(right, "cache is of the type str", cache="dynamic")
        self.refused(right, "no argument mask", mask="mask")
        self.refused(right, "it fails with 37 tokens in one call: TypeError", cache=lambda: None)
        self.refused(right, "scales", scales=1)
        for name, value in (("left_window", "x"), ("left_window", -1), ("kept", 1.5), ("softcap", "x"), ("scale", True)):
            self.refused(right, f"{name} is {value!r}", **{name: value})


class OnThePage(unittest.TestCase):
    def test_the_example_prints_what_the_page_says(self):
        section = (ROOT / "docs" / "calls.md").read_text(encoding="utf-8").split("{#calls_attention}")[1]
        program, output = section.split("```python\n")[1].split("```")[0], section.split("```text\n")[1].split("```")[0]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.py").write_text(program, encoding="utf-8")
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
            printed = subprocess.run([sys.executable, "mine.py"], cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.strip(), output.strip())


if __name__ == "__main__":
    unittest.main()
