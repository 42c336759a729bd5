#!/usr/bin/env python3
"""Does the Python package attn compute, compare and check as its docstrings say? package_test.py [ATTN]

Without ATTN it is the program that the package finds."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from recorded import np

try:
    import torch
except ImportError:
    torch = None
try:
    import pytest
except ImportError:
    pytest = None

if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
    os.environ["ATTN"] = os.path.abspath(sys.argv.pop(1))

import attn
from attn.testing import assert_same


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class OneQuestion(unittest.TestCase):
    def setUp(self):
        self.queries, self.keys, self.values = numbers(3, 4), numbers(5, 4), numbers(5, 2)
        self.scores = self.queries @ self.keys.T
        self.trace = attn.run("attention", queries=self.queries, keys=self.keys, values=self.values)


class Runs(OneQuestion):
    def test_a_trace_has_every_step_by_name_and_alias_in_order(self):
        self.assertEqual(list(self.trace), ["queries", "keys", "values", "scores", "scaled", "weights", "context", "output"])
        self.assertEqual(len(self.trace), 8)
        self.assertEqual(self.trace.aliases, {"output": "context"})
        np.testing.assert_allclose(self.trace["weights"], softmax(self.scores / 2), rtol=1e-13)
        self.assertIs(self.trace["output"], self.trace["context"])
        self.assertNotIn("nothing", self.trace)
        self.assertRaises(KeyError, lambda: self.trace["nothing"])
        step = self.trace.steps["weights"]
        self.assertEqual((step.formula, step.shape, step.axes), ("softmax(scaled)", (3, 5), ("n", "m")))
        self.assertEqual(step.options["scale"], "1/sqrt(d_k)")

    def test_numbers_and_words_are_flags_and_everything_else_is_an_input(self):
        trace = attn.run("attention", queries=self.queries.tolist(), keys=self.keys, values=self.values, scale=0.5,
                         mask="causal", softcap=None)
        self.assertEqual(trace.steps["scaled"].formula, "scores * 0.5")
        self.assertIn("causal", trace)
        ids = attn.run("embedding", {"weight": numbers(6, 3)}, ids=[4, 0, 5])
        self.assertEqual(ids["output"].shape, (3, 3))

    def test_steps_are_explained_verified_and_derived(self):
        self.assertTrue(self.trace.explain("weights[1,2]").startswith("weights[1,2] = softmax(scaled)\n"))
        verified = self.trace.verify()
        self.assertTrue(verified)
        self.assertIn("0 wrong", str(verified))
        gradients = self.trace.grad()
        np.testing.assert_allclose(gradients["grad.values"], np.repeat(self.trace["weights"].sum(0)[:, None], 2, 1), rtol=1e-12)
        seed = numbers(3, 2)
        np.testing.assert_allclose(self.trace.grad(seed=seed)["grad.values"], self.trace["weights"].T @ seed, rtol=1e-12)

    def test_a_trace_is_saved_and_loaded_and_its_own_file_goes_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "with a space.npz")
            self.trace.save(path)
            self.assertEqual(list(attn.load(path)), list(self.trace))
            np.savez(Path(folder, "plain.npz"), x=np.ones(2))
            self.assertRaisesRegex(attn.Error, "plain.npz is no trace", attn.load, Path(folder, "plain.npz"))
        own = self.trace.path
        self.assertTrue(own.exists())
        self.trace = None
        self.assertFalse(own.exists())

    def test_a_page_is_what_a_notebook_shows(self):
        self.assertIn("<iframe srcdoc=", self.trace.view()._repr_html_())

    @unittest.skipIf(shutil.which("dot") is None, "there is no Graphviz (apt-get install graphviz)")
    def test_a_picture_is_what_a_notebook_shows(self):
        self.assertIn("<svg", self.trace.graph()._repr_svg_())

    def test_what_the_program_refuses_is_an_error_with_its_line(self):
        with self.assertRaises(attn.Error) as refused:
            attn.run("attention", queries=self.queries, keys=self.keys[:, :3], values=self.values)
        self.assertEqual(str(refused.exception), "attn run: input.npz: scaled_dot_product_attention: queries (3, 4) and keys "
                         "(5, 3) must agree in d_k: axis 1 of queries is 4, axis 1 of keys is 3")
        self.assertRaisesRegex(attn.Error, "--heats is not expected", attn.run, "attention", heats=2, queries=self.queries)
        self.assertRaisesRegex(attn.Error, "queries is complex", attn.run, "attention", queries=self.queries * 1j)
        self.assertRaisesRegex(attn.Error, "expected a path, a state_dict", attn.run, "layer-norm", 3, x=self.queries)

    def test_a_program_that_is_not_there_is_named(self):
        with unittest.mock.patch.dict(os.environ, ATTN="/nowhere/attn"):
            self.assertRaisesRegex(attn.Error, "ATTN is /nowhere/attn", attn.pitfalls)

    def test_the_list_of_mistakes(self):
        self.assertIn("scale_d_k", {one["id"] for one in attn.pitfalls()})


class RefusesWhatIsDamaged(OneQuestion):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name, "t.npz")
        self.trace.save(self.path)

    def test_a_trace_that_is_cut_off_anywhere_or_changed_is_an_error_with_its_name(self):
        whole = self.path.read_bytes()
        for end in range(0, len(whole), 97):
            self.path.write_bytes(whole[:end])
            with self.assertRaisesRegex(attn.Error, "t.npz is no trace, or damaged"):
                attn.load(self.path)
        for at in range(30, len(whole), 61):
            self.path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:])
            try:
                trace = attn.load(self.path)
                for name in trace:
                    trace[name]
                list(trace.steps)
            except attn.Error as error:
                self.assertIn("t.npz is no trace, or damaged", str(error))

    def test_a_listing_of_another_form_is_an_error(self):
        import zipfile
        for text in ("", "{}", "[]", "null", '{"steps": 3, "aliases": []}', '{"steps": [{"path": "x"}], "aliases": [{}]}', "[" * 100000):
            with zipfile.ZipFile(self.path, "w") as archive:
                archive.writestr("steps.json", text)
            with self.assertRaisesRegex(attn.Error, "t.npz is no trace, or damaged"):
                attn.load(self.path).steps

    def test_arrays_that_the_program_cant_read_are_refused_before_they_are_written(self):
        refused = lambda text, **arrays: self.assertRaisesRegex(attn.Error, text, lambda: attn.run("attention", **arrays))
        refused("queries is too large: 10000000000 numbers", queries=np.broadcast_to(1.0, (100000, 100000)), keys=self.keys, values=self.values)
        refused("queries is no array", queries=[[1, 2], [3]], keys=self.keys, values=self.values)
        refused("file, which attention does not take", queries=self.queries, keys=self.keys, values=self.values, file=self.keys)
        for name in (3, "", "a\0b"):
            self.assertRaisesRegex(attn.Error, "an array is called", lambda: self.trace.diff({name: self.keys}))

    def test_words_that_would_be_flags_or_that_no_program_takes_are_refused(self):
        for wrong in (lambda: self.trace.explain("--help"), lambda: attn.run("--help"), lambda: attn.run(3)):
            self.assertRaisesRegex(attn.Error, "expected a word", wrong)
        for wrong in (lambda: self.trace.explain("a\0"), lambda: attn.run("attention", mask="\0", queries=self.queries, keys=self.keys, values=self.values)):
            self.assertRaisesRegex(attn.Error, "can't be started", wrong)
        masked = np.ma.array(self.keys, mask=self.keys > 0)
        self.assertRaisesRegex(attn.Error, "keys is a masked array", lambda: attn.run("attention", queries=self.queries, keys=masked, values=self.values))

    def test_a_trace_is_saved_whole_or_not(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRaisesRegex(attn.Error, "nowhere/t.npz can't be written", lambda: self.trace.save(Path(folder, "nowhere", "t.npz")))
            with unittest.mock.patch("shutil.copyfile", side_effect=OSError(28, "No space left on device")):
                self.assertRaisesRegex(attn.Error, "t.npz can't be written: No space left", lambda: self.trace.save(Path(folder, "t.npz")))
            self.assertEqual(os.listdir(folder), [])
            self.assertRaisesRegex(attn.Error, "can't be written", lambda: self.trace.save(folder))
            if os.path.exists("/dev/full"):
                self.assertRaisesRegex(attn.Error, "/dev/full can't be written: No space left", lambda: self.trace.save("/dev/full"))
                self.assertFalse(os.path.isfile("/dev/full"))
            Path(folder, "link").symlink_to("t.npz")
            self.trace.save(Path(folder, "link"))
            self.assertEqual(sorted(os.listdir(folder)), ["link", "t.npz"])
            self.assertEqual(Path(folder, "t.npz").read_bytes(), self.trace.path.read_bytes())

    def test_a_full_disk_is_told(self):
        import errno
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with unittest.mock.patch("tempfile.mkdtemp", side_effect=FileNotFoundError(2, "No usable temporary directory found")):
            self.assertRaisesRegex(attn.Error, "no temporary folder can be made.*is the disk full", lambda: attn.run("softmax", scores=self.scores))
        with unittest.mock.patch("zipfile.ZipFile", side_effect=full):
            self.assertRaisesRegex(attn.Error, "input.npz can't be written.*No space left", lambda: attn.run("softmax", scores=self.scores))

    def test_the_folder_of_a_test_is_inside_of_the_reports_whatever_its_parameter_is(self):
        from attn.testing import name_of_test
        names = {"a/test_x.py::Test::test_y (call)": "a/test_x.py/Test/test_y", "test_x.py::test_y[../../../up] (call)": "test_x.py/test_y_.._.._.._up_",
                 "test_x.py::test_y[a::../b] (call)": "test_x.py/test_y_a/.._b_", "../t.py::test_y[/etc] (setup)": "t.py/test_y__etc_",
                 "t.py::" + "x" * 5000: "t.py/" + "x" * 100}
        for given, folder in names.items():
            with unittest.mock.patch.dict(os.environ, PYTEST_CURRENT_TEST=given):
                self.assertEqual(name_of_test(), folder)


class Differs(OneQuestion):
    def test_what_is_right_is_the_same(self):
        weights = softmax(self.scores / 2)
        for mine in ({"scores": self.scores, "w": weights}, weights @ self.values, (weights @ self.values).astype("f4"), self.trace):
            report = self.trace.diff(mine)
            self.assertTrue(report, str(report))
            self.assertEqual((report.verdict, report.first_wrong, report.mistakes), ("the same", None, ()))
        assert_same(weights @ self.values, self.trace)

    def test_a_mistake_is_named_with_its_first_step(self):
        weights = softmax(self.scores / 4)
        report = self.trace.diff({"scores": self.scores, "weights": weights, "out": weights @ self.values})
        self.assertFalse(report)
        self.assertEqual(report.first_wrong.step, "weights")
        self.assertEqual([mistake.id for mistake in report.mistakes], ["scale_d_k"])
        self.assertNotEqual(report.first_wrong.expected, report.first_wrong.found)
        self.assertTrue(str(report).splitlines()[-1].startswith("mine.npz: different: "), str(report))
        with self.assertRaisesRegex(AssertionError, "looks like scale_d_k"):
            assert_same({"weights": weights}, self.trace)

    def test_a_notebook_shows_the_first_wrong_step_beside_the_reference(self):
        weights = softmax(self.scores / 4)
        report = self.trace.diff({"scores": self.scores, "weights": weights, "<b>": weights[:, :2]})
        window = report.first_wrong.window
        self.assertEqual((window.begin, len(window.expected), len(window.found[0])), ((0, 0), 3, 5))
        np.testing.assert_allclose(window.expected, self.trace["weights"], rtol=1e-15)
        np.testing.assert_allclose(window.found, weights, rtol=1e-15)
        self.assertIn("softmax(scaled)", report.first_wrong.arithmetic)
        page = report._repr_html_()
        self.assertEqual(page.count("<table"), 2)
        self.assertEqual(page.count("<td"), 30)
        self.assertEqual(page.count("attn-worst"), 3)  # one in each table, and the style
        self.assertIn('">scale_d_k</a>', page)
        self.assertNotIn("<b>", page.replace('<b class="', ""))
        self.assertNotIn("<table", self.trace.diff(self.trace)._repr_html_())

    def test_numbers_that_are_not_finite_are_numbers(self):
        scores = self.scores / 2
        scores[1, 2] = np.nan
        first = self.trace.diff({"scaled": scores}).first_wrong
        self.assertEqual(first.index, (1, 2))
        self.assertTrue(np.isnan(first.found) and np.isnan(first.window.found[1][2]))
        self.assertIn("nan", self.trace.diff({"scaled": scores})._repr_html_())

    def test_a_report_is_saved_with_what_was_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            report = self.trace.diff({"weights": softmax(self.scores / 4)})
            report.save(Path(folder, "kept"))
            self.assertEqual(Path(folder, "kept", "verdict.txt").read_text(), str(report))
            again = attn.load(Path(folder, "kept", "reference.npz")).diff(Path(folder, "kept", "mine.npz"))
            self.assertEqual(again.mistakes, report.mistakes)

    def test_flags_go_to_diff(self):
        self.assertTrue(self.trace.diff({"a": self.scores + 1e-6}, map=["a=scores"], atol=1e-3))
        self.assertFalse(self.trace.diff({"a": self.scores + 1e-2}, map=["a=scores"], atol=1e-3))
        self.assertRaisesRegex(attn.Error, "nothing", self.trace.diff, {"a": self.scores}, map=["a=nothing"])


class ComparesRuns(unittest.TestCase):
    def setUp(self):
        self.run_a = {f"layers.{i}.out": numbers(3, 4 + i).astype("f4") for i in range(3)}
        self.run_b = {name: np.nextafter(array, np.float32(9)) for name, array in self.run_a.items()}

    def test_equal_runs_runs_that_differ_by_roundings_and_others(self):
        self.assertEqual(attn.compare(self.run_a, self.run_a).verdict, "bits equal")
        rounding = attn.compare(self.run_a, self.run_b)
        self.assertEqual((rounding.ok, rounding.verdict, rounding.type, rounding.first_different), (True, "rounding", "float32", None))
        self.assertEqual([layer.layer for layer in rounding.layers], ["layers.0", "layers.1", "layers.2"])
        self.assertLess(max(layer.worst for layer in rounding.layers), 1e-6)

        self.run_b["layers.1.out"] = self.run_a["layers.1.out"] + np.eye(3, 5, dtype="f4")
        alone = attn.compare(self.run_a, self.run_b)  # nothing says that layers.2.out, which is the same, was computed from it
        self.assertEqual((bool(alone), alone.verdict), (False, "undecided"))
        self.assertIn("whether anything was computed from layers.1.out", str(alone))

        self.run_b["layers.2.out"] = self.run_a["layers.2.out"] + np.eye(3, 6, dtype="f4")
        different = attn.compare(self.run_a, self.run_b)
        self.assertFalse(different)
        first = different.first_different
        self.assertEqual((first.a.name, first.verdict), ("layers.1.out", "different"))
        self.assertAlmostEqual(first.b.value - first.a.value, 1, 5)
        self.assertIn("first different array: layers.1.out: off by", str(different))
        self.assertIn("<svg", different._repr_html_())
        self.assertEqual(attn.compare({"a": np.ones(3)}, {"b": np.zeros((2, 2))}).verdict, "undecided")

    def test_another_result_under_another_name_is_not_the_same(self):
        x, h, logits = numbers(5, 8), numbers(5, 9), numbers(5, 16)
        other = attn.compare({"x": x, "h": h, "logits": logits}, {"inp_embd": x, "l_out": h + 1, "result_output": logits * 3})
        self.assertEqual(other.verdict, "different", str(other))
        self.assertEqual((other.first_different.a.name, other.first_different.b.name), ("logits", "result_output"))

    def test_recordings_traces_paths_and_arrays_are_runs(self):
        trace = attn.run("attention", queries=numbers(3, 4), keys=numbers(5, 4), values=numbers(5, 2))
        scores = trace["scores"].astype("f4")
        with tempfile.TemporaryDirectory() as folder:
            recording = attn.record(os.path.join(folder, "one.npz"), quiet=True)
            with recording:
                scores = numbers(3, 4).astype("f4") @ numbers(5, 4).T.astype("f4")
            comparison = attn.compare(recording, {"scores": trace["scores"]})
            self.assertEqual((comparison.ok, comparison.first_different), (True, None), str(comparison))
            self.assertEqual([result.run for result in comparison.compared], ["A", "B"])
            unfinished = attn.compare(recording, trace)  # which goes on
            self.assertEqual((unfinished.verdict, unfinished.first_different), ("undecided", None), str(unfinished))
            self.assertEqual([result.run for result in unfinished.not_compared], ["B"])
            self.assertIn("is a result that has no partner in A", unfinished.why_undecided[0])
            self.assertEqual(Path(comparison.pairs[0].a.file).name, "package_test.py")
            self.assertTrue(attn.compare(os.path.join(folder, "one.npz"), {"scores": scores}))
        self.assertRaisesRegex(attn.Error, "a run is of the type int", attn.compare, 3, trace)
        self.assertRaisesRegex(attn.Error, "nowhere.npz", attn.compare, "nowhere.npz", trace)


def scores_of(queries, keys):
    return queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1])


def attention(queries, keys, values, mask=None, causal=False, diagonal=None):
    scores = scores_of(queries, keys)
    n, m = scores.shape[-2:]
    allowed = np.tril(np.ones((n, m), bool), m - n if diagonal is None else diagonal) if causal else np.ones((n, m), bool)
    if mask is not None:
        allowed = allowed & mask
    weights = softmax(np.where(allowed, scores, -np.inf))
    return weights @ values


def causal_attention(queries, keys, values, mask=None):
    return attention(queries, keys, values, mask, causal=True)


def without_scale(queries, keys, values):
    scores = queries @ np.swapaxes(keys, -1, -2)
    weights = softmax(scores)
    return weights @ values


def over_queries(queries, keys, values):
    scores = scores_of(queries, keys)
    weights = np.exp(scores - scores.max(-2, keepdims=True))
    return weights / weights.sum(-2, keepdims=True) @ values


def overflowing(queries, keys, values):
    with np.errstate(all="ignore"):
        weights = np.exp(scores_of(queries, keys))
        weights = weights / weights.sum(-1, keepdims=True)
        return weights @ values


def top_left(queries, keys, values):
    return attention(queries, keys, values, causal=True, diagonal=0)


class ChecksFunctions(unittest.TestCase):
    def test_right_functions_pass_in_each_form(self):
        for axes in (2, 3, 4):
            for dtype in ("float64", "float32"):
                report = attn.check(attention, "attention", axes=axes, dtype=dtype, mask="mask")
                self.assertTrue(report, str(report))
        for seed in range(3):
            self.assertTrue(attn.check(causal_attention, "attention", causal=True, mask="mask", seed=seed))
        self.assertTrue(attn.check(lambda q, k, v: softmax(q @ k.T) @ v, "attention", scale=1))
        self.assertTrue(attn.check(top_left, "attention", causal="top-left"))
        self.assertFalse(attn.check(causal_attention, "attention", causal="top-left"))

    def test_a_mistake_is_named_on_the_first_input_that_shows_it(self):
        for function, options, mistake, case in (
            (without_scale, {}, "no_scale", "4 queries, 4 keys, "),
            (over_queries, {}, "softmax_axis", "4 queries, 4 keys, "),
            (attention, {"causal": True}, "mask_missing", "4 queries, 4 keys, "),
            (top_left, {"causal": True}, "causal_top_left", "3 queries, 5 keys, "),
            (overflowing, {"dtype": "float32"}, "softmax_overflow", "numbers of about "),
        ):
            report = attn.check(function, "attention", **options)
            self.assertFalse(report, function.__name__)
            self.assertEqual([one.id for one in report.mistakes], [mistake], str(report))
            self.assertIn(case, report.case)
            self.assertTrue(str(report).startswith("with " + report.case))

    def test_results_that_change_from_call_to_call_are_told(self):
        random = np.random.default_rng(0)

        def dropped(q, k, v):
            weights = softmax(scores_of(q, k))
            return weights * (random.random(weights.shape) < 0.8) / 0.8 @ v

        self.assertIn("hint: two calls with the same arguments give different results", str(attn.check(dropped, "attention")))
        self.assertIsNone(attn.check(without_scale, "attention").hint)

    def test_the_line_is_named(self):
        first = attn.check(without_scale, "attention").first_wrong
        line = Path(__file__).read_text().splitlines()[first.line - 1]
        self.assertEqual((first.step, line.strip()), ("weights", "weights = softmax(scores)"))

    def test_the_line_is_named_in_a_module_that_is_imported(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "of_mine.py").write_text("def wrong(q, k, v):\n    scores = q @ k.T\n    out = scores @ v\n    return out\n")
            sys.path.insert(0, folder)
            try:
                from of_mine import wrong
            finally:
                sys.path.remove(folder)
            first = attn.check(wrong, "attention").first_wrong
            self.assertEqual((first.step, Path(first.file).name, first.line, first.variable), ("context", "of_mine.py", 3, "out"))

    def test_what_can_t_be_checked_is_an_error(self):
        self.assertRaisesRegex(attn.Error, "it fails with 4 queries, 4 keys, .*TypeError", attn.check, lambda q: q, "attention")
        self.assertRaisesRegex(attn.Error, 'only "attention"', attn.check, attention, "encoder")
        self.assertRaisesRegex(attn.Error, "causal is 'left'", attn.check, attention, "attention", causal="left")
        self.assertRaisesRegex(attn.Error, "axes is 5", attn.check, attention, "attention", axes=5)


def ended(*words, folder, **environment):
    """A Python program that has this package."""
    paths = os.pathsep.join(path for path in (str(Path(attn.__file__).parents[1]), os.environ.get("PYTHONPATH")) if path)
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": paths, **environment})


class Readme(unittest.TestCase):
    def test_the_two_lines_print_what_it_says(self):
        readme = Path(__file__).parents[2] / "README.md"
        if not readme.exists():
            self.skipTest("there is no checkout around this test")
        text = readme.read_text(encoding="utf-8")
        code, said = re.search(r"```python\n(import attn\n.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.py").write_text(MINE)
            Path(folder, "check.py").write_text("from mine import my_attention\n" + code)
            run = ended("check.py", folder=folder)
        self.assertEqual(run.stderr, "")
        lines = run.stdout.splitlines()
        for line in said.splitlines():
            begin = line.rstrip("…")
            self.assertTrue(any(own.startswith(begin) for own in lines), f"{begin}\n\n{run.stdout}")


MINE = """import numpy as np

