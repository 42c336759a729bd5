#!/usr/bin/env python3
"""Tests of attn_record on programs in NumPy and C: numpy_test.py ATTN"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

from recorded import ROOT, Recorded, RecordTest, np

import attn_record

ATTN = None

ATTENTION = """
    import numpy as np

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def attention(q, k, v):
        scores = q @ k.T
        scores /= np.sqrt(k.shape[1])
        scores[np.triu(np.ones((4, 4)), 1) == 1] = -np.inf
        return softmax(scores) @ v

    q, k, v = np.random.default_rng(0).normal(size=(3, 4, 8))
    out = attention(q, k, v)
    """


class WhatItWasComputedFrom(RecordTest):
    def assert_reads(self, mine, **expected):
        self.assertEqual({name: mine.reads(name) for name in expected}, {name: sorted(of) for name, of in expected.items()})

    def test_a_statement_reads_its_variables_a_call_its_arguments_and_what_comes_back(self):
        mine = self.record(ATTENTION)
        self.assert_reads(mine, **{
            "q": [], "attention.scores": ["q", "k"], "attention.scores#2": ["attention.scores", "k"],
            "attention.scores#3": ["attention.scores#2"], "attention.softmax.e": ["attention.scores#3"],
            "attention.softmax.return": ["attention.softmax.e"],
            "attention.return": ["attention.scores#3", "attention.softmax.return", "v"], "out": ["attention.return"]})
        self.assertEqual(mine.called_from("attention.softmax.e"), [("mine.py", 11), ("mine.py", 14)])
        self.assertEqual(mine.called_from("out"), [])

    def test_the_version_before_the_statement_is_meant(self):
        mine = self.record("""
            import numpy as np
            x = np.ones((2, 2))
            y = 2 * x
            x = x + y
            z = x @ y
            x += z
            x[0] = y[1]
            y = (
                z -
                np.exp(
                    x))
            np.exp(y, out=z)
            """)
        self.assert_reads(mine, **{"y": ["x"], "x#2": ["x", "y"], "z": ["x#2", "y"], "x#3": ["x#2", "z"],
                                   "x#4": ["x#3", "y"], "y#2": ["z", "x#4"], "z#2": ["z", "y#2"]})

    def test_attributes_lists_dicts_and_comprehensions(self):
        mine = self.record("""
            import numpy as np

            class Cache:
                pass

            class Layer:
                def __init__(self, w):
                    self.w = w
                    self.cache = Cache()

                def __call__(self, x):
                    self.cache.keys = x @ self.w
                    self.last = self.cache.keys + 1
                    return self.last * 2

            w, x = np.eye(3), np.ones((2, 3))
            layers = [Layer(w), Layer(w)]
            for layer in layers:
                x = layer(x)
            parts = {"a": x + 1, "b": [w + 1]}
            heads = [np.tanh(part) for part in np.split(x, 2)]
            last = np.concatenate([head @ parts["b"][0] for head in heads])
            """)
        self.assert_reads(mine, **{
            "Layer.0.cache.keys": ["x", "w"], "Layer.0.last": ["Layer.0.cache.keys"], "Layer.0.return": ["Layer.0.last"],
            "x#2.0": ["Layer.0.return"], "Layer.1.cache.keys": ["x#2.0", "w"], "Layer.1.last": ["Layer.1.cache.keys"],
            "parts.a": ["x#2.1", "w"], "parts.b.0": ["x#2.1", "w"], "heads.0": ["x#2.1"], "heads.1": ["x#2.1"],
            "last": ["parts.a", "parts.b.0", "heads.0", "heads.1"]})

    def test_what_a_loop_fills_was_computed_from_all_that_the_loop_used(self):
        mine = self.record("""
            import numpy as np
            x, w = np.ones((2, 3)), np.ones((3, 3))
            out, scale = np.zeros((2, 3)), np.full(3, 2.0)
            for i in range(2):
                out[i] = x[i] @ w
                out[i] *= scale
            """)
        self.assert_reads(mine, **{"out#2": ["out", "x", "w", "scale"]})

    def test_an_array_that_is_not_recorded_hands_on_what_it_was_computed_from(self):
        mine = self.record("""
            import numpy as np
            x = np.ones(3)
            wave = x + 1j
            back = wave.real + x[0]
            temporary = x * 2
            y = temporary + 1
            """, "--only", "x", "--only", "back", "--only", "y")
        self.assert_reads(mine, back=["x"], y=["x"])

    @unittest.skipIf(sys.version_info < (3, 11), "Python does not tell where in a line a call stands")
    def test_an_argument_is_computed_from_what_stands_in_its_call(self):
        mine = self.record("""
            import numpy as np
            def softmax(x):
                e = np.exp(x)
                return e / e.sum()
            q, k, v, mask = np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3)), np.zeros((2, 2))
            out = softmax(q @ k.T +
                          mask) @ v
            """)
        self.assert_reads(mine, **{"softmax.x": ["q", "k", "mask"], "out": ["q", "k", "mask", "v", "softmax.return"]})

    def test_attributes_change_in_place_also_in_parts_and_elsewhere(self):
        mine = self.record("""
            import numpy as np

            class Tensor:
                def __init__(self, data):
                    self.data = data * 1

                def softmax(self):
                    self.data -= np.max(self.data)
                    return np.exp(self.data)

            class Cache:
                def __init__(self):
                    self.k = np.zeros((2, 2))

                def put(self, x, k):
                    self.k[:1] = x
                    view = self.k[1:]
                    view += k
                    return self.k * 2

            def mask(att, bias):
                att.data *= bias
                att.data[
                    att.data == 0] = -9
                return att.softmax() + att.data

            x, bias = np.ones(2), np.tril(np.ones((2, 2)))
            k = Cache().put(x, x + 1)
            att = Tensor(k)
            out = mask(att, bias)
            att = att.data + bias
            """)
        self.assert_reads(mine, **{
            "Cache.put.self.k": ["Cache.__init__.k", "x"], "Cache.put.view": ["Cache.put.self.k"],
            "Cache.put.view#2": ["Cache.put.view", "Cache.put.k"], "Cache.put.self.k#2": ["Cache.put.view", "Cache.put.k"],
            "Cache.put.return": ["Cache.put.self.k#2"], "mask.att.data": ["Tensor.__init__.data#2", "bias"],
            "mask.att.data#2": ["mask.att.data"], "mask.Tensor.softmax.data": ["mask.att.data#2"],
            "mask.return": ["mask.Tensor.softmax.return", "mask.Tensor.softmax.data"],
            "att": ["mask.Tensor.softmax.data", "bias"]})
        self.assertEqual(mine.place("mask.att.data"), ("mine.py", 22, "att.data"))
        self.assertEqual(mine.place("Cache.put.self.k"), ("mine.py", 16, "self.k"))

    def test_a_loop_that_fills_an_attribute_and_one_that_takes_other_objects(self):
        mine = self.record("""
            import numpy as np

            class Layer:
                def __init__(self, n):
                    self.w = np.zeros((3, n))

                def fill(self, x):
                    for i in range(3):
                        self.w[i] = x * i

            layers, x = [Layer(2), Layer(2)], np.ones(2)
            layers[0].fill(x)
            for layer in layers:
                layer.w[0] = x
            """)
        self.assertEqual(mine.names, ["Layer.__init__.w", "Layer.__init__#2.w", "x", "Layer.fill.w", "layer.w.0", "layer.w.1"])
        self.assert_reads(mine, **{"Layer.fill.w": ["Layer.__init__.w", "x"], "layer.w.0": ["Layer.fill.w", "x"],
                                   "layer.w.1": ["Layer.__init__#2.w", "x"]})

    def test_lists_and_dicts_of_an_object_are_looked_into(self):
        mine = self.record("""
            import numpy as np

            class Cache:
                __slots__ = ("kept", "layers", "scale")

                def __init__(self):
                    self.kept, self.layers, self.scale = {}, [], np.full(2, 0.5)

                def put(self, k):
                    self.kept["k"] = k * self.scale
                    self.layers.append(k)
                    self.layers.append(k + 1)

            cache = Cache()
            cache.put(np.ones(2))
            y = cache.kept["k"] + 1
            z = np.stack(cache.layers)
            """)
        self.assert_reads(mine, **{"Cache.put.kept.k": ["Cache.put.k", "Cache.__init__.scale"],
                                   "Cache.put.layers.1": ["Cache.put.k"], "y": ["Cache.put.kept.k"],
                                   "z": ["Cache.put.k", "Cache.put.layers.1"]})
        self.assertEqual(mine.same["Cache.put.layers.0"], "Cache.put.k")

    def test_what_a_list_or_a_hook_keeps_is_known(self):
        mine = self.record("""
            import numpy as np
            kept, outs, x = {}, [], np.ones(2)

            def double(x):
                y = x * 2
                kept.update(out=y)
                return y

            for i in range(2):
                x = double(x)
                outs.append(x)
            last = kept["out"] + outs[0]
            """)
        self.assertEqual(mine.same["outs.0"], "double.0.y")
        self.assertEqual([name for name in mine.names if name.startswith(("outs", "kept"))], [])
        self.assert_reads(mine, last=["x#2.0", "x#2.1"])

    def test_several_statements_on_a_line(self):
        mine = self.record("""
            import numpy as np
            def g(x):
                for i in range(2):
                    h = x * i; yield h
            x = np.ones(2)
            y = x * 2; z = y + 1; x, y = y * 1, x * 1
            for r in g(x): s = r + 1
            """)
        self.assert_reads(mine, **{"z": ["x", "y"], "r.1": ["g.h.1"], "s.1": ["x#2", "r.1"]})

    def test_through_a_class_of_tensors_the_callers_line_is_found(self):
        self.write("engine.py", """
            class Tensor:
                def __init__(self, data):
                    self.data = data

                def __matmul__(self, other):
                    return Tensor(self.data @ other.data)
            """)
        mine = self.record("""
            import numpy as np
            from engine import Tensor

            def attend(q, k):
                return q @ k

            q, k = Tensor(np.ones((2, 2))), Tensor(np.eye(2))
            scores = attend(q, k)
            """)
        *_, product = mine.names
        self.assertEqual(mine.place(product)[:2], ("engine.py", 6))  # which computed it, for an argument
        self.assertEqual(len(mine.reads(product)), 2)
        self.assertEqual(mine.called_from(product), [("mine.py", 5), ("mine.py", 8)])


class WhatIsRecorded(RecordTest):
    def test_each_assignment_is_recorded_in_order_with_file_line_and_variable(self):
        mine = self.record(ATTENTION)
        self.assertEqual(mine.names, ["q", "k", "v", "attention.scores", "attention.scores#2", "attention.scores#3",
                                      "attention.softmax.e", "attention.softmax.return", "attention.return", "out"])
        self.assertEqual(mine.place("attention.scores"), ("mine.py", 8, "scores"))
        self.assertEqual(mine.place("attention.scores#3"), ("mine.py", 10, "scores"))
        self.assertEqual(mine.place("attention.softmax.return"), ("mine.py", 5, "return"))
        self.assertEqual(mine.entries["attention.scores"]["function"], "attention")
        self.assertEqual(mine.entries["attention.scores"]["shape"], [4, 4])
        self.assertEqual(mine.entries["attention.scores"]["dtype"], "float64")
        self.assertEqual(mine.entries["out"]["same_as"], "attention.return")
        self.assertEqual(mine.same["attention.q"], "q")

    def test_values_are_those_at_the_line_and_not_later_ones(self):
        mine = self.record(ATTENTION).arrays
        np.testing.assert_array_equal(mine["attention.scores"], mine["q"] @ mine["k"].T)
        np.testing.assert_array_equal(mine["attention.scores#2"], mine["q"] @ mine["k"].T / np.sqrt(8))
        self.assertTrue(np.isinf(mine["attention.scores#3"][0, 1]) and np.isfinite(mine["attention.scores#2"][0, 1]))

    def test_the_script_computes_and_prints_what_it_does_alone(self):
        self.record(ATTENTION + "print(repr(out.tobytes()), __name__, __file__)\n")
        self.assertEqual(self.ended.stdout, self.run_python(self.folder / "mine.py").stdout)

    def test_what_a_loop_assigns_is_numbered_from_zero(self):
        mine = self.record("""
            import numpy as np
            def layer(x):
                y = x + 1
                return y
            x = np.zeros(2)
            for i in range(3):
                x = layer(x)
            x = x * 2
            rows = [layer(row)
                    for row in np.ones((2, 2))]
            """)
        self.assertEqual(mine.names, ["x", "layer.0.y", "x#2.0", "layer.1.y", "x#2.1", "layer.2.y", "x#2.2", "x#3",
                                      "layer#2.0.x", "layer#2.0.y", "layer#2.1.x", "layer#2.1.y"])
        self.assertEqual(mine.same["rows.1"], "layer#2.1.y")

    def test_a_loop_that_runs_once_gives_the_same_names(self):
        mine = self.record("import numpy as np\nx = np.zeros(2)\nfor i in range(1):\n    x = x + 1\n")
        self.assertEqual(mine.names, ["x", "x#2.0"])

    def test_an_array_that_a_loop_fills_is_recorded_once_when_it_is_full(self):
        mine = self.record("""
            import numpy as np
            def table(n):
                s = np.zeros((n, n))
                for i in range(n):
                    for j in range(n):
                        s[i, j] = i * n + j
                return s
            t = table(9)
            """)
        self.assertEqual(mine.names, ["table.s", "table.s#2", "t"])
        np.testing.assert_array_equal(mine.arrays["table.s#2"], np.arange(81).reshape(9, 9))
        self.assertEqual(mine.place("table.s#2"), ("mine.py", 6, "s"))

    def test_a_change_in_place_inside_a_loop_is_recorded_at_once_where_the_loop_made_the_array(self):
        mine = self.record("""
            import numpy as np
            for layer in range(2):
                s = np.ones(3)
                s[1] = layer + 5
                t = s + 1
            """)
        self.assertEqual(mine.names, ["s.0", "s#2.0", "t.0", "s.1", "s#2.1", "t.1"])

    def test_a_function_that_changes_its_argument_is_seen_on_both_sides(self):
        mine = self.record("""
            import numpy as np
            def hide(scores):
                scores[0] = -1e9
            def halve(it):
                np.multiply(it, 0.5, out=it)
            s = np.ones(3)
            hide(s)
            halve(s)
            """)
        self.assertEqual(mine.names, ["s", "hide.scores#2", "s#2", "halve.it#2", "s#3"])
        self.assertEqual(mine.place("s#3"), ("mine.py", 8, "s"))
        self.assertEqual(list(mine.arrays["s#3"]), [-5e8, 0.5, 0.5])

    def test_a_change_through_a_view_is_a_change_of_what_it_looks_at(self):
        mine = self.record("""
            import numpy as np
            s = np.ones((2, 3))
            first = s[0]
            first[:] = 7
            w = s + 1
            """)
        self.assertEqual(mine.names, ["s", "first", "first#2", "s#2", "w"])
        self.assertEqual(mine.place("s#2"), ("mine.py", 4, "s"))

    def test_one_number_changed_in_a_large_array_is_seen(self):
        mine = self.record("""
            import numpy as np
            big = np.zeros((600, 700))
            big[123, 457] = 1
            """)
        self.assertEqual(mine.names, ["big", "big#2"])

    def test_lists_tuples_and_dicts_are_recorded_by_their_places(self):
        mine = self.record("""
            import numpy as np, collections
            Pair = collections.namedtuple("Pair", "left right")
            parts = np.split(np.arange(6.0), 3)
            nested = {"a": [np.ones(1)], "b c": Pair(np.ones(2), 3)}
            mixed = (1, "x", None, np.ones(4))
            parts[1] = np.full(2, 9.0)
            numbers = list(range(5000))
            """)
        self.assertEqual(mine.names, ["parts.0", "parts.1", "parts.2", "nested.a.0", "nested.b_c.left", "mixed.3", "parts.1#2"])

    def test_attributes_of_objects_are_recorded_and_parts_named_by_where_they_are(self):
        mine = self.record("""
            import numpy as np
            class Layer:
                def forward(self, x):
                    self.hidden = x + 1
                    return self.hidden * 2
            class Net:
                def __init__(self):
                    self.layers = [Layer(), Layer()]
                    self.last = Layer()
                def forward(self, x):
                    for layer in self.layers:
                        x = layer.forward(x)
                    return self.last.forward(x)
            y = Net().forward(np.ones(2))
            """)
        self.assertEqual(mine.names, [
            "Net.x", "Net.layers.0.hidden", "Net.layers.0.return", "Net.x#2.0", "Net.layers.1.hidden", "Net.layers.1.return",
            "Net.x#2.1", "Net.last.hidden", "Net.last.return", "y"])
        self.assertEqual(mine.place("Net.last.hidden"), ("mine.py", 4, "self.hidden"))
        self.assertEqual(mine.entries["Net.last.hidden"]["function"], "Layer.forward")

    def test_generators_threads_recursion_and_unpacking_are_followed(self):
        mine = self.record("""
            import numpy as np, threading
            def pieces(x):
                for i in range(2):
                    piece = x + i
                    yield piece
                last = x * 9
            def down(x):
                x = x - 1
                return down(x) if x[0] > 0 else x
            def work(x):
                y = x + 5
            a, (b, *c) = np.ones(1), (np.ones(2), np.ones(3))
            for p in pieces(a):
                pass
            d = down(np.full(1, 2.0))
            thread = threading.Thread(target=work, args=(a,))
            thread.start()
            thread.join()
            """)
        self.assertEqual([name for name in mine.names if name[0] != "p"],
                         ["a", "b", "c.0", "down.x", "down.x#2", "down.down.x#2", "d", "work.y"])
        self.assertEqual([name for name in mine.names if name[0] == "p"],
                         ["pieces.piece.0", "p.0", "pieces.piece.1", "p.1", "pieces.last"])

    def test_whole_numbers_and_booleans_keep_their_type(self):
        mine = self.record("""
            import numpy as np
            ids = np.array([1, 2], dtype="int32")
            mask = ids > 1
            bytes_ = ids.astype("uint8")
            half = ids.astype("float16")
            swapped = ids.astype(">f8")
            turned = np.arange(6.0).reshape(2, 3).T
            none = np.zeros((0, 3))
            single = np.array(2.5)
            """)
        self.assertEqual({name: array.dtype.str for name, array in mine.arrays.items()},
                         {"ids": "<i4", "mask": "|b1", "bytes_": "|u1", "half": "<f2", "swapped": "<f8", "turned": "<f8",
                          "none": "<f8", "single": "<f8"})
        np.testing.assert_array_equal(mine.arrays["turned"], np.arange(6.0).reshape(2, 3).T)

    def test_what_is_left_out_is_said(self):
        mine = self.record("""
            import numpy as np
            wave = np.ones(2) * 1j
            seed = np.arange(3) + 2**60
            big = np.ones((512, 1024))
            words = np.array(["a"])
            small = np.ones(2)
            """, "--largest", "1")
        self.assertEqual(mine.names, ["small"])
        self.assertEqual(mine.left_out, {"wave": "complex", "seed": "whole numbers above 2^53", "words": "of the type str32",
                                         "big": "larger than 1 MiB (--largest)"})
        for name in mine.left_out:
            self.assertIn(f"left out {name}: ", self.ended.stderr)

    def test_the_file_does_not_grow_beyond_its_limit(self):
        mine = self.record("import numpy as np\nfor i in range(10):\n    x = np.ones(70000) * i\n", "--most", "1")
        self.assertEqual(mine.names, ["x.0"])
        self.assertIn("left out x.1, x.2, x.3 and 6 more: with it the file would be larger than 1 MiB (--most)",
                      self.ended.stderr)

    def test_only_takes_names_and_variables_and_changes_no_name(self):
        self.assertEqual(self.record(ATTENTION, "--only", "*.softmax.*", "--only", "scores").names,
                         ["attention.scores", "attention.scores#2", "attention.scores#3", "attention.softmax.e",
                          "attention.softmax.return"])

    def test_depth_says_how_deep_calls_are_followed(self):
        self.assertEqual(self.record(ATTENTION, "--depth", "0").names, ["q", "k", "v", "out"])
        self.assertNotIn("attention.softmax.e", self.record(ATTENTION, "--depth", "1").names)


class OtherLibraries(RecordTest):
    """Stand-ins with the names of JAX and TensorFlow that attn_record uses: neither is a package of Debian."""

    def test_arrays_of_jax_and_tensors_of_tensorflow_are_recorded_where_they_have_numbers(self):
        self.write("jax/__init__.py", """
            import numpy
            from types import SimpleNamespace
            class Array:
                dtype = numpy.dtype("float32")
                def __add__(self, other):
                    return Array()
                def __array__(self, dtype=None, copy=None):
                    return numpy.ones(2, "float32")
            class Tracer(Array):
                pass
            core = SimpleNamespace(Tracer=Tracer)
            """)
        self.write("tensorflow/__init__.py", """
            import numpy
            class Tensor:
                dtype = numpy.dtype("float32")
            class Eager(Tensor):
                def numpy(self):
                    return numpy.full(3, 2.0, "float32")
            """)
        mine = self.record("""
            import jax, tensorflow
            a, b = jax.Array(), jax.core.Tracer()
            c, d = tensorflow.Eager(), tensorflow.Tensor()
            tensorflow.state = a
            tensorflow.state += a
            """)
        self.assertEqual({name: array.tolist() for name, array in mine.arrays.items()}, {"a": [1, 1], "c": [2, 2, 2], "tensorflow.state": [1, 1], "tensorflow.state#2": [1, 1]})
        self.assertEqual({name: reason.split(":")[0] for name, reason in mine.left_out.items()}, {"b": "abstract", "d": "abstract"})


class WhoseCode(RecordTest):
    CALLER = """
        import numpy as np, sys
        sys.path += ["lib/site-packages", "mylib"]
        import theirs, ours
        x = theirs.work(np.ones(2))
        y = ours.work(x)
        """
    WORK = """
        def work(x):
            inside = x + 1
            return inside
        """

    def setUp(self):
        super().setUp()
        self.write("lib/site-packages/theirs.py", self.WORK)
        self.write("mylib/ours.py", self.WORK)

    def test_installed_packages_are_not_followed(self):
        mine = self.record(self.CALLER)
        self.assertEqual(mine.names, ["x", "work.inside", "y"])
        self.assertEqual(mine.place("work.inside"), ("mylib/ours.py", 2, "inside"))

    def test_own_says_which_folders_are(self):
        self.assertEqual(self.record(self.CALLER, "--own", "lib").names, ["work.x", "work.inside"])

    def test_what_is_own_code_nowhere_is_said(self):
        self.record(self.CALLER, "--own", "elsewhere")
        self.assertIn("nothing was recorded", self.ended.stderr)


class TheFile(RecordTest):
    def test_a_script_that_fails_leaves_what_it_computed_and_its_own_traceback(self):
        mine = self.record(ATTENTION + "raise ValueError('no')\n", code=1)
        self.assertIn("out", mine.names)
        self.assertIn("ValueError: no", self.ended.stderr)
        self.assertNotIn("script.py", self.ended.stderr)

    def test_a_script_ends_with_its_own_exit_code(self):
        self.assertIn("out", self.record(ATTENTION + "raise SystemExit(7)\n", code=7).names)

    def test_nothing_stays_beside_the_file(self):
        self.record(ATTENTION)
        self.assertEqual(self.left_in_folder(), ["mine.npz", "mine.py"])

    def test_the_old_file_stays_until_the_new_one_is_complete(self):
        path = self.folder / "mine.npz"
        path.write_text("old")
        with attn_record.to(path):
            x = np.ones(2)
            self.assertEqual(path.read_text(), "old")
        self.assertEqual(Recorded(path).names, ["x"])
        del x

    def test_an_array_that_is_interrupted_is_not_in_the_file(self):
        path = self.folder / "mine.npz"
        file = attn_record.file.File(str(path), 1 << 20, 1 << 20, [])
        whole, origin = np.lib.format.write_array, {"file": "a.py", "line": 1, "variable": "x", "function": "f"}

        def interrupted(out, *_, **__):
            out.write(b"\x93NUMPY")
            raise KeyboardInterrupt

        file.add("before", np.ones(2), None, origin, [])
        np.lib.format.write_array = interrupted
        try:
            self.assertRaises(KeyboardInterrupt, file.add, "cut", np.ones(3), None, origin, [])
        finally:
            np.lib.format.write_array = whole
        file.add("after", np.full(4, 4.0), None, origin, [])
        file.close()
        mine = Recorded(path)
        self.assertEqual(sorted(mine.arrays), ["after", "before"])
        self.assertEqual(list(mine.arrays["after"]), [4.0] * 4)

    def test_a_name_without_npz_and_a_folder_that_is_missing_are_refused_in_a_line(self):
        self.write("mine.py", ATTENTION)
        for name in ("mine.npy", "nowhere/mine.npz"):
            ended = self.run_python("-m", "attn_record", name, "--", "mine.py", code=2)
            self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
            self.assertIn(name.split("/")[0], ended.stderr)

    def test_a_script_that_is_missing_is_refused(self):
        self.assertIn("nowhere.py", self.run_python("-m", "attn_record", "m.npz", "--", "nowhere.py", code=2).stderr)
        self.run_python("-m", "attn_record", "m.npz", code=2)

    def test_a_child_process_does_not_write_into_the_file_of_its_parent(self):
        mine = self.record("""
            import numpy as np, os
            x = np.ones(2)
            child = os.fork()
            if child == 0:
                y = np.ones(3)
                raise SystemExit(0)
            os.waitpid(child, 0)
            z = np.ones(4)
            """)
        self.assertEqual(mine.names, ["x", "z"])
        self.assertEqual(self.ended.stderr.count("\n"), 1, self.ended.stderr)

    def test_a_module_can_be_run_as_python_runs_it(self):
        self.write("pack/__init__.py", "")
        self.write("pack/go.py", "import numpy as np, sys\nx = np.ones(len(sys.argv))\n")
        self.run_python("-m", "attn_record", "mine.npz", "--", "-m", "pack.go", "a", "b")
        self.assertEqual(Recorded(self.folder / "mine.npz").arrays["x"].shape, (3,))


class LeavesTheProgramAsItIs(RecordTest):
    """What a script does, and how it ends, is the same without a recording."""

    def both(self, script, stdin=""):
        """Runs a script alone and recorded. @return how each ended"""
        self.write("mine.py", script)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        return [subprocess.run([sys.executable, *words, "mine.py"], cwd=self.folder, capture_output=True, text=True,
                               input=stdin, env=environment, start_new_session=True)
                for words in ((), ("-m", "attn_record", "mine.npz", "--"))]

    def same(self, script, **more):
        alone, recorded = self.both(script, **more)
        self.assertEqual(recorded.returncode, alone.returncode, recorded.stderr)
        self.assertEqual(recorded.stdout, alone.stdout)
        self.assertNotIn("script.py", recorded.stderr)
        return recorded

    def test_a_full_disk_ends_the_recording_and_not_the_script(self):
        limited = """
            import numpy as np, resource, signal
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
            first = np.ones(10)
            large = np.random.rand({size})
            last = large.sum()
            print("done", first.size)
            """
        for size in (20000, 3660):  # it fails in an array, or with the list at the end
            ended = self.same(limited.format(size=size))
            self.assertIn("mine.npz: cannot be written, and nothing is kept of it: OSError", ended.stderr)
            self.assertEqual(self.left_in_folder(), ["mine.py"])

    def test_another_folder_changes_nothing(self):
        self.same("""
            import numpy as np, os
            os.makedirs("inner", exist_ok=True)
            os.chdir("inner")
            x = np.ones(3)
            """)
        self.assertEqual(self.left_in_folder(), ["inner", "mine.npz", "mine.py"])
        self.assertEqual(Recorded(self.folder / "mine.npz").names, ["x"])

    def test_signals_end_it_as_they_would_and_what_there_was_is_in_the_file(self):
        script = "import numpy as np, os, signal\nx = np.ones(3)\nos.kill(os.getpid(), signal.{})\n"
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            ended = self.same(script.format(name))
            self.assertEqual(ended.returncode, -getattr(signal, name))
            self.assertEqual(Recorded(self.folder / "mine.npz").names, ["x"])
            self.assertEqual(self.left_in_folder(), ["mine.npz", "mine.py"])
            (self.folder / "mine.npz").unlink()

    def test_a_script_that_is_gone_at_once_leaves_nothing(self):
        try:
            os.close(os.open(self.folder, os.O_TMPFILE | os.O_RDWR))
        except (AttributeError, OSError):
            self.skipTest("this file system has no files without a name")
        for end in ("os._exit(3)", "os.abort()", "os.kill(os.getpid(), signal.SIGKILL)"):
            self.same(f"import numpy as np, os, signal\nx = np.ones(3)\n{end}\n")
            self.assertEqual(self.left_in_folder(), ["mine.py"])

    def test_its_own_handlers_hooks_and_streams_are_used(self):
        self.same("import signal, os\nsignal.signal(signal.SIGTERM, lambda *_: print('heard'))\n"
                  "os.kill(os.getpid(), signal.SIGTERM)\n")
        self.same("import sys\nsys.excepthook = lambda kind, *_: print('hook', kind.__name__)\nraise ValueError\n")
        self.same("import numpy as np, os\nx = np.ones(2)\nos.close(2)\n")
        self.same("import numpy as np, sys\nx = np.ones(2)\nsys.stderr = None\n")
        self.same("print(__annotations__, __name__, __file__, __builtins__, __cached__)\n"
                  if sys.version_info < (3, 14) else "print(__name__, __builtins__)\n")

    def test_methods_of_its_own_lists_and_dicts_are_not_called(self):
        self.same("""
            import numpy as np
            class L(list):
                def __iter__(self): print("iter"); return super().__iter__()
                def __len__(self): print("len"); return super().__len__()
            class D(dict):
                def items(self): print("items"); return super().items()
                def values(self): print("values"); return super().values()
            parts, named = L([np.ones(2)]), D(a=np.zeros(3))
            end = 1
            """)
        self.assertEqual(Recorded(self.folder / "mine.npz").names, ["parts.0", "named.a"])

    def test_what_it_puts_in_place_of_pythons_functions_is_not_called(self):
        self.same("import json, numpy as np\nx = np.ones(2)\njson.dumps = None\ny = x + 1\n")
        self.assertEqual(Recorded(self.folder / "mine.npz").names, ["x", "y"])
        self.same("import builtins, numpy as np\nx = np.ones(2)\nbuiltins.isinstance = None\n")

    def test_a_debugger_that_takes_over_is_named(self):
        ended = self.same("import numpy as np\nx = np.ones(2)\nbreakpoint()\ny = x + 1\n", stdin="c\n")
        self.assertIn("recording ended early: a debugger, or another tool, took Python's tracing", ended.stderr)


class WithStatement(RecordTest):
    def recorded(self, **options):
        return attn_record.to(self.folder / "mine.npz", **options)

    def test_what_was_before_and_after_is_not_recorded(self):
        before = np.ones(1)
        with self.recorded():
            inside = before + 1
        after = inside + 1
        inside = after
        self.assertEqual(Recorded(self.folder / "mine.npz").names, ["inside"])

    def test_a_change_of_what_was_before_is(self):
        before = np.ones(3)
        with self.recorded():
            before[1] = 5
        self.assertEqual(list(Recorded(self.folder / "mine.npz").arrays["before"]), [1, 5, 1])

    def test_an_inner_recording_takes_over_and_the_outer_one_goes_on_after_it(self):
        with attn_record.to(self.folder / "outer.npz"):
            one = np.ones(1)
            with attn_record.to(self.folder / "inner.npz"):
                two = np.ones(2)
            three = np.ones(3)
        self.assertEqual(Recorded(self.folder / "inner.npz").names, ["two"])
        self.assertEqual(Recorded(self.folder / "outer.npz").names, ["one", "three"])
        del one, two, three

    def test_tracing_is_as_before_afterwards_also_after_an_exception(self):
        def tracer(*_):
            return None

        sys.settrace(tracer)
        try:
            with self.assertRaises(ZeroDivisionError), self.recorded():
                x = np.ones(1)
                1 / 0
            self.assertIs(sys.gettrace(), tracer)
        finally:
            sys.settrace(None)
        self.assertIsNone(getattr(threading, "_trace_hook", None))
        self.assertEqual(Recorded(self.folder / "mine.npz").names, ["x"])
        del x

    def listing(self):
        return Recorded(self.folder / "mine.npz").listing

    def test_its_results_are_what_it_has_computed_and_does_not_use(self):
        def both(x):
            twice = 2 * x
            return twice, twice + 1

        x = np.ones(3)
        with self.recorded():
            y = x + 1
            a, b = both(y)
        self.assertEqual(self.listing()["results"], ["a", "b"])
        with self.recorded():
            both(x)
        self.assertEqual(self.listing()["results"], ["both.twice", "both.return.1"])
        with self.recorded(results=["y"]):
            y = x + 1
            z = y * 2
        self.assertEqual(self.listing()["results"], ["y"])
        self.assertNotIn("incomplete", self.listing())
        del a, b, z

    def test_what_is_lost_is_said_in_the_file(self):
        with self.assertRaises(ZeroDivisionError), self.recorded():
            x = np.ones(1)
            1 / 0
        self.assertEqual(self.listing()["incomplete"], "the program ended before its end: ZeroDivisionError: division by zero")
        with self.recorded():
            tracer = sys.gettrace()
            sys.settrace(None)  # as a debugger does, which gives it back
            x = np.ones(2)
            sys.settrace(tracer)
        self.assertIn("took Python's tracing", self.listing()["incomplete"])
        self.assertEqual(self.record(ATTENTION + "raise SystemExit(7)\n", code=7).listing["incomplete"],
                         "the program ended before its end: SystemExit: 7")
        self.assertNotIn("incomplete", self.record(ATTENTION + "raise SystemExit(0)\n").listing)
        del x

    def test_two_threads_record_each_its_own(self):
        begun = threading.Barrier(2)

        def work(number):
            begun.wait(10)  # a thread that is started while another one records is a part of that recording
            with attn_record.to(self.folder / f"{number}.npz", quiet=True):
                begun.wait(10)
                mine = np.ones(number)
                begun.wait(10)
                after = mine + 1
            return after

        threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in (1, 2):
            recorded = Recorded(self.folder / f"{number}.npz")
            self.assertEqual((recorded.names, recorded.arrays["mine"].shape), (["mine", "after"], (number,)))
        self.assertIsNone(getattr(threading, "_trace_hook", None))

    def test_arrays_live_no_longer_than_without_it(self):
        import weakref
        seen = []

        def work():
            big = np.ones(1000)
            seen.append(weakref.ref(big))
            big = None
            return seen[0]() is None

        with self.recorded():
            freed = work()
        self.assertTrue(freed)


class Verdict(RecordTest):
    """What attn diff makes of it."""

    def attn(self, *words, code=0):
        ended = subprocess.run([ATTN, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stdout

    def reference(self):
        q, k, v = np.random.default_rng(0).normal(size=(3, 4, 8))
        np.savez(self.folder / "qkv.npz", queries=q, keys=k, values=v)
        self.attn("run", "attention", "--mask", "causal", "--input", "qkv.npz", "--quiet", "--trace", "reference.npz")

    def maps(self, **names):
        return [word for name, step in names.items() for word in ("--map", f"attention.{name.replace('_', '#')}={step}")]

    def test_the_call_that_was_given_the_wrong_one_of_right_arrays_is_blamed(self):
        random = np.random.default_rng(0)
        shapes = {"self_attn.in_proj_weight": (12, 4), "self_attn.in_proj_bias": (12,), "self_attn.out_proj.weight": (4, 4), "self_attn.out_proj.bias": (4,),
                  "linear1.weight": (6, 4), "linear1.bias": (6,), "linear2.weight": (4, 6), "linear2.bias": (4,),
                  "norm1.weight": (4,), "norm1.bias": (4,), "norm2.weight": (4,), "norm2.bias": (4,)}
        np.savez(self.folder / "weights.npz", **{name: random.standard_normal(shape) for name, shape in shapes.items()})
        np.savez(self.folder / "x.npz", x=random.standard_normal((5, 4)))
        self.attn("run", "encoder-layer", "--heads", "1", "--norm", "pre", "--weights", "weights.npz", "--input", "x.npz", "--quiet", "--trace", "reference.npz")
        program = """
            import numpy as np
            w, x = dict(np.load("weights.npz")), np.load("x.npz")["x"]
            def norm(x, gain, bias):
                centred = x - x.mean(-1, keepdims=True)
                normalized = centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5)
                return normalized * gain + bias
            def attention(x):
                q, k, v = np.split(x @ w["self_attn.in_proj_weight"].T + w["self_attn.in_proj_bias"], 3, -1)
                e = np.exp(q @ k.T / 2)
                weights = e / e.sum(-1, keepdims=True)
                return weights @ v @ w["self_attn.out_proj.weight"].T + w["self_attn.out_proj.bias"]
            def feed_forward(x):
                hidden = np.maximum(x @ w["linear1.weight"].T + w["linear1.bias"], 0)
                return hidden @ w["linear2.weight"].T + w["linear2.bias"]
            def layer(x):
                h = x + attention(norm(x, w["norm1.weight"], w["norm1.bias"]))
                y = h + feed_forward(norm(h, w["norm2.weight"], w["norm2.bias"]))
                return y
            out = layer(x)
            """
        self.record(program)
        self.attn("diff", "reference.npz", "mine.npz")
        self.record(program.replace("norm(h,", "norm(x,"))
        said = self.attn("diff", "reference.npz", "mine.npz", code=1)
        self.assertTrue(said.startswith("first wrong: y (mine.py:17), in layer\n"), said)

    def test_correct_numpy_passes(self):
        self.reference()
        self.record(ATTENTION)
        self.attn("diff", "reference.npz", "mine.npz", *self.maps(scores="scores", scores_2="scaled", scores_3="masked"))

    def test_a_wrong_line_is_named_by_file_line_and_variable(self):
        self.reference()
        self.record(ATTENTION.replace("np.sqrt(k.shape[1])", "k.shape[1]"))
        said = self.attn("diff", "reference.npz", "mine.npz", "--diagnose", code=1,
                         *self.maps(scores="scores", scores_2="scaled", scores_3="masked"))
        self.assertTrue(said.startswith("first wrong: scores (mine.py:9), in attention\n"), said)
        self.assertIn("looks like scale_d_k", said)

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler called cc")
    def test_a_c_program_that_dumps_npy_files_gets_file_line_and_variable(self):
        self.reference()
        source = ROOT / "tests" / "record" / "attention.c"
        for wrong in (False, True):
            subprocess.run(["cc", *(["-DWRONG"] if wrong else []), source, "-lm", "-o", self.folder / "attention"], check=True)
            q, k, v = (array.astype("f4") for array in np.load(self.folder / "qkv.npz").values())
            np.concatenate([q, k, v]).tofile(self.folder / "qkv.raw")
            (self.folder / "dump").mkdir(exist_ok=True)
            subprocess.run(["./attention"], cwd=self.folder, check=True)
            said = self.attn("diff", "reference.npz", "dump", code=int(wrong))
            line = 1 + source.read_text().splitlines().index("    save(scaled, N, N);")
            self.assertEqual(said.startswith(f"first wrong: scaled (attention.c:{line}), in main\n"), wrong, said)


if __name__ == "__main__":
    ATTN = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
