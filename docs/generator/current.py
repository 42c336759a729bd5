"""Whether what is committed for those who read the repository is what a run makes: pages, pictures, and the lessons' scripts.

They are compared by their words and numbers. A number can differ by one in its last digit, and one of many digits by a millionth,
since another machine rounds otherwise; how much rounding noise attn diff met is not compared. In a picture only what is written counts, since where a line is drawn depends on the programs that draw it.
"""

import html
import math
import re

import numpy as np

NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")


def last_digit(text):
    """What one more in the last digit of a number adds: 0.01 for 3.14, 1e-7 for 2.50e-05. A whole number is a count."""
    digits, _, power = text.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2])) if "." in digits or power else 0.0


# Lesson 15's page shows trainings, in which another rounding of the first step moves the losses and weights of the last by this much;
# a question that it answers says so, too.
TRAINED, MOVES = "15_training", 0.15

# What a verdict of attn diff says of rounding noise.
NOISE = re.compile(r"^noise: .*|\b\d+ (?:equal|noise)(?:, )?", re.MULTILINE)
NOTHING = 1e-12  # two numbers near zero are both what rounding left


def same(a, b, within=0.0):
    """Whether two texts have the same words, and numbers of which none differs by more than rounding does, or than `within`."""
    a, b = NOISE.sub("", a), NOISE.sub("", b)
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b))
    return all(x == y or is_near(x, y, within) for x, y in pairs)


def is_near(a, b, within):
    x, y = (float(text.replace("−", "-")) for text in (a, b))
    return abs(x - y) <= 1.01 * max(within, last_digit(a), last_digit(b), NOTHING) or (set(".e") & set(a + b) and abs(x - y) <= 1e-6 * abs(x))


def words_of_picture(text):
    """What is written in a picture, in the order of its letters: a program that draws can change its mind on what comes first."""
    return sorted(html.unescape(word) for word in re.findall(r">([^<>]+)</(?:text|title|desc)>", text))


def same_file(path, other):
    if path.suffix == ".npz":
        a, b = np.load(path), np.load(other)
        return a.files == b.files and all(a[name].dtype == b[name].dtype and np.allclose(a[name], b[name], rtol=1e-6, atol=1e-9, equal_nan=True) for name in a.files)
    a, b = path.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")
    if path.suffix == ".svg":
        a, b = "\n".join(words_of_picture(a)), "\n".join(words_of_picture(b))
    if path.suffix == ".py":  # where a line of numbers breaks depends on their digits
        a, b = " ".join(a.split()), " ".join(b.split())
    lines = a.split("\n"), b.split("\n")
    return len(lines[0]) == len(lines[1]) and all(same(x, y, within(path, x)) for x, y in zip(*lines))


def within(path, line):
    """By how much the numbers of a line of a file can differ; which head learned what in a training can differ, too."""
    if not path.name.startswith(TRAINED) and f"]({TRAINED}.md#" not in line:
        return 0.0
    return math.inf if path.suffix == ".svg" else MOVES


def first_difference(path, other):
    if path.suffix in (".npz", ".svg"):
        return ""
    lines = zip(path.read_text(encoding="utf-8").split("\n"), other.read_text(encoding="utf-8").split("\n"))
    return next((f", line {number}: {b[:120]!r} is now {a[:120]!r}" for number, (a, b) in enumerate(lines, 1) if not same(a, b, within(path, a))), ", at its end")


def made(folder):
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def committed(root):
    """The files of the repository that are made: pages, pictures, and a script for each lesson with its numbers."""
    found = [*(root / "docs" / "pages").rglob("*"), *root.glob("lessons/[0-9][0-9]_*/lesson.py"), *root.glob("lessons/[0-9][0-9]_*/lesson.npz")]
    return {path.relative_to(root).as_posix(): path for path in sorted(found) if path.is_file()}


def differences(root, folder):
    """What is not as it was made: {file: what differs}, and the files that are made no more."""
    new, old = made(folder), committed(root)
    changed = {name: ": it is missing" if name not in old else first_difference(path, old[name]) for name, path in new.items() if name not in old or not same_file(path, old[name])}
    return changed, sorted(old.keys() - new.keys())


def renew(root, folder):
    """Puts what was made into the repository; a file that says the same stays as it is."""
    changed, gone = differences(root, folder)
    for name in changed:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((folder / name).read_bytes())
    for name in gone:
        (root / name).unlink()
    return f"docs/pages and lessons/*/lesson.py: {len(changed)} files written, {len(gone)} removed"
