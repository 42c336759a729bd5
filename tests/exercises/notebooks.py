#!/usr/bin/env python3
"""Tests of the exercises' notebooks: current, not written yet as they are, right with the solutions, and a mistake is named.

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
import attn  # noqa: E402

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
        self.assertIn("weights = softmax(scores)", str(said))
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
