#!/usr/bin/env python3
"""Makes the exercises for notebooks, from what the lessons say and their checks expect.

    lessons/make_notebooks.py BUILD/bin [--check]

lessons/NN_topic/exercise.ipynb is made of the lesson's page and of exercise.py. python/attn/exercises/NN_topic.npz has the calls of
the exercise's check, BUILD/bin/exercise_NN_topic, with what is right and why: attn.exercise() asks it. solved.json beside it has the lines of
tests/exercises/NN_topic.py, which its last hint shows. With --check nothing is written; the exit
code is 1 where a file is not what would be written. Numbers can differ in their last digits, since libraries round otherwise.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "docs"))
from generator import exercise  # noqa: E402


def same_calls(ours, theirs):
    with np.load(ours) as a, np.load(theirs) as b:
        if a.files != b.files or a["calls.json"] != b["calls.json"]:
            return False
        names = [name for name in a.files if name != "calls.json"]
        return all(a[name].shape == b[name].shape and np.allclose(a[name], b[name], rtol=1e-9, atol=1e-9, equal_nan=True) for name in names)


def main():
    programs, is_check = Path(sys.argv[1]).resolve(), "--check" in sys.argv[2:]
    parts, stale, solved = (ROOT / "lessons" / "numpy_parts.py").read_text(encoding="utf-8"), [], {}
    for folder in sorted((ROOT / "lessons").glob("[0-9][0-9]_*")):
        lesson, program = folder.name, programs / f"exercise_{folder.name}"
        page, functions = (path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "pages" / f"{lesson}.md", folder / "exercise.py"))
        solved[lesson] = exercise.solutions((ROOT / "tests" / "exercises" / f"{lesson}.py").read_text(encoding="utf-8"))
        text = exercise.notebook(lesson, page, functions, parts)
        path = folder / "exercise.ipynb"
        if is_check and not (path.is_file() and path.read_text(encoding="utf-8") == text):
            stale.append(path)
        elif not is_check:
            path.write_text(text, encoding="utf-8")
        if not program.is_file():  # one is built with MPI only
            print(f"{program} is not built: {lesson}.npz stays as it is", file=sys.stderr)
            continue
        path = ROOT / "python" / "attn" / "exercises" / f"{lesson}.npz"
        path.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as temporary:
            made = Path(temporary) / "calls.npz"
            subprocess.run([program, "--calls", made], check=True)
            if is_check and not (path.is_file() and same_calls(path, made)):
                stale.append(path)
            elif not is_check:
                path.write_bytes(made.read_bytes())
    path, text = ROOT / "python" / "attn" / "exercises" / "solved.json", json.dumps(solved, indent=1, ensure_ascii=False) + "\n"
    if is_check and not (path.is_file() and path.read_text(encoding="utf-8") == text):
        stale.append(path)
    elif not is_check:
        path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not what lessons/make_notebooks.py BUILD/bin makes", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main())