def my_attention(queries, keys, values):
    scores = queries @ keys.T / np.sqrt(queries.shape[-1])
    allowed = np.tril(np.ones(scores.shape, bool))
    masked = np.where(allowed, scores, -np.inf)
    weights = np.exp(masked - masked.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return weights @ values
"""


class InTests(unittest.TestCase):
    @unittest.skipIf(pytest is None, "there is no pytest for this Python (apt-get install python3-pytest)")
    def test_what_fails_under_pytest_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "test_mine.py").write_text(TESTS)
            words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--attn-report", "kept", "test_mine.py")
            if not any(point.name == "attn" for point in entry_points("pytest11")):
                words = (*words, "-p", "attn.pytest_plugin")
            run = ended(*words, folder=folder)
            self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
            self.assertIn("2 failed, 1 passed", run.stdout)
            self.assertRegex(run.stdout, "E +looks like no_scale")
            kept = sorted(str(path.relative_to(folder)) for path in Path(folder, "kept").rglob("*.npz"))
            self.assertEqual(kept, [f"kept/test_mine.py/{test}/{name}.npz" for test in ("test_same", "test_wrong")
                                    for name in ("mine", "reference")])


def entry_points(group):
    from importlib.metadata import entry_points as all_of

    points = all_of()
    return points.select(group=group) if hasattr(points, "select") else points.get(group, [])


TESTS = """
import numpy as np
import attn
from attn.testing import assert_attends, assert_same

def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)

