#!/usr/bin/env python3
"""Tests that attn diff walks a recorded program from its inputs: walk_test.py ATTN

One pre-norm encoder layer in NumPy, under names that say nothing, against attn run's. Each mistake is one change of its text;
asked are the first wrong step, the line that went wrong, and the name of the mistake.
"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

from recorded import RecordTest, np

ATTN = None
HEADS, WIDTH, HIDDEN, TOKENS = 2, 8, 12, 5

LAYER = """
    import numpy as np

    w = dict(np.load("weights.npz"))

    def scaled_rows(a, g, b):
        c = a - a.mean(-1, keepdims=True)
        return c / np.sqrt((c ** 2).mean(-1, keepdims=True) + 1e-5) * g + b

    def apart(a):
        return a.reshape(5, 2, 4).transpose(1, 0, 2)

    def mix(a, b, c, hidden):
        t = a @ b.transpose(0, 2, 1)
        t = t / np.sqrt(4)
        t = np.where(hidden, -1e9, t)
        t = np.exp(t - t.max(-1, keepdims=True))
        t = t / t.sum(-1, keepdims=True)
        return t @ c

    def later(n):
        return np.triu(np.ones((n, n)), 1) == 1

    def block(a):
        h = scaled_rows(a, w["norm1.weight"], w["norm1.bias"])
        p = h @ w["self_attn.in_proj_weight"].T + w["self_attn.in_proj_bias"]
        f, g, i = np.split(p, 3, axis=-1)
        f = apart(f)
        g = apart(g)
        i = apart(i)
        m = later(5)
        j = mix(f, g, i, m)
        k = j.transpose(1, 0, 2).reshape(5, 8)
        l = k @ w["self_attn.out_proj.weight"].T + w["self_attn.out_proj.bias"]
        a = a + l
        h = scaled_rows(a, w["norm2.weight"], w["norm2.bias"])
        u = np.maximum(h @ w["linear1.weight"].T + w["linear1.bias"], 0)
        v = u @ w["linear2.weight"].T + w["linear2.bias"]
        return a + v

    y = block(np.load("input.npz")["x"])
    """


def line_of(text):
    """The number of a line of the program as it is written, without the empty line in front."""
    return next(i for i, line in enumerate(LAYER.strip("\n").splitlines(), 1) if text in line)


class Walk(RecordTest):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(0).normal
        tensors = {"self_attn.in_proj_weight": (3 * WIDTH, WIDTH), "self_attn.in_proj_bias": (3 * WIDTH,),
                   "self_attn.out_proj.weight": (WIDTH, WIDTH), "self_attn.out_proj.bias": (WIDTH,),
                   "linear1.weight": (HIDDEN, WIDTH), "linear1.bias": (HIDDEN,), "linear2.weight": (WIDTH, HIDDEN),
                   "linear2.bias": (WIDTH,), "norm1.weight": (WIDTH,), "norm1.bias": (WIDTH,), "norm2.weight": (WIDTH,),
                   "norm2.bias": (WIDTH,)}
        self.weights = {name: draw(size=shape) for name, shape in tensors.items()}
        np.savez(self.folder / "input.npz", x=draw(size=(TOKENS, WIDTH)))
        self.make_reference()

    def make_reference(self):
        np.savez(self.folder / "weights.npz", **self.weights)
        self.attn("run", "encoder-layer", "--heads", HEADS, "--norm", "pre", "--mask", "causal", "--input", "input.npz", "--weights",
                  "weights.npz", "--trace", "reference.npz", "--quiet")

    def attn(self, *words, code=0):
        ended = subprocess.run([ATTN, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stdout

    def compared(self, *edits, code=1):
        program = LAYER
        for old, new in edits:
            self.assertEqual(program.count(old), 1, old)
            program = program.replace(old, new)
        self.record(program)
        return json.loads(self.attn("diff", "reference.npz", "mine.npz", "--diagnose", "--json", code=code))

    def assert_found(self, edits, step, text, *names):
        said = self.compared(*edits)
        self.assertRegex(said["first_wrong"], step)
        origin = next(one["origin"] for one in said["steps"] if one["step"] == said["first_wrong"])
        self.assertEqual(origin["line"], line_of(text), origin)
        self.assertEqual([one["id"] for one in said["looks_like"]], list(names))

    def test_a_correct_one_is_the_same(self):
        self.assertTrue(self.compared(code=0)["same"])

    def test_the_last_token_of_the_result_is_compared(self):
        self.assertTrue(self.compared(("return a + v", "return (a + v)[-1:]"), code=0)["same"])
        self.assert_found([("return a + v", "return (a + v)[-1:]"), ("np.sqrt(4)", "np.sqrt(8)")], r"scaled", "t / np.sqrt(4)",
                          "scale_d_model")

    def test_queries_where_keys_belong(self):
        """Both are right, and no number tells whether they are taken or used in the wrong order."""
        self.assert_found([("f, g, i = np.split", "g, f, i = np.split")], r"head\.0\.", "t = a @ b", "qkv_swapped")

    def test_both_operands_of_the_scores_are_wrong(self):
        """Nothing follows from the queries alone, or from the keys."""
        said = self.compared(("f = apart(f)", "f = f.reshape(2, 5, 4)"), ("g = apart(g)", "g = g.reshape(2, 5, 4)"))
        self.assertRegex(said["first_wrong"], r"head\.0\.queries")
        self.assertEqual([one["id"] for one in said["looks_like"]], ["heads_unpermuted_split"])

    def test_a_mask_that_is_made_elsewhere(self):
        self.assert_found([("np.triu(np.ones((n, n)), 1)", "np.triu(np.ones((n, n)), 0)")], r"head\.0\.(masked|weights)", "np.triu",
                          "causal_strict")
        self.assert_found([("np.triu(np.ones((n, n)), 1)", "np.triu(np.ones((n, n)), 2)")], r"head\.0\.(masked|weights)", "np.triu",
                          "causal_next")

    def test_weights_that_are_changed_after_the_softmax(self):
        self.assert_found([("        return t @ c", "        t = t * (np.arange(5) != 1) / 0.8\n        return t @ c")],
                          r"head\.0\.weights", "return t @ c", "dropout_on")

    def test_keys_that_are_lost_beside_right_ones(self):
        """Rows of zeros are none of a step's, though the others are right."""
        said = self.compared(("g = apart(g)", "g = apart(g); o = g[:, :4]; g = np.concatenate([0 * o, g[:, 4:]], 1)"))
        self.assertRegex(said["first_wrong"], r"head\.0\.keys")
        self.assertIsNone(said["between"])
        origin = next(one["origin"] for one in said["steps"] if one["step"] == said["first_wrong"] and one["verdict"] == "bug")
        self.assertEqual(origin["line"], line_of("g = apart(g)"))

    def test_an_interval_begins_at_what_was_given_not_at_whole_numbers_computed_from_it(self):
        """The reference begins after the embedding, so that nothing tells whether the ids are right."""
        said = self.compared(('y = block(np.load("input.npz")["x"])', """ids = np.arange(5)
    later_ids = ids + 1
    table = np.cos(np.outer(np.arange(7.0), np.arange(8.0)))
    e = np.load("input.npz")["x"] + table[later_ids] - table[ids]
    y = block(e)"""))
        self.assertEqual(said["between"]["last_right"]["variable"], "ids")
        self.assertEqual(said["between"]["first_wrong"]["variable"], "e")

    def test_the_residual_of_the_norm(self):
        self.assert_found([("a = a + l", "a = h + l")], r"residual1", "a = a + l", "residual_after_norm")

    def test_a_small_mistake_is_found_where_it_is_made(self):
        """Farther on, where little is added to the input, wrong numbers are near to the right ones."""
        for name in ("self_attn.out_proj.weight", "linear2.weight"):
            self.weights[name] /= 20
        self.make_reference()
        self.assert_found([("keepdims=True) + 1e-5)", "keepdims=True) + 0.05)")], r"norm1\.output", "return c / np.sqrt")

    def test_what_nothing_wrong_follows_from_is_never_at_fault(self):
        """The mask is a right one the other way round, and another table and a log are of no use."""
        said = self.compared(("m = later(5)", "m = later(5); unused = np.cos(a); logged = p.mean(-1)"), code=0)
        self.assertTrue(said["same"])

    def test_what_a_call_returned_in_place_of_a_sum_is_between_that_call_and_its_line(self):
        """The last sum is missing: y has the numbers of the feed-forward, which are right, and could have been added to in either line."""
        said = self.compared(("v = u @", "v = last(u) #"), ("return a + v", "o = last(u)\n        return o"),
                             ("    def block(a):", """    def last(u):
        return u @ w["linear2.weight"].T + w["linear2.bias"]

    def block(a):"""))
        self.assertEqual([said["between"][end]["function"] for end in ("last_right", "first_wrong")], ["last", "block"])

    def test_right_arrays_that_one_line_made_and_another_gave_in_the_wrong_order(self):
        """The fault is not in the helper, which makes queries, keys and values alike."""
        said = self.compared(("j = mix(f, g, i, m)", "j = mix(f, i, g, m)"))
        self.assertNotEqual(said["between"]["first_wrong"]["function"], "apart")


