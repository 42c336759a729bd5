#!/usr/bin/env python3
"""Tests of the exercises in NumPy: they fail until they are written, pass with their solutions, and a mistake is named.

    tests/exercises/check.py FOLDER

where FOLDER has the programs exercise_NN_topic. The messages come from those programs, so this tests what C++ learners
read, too. Exit code 77 where there is no NumPy.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
try:
    import numpy  # noqa: F401
except ImportError:
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
TOPICS = sorted(path.name.removeprefix("exercise_") for path in Path(sys.argv[1]).glob("exercise_*"))  # one is built with MPI only
SOFTMAX = "def softmax(x, axis=-1):\n    e = np.exp(x)\n    return e / e.sum(axis=axis, keepdims=True)\n"

# What a learner wrote, and what is to be said about it: topic, functions, parts of the message.
WRONG = [
    ("01_single_query", "def my_scores(q, k): return k @ q\ndef my_weights(s): return np.exp(s)\n",
     ["my_weights is wrong: expected [0.0634, 0.4683, 0.4683], yours gave [7.3891, 54.5982, 54.5982], which sums to 116.6 instead of 1.",
      "called with scores = [2, 4, 4]", "= exp(2 - 4) / (exp(2 - 4) + exp(4 - 4) + exp(4 - 4))"]),
    ("01_single_query", "def my_scores(q, k): return k @ q\ndef my_weights(s): return s\n",
     ["well-known mistake, softmax_missing: Scores are used as weights, without softmax.", "weights = scores where softmax(scores) is right"]),
    ("01_single_query", "def my_scores(q, k): return 'three'\n", ["my_scores returned str, expected an array of numbers"]),
    ("01_single_query", "def my_score(q, k): return k @ q\n", ["my_scores is missing, expected a function of that name"]),
    ("01_single_query", "def my_scores(q, k):\n    return k @ q[:2]\n", ["my_scores ended with an error", "line 6: return k @ q[:2]", "ValueError"]),
    ("01_single_query", "def my_scores(q, k) return\n", ["can't be loaded", "SyntaxError"]),
    ("01_single_query", "def my_scores(q, k): return (k @ q)[:2]\n", ["expected [2, 4, 4], yours gave [2, 4].", "The first number that is missing is scores[2]."]),
    ("02_all_queries", "def my_attention(q, k, v): return softmax(q @ k.T, 0) @ v\n", ["mistake, softmax_axis:", "context[1]  1.9997  7.7599"]),
    ("02_all_queries", "def my_attention(q, k, v): return (softmax(q @ k.T) @ v)[:1]\n", ["expected the shape (2, 2), yours gave (1, 2)."]),
    ("03_scale_and_softmax", "def my_softmax(s): return softmax(s.astype(np.float32))\n", ["All digits that float32 has are right"]),
    ("03_scale_and_softmax", "def my_softmax(s):\n    with np.errstate(all='ignore'):\n        return softmax(s)\n", ["yours gave [nan, nan, nan]", "called with scores = [1000, 1001, 1002]"]),
    ("05_masking", "def my_masked_weights(s, n): return softmax(s) * np.tri(4) * (np.arange(4) < n)\n",
     ["mistake, mask_after_softmax:", "Row 0 of yours sums to 0.2369 instead of 1.", "length = 4"]),
    ("06_multi_head", "def my_merged_heads(c): return c.reshape(c.shape[1], -1)\n", ["mistake, heads_unpermuted_merge:"]),
    ("07_self_and_cross", "def my_aligned_question(p, q): return softmax(p @ q.T) @ q\n", ["mistake, no_scale:"]),
    ("09_feed_forward_and_norm", "def my_normalized(x, e): return (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + e)\n",
     ["mistake, norm_epsilon_outside:", "expected -1.06904344", "yours gave -1.06903925"]),
    ("14_gradients", "def my_score_gradient(w, d): return w * (1 - w) * d\n",
     ["my_score_gradient is wrong.", "= weights[0,1]*(arriving[0,1] - (arriving[0,0]*weights[0,0]"]),
    ("16_rotary_and_alibi", "def my_turned_pair(p, a): return np.stack([p[:, 0] * np.cos(a) + p[:, 1] * np.sin(a), p[:, 1] * np.cos(a) - p[:, 0] * np.sin(a)], 1)\n",
     ["mistake, rotary_sign:"]),
    ("18_flash_attention", "def my_merged_context(c, m, l, d, n, k): return (l[:, None] * c + k[:, None] * d) / (l + k)[:, None]\n",
     ["my_merged_context is wrong.", "expected 2.8828", "= (0.374617*0.0179862 + 1.04979*3.90515) / (0.374617 + 1.04979)"]),
    ("21_recurrence", "def my_lstm_step(x, hidden, cell, *rest): return cell\n", ["my_lstm_step returned ndarray, expected several results"]),
]  # fmt: skip


def checked(topic, path):
    """Exit code, output and errors of a check."""
    command = [sys.executable, ROOT / "lessons" / "check_exercise.py", FOLDER / f"exercise_{topic}", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Exercises(unittest.TestCase):
    def test_an_exercise_fails_until_it_is_written(self):
        for topic in TOPICS:
            with self.subTest(topic):
                code, _, errors = checked(topic, ROOT / "lessons" / topic / "exercise.py")
                self.assertEqual(code, 1)
                for part in ("is not written yet", "expected", "yours gave", f"Write it in lessons/{topic}/exercise.py: "):
                    self.assertIn(part, errors)

    def test_an_exercise_passes_with_its_solution(self):
        for topic in TOPICS:
            with self.subTest(topic):
                code, output, errors = checked(topic, ROOT / "tests" / "exercises" / f"{topic}.py")
                self.assertEqual((code, errors), (0, ""))
                self.assertIn(f"exercise {int(topic[:2])} is done", output)

    def test_a_mistake_is_shown_and_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "exercise.py"
            for topic, functions, parts in WRONG:
                path.write_text(f"import numpy as np\n{SOFTMAX}{functions}")
                code, _, errors = checked(topic, path)
                self.assertEqual(code, 1)
                for part in parts:
                    with self.subTest(topic, part=part):
                        self.assertIn(part, errors)

    def test_what_is_right_is_not_said_of_a_function_that_is_wrong_later(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "exercise.py"
            path.write_text(f"import numpy as np\n{SOFTMAX}def my_softmax(s): return softmax(s if s[0] < 9 else 0 * s)\n")
            self.assertEqual(checked("03_scale_and_softmax", path)[1], "")

    def test_the_script_lists_exercises_and_refuses_others(self):
        def said(*arguments):
            done = subprocess.run([ROOT / "script" / "exercise", *arguments], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr

        code, output, _ = said()
        self.assertEqual((code, len(output.splitlines())), (0, len(TOPICS)))
        for arguments, message in {
            ("99",): "there is no exercise 99", ("x",): "x is not the number of an exercise",
            ("1", "--foo"): "there is no flag --foo", ("--watch",): "expected the number of an exercise",
        }.items():  # fmt: skip
            code, _, errors = said(*arguments)
            self.assertEqual(code, 2)
            self.assertIn(f"script/exercise: {message}", errors)


if __name__ == "__main__":
    FOLDER = Path(sys.argv.pop(1))
    unittest.main()