def test_right():
    assert_attends(lambda q, k, v: softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v)

def test_wrong():
    assert_attends(lambda q, k, v: softmax(q @ k.T) @ v)

def test_same():
    x = np.arange(12.0).reshape(3, 4) / 10
    assert_same(softmax(x @ x.T) @ x, attn.run("attention", queries=x, keys=x, values=x))
"""


@unittest.skipIf(torch is None, "there is no PyTorch for this Python (apt-get install python3-torch)")
class ChecksPyTorch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x = torch.randn(2, 5, 8)

    def test_weights_of_a_module_and_tensors_are_taken(self):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        trace = attn.run("encoder-layer", layer, x=self.x, heads=2)
        np.testing.assert_allclose(trace["output"], layer(self.x).detach().numpy(), atol=1e-5)
        norm = attn.run("layer-norm", {"weight": layer.norm1.weight, "bias": layer.norm1.bias}, x=self.x.requires_grad_())
        self.assertEqual(norm["output"].shape, (2, 5, 8))

    def test_a_right_module_passes_with_what_its_call_was_given(self):
        self.assertTrue(attn.check(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), self.x))
        mask = torch.zeros(2, 5, dtype=torch.bool)
        mask[1, 3:] = True
        module = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
        self.assertTrue(attn.check(module, self.x, self.x, self.x, key_padding_mask=mask))

    def test_a_wrong_line_of_a_module_of_ones_own_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.py").write_text(MODEL)
            sys.path.insert(0, folder)
            try:
                import mine
            finally:
                sys.path.remove(folder)
            report = attn.check(mine.Model().eval(), torch.randint(0, 11, (1, 6)))
            self.assertFalse(report)
            first = report.first_wrong
            self.assertEqual((Path(first.file).name, MODEL.splitlines()[first.line - 1].strip(), first.variable),
                             ("mine.py", "att = (q @ k.transpose(-2, -1)) / k.size(-1)", "att"), str(report))
            self.assertIn("scale_d_k", [mistake.id for mistake in report.mistakes])

    def test_a_script_is_checked_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.py").write_text(MODEL + "\nimport sys\nprint(sys.argv[1:])\nModel().eval()(torch.randint(0, 11, (1, 6)))\n")
            run = ended("-m", "attn", "check", "mine.py", "--its", "own", folder=folder)
            self.assertEqual((run.returncode, run.stderr), (1, ""))
            self.assertTrue(run.stdout.startswith("['--its', 'own']\nchecked: Model, by attn run gpt\nfirst wrong: att (mine.py:12)"), run.stdout)
            self.assertIn("\nlooks like scale_d_k: ", run.stdout)
            self.assertEqual(os.listdir(folder), ["mine.py"])
            for text, code, said in (("x = 1\n", 2, "attn check: "), ("raise SystemExit(7)\n", 7, ""), ("1 / 0\n", 1, "ZeroDivisionError")):
                Path(folder, "mine.py").write_text(text)
                run = ended("-m", "attn", "check", "mine.py", folder=folder)
                self.assertEqual((run.returncode, run.stdout), (code, ""))
                self.assertIn(said, run.stderr)
            self.assertEqual(ended("-m", "attn", "check", "none.py", folder=folder).returncode, 2)
        self.assertIn("01_single_query", ended("-m", "attn", "lessons", folder=".").stdout)

    def test_training_mode_is_told_where_something_is_wrong(self):
        module = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
        self.assertIn("hint: the module is in training mode", str(attn.check(module, self.x)))
        self.assertIsNone(attn.check(module.eval(), self.x).hint)

    def test_gradients_are_checked_from_a_loss_on(self):
        def loss(output):
            return (output * torch.linspace(-1, 2, output.numel()).reshape(output.shape)).sum()

        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)
        layer.linear1.weight.grad = torch.ones(16, 8)
        report = attn.check(layer, self.x.requires_grad_(), backward=loss)
        self.assertTrue(report, str(report))
        self.assertIn("grad.x", [step["mine"] for step in report.json["steps"]])
        self.assertTrue(layer.linear1.weight.grad.equal(torch.ones(16, 8)) and self.x.grad is None)  # as they were

        layer.norm1.weight.register_hook(lambda gradient: gradient * 2)
        wrong = attn.check(layer, self.x, backward=loss)
        self.assertEqual((wrong.ok, wrong.first_wrong.step), (False, "grad.norm1.gain"), str(wrong))
        with self.assertRaisesRegex(attn.Error, "the gradient of this loss is zero for most weights"):
            attn.check(layer, self.x, backward=lambda output: output.mean())
        with torch.no_grad(), self.assertRaisesRegex(attn.Error, "inside torch.no_grad"):
            attn.check(layer, self.x, backward=loss)

    def test_the_gradient_of_a_packed_weight_is_taken_apart_as_the_weight_is(self):
        def loss(logits):
            return (logits * torch.linspace(-1, 2, logits.numel()).sin().reshape(logits.shape)).sum()

        def check():
            return attn.check(model, torch.tensor([[5, 9, 3, 7, 2, 8]]), backward=loss, reference="model")

        for is_tied in (True, False):
            model = packed_by_head(is_tied)
            report = check()
            self.assertTrue(report, str(report))
            self.assertEqual(len(report.json["steps"]), 20 - is_tied)
        projection = model.gpt_neox["layers"][0]["attention"]["query_key_value"]
        hook = projection.bias.register_hook(lambda gradient: gradient.roll(4))
        wrong = check().first_wrong
        self.assertEqual((wrong.step, wrong.mine), ("grad.layers.0.self_attn.value_bias", "grad.gpt_neox.layers.0.attention.query_key_value.bias part 3"))
        hook.remove()
        projection.weight.requires_grad_(False)
        self.assertEqual(len(check().json["steps"]), 17)

    def test_a_result_that_a_hook_changes_is_seen(self):
        def twice(module, arguments, output):
            return tuple(2 * part for part in output) if isinstance(output, tuple) else 2 * output

        for make in (lambda: torch.nn.LayerNorm(8), lambda: torch.nn.GRU(8, 4, batch_first=True),
                     lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)):
            hooked, wrapped = make(), make()
            self.assertTrue(attn.check(hooked, self.x))
            hooked.register_forward_hook(twice)
            forward = wrapped.forward
            wrapped.forward = lambda x, forward=forward: twice(None, x, forward(x))
            for module in (hooked, wrapped):
                self.assertEqual(attn.check(module, self.x).verdict, "different", type(module).__name__)
        given = torch.nn.LayerNorm(8)
        given.register_forward_pre_hook(lambda module, arguments: (arguments[0] + torch.linspace(0, 1, 8),))
        self.assertEqual(attn.check(given, self.x).verdict, "different")

    def test_each_of_several_results_is_compared(self):
        class Second(torch.nn.GRU):
            def forward(self, input, hx=None):
                output, hidden = super().forward(input, hx)
                return output, hidden * 1.01

        class Weights(torch.nn.MultiheadAttention):
            def forward(self, query, key, value):
                output, weights = super().forward(query, key, value)
                return output, weights.flip(-1)

        self.assertEqual(attn.check(Second(8, 4, batch_first=True), self.x).verdict, "different")
        right, wrong = (kind(8, 2, batch_first=True).eval() for kind in (torch.nn.MultiheadAttention, Weights))
        self.assertTrue(attn.check(right, self.x, self.x, self.x))
        self.assertTrue(attn.check(right, self.x, self.x, self.x, average_attn_weights=False))
        self.assertEqual(attn.check(wrong, self.x, self.x, self.x).verdict, "different")

    def test_a_pooled_result_is_compared_with_what_it_is_called(self):
        ids = torch.tensor([[5, 9, 3, 7, 2, 8], [4, 7, 1, 7, 6, 0]])
        right = [lambda h, ids: h[torch.arange(len(h)), (ids == 7).int().argmax(-1)]]
        wrong = [lambda h, ids: h[:, -1], lambda h, ids: h.mean(1), lambda h, ids: right[0](h, ids).tanh()]
        for pools, verdict in ((right, "the same"), (wrong, "different")):
            for pool in pools:
                for rows in (ids, ids[:1]):
                    report = attn.check(text_model(pool), rows, reference="model")
                    self.assertEqual(report.verdict, verdict, str(report))
        with self.assertRaisesRegex(attn.Error, "no token of id 7, the end of a text"):
            attn.check(text_model(right[0]), ids[:, :1], reference="model")

    def test_a_right_part_does_not_make_the_whole_the_same(self):
        class Around(torch.nn.Module):
            def __init__(self, before, after):
                super().__init__()
                self.inner, self.norm = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), torch.nn.LayerNorm(8)
                self.before, self.after = before, after

            def forward(self, x, scale=None):
                return self.after(self, self.inner(self.before(x)))

        def nothing(*values):
            return values[-1]

        wrong_after = attn.check(Around(nothing, lambda self, y: self.norm(y + y)), self.x)
        self.assertEqual((wrong_after.verdict, bool(wrong_after)), ("undecided", False), str(wrong_after))
        self.assertEqual(wrong_after.checked, "inner of Around, 1 of 2 modules that are known; Around's own result was not compared")
        self.assertIn('module="inner"', str(wrong_after))
        self.assertEqual(attn.check(Around(lambda x: 2 * x, nothing), self.x).verdict, "undecided")
        self.assertTrue(attn.check(Around(nothing, nothing), self.x))
        dropped = attn.check(Around(nothing, nothing), self.x, scale=torch.ones(8))
        self.assertEqual(dropped.verdict, "undecided")
        self.assertIn("did not get the argument scale", str(dropped))
        part = attn.check(Around(nothing, lambda self, y: self.norm(y + y)), self.x, module="inner")
        self.assertTrue(part, str(part))

    def test_an_interval_is_shown_where_no_line_can_be_blamed(self):
        right, wrong = ({"file": "model.py", "line": line, "variable": name, "function": "f"} for line, name in ((240, "q"), (262, "weights")))
        said = {"verdict": "different", "same": False, "type": "float32", "steps": [], "first_wrong": None}
        report = attn.Report(json.dumps({**said, "between": {"last_right": right, "first_wrong": wrong}}), "", Path(), Path())
        self.assertEqual((report.between.last_right.line, report.between.first_wrong.variable), (240, "weights"))
        self.assertIn("last right: q (model.py:240); first wrong: weights (model.py:262)", report._repr_html_())
        self.assertIsNone(attn.Report(json.dumps(said), "", Path(), Path()).between)

    def test_an_argument_is_used_or_refused_by_its_name(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "of_cache.py").write_text(MODEL.replace("/ k.size(-1)", "/ k.size(-1) ** 0.5").replace("gelu(self.c_fc(x))", "gelu(self.c_fc(x), approximate='tanh')").replace(
                "def forward(self, ids):", "def forward(self, ids, cache=None, use_cache=False, attention_mask=None):"))
            sys.path.insert(0, folder)
            try:
                from of_cache import Model
            finally:
                sys.path.remove(folder)
            ids = torch.randint(0, 11, (2, 6))
            model = Model().eval()
            self.assertTrue(attn.check(model, ids, use_cache=True))
            self.assertTrue(attn.check(model, ids, attention_mask=torch.ones_like(ids)))
            with self.assertRaisesRegex(attn.Error, "its argument cache is none that attn run gpt takes"):
                attn.check(model, ids, {})
            self.assertTrue(attn.check(model, ids, {}, ignore=["cache"]))
            mask = torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0]])
            self.assertFalse(attn.check(model, ids, attention_mask=mask))  # which the model drops

    def test_a_whole_number_that_a_returned_object_holds_is_no_result(self):
        class Held:
            def __init__(self, output, number):
                self.output, self.number = output, number

        class Layer(torch.nn.LayerNorm):
            def forward(self, x):
                return Held(super().forward(x), self.number)

        for number, verdict in ((torch.tensor(4), "the same"), (torch.tensor([4]), "undecided"), (torch.tensor(0.5), "undecided")):
            layer = Layer(8)
            layer.number = number
            self.assertEqual(attn.check(layer, self.x).verdict, verdict)

    def test_lost_tracing_is_no_verdict(self):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.assertTrue(attn.check(layer, self.x))
        layer.linear1.register_forward_pre_hook(lambda *_: sys.settrace(None))
        report = attn.check(layer, self.x)
        self.assertEqual(report.verdict, "undecided")
        self.assertIn("took Python's tracing", str(report))

    def test_a_weight_without_a_gradient_has_a_gradient_of_zero(self):
        class Detached(torch.nn.Linear):
            def forward(self, x):
                return torch.nn.functional.linear(x, self.weight.detach(), self.bias)

        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        weights = torch.randn(2, 5, 8)
        self.assertTrue(attn.check(layer, self.x, backward=lambda y: (y * weights).sum()))
        layer.linear2.__class__ = Detached
        self.assertFalse(attn.check(layer, self.x, backward=lambda y: (y * weights).sum()))

    def test_a_loss_of_more_than_the_first_result_is_refused(self):
        attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        with self.assertRaisesRegex(attn.Error, "the loss uses more than the first result"):
            attn.check(attention, self.x, self.x, self.x, backward=lambda both: (both[0] ** 2).sum() + (both[1] ** 2).sum())

    def test_names_are_proposed_by_what_is_computed_from_what(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "of_own_names.py").write_text(OWN_NAMES)
            sys.path.insert(0, folder)
            try:
                from of_own_names import Stack
            finally:
                sys.path.remove(folder)
            with self.assertRaises(attn.Error) as raised:
                attn.check(Stack().eval(), self.x)
            said = str(raised.exception)
            self.assertIn('"blocks.*.wanted.*": "layers.*.self_attn.q_proj.*"', said)
            self.assertNotIn(".npz", said)
            given = eval("dict(" + said[said.index("reference="):said.rindex("}") + 1] + ")")
            self.assertEqual(given["options"], {"heads": "?", "norm": "pre", "activation": "relu"})  # which no shape tells
            given["options"]["heads"] = 2
            report = attn.check(Stack().eval(), self.x, **given)
            self.assertTrue(report, str(report))
            self.assertEqual(report.checked, "Stack, by attn run encoder")
            self.assertEqual(attn.check(Stack(wrong=True).eval(), self.x, **given).verdict, "different")
            mask = torch.ones(5, 5).triu(1).bool()
            with self.assertRaisesRegex(attn.Error, "its argument hidden is none that attn run encoder takes"):
                attn.check(Stack().eval(), self.x, mask, **given)
            given["rename"]["hidden"] = "~mask"
            self.assertTrue(attn.check(Stack().eval(), self.x, mask, **given))
            self.assertFalse(attn.check(Stack().eval(), self.x, ~mask, **given, ignore=["hidden"]))

    @unittest.skipUnless(torch and hasattr(torch.nn.functional, "scaled_dot_product_attention"), "of PyTorch 2")
    def test_a_function_and_a_module_of_queries_keys_and_values_are_checked_by_words(self):
        attend = torch.nn.functional.scaled_dot_product_attention

        class Wrapped(torch.nn.Module):
            def forward(self, q, k, v, mask=None):
                return attend(q, k, v, mask)

        self.assertTrue(attn.check(Wrapped(), "attention", axes=4, mask="mask"))
        self.assertTrue(attn.check(attend, "attention", axes=4, like="torch", dtype="bfloat16"))
        self.assertFalse(attn.check(lambda q, k, v: attend(q, k, v, scale=1), "attention", axes=4, like="torch", dtype="bfloat16"))
        self.assertRaisesRegex(attn.Error, "like makes float64 of an array, expected bfloat16|like makes float32", attn.check, attend, "attention",
                               like=torch.from_numpy, dtype="bfloat16")

    def test_gradients_of_a_function_are_compared_where_they_are_asked_for(self):
        def attention(q, k, v):
            return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

        def loss(out):
            return (out * out).sum()

        report = attn.check(attention, "attention", like="torch", axes=3, backward=loss)
        self.assertIn("gradients of queries, keys and values", str(report))
        self.assertTrue(report)
        report = attn.check(lambda q, k, v: attention(q, k, v.detach()) + 0 * v.sum(), "attention", like="torch", backward=loss)
        self.assertEqual((report.verdict, report.case[-10:]), ("different", ", backward"[-10:]))

    def test_what_has_no_reference_is_an_error(self):
        self.assertRaisesRegex(attn.Error, "attn run has no such module", attn.check, torch.nn.Conv1d(3, 3, 1), torch.randn(1, 3, 3))
        self.assertRaisesRegex(attn.Error, "is no module of PyTorch", attn.check, lambda x: x, self.x)


def packed_by_head(is_tied):
    """A GPT-NeoX: queries, keys and values of a head are neighbours in one weight. The row of its padding gets no gradient."""
    settings = {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": 12, "hidden_size": 8, "intermediate_size": 16,
                "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_act": "gelu", "rotary_pct": 1.0, "rotary_emb_base": 100,
                "tie_word_embeddings": is_tied, "max_position_embeddings": 16}
    linear, norm, modules = torch.nn.Linear, lambda: torch.nn.LayerNorm(8), torch.nn.ModuleDict

    class Model(torch.nn.Module):
        class config:
            to_json_string = staticmethod(lambda: json.dumps(settings))

        def __init__(self):
            super().__init__()
            layer = modules({"input_layernorm": norm(), "post_attention_layernorm": norm(),
                             "attention": modules({"query_key_value": linear(8, 24), "dense": linear(8, 8)}),
                             "mlp": modules({"dense_h_to_4h": linear(8, 16), "dense_4h_to_h": linear(16, 8)})})
            self.gpt_neox = modules({"embed_in": torch.nn.Embedding(12, 8, padding_idx=3), "layers": torch.nn.ModuleList([layer]),
                                     "final_layer_norm": norm()})
            self.embed_out = linear(8, 12, bias=False)
            if is_tied:
                self.embed_out.weight = self.gpt_neox["embed_in"].weight
            with torch.no_grad():
                for weight in self.parameters():
                    weight.add_(torch.randn_like(weight) / 5)

        def forward(self, ids):
            x, layer = self.gpt_neox["embed_in"](ids), self.gpt_neox["layers"][0]
            attention, mlp = layer["attention"], layer["mlp"]
            heads = attention["query_key_value"](layer["input_layernorm"](x)).view(*x.shape[:2], 2, 12).transpose(1, 2)
            q, k, v = heads.split(4, -1)
            angles = torch.arange(x.shape[1])[:, None] * torch.tensor([1, 0.1, 1, 0.1])
            q, k = (one * angles.cos() + torch.cat([-one[..., 2:], one[..., :2]], -1) * angles.sin() for one in (q, k))
            scores = (q @ k.transpose(-1, -2) / 2).masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -torch.inf)
            context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
            hidden = torch.nn.functional.gelu(mlp["dense_h_to_4h"](layer["post_attention_layernorm"](x)))
            return self.embed_out(self.gpt_neox["final_layer_norm"](x + attention["dense"](context) + mlp["dense_4h_to_h"](hidden)))

    return Model()


def text_model(pool):
    """A tiny text model of CLIP, which returns pool(hidden states, ids), too."""
    nn = torch.nn

    class Model(nn.Module):
        class config:
            @staticmethod
            def to_json_string():
                return json.dumps(dict(model_type="clip_text_model", vocab_size=11, hidden_size=8, intermediate_size=16, num_hidden_layers=1,
                                       num_attention_heads=2, max_position_embeddings=6, hidden_act="gelu", eos_token_id=7))

        def __init__(self):
            super().__init__()
            self.embeddings = nn.ModuleDict(dict(token_embedding=nn.Embedding(11, 8), position_embedding=nn.Embedding(6, 8)))
            maps = {name: nn.Linear(8, 8) for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
            block = dict(layer_norm1=nn.LayerNorm(8), self_attn=nn.ModuleDict(maps), layer_norm2=nn.LayerNorm(8),
                         mlp=nn.ModuleDict(dict(fc1=nn.Linear(8, 16), fc2=nn.Linear(16, 8))))
            self.encoder = nn.ModuleDict(dict(layers=nn.ModuleList([nn.ModuleDict(block)])))
            self.final_layer_norm = nn.LayerNorm(8)

        def forward(self, input_ids):
            block = self.encoder["layers"][0]
            x = self.embeddings["token_embedding"](input_ids) + self.embeddings["position_embedding"].weight[:input_ids.shape[1]]
            y, maps = block["layer_norm1"](x), block["self_attn"]
            q, k, v = (maps[name](y).unflatten(-1, (2, 4)).transpose(1, 2) for name in ("q_proj", "k_proj", "v_proj"))
            hidden = torch.ones(x.shape[1], x.shape[1]).triu(1) == 1
            context = (q @ k.transpose(-2, -1) / 2).masked_fill(hidden, float("-inf")).softmax(-1) @ v
            x = x + maps["out_proj"](context.transpose(1, 2).flatten(2))
            x = x + block["mlp"]["fc2"](nn.functional.gelu(block["mlp"]["fc1"](block["layer_norm2"](x))))
            x = self.final_layer_norm(x)
            pooled = pool(x, input_ids)
            return {"last_hidden_state": x, "pooler_output": pooled}

    torch.manual_seed(3)
    return Model().eval()


MODEL = """
import torch

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)

    def forward(self, x):
        b, n, d = x.size()
        q, k, v = (part.view(b, n, 2, 4).transpose(1, 2) for part in self.c_attn(x).split(8, dim=2))
        att = (q @ k.transpose(-2, -1)) / k.size(-1)
        att = att.masked_fill(torch.ones(n, n).tril() == 0, float("-inf"))
        att = att.softmax(-1)
        y = att @ v
        return self.c_proj(y.transpose(1, 2).reshape(b, n, d))

