#!/usr/bin/env python3
"""Tests of the exercises' notebooks: current, not written yet as they are, right with the solutions, and a mistake is named; and of
attn.exercise(), which they call: what is wrong is named, in each of the ways of ways.py.

    tests/exercises/notebooks.py ATTN FOLDER

where FOLDER has the programs exercise_NN_topic, and ATTN is the program attn. Exit code 77 where there is no NumPy.
"""

import ast
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
try:
    import numpy as np
except ImportError:
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
os.environ["ATTN"] = os.path.abspath(sys.argv[1])
FOLDER = Path(sys.argv[2]).resolve()
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "lessons")]
sys.path.append(str(ROOT / "tests" / "oracle"))
import attn  # noqa: E402
import numpy_parts  # noqa: E402
from formulas import FUNCTIONS  # noqa: E402
from ways import WAYS  # noqa: E402

LESSONS = sorted(path.name for path in (ROOT / "lessons").glob("[0-9][0-9]_*"))


def cells_of(lesson):
    notebook = json.loads((ROOT / "lessons" / lesson / "exercise.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(cells, instead=""):
    """Runs the cells as a notebook does; before the first question to attn.exercise(), other definitions. What the questions gave."""
    names, answers = {}, []
    for cell in cells:
        if "attn.exercise(" not in cell:
            exec(cell, names)
            continue
        if not answers:
            exec(instead, names)
        answers.append(eval(cell, names))
    return answers


def function_of(lesson, name, lines):
    """The function that is made of lines as a page has them: the last one is its result. Others of the lesson are the solution's."""
    asked = ast.parse((ROOT / "lessons" / lesson / "exercise.py").read_text(encoding="utf-8"))
    (function,) = (node for node in asked.body if isinstance(node, ast.FunctionDef) and node.name == name)
    function.body = ast.parse(lines).body
    if isinstance(function.body[-1], ast.Expr):
        function.body[-1] = ast.copy_location(ast.Return(function.body[-1].value), function.body[-1])
    names = {**vars(numpy_parts), **{other: FUNCTIONS[other] for other in ("softmax", "sigmoid", "top_k")}}
    exec((ROOT / "tests" / "exercises" / f"{lesson}.py").read_text(encoding="utf-8"), names)
    exec(compile(ast.fix_missing_locations(ast.Module([function], [])), "<lines>", "exec"), names)
    return names[name]


def said_of(lesson, name, lines):
    """Whether it is right, and what is said of it; an error of the lines' own, as Python says it."""
    try:
        with np.errstate(all="ignore"):
            checked = attn.exercise(lesson, function_of(lesson, name, lines))
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"
    return bool(checked), str(checked)


class Ways(unittest.TestCase):
    def test_each_function_has_five_wrong_ways(self):
        self.assertEqual(list(WAYS), LESSONS)
        for lesson, functions in WAYS.items():
            for name, (_, wrong) in functions.items():
                self.assertGreaterEqual(len(wrong), 5, f"{lesson}, {name}")

    def test_what_is_wrong_is_named(self):
        for lesson, functions in WAYS.items():
            for name, (right, wrong) in functions.items():
                with self.subTest(lesson, function=name, lines=right):
                    self.assertEqual(said_of(lesson, name, right)[1][:300] if not said_of(lesson, name, right)[0] else "", "")
                for lines, word in wrong.items():
                    in_python = word[1] if isinstance(word, tuple) else word
                    if in_python is not None:
                        with self.subTest(lesson, function=name, lines=lines):
                            is_right, said = said_of(lesson, name, lines)
                            self.assertFalse(is_right)
                            self.assertIn(in_python, said)
                            self.assertNotIn("The arithmetic", said)


class Notebooks(unittest.TestCase):
    def test_they_are_what_is_made(self):
        made = subprocess.run([sys.executable, ROOT / "lessons" / "make_notebooks.py", FOLDER, "--check"], check=False, capture_output=True, text=True)
        self.assertEqual((made.returncode, [line for line in made.stderr.splitlines() if "is not what" in line]), (0, []))

    def test_as_they_are_each_function_is_not_written_yet(self):
        for lesson in LESSONS:
            with self.subTest(lesson):
                cells = cells_of(lesson)
                first, with_hint = run(cells)
                self.assertFalse(first)
                for node in ast.parse((ROOT / "lessons" / lesson / "exercise.py").read_text()).body:
                    if isinstance(node, ast.FunctionDef):
                        self.assertRegex(str(first), rf"{node.name}('s [\w ]+)? is (not written yet|wrong)")
                self.assertNotIn("The arithmetic", str(first))
                self.assertNotIn("The formula", str(with_hint))

    def test_with_the_solution_all_is_right(self):
        for lesson in LESSONS:
            with self.subTest(lesson):
                solution = (ROOT / "tests" / "exercises" / f"{lesson}.py").read_text()
                for answer in run(cells_of(lesson), solution):
                    self.assertTrue(answer, str(answer))
                    self.assertNotIn("wrong", str(answer))

    def test_a_result_that_is_a_little_off_is_wrong(self):
        for lesson in LESSONS:
            with self.subTest(lesson):
                names = {}
                exec((ROOT / "tests" / "exercises" / f"{lesson}.py").read_text(), names)
                mine = [function for name, function in names.items() if name.startswith("my_")]
                for function in mine:
                    def off(*arguments, function=function):
                        result = function(*arguments)
                        return tuple(one + 1 for one in result) if isinstance(result, tuple) else np.asarray(result) + 1.0
                    off.__name__ = function.__name__
                    self.assertFalse(attn.exercise(lesson, off), function.__name__)

    def test_mistakes_are_named_as_in_the_page(self):
        def softmax(x, axis=-1):
            e = np.exp(x)
            return e / e.sum(axis=axis, keepdims=True)

        def my_weights(scores):
            return np.exp(scores)

        def my_attention(queries, keys, values):
            return softmax(queries @ keys.T, 0) @ values

        def my_merged_heads(contexts):
            return contexts.reshape(contexts.shape[1], -1)

        for lesson, function, mistake in (("01_single_query", my_weights, "softmax_unnormalized"), ("02_all_queries", my_attention, "softmax_axis"),
                                          ("06_multi_head", my_merged_heads, "heads_unpermuted_merge")):  # fmt: skip
            self.assertIn(mistake, str(attn.exercise(lesson, function)))
        said = attn.exercise("01_single_query", my_weights, hint="line")
        self.assertIn("  return exponentials / exponentials.sum()", str(said))
        self.assertNotIn("With hint", str(said))
        self.assertIn("The arithmetic", str(attn.exercise("01_single_query", my_weights, hint="step")))
        self.assertIn('hint="step"', str(attn.exercise("01_single_query", my_weights)))
        self.assertIn("#d1343f", said._repr_html_())
        self.assertGreater(len(str(said).splitlines()), 5)
        self.assertNotIn("\\n", str(said))

    def test_what_is_no_exercise_is_refused(self):
        def my_scores(query, keys):
            return "three"

        for arguments, message in ((("99_nothing", my_scores), "there is no exercise 99_nothing; there are 01_single_query"),
                                   (("02_all_queries", my_scores), "asks for my_attention, my_attention_in_columns, and was given my_scores"),
                                   (("01_single_query",), "was given nothing"),
                                   (("01_single_query", my_scores), "my_scores returned str, expected an array of numbers")):  # fmt: skip
            with self.assertRaisesRegex(attn.Error, message):
                attn.exercise(*arguments)
        with self.assertRaisesRegex(attn.Error, 'expected "what", "step" or "line"'):
            attn.exercise("01_single_query", my_scores, hint="all")


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