GROUPED = """
    import numpy as np

    w = dict(np.load("weights.npz"))
    x = np.load("input.npz")["x"]
    f = np.einsum("nc,grdc->rgnd", x, w["q_proj.weight"].reshape(2, 3, 4, 8))
    g = np.einsum("nc,gdc->gnd", x, w["k_proj.weight"].reshape(2, 4, 8))
    i = np.einsum("nc,gdc->gnd", x, w["v_proj.weight"].reshape(2, 4, 8))
    t = np.einsum("rgnd,gmd->rgnm", f, g)
    t = t / np.sqrt(4)
    t = np.exp(t - t.max(-1, keepdims=True))
    t = t / t.sum(-1, keepdims=True)
    j = np.einsum("rgnm,gmd->rgnd", t, i)
    y = np.einsum("rgnd,cgrd->nc", j, w["o_proj.weight"].reshape(8, 2, 3, 4))
    """


class Grouped(RecordTest):
    """Heads that share keys, with the axis of those that share them in front."""

    attn = Walk.attn

    def compared(self, old, new, code=1):
        draw = np.random.default_rng(1).normal
        np.savez(self.folder / "input.npz", x=draw(size=(5, 8)))
        np.savez(self.folder / "weights.npz", **{f"{name}_proj.weight": draw(size=shape) for name, shape in
                                                 (("q", (24, 8)), ("k", (8, 8)), ("v", (8, 8)), ("o", (8, 24)))})
        self.attn("run", "multi-head-attention", "--heads", 6, "--input", "input.npz", "--weights", "weights.npz", "--trace",
                  "reference.npz", "--quiet")
        self.assertEqual(GROUPED.count(old), 1, old)
        self.record(GROUPED.replace(old, new))
        return json.loads(self.attn("diff", "reference.npz", "mine.npz", "--diagnose", "--json", code=code))

    def test_each_array_of_a_correct_one_is_found(self):
        found = {one["mine"]: one["step"] for one in self.compared("np.sqrt(4)", "2", code=0)["found"]}
        self.assertEqual({name: found[name] for name in ("f", "t", "t#2", "t#4", "j")},
                         {"f": "head.{h}.queries", "t": "head.{h}.scores", "t#2": "head.{h}.scaled", "t#4": "head.{h}.weights",
                          "j": "head.{h}.context"})

    def test_the_line_with_a_wrong_scale_is_found(self):
        said = self.compared("np.sqrt(4)", "4")
        origin = next(one["origin"] for one in said["steps"] if one["step"] == said["first_wrong"])
        self.assertEqual((said["between"], origin["line"]), (None, 9))
        self.assertEqual([one["id"] for one in said["looks_like"]], ["scale_d_k"])


if __name__ == "__main__":
    ATTN = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