class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

    def forward(self, x):
        return self.c_proj(torch.nn.functional.gelu(self.c_fc(x)))

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = torch.nn.LayerNorm(8), Attention(), torch.nn.LayerNorm(8), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))

class Config:
    n_head, n_embd, n_layer = 2, 8, 1

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.transformer = torch.nn.ModuleDict(dict(
            wte=torch.nn.Embedding(11, 8), wpe=torch.nn.Embedding(6, 8), h=torch.nn.ModuleList([Block()]),
            ln_f=torch.nn.LayerNorm(8)))
        self.lm_head = torch.nn.Linear(8, 11, bias=False)

    def forward(self, ids):
        x = self.transformer.wte(ids) + self.transformer.wpe(torch.arange(ids.size(1)))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))
"""


OWN_NAMES = """
import math
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, wrong):
        super().__init__()
        self.offered, self.carried, self.wanted, self.mixed = (nn.Linear(8, 8) for _ in range(4))
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.wrong = wrong

    def forward(self, x, hidden):
        y = self.first(x)
        q, k, v = (part(y).view(2, 5, 2, 4).transpose(1, 2) for part in (self.wanted, self.offered, self.carried))
        scores = q @ k.mT / math.sqrt(4)
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        weights = scores.softmax(-1)
        if self.wrong:
            weights = weights.mT
        mixed = weights @ v
        x = x + self.mixed(mixed.transpose(1, 2).reshape(2, 5, 8))
        return x + self.network(self.second(x))

class Stack(nn.Module):
    def __init__(self, wrong=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block(wrong) for _ in range(2))

    def forward(self, x, hidden=None):
        for block in self.blocks:
            x = block(x, hidden)
        return x
"""


if __name__ == "__main__":
    unittest.main()
