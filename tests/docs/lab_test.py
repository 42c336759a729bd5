#!/usr/bin/env python3
"""Compares the lessons in the browser with the lesson programs, in node.

    tests/docs/lab_test.py BUILD/bin LAB.js

Each lesson that a page computes: as it is; but for one that takes seconds, also after three edits of what is given, with a step set to zero, with a mistake, and in
float32. Every step has the program's numbers, bit by bit, or to 1e-12 of the largest number so far (a product adds in another
order, and C libraries differ in the last digit of exp); where the program refuses, the page has its line. Formulas for
exercises: right ones are right, and a wrong one is named. What a lesson loads is small, and each file is one that a lesson loads.

Exit codes: 0 all is well; 1 something differs; 77 there is no node.
"""

import base64
import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
from generator.lab import NOT_IN_PAGE  # noqa: E402

TOLERANCE = 1e-12
MOST, MOST_OF_PROGRAM = 1_500_000, 1_250_000  # gzipped bytes that one lesson loads, and of these lab.js
WASTED = 1.5  # seconds of processor time
SLOW = ("14_gradients",)  # takes seconds: once will do


def read_trace(path):
    with np.load(path, allow_pickle=False) as arrays:
        steps = json.loads(arrays["steps.json"])["steps"]
        return {step["path"]: (arrays[step["path"]], step.get("formula", "")) for step in steps}


def as_question(array):
    kind = {"b": "boolean", "i": "integer"}.get(array.dtype.kind, "real")
    values = [value if np.isfinite(value) else str(value) for value in array.astype(float).ravel().tolist()]
    return {"shape": list(array.shape), "values": values, "type": kind}


def edited(name, array, round_):
    """What is given, with one number changed; ids and lengths stay."""
    if array.dtype.kind != "f":
        return array
    array = array.astype(float).copy()
    array.ravel()[(7 * round_ + len(name)) % array.size] += 0.5 * round_
    return array


class Cases:
    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        self.questions, self.expected, self.labels = [], [], []

    def native(self, lesson, flags):
        trace = self.folder / f"{len(self.questions)}.npz"
        done = subprocess.run([self.programs / f"lesson_{lesson}", "--quiet", "--trace", trace, *flags], capture_output=True, text=True, check=False)
        message = done.stderr.strip().removeprefix(f"lesson_{lesson}: ")
        return done.returncode, message, read_trace(trace) if trace.exists() else None

    def add(self, lesson, label, flags, **asked):
        self.labels.append(f"{lesson}, {label}")
        self.expected.append(self.native(lesson, flags))
        self.questions.append({"do": "run", "lesson": lesson, **asked})

    def input_flags(self, arrays):
        path = self.folder / f"input_{len(self.questions)}.npz"
        np.savez(path, **arrays)
        return ["--input", path], {name: as_question(array) for name, array in arrays.items()}


