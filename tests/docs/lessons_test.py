#!/usr/bin/env python3
"""Runs the script of every lesson as somebody does who has downloaded it: alone in a folder, with NumPy and nothing of the project.

Exit codes: 0 each prints what its page shows; 1 one does not; 77 there is no NumPy.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(ROOT.glob("lessons/[0-9][0-9]_*/lesson.py"))
LARGEST = 250_000  # bytes of a script and its numbers


def run(script, change=lambda text: text):
    """What the script says, alone with its numbers in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lesson.py").write_text(change(script.read_text(encoding="utf-8")), encoding="utf-8")
        if script.with_suffix(".npz").is_file():
            shutil.copy(script.with_suffix(".npz"), folder)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run([sys.executable, "lesson.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


class Scripts(unittest.TestCase):
    def test_every_lesson_has_one(self):
        lessons = [path.parent.name for path in sorted(ROOT.glob("lessons/[0-9][0-9]_*/lesson.md"))]
        self.assertEqual([path.parent.name for path in SCRIPTS], lessons)

    def test_it_runs_alone_and_says_that_all_is_as_on_the_page(self):
        for script in SCRIPTS:
            with self.subTest(script.parent.name):
                done = run(script)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(done.stdout.endswith("all as on the page\n"))
                self.assertGreaterEqual(done.stdout.count(": "), 3)

    def test_another_number_stops_it(self):
        done = run(SCRIPTS[0], lambda text: text.replace("np.exp(scores)", "np.exp(scores / 2)"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("AssertionError: weights is not what the page shows: [0.0634, 0.4683, 0.4683]", done.stderr)

    def test_it_imports_numpy_alone_and_is_small(self):
        for script in SCRIPTS:
            with self.subTest(script.parent.name):
                text = script.read_text(encoding="utf-8")
                imported = {part.module if isinstance(part, ast.ImportFrom) else part.names[0].name for part in ast.walk(ast.parse(text)) if isinstance(part, (ast.Import, ast.ImportFrom))}
                self.assertLessEqual(imported - set(sys.stdlib_module_names), {"numpy"})
                beside = script.with_suffix(".npz")
                self.assertLess(len(text) + (beside.stat().st_size if beside.is_file() else 0), LARGEST)


if __name__ == "__main__":
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("lessons_test.py: skipped, there is no NumPy")
        sys.exit(77)
    unittest.main()
