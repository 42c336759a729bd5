#!/usr/bin/env python3
"""Tests of the exercises in NumPy: they fail until they are written, pass with their solutions, and a mistake is named.

    tests/exercises/check.py FOLDER

where FOLDER has the programs exercise_NN_topic. The messages come from those programs, so this tests what C++ learners
read, too. Exit code 77 where there is no NumPy.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
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
NUCLEUS = (
    "def cut(c, p, inside=lambda before, c, p: before < p):\n"
    "    o = np.argsort(-c, axis=1, kind='stable')\n    f = np.take_along_axis(c, o, axis=1)\n    k = np.zeros_like(c)\n"
    "    np.put_along_axis(k, o, np.where(inside(np.cumsum(f, axis=1) - f, f, p), f, 0), axis=1)\n    return k\n"
    "def whole(k): return k / k.sum(axis=1, keepdims=True)\n"
)
PROBABILITIES = NUCLEUS + "def my_probabilities(l, t, p): return whole(cut(softmax(l / t), p))\n"
WRONG = [
    ("01_single_query", "def my_scores(q, k): return k @ q\ndef my_weights(s): return np.exp(s)\n",
     ["my_weights is wrong: expected [0.0634, 0.4683, 0.4683], yours gave [7.3891, 54.5982, 54.5982], which sums to 116.6 instead of 1.",
      "called with scores = [2, 4, 4]", "= exp(2 - 4) / (exp(2 - 4) + exp(4 - 4) + exp(4 - 4))"]),
    ("01_single_query", "def my_scores(q, k): return k @ q\ndef my_weights(s): return s\n",
     ["well-known mistake, softmax_missing: Scores are used as weights, without softmax.", "weights = scores where softmax(scores) is right"]),
    ("01_single_query", "def my_scores(q, k): return k * q\n", ["Its sum along axis 1 would be right: the products are not added."]),
    ("01_single_query", "def my_scores(q, k): return k @ q / np.sqrt(len(q))\n", ["Your scores is divided by sqrt(3)", "Nothing is to be scaled here."]),
    ("02_all_queries", "def my_attention(q, k, v): return softmax(q @ k.T / np.sqrt(3)) @ v\n", ["Your scores is divided by sqrt(3)"]),
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
    ("30_choosing", f"{NUCLEUS}def my_probabilities(l, t, p): return whole(cut(softmax(l / t), p, lambda before, c, p: before + c <= p))\n", ["mistake, nucleus_without_crossing:"]),
    ("30_choosing", f"{NUCLEUS}def my_probabilities(l, t, p): return cut(softmax(l / t), p)\n", ["mistake, nucleus_not_normalized:"]),
    ("30_choosing", f"{NUCLEUS}def my_probabilities(l, t, p): return whole(np.where(cut(softmax(l), p) > 0, softmax(l / t), 0))\n", ["mistake, nucleus_before_temperature:"]),
    ("30_choosing", f"{PROBABILITIES}def my_next(p, q): return p\n", ["mistake, speculation_from_target:"]),
    ("30_choosing", f"{PROBABILITIES}def my_next(p, q): return np.maximum(q - p, 0) / np.maximum(q - p, 0).sum()\n", ["mistake, speculation_sides_swapped:"]),
    ("30_choosing", f"{PROBABILITIES}def my_next(p, q): return np.abs(p - q) / np.abs(p - q).sum()\n", ["mistake, speculation_excess_signed:"]),
    ("18_flash_attention", "def my_merged_context(c, m, l, d, n, k): return (l[:, None] * c + k[:, None] * d) / (l + k)[:, None]\n",
     ["my_merged_context is wrong.", "expected 2.8828", "= (0.374617*0.0179862 + 1.04979*3.90515) / (0.374617 + 1.04979)"]),
    ("21_recurrence", "def my_lstm_step(x, hidden, cell, *rest): return cell\n", ["my_lstm_step returned ndarray, expected several results"]),
]  # fmt: skip


def checked(topic, path, *flags):
    """Exit code, output and errors of a check."""
    command = [sys.executable, ROOT / "lessons" / "check_exercise.py", FOLDER / f"exercise_{topic}", path, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Exercises(unittest.TestCase):
    def test_an_exercise_fails_until_it_is_written(self):
        for topic in TOPICS:
            with self.subTest(topic):
                code, _, errors = checked(topic, ROOT / "lessons" / topic / "exercise.py")
                self.assertEqual(code, 1)
                for part in ("is not written yet", "expected", "yours gave", f"Write it in lessons/{topic}/exercise.py"):
                    self.assertIn(part, errors)
                self.assertNotIn("The arithmetic", errors)

    def test_hints_come_in_stages(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "exercise.py"
            path.write_text("import numpy as np\ndef my_scores(q, k): return k @ q\ndef my_weights(s): return s\n")
            what, step, line = (checked("01_single_query", path, *flags)[2] for flags in ((), ("--hint",), ("--answer",)))
        for text, in_what, in_step in (("softmax_missing", True, True), ("With --hint", True, False), ("Look at the step weights.", False, True),
                                       ("The arithmetic", False, True), ("softmax(scores)", False, False)):  # fmt: skip
            self.assertEqual((text in what, text in step), (in_what, in_step), text)
        self.assertIn("weights = softmax(scores)", line)
        self.assertIn("Look at the step weights.", line)
        unwritten = ROOT / "lessons" / "01_single_query" / "exercise.py"
        self.assertNotIn("keys @ query", checked("01_single_query", unwritten, "--hint")[2])
        self.assertIn("scores = keys @ query", checked("01_single_query", unwritten, "--answer")[2])

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
                code, _, errors = checked(topic, path, "--answer")
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


SOLVED = (ROOT / "tests" / "exercises" / "01_single_query.py").read_text()


class Supervised(unittest.TestCase):
    """script/exercise in a copy of the checkout, where everything is built already."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="attn-exercise-")
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        for name in ("script", "lessons/01_single_query", "python/attn", "python/attn_record"):
            shutil.copytree(ROOT / name, self.root / name)
        for name in ("CMakePresets.json", "lessons/check_exercise.py"):
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "build/release/bin").mkdir(parents=True)
        (self.root / "build/release/CMakeCache.txt").touch()
        (self.root / "bin").mkdir()
        for name, does in (("cmake", "exit 0"), ("dpkg-query", "echo install ok installed")):
            (self.root / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
            (self.root / "bin" / name).chmod(0o755)
        self.left = self.root / "left"
        self.use("exercise_01_single_query")

    def use(self, program):
        """What "building" exercise 1 gives."""
        link = self.root / "build/release/bin/exercise_01_single_query"
        link.unlink(missing_ok=True)
        link.symlink_to(Path(FOLDER).resolve() / program)

    def write(self, before, in_function=""):
        """exercise.py, solved, but with something before its functions, or in my_weights."""
        self.file = self.root / "lessons/01_single_query/exercise.py"
        self.file.write_text(before + "\n" + SOLVED.replace("    exponentials = np.exp", f"    {in_function or 'pass'}\n    exponentials = np.exp"))

    def begin(self, *flags, **variables):
        process = subprocess.Popen([self.root / "script/exercise", "1", *flags], text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
                                        "LEFT": str(self.left), **variables})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def run_script(self, *flags, **variables):
        """@return exit code and output; an error where it takes too long, or where something keeps the output open"""
        process = self.begin(*flags, **variables)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def expect_ended(self, pid):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            state = Path(f"/proc/{pid}/stat")
            if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.05)
        self.fail(f"process {pid} is left")

    def test_what_is_right_passes(self):
        self.write("")
        self.assertEqual(self.run_script("--python")[0], 0)
        self.use("misbehaving")
        code, output = self.run_script()
        self.assertEqual(code, 0)
        self.assertIn("exercise 1 is done", output)

    def test_a_python_program_that_ends_itself_does_not_pass(self):
        for does, parts in {
            "import sys; sys.exit(0)": [": import sys; sys.exit(0)\n", "SystemExit: 0"],
            "raise SystemExit": [": raise SystemExit\n", "SystemExit: \n"],
            "import os; os._exit(0)": ["my_weights ended the program with exit code 0, before it was checked"],
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": ["my_weights ended the program by SIGSEGV"],
        }.items():
            with self.subTest(does):
                self.write("", does)
                code, output = self.run_script("--python")
                self.assertEqual(code, 1, output)
                for part in parts:
                    self.assertIn(part, output)
                self.write(does)
                code, output = self.run_script("--python")
                self.assertEqual(code, 1, output)
                self.assertIn(parts[-1].replace("my_weights", "exercise.py"), output)
                self.assertNotIn("is done", output)

    def test_a_cpp_program_that_ends_itself_does_not_pass(self):
        self.use("misbehaving")
        for how, message in {
            "exit": "my_weights ended the program with exit code 0, before it was checked",
            "_exit": "my_weights ended the program with exit code 0, before it was checked",
            "beginning": "the exercise ended the program with exit code 0, before it was checked",
            "crash": "my_weights ended the program by SIGABRT",
        }.items():
            with self.subTest(how):
                code, output = self.run_script(ATTN_MISBEHAVE=how)
                self.assertEqual(code, 1, output)
                self.assertIn(message, output)
                self.assertNotIn("is done", output)

    def test_a_function_that_does_not_return_is_stopped_after_its_limit(self):
        self.write("", "import os; print(os.getpid(), file=open(os.environ['LEFT'], 'w'))\n    while True: pass")
        code, output = self.run_script("--python", "--limit", "9")
        self.assertEqual(code, 1)
        self.assertIn("my_weights has not returned after 9 s, and is stopped; --limit SECONDS waits longer", output)
        self.expect_ended(int(self.left.read_text()))
        self.use("misbehaving")
        code, output = self.run_script("--limit", "3", ATTN_MISBEHAVE="loop")
        self.assertEqual(code, 1)
        self.assertIn("my_weights has not returned after 3 s, and is stopped", output)

    def test_what_an_exercise_leaves_running_ends_with_its_check(self):
        sleeps = "lambda: __import__('time').sleep(1000)"
        for before in (f"import threading; threading.Thread(target={sleeps}).start()",
                       f"import atexit; atexit.register({sleeps})",
                       "import os, subprocess\nprint(subprocess.Popen(['sleep', '1000']).pid, file=open(os.environ['LEFT'], 'w'))"):
            with self.subTest(before):
                self.write(before)
                code, output = self.run_script("--python")
                self.assertEqual(code, 0, output)
                self.assertIn("exercise 1 is done", output)
        self.expect_ended(int(self.left.read_text()))
        self.use("misbehaving")
        for how in ("thread", "process", "ending"):
            with self.subTest(how):
                code, output = self.run_script(ATTN_MISBEHAVE=how)
                self.assertEqual(code, 0, output)
                self.assertIn("exercise 1 is done", output)

    def test_a_save_stops_a_check_that_runs(self):
        self.write("", "import os; print(os.getpid(), file=open(os.environ['LEFT'], 'w'))\n    while True: pass")
        process = self.begin("--python", "--watch")
        deadline = time.monotonic() + 30
        while not (self.left.exists() and self.left.read_text().strip()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.write("")
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "waiting for the next save" in line:
                break
        self.assertIn("was saved: the check of what it was before is stopped", "".join(lines))
        self.assertIn("exercise 1 is done", "".join(lines))
        self.expect_ended(int(self.left.read_text()))
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C
        self.assertEqual(process.wait(timeout=10), 0)

    def test_ctrl_c_ends_what_runs(self):
        self.write("", "import os; print(os.getpid(), file=open(os.environ['LEFT'], 'w'))\n    while True: pass")
        for flags, code in ((["--python"], 130), (["--python", "--watch"], 0)):
            with self.subTest(flags):
                self.left.unlink(missing_ok=True)
                process = self.begin(*flags)
                deadline = time.monotonic() + 30
                while not (self.left.exists() and self.left.read_text().strip()):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                os.killpg(process.pid, signal.SIGINT)
                self.assertEqual(process.wait(timeout=10), code)
                self.expect_ended(int(self.left.read_text()))


if __name__ == "__main__":
    FOLDER = Path(sys.argv.pop(1))
    unittest.main()
