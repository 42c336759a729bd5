#!/usr/bin/env python3
"""Does attn.check_calls() accept right caches, find each mistake with a cache, and name it or say which it can't tell apart?"""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from recorded import ROOT, np

import attn
from attn.calls import Check, is_placed
from attn.calls_lines import is_misplaced
from attn.calls_mistakes import KINDS, MISTAKES
from attn.calls_reference import Decoder, norm, softmax
from attn.calls_schedules import Row, Schedule, schedules
from attn.calls_table import HEADER, rows
from attn.program import find_program
from attn.testing import assert_calls

TABLE = [line.split("\t") for line in (ROOT / "docs" / "calls_table.tsv").read_text(encoding="utf-8").splitlines()]
SAME_PATTERN = {row[0]: set(row[3].split("; ")) for row in TABLE[1:]}  # what no schedule tells apart


def checked(adapter, **options):
    return attn.check_calls(adapter, **{"vocabulary": 64, **options})


def names(report):
    return {mistake.id for mistake in report.mistakes}


def may_be(mistake):
    """In either direction: an adapter that can do less tells less apart."""
    return {mistake} | SAME_PATTERN[mistake] | {other for other, same in SAME_PATTERN.items() if mistake in same}


class RightOnes(unittest.TestCase):
    def test_each_kind_of_decoder_keeps_the_law(self):
        for kind, options in KINDS.items():
            report = checked(Decoder(seed=5, layers=3, **options), window=options.get("window"))
            self.assertEqual(report.verdict, "the same", f"{kind}: {report}")
            self.assertIn("one by one", report.pattern)

    def test_a_schedule_is_data(self):
        for schedule in schedules(37, 8):
            self.assertEqual(Schedule.of(json.loads(json.dumps(schedule.json()))), schedule)

    def test_what_an_adapter_cannot_do_is_left_out_and_said(self):
        class Steps(attn.Calls):
            def __init__(self):
                self.model = Decoder()

            def start(self, batch):
                if batch > 1:
                    raise NotImplementedError("one row at a time")
                return self.model.start(batch)

            def step(self, ids, state):
                return self.model.step(ids, state)

        report = checked(Steps())
        self.assertEqual(report.verdict, "the same", report)
        self.assertEqual(report.left_out["batch"], "one row at a time")
        self.assertIn("mask", report.left_out["padded left"])
        self.assertIn("reorder", report.left_out["reordered"])

    def test_the_last_token_s_logits_alone_can_be_compared(self):
        class Last(attn.Calls):
            def __init__(self, model):
                self.model = model

            def start(self, batch):
                return self.model.start(batch)

            def step(self, ids, state):
                logits, state = self.model.step(ids, state)
                return logits[:, -1], state

        self.assertEqual(checked(Last(Decoder())).verdict, "the same")
        report = checked(Last(mistake_called("positions_restart").made()))
        self.assertEqual(report.verdict, "different")
        self.assertIn("positions_restart", names(report))

    def test_a_cache_of_fewer_bits_says_its_type(self):
        for kind, to_type in (("float16", lambda x: x.astype(np.float16).astype(float)), ("int8", lambda x: np.round(127 * x) / 127)):
            def build(**options):
                return Stored(to_type, kind, **options)

            for seed in range(2):
                report = checked(build(seed=seed, scaled=True, d=8))
                self.assertEqual(report.verdict, "the same", report)
                self.assertIn(f"with a cache of {kind}", report.checked)
                self.assertNotEqual(checked(Stored(to_type, None, seed=seed, scaled=True, d=8)).verdict, "the same")
            for mistake in ("scales_dropped", "scales_twice", "scales_of_other_token"):
                with self.subTest(kind=kind, mistake=mistake):
                    self.assertEqual(checked(mistake_called(mistake).made(build, scaled=True, d=8)).verdict, "different")

    def test_a_block_of_the_cache_is_filled(self):
        adapter = Paged(16, False)
        adapter.page_size = 16
        report = checked(adapter)
        self.assertEqual((report.verdict, report.pattern["at a page's edge"]["A"]), ("the same", "...............|..|...............|....."), report)
        adapter.is_wrong = True
        self.assertIn("page_too_many", names(checked(adapter)))

    def test_rows_that_share_a_page_write_it(self):
        """Pages of 2 to 13 tokens, where the next one is taken only when it is written."""
        class Lazy(Decoder):
            def write_pages(self, state, layer, new):
                for row, column in np.argwhere(new["order"] >= 0):
                    order, table = int(new["order"][row, column]), state.tables[row]
                    if order == len(table) * self.page:
                        table.append(self.free)
                        self.free += 1
                    self.pool[layer][:, table[order // self.page], order % self.page] = new["keys"][row, column], new["values"][row, column]

            def copied(self, table):
                return list(table) if self.is_wrong else super().copied(table)

        for page in (2, 3, 4, 6, 8, 12):
            decoder = Lazy(page=page, layers=1)
            for decoder.is_wrong in (False, True):
                found = Check(decoder, 37, 64, 0, None, None, None, 0)
                found.begin()
                found.run_all()
                self.assertEqual([one.schedule.name for one in found.outcomes if one.is_wrong], ["one beam goes on", "forked"] * decoder.is_wrong, page)

    def test_a_cache_of_fewer_bits_needs_a_tolerance(self):
        class Rounded(Decoder):
            def store(self, state, layer, new):
                super().store(state, layer, {**new, "keys": new["keys"].astype(np.float16).astype(float)})

        self.assertNotEqual(checked(Rounded()).verdict, "the same")
        self.assertEqual(checked(Rounded(), tolerance=0.01).verdict, "the same")


class Stored(Decoder):
    """Keys and values, as parts of a scale, are rounded where they are stored."""

    def __init__(self, to_type, cache_type, **options):
        super().__init__(**options)
        self.to_type, self.cache_type = to_type, cache_type

    def store(self, state, layer, new):
        super().store(state, layer, {**new, **{name: self.to_type(new[name]) for name in ("keys", "values")}})


def mistake_called(name):
    return next(mistake for mistake in MISTAKES if mistake.id == name)


class Mistakes(unittest.TestCase):
    def test_the_table_on_the_site_is_what_a_run_gives(self):
        """Each mistake is found, its name is among those that are said, and what has the same pattern is in the table."""
        self.assertGreaterEqual(len(MISTAKES), 25)
        found = [HEADER, *rows()]
        self.assertEqual(len(found), len(TABLE))
        for row, expected in zip(found, TABLE):
            with self.subTest(mistake=row[0]):
                self.assertEqual(list(row), expected)
                self.assertNotEqual(row[2], "")
                self.assertNotIn("not named", row[3])

    def test_what_it_is_tells_more_apart(self):
        report = checked(mistake_called("state_not_carried").made(mixer="recurrent"), kind="recurrent")
        self.assertEqual(names(report), {"state_not_carried"}, report)

    def test_one_word_tells_positions_from_what_is_stored(self):
        """Of one id again and again, rotary positions change nothing, and learned ones are equal where they begin anew."""
        made = {(name, positions): names(checked(mistake_called(name).made(positions=positions, seed=3, d=6)))
                for name, positions in (("positions_restart", "learned"), ("positions_after_update", "learned"), ("layers_share_cache", "rotary"), ("keys_restart", "rotary"))}
        self.assertEqual(made["positions_restart", "learned"], {"positions_restart"})
        self.assertEqual(made["positions_after_update", "learned"], {"positions_after_update"})
        self.assertEqual(made["layers_share_cache", "rotary"] & made["keys_restart", "rotary"], set())

    def test_how_tokens_are_placed_is_seen_where_it_can_be(self):
        for options, expected in (({}, False), ({"positions": "alibi"}, False), ({"window": 6}, False), ({"positions": "learned"}, True), ({"mixer": "recurrent"}, None)):
            with self.subTest(**options):
                results = Decoder(**options).at_once(np.full((1, 12), 5))[0]
                self.assertIs(is_placed(results, 1e-9), expected)
        sink = 1 - 1 / np.arange(2.0, 14)  # what a sink leaves of the weights of n equal keys
        self.assertIsNone(is_placed(sink[:, None], 1e-9))

    def test_a_mask_of_padding_is_right_without_padding(self):
        """With a window, too, or it has the pattern of mistakes with the window."""
        for mistake in (one for one in MISTAKES if one.is_of_others and "allowed" in one.overrides):
            for options in ({"window": 6}, {"window": 6, "kept": 2}):
                decoder = mistake.made(**options)
                decoder.whole = Decoder(**options).at_once
                report = checked(decoder, window=6)
                wrong = {name for name, rows in report.pattern.items() if any("x" in marks for marks in rows.values())}
                self.assertTrue(wrong <= {name for name in report.pattern if "padd" in name or name == "joined later"}, f"{mistake.id}: {wrong}")

    def test_a_mistake_has_its_name_in_each_kind_of_cache(self):
        """A cache that keeps what the next token sees, and no more; a mask in which each token sees itself."""
        class Older(Decoder):
            def past_of_call(self, state, past, order):
                return {**past, "order": np.where(past["order"] < state.count[:, None] - self.window + 1, -1, past["order"])}

        class Unmasked(Older):
            def allowed(self, state, queries, keys):
                queries, keys = queries[:, :, None], keys[:, None, :]
                far = queries - keys
                return (keys >= 0) & (far >= 0) & ((far < self.window) | (queries.shape[1] > 1 and state.calls > 0))

        class FirstRow(Decoder):
            def allowed(self, state, queries, keys):
                n, m = queries.shape[1], keys.shape[1]
                column, own = np.arange(m), np.arange(m - n, m)[:, None]
                return (column <= own) & (queries[:, :, None] >= 0) & ((keys[:1, None, :] >= 0) | (column == own))

        for adapter, options, name in ((Older(window=6, kept=2, layers=3), {"window": 6}, "first_tokens_overwritten"),
                                       (Unmasked(window=6, layers=3), {"window": 6}, "window_not_masked_in_chunks"), (FirstRow(layers=3), {}, "mask_of_first_row")):
            adapter.whole = Decoder(layers=3, window=adapter.window, kept=adapter.kept).at_once
            self.assertIn(name, names(checked(adapter, **options)))

    def test_what_was_taken_back_tells_one_too_many_from_one_too_few(self):
        class TooFew(Decoder):
            def truncate(self, state, length):
                return Decoder.truncate(self, state, length + 1)

        self.assertEqual(names(checked(TooFew())), set())
        self.assertEqual(names(checked(mistake_called("one_too_many_taken_back").made(seed=3))), {"one_too_many_taken_back"})

    def test_positions_that_a_loop_gives_wrongly(self):
        """It counts them itself, with padding and without."""
        class Ahead(Decoder):
            def told(self, state, order, given, layer):
                return given + (state.calls > 0)

            def counted(self, state, order, layer):
                return self.told(state, order, super().counted(state, order, layer), layer)

        for positions in ("rotary", "learned"):
            self.assertIn("positions_one_ahead", names(checked(Ahead(positions=positions, layers=3))))

    def test_a_name_needs_the_same_pattern(self):
        class Forgets(Decoder):
            """Its 20th token is never seen again, which no mistake of the list does."""

            def allowed(self, state, queries, keys):
                return super().allowed(state, queries, keys) & ((keys != 20) | (keys == queries[:, -1:]) | (state.calls == 0))[:, None, :]

        report = checked(Forgets())
        self.assertEqual(report.verdict, "different")
        self.assertEqual(names(report), set(), report)


class Reports(unittest.TestCase):
    """Public reports of wrong caches, as adapters: the right program is accepted, and the wrong one named."""

    def expect(self, right, wrong, mistake, first, others=(), **options):
        self.assertEqual(checked(right, **options).verdict, "the same", checked(right, **options))
        report = checked(wrong, **options)
        self.assertEqual(report.verdict, "different")
        self.assertIn(mistake, names(report), report)
        self.assertLessEqual(names(report), may_be(mistake) | set(others), report)
        self.assertEqual(report.first_wrong.schedule, first)

    def test_a_prompt_with_a_cache_is_not_causal(self):
        self.expect(Gpt(), Gpt(mask=lambda n, m: np.ones((n, m), bool)), "mask_skipped_with_cache", "whole")

    def test_a_chunk_is_masked_from_the_top_left(self):
        self.expect(Gpt(), Gpt(mask=lambda n, m: np.tril(np.ones((n, m), bool)) if n > 1 else np.ones((1, m), bool)), "chunk_masked_top_left", "chunks of 2")

    def test_the_offset_jumps_after_the_prompt(self):
        self.expect(Gpt(), Gpt(offset=lambda past, n, prompt: past + prompt), "positions_jump", "two calls")

    def test_padding_counts_as_positions(self):
        self.expect(Gpt(), Gpt(counts_padding=True), "padding_counted", "padded left")

    def test_beams_take_each_other_s_cache(self):
        self.expect(Gpt(), Gpt(reorders=False), "not_reordered", "reordered")

    def test_a_bias_of_one_step(self):
        self.expect(Falcon(False), Falcon(True), "alibi_of_one_step", "two calls", {"positions_restart", "positions_counted_twice"}, kind="alibi")
        self.expect(Falcon(False), Falcon(True, in_chunks=False), "alibi_of_one_step", "two calls", kind="alibi")

    def test_a_page_too_many(self):
        for page in (4, 16):
            self.expect(Paged(page, False), Paged(page, True), "page_too_many", "step by step")

    def test_packed_sequences_see_each_other(self):
        self.expect(Gpt(), Gpt(sees_documents=True), "packed_seen", "packed")


class Gpt(attn.Calls):
    """Learned positions, and a mask that generate() would give."""

    def __init__(self, mask=None, offset=lambda past, n, prompt: past, counts_padding=False, reorders=True, sees_documents=False):
        random = np.random.default_rng(8)
        self.mask = mask or (lambda n, m: np.tril(np.ones((n, m), bool), m - n))
        self.offset, self.counts_padding, self.reorders, self.sees_documents = offset, counts_padding, reorders, sees_documents
        self.tokens, self.places, self.head = (random.standard_normal(shape) for shape in ((64, 16), (200, 16), (16, 64)))
        self.layers = [{name: random.standard_normal((16, 16)) / 4 for name in "qkvo"} for _ in range(2)]

    def start(self, batch):
        return {"cache": [None, None], "past": 0, "prompt": 0}

    def whole(self, ids):
        n = ids.shape[1]
        return self.forward(ids, np.arange(n)[None], [None, None], lambda n, m: np.tril(np.ones((n, n), bool)))[0]

    def step(self, ids, state, mask=None, positions=None):
        n, past = ids.shape[1], state["past"]
        if positions is None or self.counts_padding:
            positions = self.offset(past, n, state["prompt"]) + np.arange(n)[None]
        hidden = (lambda n, m: self.mask(n, m)) if mask is None else (lambda n, m: self.mask(n, m) & np.asarray(mask, bool)[:, None, None, :])
        logits, cache = self.forward(ids, positions, state["cache"], hidden)
        return logits, {"cache": cache, "past": past + n, "prompt": state["prompt"] or n}

    def packed(self, ids, documents, positions):
        one = documents[:, None, :, None] == documents[:, None, None, :]
        return self.forward(ids, positions, [None, None], lambda n, m: np.tril(np.ones((n, m), bool)) & (one | self.sees_documents))[0]

    def reorder(self, state, rows):
        if len(rows) == len(state["cache"][0][0]) and not self.reorders:
            return state
        return {**state, "cache": [(k[rows], v[rows]) for k, v in state["cache"]]}

    def forward(self, ids, positions, cache, mask):
        x, new = self.tokens[ids] + self.places[positions], []
        for weights, past in zip(self.layers, cache):
            q, k, v = (self.heads(norm(x) @ weights[name]) for name in "qkv")
            if past is not None:
                k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
            scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(8)
            y = softmax(np.where(mask(q.shape[2], k.shape[2]), scores, -1e9)) @ v
            x = x + y.transpose(0, 2, 1, 3).reshape(x.shape) @ weights["o"]
            new.append((k, v))
        return norm(x) @ self.head, new

    def heads(self, x):
        return x.reshape(*x.shape[:2], 2, 8).transpose(0, 2, 1, 3)


class Falcon(attn.Calls):
    def __init__(self, is_wrong, in_chunks=True):
        self.model, self.is_wrong, self.in_chunks = Gpt(), is_wrong, in_chunks
        self.model.places[:] = 0

    def start(self, batch):
        return [None, None]

    def step(self, ids, state):
        past = 0 if state[0] is None else state[0][0].shape[2]
        n = ids.shape[1]
        of_keys = np.concatenate([np.zeros(past), np.arange(n)]) if self.is_wrong and (n == 1 or self.in_chunks) else np.arange(past + n)
        slopes = np.array([0.5, 0.25])[None, :, None, None]
        x, new = self.model.tokens[ids], []
        for weights, before in zip(self.model.layers, state):
            q, k, v = (self.model.heads(norm(x) @ weights[name]) for name in "qkv")
            if before is not None:
                k, v = np.concatenate([before[0], k], 2), np.concatenate([before[1], v], 2)
            scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(8) + slopes * of_keys
            y = softmax(np.where(np.tril(np.ones((n, past + n), bool), past), scores, -1e9)) @ v
            x = x + y.transpose(0, 2, 1, 3).reshape(x.shape) @ weights["o"]
            new.append((k, v))
        return norm(x) @ self.model.head, new


class Paged(attn.Calls):
    """Keys and values in a pool, where other requests' are."""

    def __init__(self, page, is_wrong):
        self.page, self.is_wrong, self.model = page, is_wrong, Gpt()
        self.pool = np.random.default_rng(2).standard_normal((2, 2, 3000, page, 2, 8))
        self.free = iter(range(3000))

    def start(self, batch):
        if batch > 1:
            raise NotImplementedError("one row")
        return {"table": [], "length": 0}

    def step(self, ids, state):
        n, past, page = ids.shape[1], state["length"], self.page
        while len(state["table"]) < (past + n) // page + 1:  # the next page as soon as one is full
            state["table"].append(next(self.free))
        x = self.model.tokens[ids] + self.model.places[past:past + n]
        for layer, weights in enumerate(self.model.layers):
            q, k, v = (self.model.heads(norm(x) @ weights[name]) for name in "qkv")
            for t in range(n):
                where = state["table"][(past + t) // page], (past + t) % page
                self.pool[layer, 0][where], self.pool[layer, 1][where] = k[0, :, t], v[0, :, t]
            length = past + n
            table = state["table"] if self.is_wrong and n == 1 else state["table"][:-(-length // page)]
            read = (len(table) - 1) * page + (length - 1) % page + 1
            keys, values = (self.pool[layer, i][table].reshape(-1, 2, 8)[:read].transpose(1, 0, 2)[None] for i in range(2))
            allowed = np.tril(np.ones((n, read), bool), past) | (np.arange(read) >= length)
            y = softmax(np.where(allowed, q @ np.swapaxes(keys, 2, 3) / np.sqrt(8), -1e9)) @ values
            x = x + y.transpose(0, 2, 1, 3).reshape(x.shape) @ weights["o"]
        return norm(x) @ self.model.head, {"table": state["table"], "length": past + n}


def small_gpt(width=8, layers=2, vocabulary=40):
    """A config and a state dict, as nn.Linear has its weights."""
    random = np.random.default_rng(6)
    shapes = {"wte.weight": (vocabulary, width), "wpe.weight": (160, width), "ln_f.weight": (width,), "ln_f.bias": (width,)}
    for i in range(layers):
        for name, out, into in (("attn.c_attn", 3 * width, width), ("attn.c_proj", width, width), ("mlp.c_fc", 16, width), ("mlp.c_proj", width, 16)):
            shapes.update({f"h.{i}.{name}.weight": (out, into), f"h.{i}.{name}.bias": (out,)})
        shapes.update({f"h.{i}.ln_{j}.{name}": (width,) for j in (1, 2) for name in ("weight", "bias")})
    weights = {name: random.standard_normal(shape) * 0.4 + (len(shape) == 1) for name, shape in shapes.items()}
    return {"model_type": "gpt2", "n_head": 2, "n_layer": layers, "n_embd": width, "activation_function": "gelu"}, weights


class Published(attn.Calls):
    """Another program with these weights. Its state is the ids and positions so far: it computes all again."""

    def __init__(self, positions_of=lambda past, n, prompt: past + np.arange(n), known=True, given=None):
        self.config, self.names = small_gpt()
        self.positions_of = positions_of
        if known:
            self.weights = lambda: given or (self.config, self.names)

    def start(self, batch):
        return np.zeros((batch, 0), int), np.zeros(0, int), 0

    def step(self, ids, state):
        before, places, prompt = state
        ids, places = np.concatenate([before, ids], 1), np.concatenate([places, self.positions_of(before.shape[1], ids.shape[1], prompt)])
        x, w = self.names["wte.weight"][ids] + self.names["wpe.weight"][places % 160], self.names
        for i in range(2):
            h = self.linear(f"h.{i}.attn.c_attn", self.norm(f"h.{i}.ln_1", x))
            q, k, v = (one.reshape(*ids.shape, 2, 4).swapaxes(1, 2) for one in np.split(h, 3, -1))
            scores = np.where(np.tril(np.ones((ids.shape[1],) * 2, bool)), q @ k.swapaxes(2, 3) / 2, -np.inf)
            x = x + self.linear(f"h.{i}.attn.c_proj", (softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape))
            h = self.linear(f"h.{i}.mlp.c_fc", self.norm(f"h.{i}.ln_2", x))
            x = x + self.linear(f"h.{i}.mlp.c_proj", 0.5 * h * (1 + np.vectorize(math.erf)(h / 2 ** 0.5)))
        n = ids.shape[1] - before.shape[1]
        return self.norm("ln_f", x)[:, -n:] @ w["wte.weight"].T, (ids, places, prompt or n)

    def linear(self, name, x):
        return x @ self.names[name + ".weight"].T + self.names[name + ".bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * self.names[name + ".weight"] + self.names[name + ".bias"]


class Numbers(unittest.TestCase):
    """Where weights are known, a mistake is known by its numbers."""

    PLACES = {"positions_jump": lambda past, n, prompt: past + prompt + np.arange(n), "positions_one_ahead": lambda past, n, prompt: past + (past > 0) + np.arange(n),
              "positions_restart": lambda past, n, prompt: np.arange(n), "positions_counted_twice": lambda past, n, prompt: 2 * past + np.arange(n)}

    def test_what_has_one_pattern_is_told_apart(self):
        self.assertEqual(checked(Published(), vocabulary=40).verdict, "the same", checked(Published(), vocabulary=40))
        for name, places in self.PLACES.items():
            with self.subTest(mistake=name):
                report = checked(Published(places), vocabulary=40)
                self.assertEqual(names(report), {name}, report)
                self.assertTrue(report.by_numbers)

    def test_without_weights_it_is_a_set(self):
        report = checked(Published(self.PLACES["positions_jump"], known=False), vocabulary=40)
        self.assertLess({"positions_jump"}, names(report), report)
        self.assertFalse(report.by_numbers)

    def test_no_name_where_the_numbers_are_those_of_none(self):
        report = checked(Published(lambda past, n, prompt: past + 3 * (past > 0) + np.arange(n)), vocabulary=40)
        self.assertEqual((report.verdict, names(report)), ("different", set()), report)

    def test_a_whole_that_is_wrong_is_seen(self):
        report = checked(Published(lambda past, n, prompt: past + np.arange(n) + 1), vocabulary=40)
        self.assertEqual(report.first_wrong.schedule, "whole")
        self.assertIn("these weights", report.checked)

    def test_weights_that_are_none(self):
        config, weights = small_gpt()
        for given, word in (("x", "config and a state dict"), (({}, weights), "model_type is None"), (({**config, "n_head": None}, weights), "num_attention_heads"),
                            (({**config, "activation_function": "relu9"}, weights), "relu9"), ((config, {}), "has no wte.weight"),
                            (({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                               "rope_parameters": {"rope_type": "yarn"}}, weights), "rotation")):
            with self.subTest(word=word), self.assertRaises(attn.Error) as caught:
                checked(Published(given=given), vocabulary=40)
            self.assertIn(word, str(caught.exception))

    def test_weights_of_another_model_are_not_used(self):
        adapter = Published(self.PLACES["positions_jump"])
        adapter.whole = lambda ids: Published(known=False).step(ids, adapter.start(len(ids)))[0]
        adapter.weights = lambda: (adapter.config, {name: 2 * weight for name, weight in adapter.names.items()})
        report = checked(adapter, vocabulary=40)
        self.assertIn("not what the config and the weights give", report.left_out["the numbers of mistakes"])
        self.assertFalse(report.by_numbers)


class Groups(unittest.TestCase):
    def test_what_rows_with_padding_do_hides_no_name(self):
        report = checked(Gpt(mask=lambda n, m: np.tril(np.ones((n, m), bool)) if n > 1 else np.ones((1, m), bool), counts_padding=True))
        self.assertEqual(names(report), {"chunk_masked_top_left"}, report)
        self.assertIn("padded left", report.not_explained)
        self.assertIn("that does not explain", str(report))

    def test_tables_in_float32_are_roundings(self):
        class Coarse(Gpt):
            def step(self, ids, state, mask=None, positions=None):
                logits, state = super().step(ids, state, mask, positions)
                return logits * (1 + 3e-8 * (mask is not None)), state

        report = checked(Coarse())
        self.assertEqual(report.verdict, "the same", report)
        self.assertIn("float32", report.checked)


class PackedAlone(unittest.TestCase):
    def test_a_model_without_a_cache_is_asked_for_packed_sequences(self):
        class NoCache(Gpt):
            def start(self, batch):
                raise NotImplementedError("no cache")

        self.assertEqual(checked(NoCache()).verdict, "the same", checked(NoCache()))
        report = checked(NoCache(sees_documents=True))
        self.assertEqual(report.first_wrong.schedule, "packed")
        self.assertLessEqual(names(report), may_be("packed_seen"), report)
        self.assertIn("packed_seen", names(report))


class Lines(unittest.TestCase):
    """The arrays between which a call goes wrong, by two recordings."""

    def setUp(self):
        try:
            find_program()
        except attn.Error as error:
            self.skipTest(str(error))

    def line_of(self, text):
        return next(i + 1 for i, line in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines()) if text in line and "line_of" not in line)

    def test_positions_that_restart(self):
        report = checked(Restarts())
        self.assertEqual(names(report) & {"positions_restart"}, {"positions_restart"}, report)
        self.assertEqual((report.between.first_wrong.variable, report.between.first_wrong.line), ("places", self.line_of("places = np.arange(ids.shape[1])")), report)

    def test_heads_are_not_tokens(self):
        row, placed = Row(0, 2, 4), ["[:, :, 2:4, :] of A", "[:, 2:4, :] of A"]
        for part, is_wrong in (("[:, 1:3, :, :] of A", False), ("[:, :, 1:3, :] of A", True), ("[:, :, 2:4, :] of A", False), ("[0:2, :] of A", False),
                               ("[1:3, :] of A", True), ("[0:1, :2] of B", False), ("", False)):
            self.assertEqual(is_misplaced(part, row, placed), is_wrong, part)
        self.assertFalse(is_misplaced("[:, :, 1:3, :] of A", row, [*placed, "[:, 2:4, :, :] of A"]))

    def test_code_without_a_file(self):
        namespace = {"Gpt": Gpt, "np": np}
        exec("class Typed(Gpt):\n    def reorder(self, state, rows):\n        return state", namespace)
        self.assertEqual(checked(namespace["Typed"]()).verdict, "different")


class Restarts(attn.Calls):
    def __init__(self):
        self.model = Gpt()

    def start(self, batch):
        return [None, None]

    def step(self, ids, state):
        places = np.arange(ids.shape[1])
        return self.model.forward(ids, places[None], state, lambda n, m: np.tril(np.ones((n, m), bool), m - n))


class Hostile(unittest.TestCase):
    """A plain message, and never "the same"."""

    def undecided(self, adapter, *words, **options):
        report = checked(adapter, **options)
        self.assertEqual(report.verdict, "undecided", report)
        for word in words:
            self.assertIn(word, str(report))

    def refused(self, adapter, *words, **options):
        with self.assertRaises(attn.Error) as caught:
            checked(adapter, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def changed(self, change, **attributes):
        """A right decoder whose step() is changed: change(logits, state, ids, calls)"""
        model, calls = Decoder(), []

        class Changed(attn.Calls):
            def start(self, batch):
                return model.start(batch)

            def step(self, ids, state):
                calls.append(ids.shape)
                given = np.asarray(ids).copy()
                logits, state = model.step(given, state)
                return change(logits, state, ids, calls)

        return type("Changed", (Changed,), attributes)()

    def test_not_finite(self):
        self.undecided(self.changed(lambda logits, state, ids, calls: (logits * np.nan, state)), "not finite", "position 0")

        def later(logits, state, ids, calls):
            return (logits * np.nan if ids.shape[1] == 1 else logits), state

        self.assertEqual(checked(self.changed(later)).verdict, "different")

    def test_shapes(self):
        self.refused(self.changed(lambda logits, state, ids, calls: (logits[0, 0], state)), "(64,)", "expected (1, 37, vocabulary)")
        self.refused(self.changed(lambda logits, state, ids, calls: (np.concatenate([logits] * 2), state)), "(2, 37, 64)")
        self.refused(self.changed(lambda logits, state, ids, calls: logits), "expected logits and the state")
        self.refused(self.changed(lambda logits, state, ids, calls: ("logits", state)), "37 tokens")
        self.undecided(self.changed(lambda logits, state, ids, calls: (logits[:1], state)), "batch", "(1, 5, 64)")
        self.undecided(self.changed(lambda logits, state, ids, calls: (logits[:, :, :7] if ids.shape[1] == 2 else logits, state)), "chunks of 2")

    def test_it_fails(self):
        def raised(logits, state, ids, calls):
            raise KeyError("no such layer")

        self.refused(self.changed(raised), "KeyError", "37 tokens", "max_tokens=")

        def raised_later(logits, state, ids, calls):
            if ids.shape[1] == 16:
                raise RuntimeError("out of memory")
            return logits, state

        self.undecided(self.changed(raised_later), "chunks of 16", "RuntimeError: out of memory")

    def test_it_changes_its_ids(self):
        def changed(logits, state, ids, calls):
            ids[:] = 0
            return logits, state

        self.undecided(self.changed(changed), "changes the ids")

    def test_random_results(self):
        self.undecided(self.changed(lambda logits, state, ids, calls: (logits + np.random.standard_normal(logits.shape), state)), "different results", "dropout")
        own = np.random.default_rng(1)
        report = checked(self.changed(lambda logits, state, ids, calls: (logits + own.standard_normal(logits.shape), state)))
        self.assertEqual(report.verdict, "different")
        self.assertIn("random", report.hint)

    def test_one_id(self):
        self.undecided(Decoder(), "vocabulary of one id", vocabulary=1)

    def test_nothing_depends_on_the_past(self):
        self.undecided(self.changed(lambda logits, state, ids, calls: (np.eye(64)[np.asarray(ids)], state)), "could not be seen")

    def test_no_cache(self):
        class Without(attn.Calls):
            def __init__(self):
                self.model = Decoder()

            def start(self, batch):
                return None

            def step(self, ids, state):
                return self.model.at_once(ids), None

        report = checked(Without())
        self.assertEqual(report.verdict, "different")
        self.assertLessEqual(names(report), {"cache_ignored", "state_not_carried"} | may_be("positions_restart"))

    def test_state_that_is_kept_outside(self):
        model = Decoder()

        class Global(attn.Calls):
            state = model.start(1)

            def start(self, batch):
                return None

            def step(self, ids, state):
                logits, Global.state = model.step(ids, Global.state)
                return logits, None

        report = checked(Global())
        self.assertEqual(report.verdict, "different")
        self.assertEqual(report.first_wrong.schedule, "asked again")
        self.assertIn("last_request", names(report))

    def test_one_state_at_a_time(self):
        model = Decoder()

        class One(attn.Calls):
            def start(self, batch):
                self.state = model.start(batch)

            def step(self, ids, state):
                logits, self.state = model.step(ids, self.state)
                return logits, None

        report = checked(One())
        self.assertEqual(report.verdict, "different")
        self.assertIn("one_state = True", report.hint)
        One.one_state = True
        self.assertEqual(checked(One()).verdict, "the same")

    def test_lists_and_other_arguments(self):
        model = Decoder()

        class Lists(attn.Calls):
            like = "list"

            def start(self, batch):
                return model.start(batch)

            def step(self, ids, state):
                assert isinstance(ids, list)
                logits, state = model.step(np.array(ids), state)
                return logits.tolist(), state

        self.assertEqual(checked(Lists()).verdict, "the same")
        self.refused(Lists(), "like is 'jaxx'", like="jaxx")
        self.refused(Lists(), "max_tokens is 3", max_tokens=3)
        self.refused(Lists(), "kind is 'x'", kind="x")
        self.refused(Lists(), "cache is for", cache="static")
        for name, value in (("cache_type", "int9"), ("cache_type", 8), ("page_size", "x"), ("page_size", -4)):
            self.refused(type("Said", (Lists,), {name: value})(), f"{name} is {value!r}")
        for no_model, word in ((Lists, "is a class"), (len, "no model of transformers"), (None, "no model of transformers")):
            self.refused(no_model, word)
        with self.assertRaises(attn.Error):
            attn.check_calls(Lists())
        self.refused(attn.Calls(), "not implemented")


class Reported(unittest.TestCase):
    def test_json_and_files(self):
        report = checked(mistake_called("not_reordered").made())
        self.assertEqual(json.loads(json.dumps(report.json))["verdict"], "different")
        self.assertTrue(report.json["looks_like"][0]["link"].startswith("https://github.com/"))
        with tempfile.TemporaryDirectory() as folder:
            report.save(folder)
            self.assertEqual(sorted(os.listdir(folder)), ["verdict.json", "verdict.txt"])
        self.assertIn("not_reordered", report._repr_html_())
        self.assertIn("first in reordered", repr(report))

    def test_assert_calls(self):
        assert_calls(Decoder(), vocabulary=64)
        with self.assertRaises(AssertionError) as caught:
            assert_calls(mistake_called("not_reordered").made(), vocabulary=64)
        self.assertIn("reordered", str(caught.exception))


class OnThePage(unittest.TestCase):
    def test_the_example_prints_what_the_page_says(self):
        page = (ROOT / "docs" / "calls.md").read_text(encoding="utf-8")
        program, output = page.split("```python\n")[1].split("```")[0], page.split("```text\n")[1].split("```")[0]
        try:
            environment = {**os.environ, "ATTN": find_program(), "PYTHONPATH": str(ROOT / "python")}
        except attn.Error as error:
            self.skipTest(str(error))
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.py").write_text(program, encoding="utf-8")
            printed = subprocess.run([sys.executable, "mine.py"], cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.strip(), output.strip())


class ByPyTorch(unittest.TestCase):
    def setUp(self):
        try:
            import torch
            import transformers
        except ImportError as error:
            self.skipTest(str(error))
        self.torch, self.transformers = torch, transformers

    def test_the_decoder_gives_pytorch_s_numbers(self):
        """Rotary attention of two layers, with scaled_dot_product_attention."""
        torch, model = self.torch, Decoder(seed=4)
        ids = np.arange(12)[None] * 5 % 64
        x = torch.from_numpy(model.embedding[ids])

        def normed(x):
            return torch.nn.functional.rms_norm(x, (8,), eps=1e-5)

        def rotated(x):
            angles = torch.arange(12)[:, None] * 10.0 ** -torch.arange(2).double()
            turned = torch.view_as_complex(torch.stack([x[..., :2], x[..., 2:]], -1).contiguous()) * torch.polar(torch.ones_like(angles), angles)
            return torch.cat([turned.real, turned.imag], -1)

        for weights in model.weights:
            weights = {name: torch.from_numpy(weight) for name, weight in weights.items()}
            q, k, v = ((normed(x) @ weights[name]).view(1, 12, 2, 4).transpose(1, 2) for name in "qkv")
            y = torch.nn.functional.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
            x = x + y.transpose(1, 2).reshape(1, 12, 8) @ weights["o"]
            x = x + (normed(x) @ weights["up"]).tanh() @ weights["down"]
        expected = (normed(x) @ torch.from_numpy(model.head)).numpy()
        np.testing.assert_allclose(model.at_once(ids), expected, rtol=1e-10, atol=1e-10)

    def test_models_of_transformers_as_they_are(self):
        torch, library = self.torch, self.transformers
        sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
                     initializer_range=0.2)
        torch.manual_seed(0)
        for model in (library.LlamaForCausalLM(library.LlamaConfig(**sizes)), library.GPTNeoXForCausalLM(library.GPTNeoXConfig(**sizes))):
            report = attn.check_calls(model.double().eval())
            self.assertEqual(report.verdict, "the same", report)
            self.assertIn("steps after left padding", report.pattern)
        with self.assertRaises(attn.Error):
            attn.check_calls(model.train())


if __name__ == "__main__":
    unittest.main()