def cases_of(cases, lesson, mistake):
    cases.add(lesson, "as it is", [])
    code, message, steps = cases.expected[-1]
    if code != 0:
        raise SystemExit(f"lesson_{lesson}: {message}")
    if lesson in SLOW:
        return
    asked = subprocess.run([cases.programs / f"lesson_{lesson}", "--quiet", "--input", cases.folder / "none.npz"], capture_output=True, text=True, check=False)
    given = {path: array for path, (array, formula) in steps.items() if not formula and "." not in path}
    if "no array is called" in asked.stderr and given:
        for round_ in (1, 2, 3):
            flags, inputs = cases.input_flags({name: edited(name, array, round_) for name, array in given.items()})
            cases.add(lesson, f"edit {round_}", flags, inputs=inputs)
    computed = [path for path, (_, formula) in steps.items() if formula]
    cases.add(lesson, "a step set to zero", ["--ablate", computed[len(computed) // 3]], ablate=[computed[len(computed) // 3]])
    cases.add(lesson, f"with {mistake}", ["--pitfall", mistake], pitfall=mistake)
    cases.add(lesson, "in float32", ["--round", "float32"], round="float32")


def bad_inputs(cases):
    good = {"inputs": np.ones((3, 4)), "key_weights": np.ones((4, 3)), "query_weights": np.ones((4, 3)), "value_weights": np.ones((4, 3))}
    nan = good["inputs"].copy()
    nan[1, 2] = np.nan
    for label, wrong in {
        "NaN": {"inputs": nan},
        "another shape": {"inputs": np.ones((3, 5))},
        "another rank": {"inputs": np.ones(4)},
        "a million rows": {"inputs": np.ones((1_000_000, 4))},
        "an infinity": {"inputs": np.full((3, 4), -np.inf)},
    }.items():
        flags, inputs = cases.input_flags(good | wrong)
        cases.add("02_all_queries", label, flags, inputs=inputs)


def arrays_of(answer):
    numbers = np.frombuffer(base64.b64decode(answer["numbers"]))
    found = {}
    for step in answer["steps"]:
        size = int(np.prod(step["shape"], dtype=int))
        found[step["path"]] = numbers[step["at"] : step["at"] + size].reshape(step["shape"])
    return found


def same_message(found, expected):
    """How much memory there is differs."""
    general = re.compile(r"^.*?\.npz: |there is memory for [\d.]+ \w+")
    return general.sub("", found) == general.sub("", expected)


def compare(answer, expected):
    """What is wrong, and how many steps are equal bit by bit and how many all but so."""
    code, message, steps = expected
    if code != 0:
        found = answer.get("error") or answer.get("refuted") or "no error"
        return (None if same_message(found, message) else f"says {found!r}, the program {message!r}"), 0, 0
    if "error" in answer:
        return f"says {answer['error']!r}", 0, 0
    found = arrays_of(answer)
    if found.keys() != steps.keys():
        return f"other steps: {sorted(found.keys() ^ steps.keys())[:5]}", 0, 0
    largest, equal, close = 1.0, 0, 0
    for path, (array, formula) in steps.items():
        array, mine = array.astype(float), found[path]
        if array.shape != mine.shape:
            return f"{path} is {mine.shape}, not {array.shape}", 0, 0
        finite = array[np.isfinite(array)]
        largest = max(largest, np.max(np.abs(finite), initial=0))
        if np.array_equal(array, mine, equal_nan=True):
            equal += 1
            continue
        with np.errstate(invalid="ignore"):
            off = np.where(array == mine, 0, np.abs(array - mine))
        if not (np.nanmax(off) <= TOLERANCE * largest) or np.any(np.isnan(array) != np.isnan(mine)):
            return f"{path} is off by {np.nanmax(off)}: {formula}", 0, 0
        close += 1
    return None, equal, close


def answers_to(questions, node, lab, folder):
    asked, answered = folder / "questions.json", folder / "answers.json"
    asked.write_text(json.dumps(questions))
    subprocess.run([node, Path(__file__).with_name("lab_answers.mjs"), lab, asked, answered], check=True)
    return json.loads(answered.read_text())


# Lines for a box of an exercise, and what is said of them: nothing where they are right.
LINES = [
    ("01_single_query", "my_scores", "keys @ query", ""),
    ("01_single_query", "my_scores", "import numpy as np\n\ndef my_scores(q, k):\n    \"\"\"One score\n    per key.\"\"\"\n    return (k  # (m, d_k)\n            @ q)\n", ""),
    ("01_single_query", "my_scores", "n, d = keys.shape\nx = np.concatenate([query], axis=0)\nx *= d // d\nkeys.dot(x)", ""),
    ("01_single_query", "my_scores", "def twice(x, by=2): return by * x\ntwice(keys @ query, by=1)", ""),
    ("01_single_query", "my_scores", "def again(x): return again(x)\nagain(keys)", "too deeply"),
    ("01_single_query", "my_scores", "def my_scores(keys): return keys", "my_scores has 1 parameters, and is called with 2 arguments"),
    ("01_single_query", "my_scores", "keys.T @ query", "is wrong"),
    ("01_single_query", "my_scores", "return", "there is no result"),
    ("01_single_query", "my_scores", "", "there is no result"),
    ("01_single_query", "my_scores", "keys[0] = 3", "begin with a copy"),
    ("01_single_query", "my_scores", "a, b = keys\na", "2 names for 3 values"),
    ("01_single_query", "my_scores", "for key in keys:\n    key @ query", "there is no result"),
    ("01_single_query", "my_scores", "scores = np.zeros(len(keys))\nfor i in range(len(keys)):\n    for j in range(len(query)):\n        scores[i] += keys[i, j] * query[j]\nscores", ""),
    ("01_single_query", "my_scores", "scores = []\nfor key in keys: scores.append(0); scores[-1] = key @ query\nreturn np.array(scores)", ""),
    ("01_single_query", "my_scores", "i = 0\nscores = []\nwhile i < len(keys):\n    scores = scores + [keys[i] @ query]\n    i += 1\nscores", ""),
    ("01_single_query", "my_scores", "def one(key):\n    total = 0\n    for a, b in zip(key, query): total += a * b\n    return total\nnp.array([one(key) for key in keys])", ""),
    ("01_single_query", "my_scores", "scores = np.zeros(3)\nfor i, key in enumerate(keys):\n    if i < 0 or not i <= 2: continue\n    elif -1 < i < 3: scores[i] = key @ query if True else 7\n    else:\n        break\nscores", ""),
    ("01_single_query", "my_scores", "mask = np.arange(3) != 1\nscores = np.zeros(3)\nscores[mask] = keys[mask] @ query\nscores[1] = keys[1] @ query\nscores", ""),
    ("01_single_query", "my_scores", "while True: pass", "does each loop end?"),
    ("01_single_query", "my_scores", "x = keys\nwhile True: x = np.concatenate([x, x], axis=0)", "line 2: the page stops here"),
    ("01_single_query", "my_scores", "for i in range(1000000):\n    for j in range(1000000):\n        x = keys", "line 3: the page stops here"),
    ("01_single_query", "my_scores", "def f(x):\n    for i in range(9): y = f(x) + f(x)\n    return x\nf(keys)", "too deeply"),
    ("01_single_query", "my_scores", "np.zeros(1000000000)", "expected a size from 0 to 1000000"),
    ("01_single_query", "my_scores", "np.zeros((100000, 100000))", "makes no array of more than 1000000 numbers"),
    ("01_single_query", "my_scores", "[0] * 1000000000", "10,000 at most"),
    ("01_single_query", "my_scores", "for i in range(3) keys", "expected : at the end of for"),
    ("01_single_query", "my_scores", "for i in range(3):\nkeys", "no indented line follows for"),
    ("01_single_query", "my_scores", "for i in range(3):\n    x = 1\n      y = 2", "line 3: is indented otherwise"),
    ("01_single_query", "my_scores", "for in keys: 1", "expected a name after for"),
    ("01_single_query", "my_scores", "for i of keys: 1", "expected names and in"),
    ("01_single_query", "my_scores", "if keys: keys", "is neither true nor false"),
    ("01_single_query", "my_scores", "if True: break", "break is in no loop"),
    ("01_single_query", "my_scores", "else: keys", "else has no if before it"),
    ("01_single_query", "my_scores", "x = keys @ query\ny = x\ny[0] = 1\nx", "y is not changed in place here"),
    ("01_single_query", "my_scores", "x = keys @ query\ny = x\nx += 1\ny", "x is not changed in place here"),
    ("01_single_query", "my_scores", "x = np.zeros(3, int)\nx[0] = 0.5\nx", "x has whole numbers"),
    ("01_single_query", "my_scores", "x = np.zeros(3)\nx[3] = 0.5\nx", "there is no index 3"),
    ("01_single_query", "my_scores", "x = np.zeros(3)\nx[0:2] = query\nx", "don't broadcast"),
    ("01_single_query", "my_scores", "keys[len(keys) / 2]", "// divides to a whole number"),
    ("01_single_query", "my_scores", "keys[keys > 0]", "a mask of one axis"),
    ("01_single_query", "my_scores", "x = [1, 2]\nx + 3", "one side of + is a list"),
    ("01_single_query", "my_scores", "x = [1, 2]\nx * query[0]", "x is a list"),
    ("01_single_query", "my_scores", "x = [query, keys]\nx", "a list of the page has arrays of one shape"),
    ("01_single_query", "my_scores", "query.append(3)", "query is not changed in place"),
    ("01_single_query", "my_scores", "def my_scores(q, k):\n    x = k @ q", "my_scores returns nothing"),
    ("01_single_query", "my_scores", "with keys: 1", "the page has no with"),
    ("01_single_query", "my_weights", "e = np.exp(scores)\nfor i in range(1): return e / sum(e)", ""),
    ("02_all_queries", "my_attention", "np.array([np.array([softmax(keys @ q) @ values[:, j] for j in range(values.shape[1])]) for q in queries])", ""),
    ("01_single_query", "my_weights", "e = np.exp(scores)\ne / e.sum()", ""),
    ("01_single_query", "my_weights", "exp(scores)", "softmax_unnormalized"),
    ("01_single_query", "my_weights", "np.softmax(scores)", "softmax is what is to be written here"),
    ("01_single_query", "my_output", "weights @", "character 10"),
    ("10_encoder_layer", "my_pre_norm_layer", 'linear(x, weights, f"{nothing}.linear1")', "only names of strings"),
]


def check_exercises(node, lab, folder):
    problems = []
    questions = [{"do": "exercise", "lesson": lesson, "formulas": {function: lines}} for lesson, function, lines, _ in LINES]
    for (lesson, function, lines, expected), answer in zip(LINES, answers_to(questions, node, lab, folder)):
        said = [json.dumps([call.get("error"), call.get("hints")]) for call in answer["calls"] if call["function"] == function and not call.get("right")]
        if not (any(expected in one for one in said) if expected else said == []):
            problems.append(f"exercise {lesson}, {function} = {lines!r}: expected {expected or 'that it is right'!r}, found {said}")
    return problems


def check_sizes(lab, loaded):
    """What is wrong with what each lesson loads, by lesson: lab.js, and the files that it reads."""
    gzipped = {path.relative_to(lab.parent).as_posix(): len(gzip.compress(path.read_bytes(), 9)) for path in (lab, *lab.parent.glob("files/*/*"))}
    problems = [f"{lab.name} has {gzipped[lab.name]:,} bytes gzipped, {MOST_OF_PROGRAM:,} at most"] if gzipped[lab.name] > MOST_OF_PROGRAM else []
    unread = gzipped.keys() - {lab.name}
    for lesson, names in loaded.items():
        scripts = [lab.name, *(f"files/{name}.js" for name in names)]
        unread -= {*scripts}
        size = sum(gzipped[script] for script in scripts)
        print(f"{lesson}: {size:,} bytes gzipped{''.join(f', {name}' for name in names)}")
        if size > MOST:
            problems.append(f"{lesson} loads {size:,} bytes gzipped, {MOST:,} at most")
    return problems + [f"no lesson reads {script}" for script in sorted(unread)]


def main():
    programs, lab = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    node = shutil.which("node") or shutil.which("nodejs")
    if node is None:
        print("there is no node")
        return 77
    lessons = sorted(path.name.removeprefix("lesson_") for path in programs.glob("lesson_*") if path.name.removeprefix("lesson_") not in NOT_IN_PAGE)
    problems, equal, close = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        np.savez(folder / "none.npz", no_such_name=np.ones(1))
        cases = Cases(programs, folder)
        asked = [question for lesson in lessons for question in ({"do": "run", "lesson": lesson}, {"do": "mistakes"})]
        asked.append({"do": "story", "words": "Lily had"})
        answers = answers_to(asked, node, lab, folder)
        problems += check_sizes(lab, {lesson: answer["loaded"] for lesson, answer in zip([*lessons, "a story"], answers[::2])})
        problems += [f"{lesson} computes for {answer['wasted']:.1f} s before it reads a file, and again when that is loaded: read it first"
                     for lesson, answer in zip(lessons, answers[::2]) if answer["wasted"] > WASTED]  # fmt: skip
        mistakes = [answer["mistakes"] for answer in answers[1::2]]
        for lesson, made in zip(lessons, mistakes):
            cases_of(cases, lesson, made[len(made) // 2]["id"])
        bad_inputs(cases)
        for label, answer, expected in zip(cases.labels, answers_to(cases.questions, node, lab, folder), cases.expected):
            problem, same, almost = compare(answer, expected)
            equal, close = equal + same, close + almost
            if problem:
                problems.append(f"{label}: {problem}")
        problems += check_exercises(node, lab, folder)
    print(*problems, sep="\n")
    print(f"{len(lessons)} lessons, {len(cases.labels)} runs: {equal} steps equal bit by bit, {close} to {TOLERANCE}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
