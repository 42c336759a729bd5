"""The test vectors as the page about them shows them: how far each mistake is from what is right."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

CASES = Path(__file__).resolve().parents[2] / "vectors" / "cases"

# A mistake is caught where a result is off by so many times the tolerance; two are told apart by so many times.
caught_times, told_times = 100, 10


def read_files(folder=CASES):
    """All files, each with its name."""
    return [{**json.loads(path.read_text()), "name": path.stem} for path in sorted(folder.glob("*.json"))]


def numbers(values):
    return np.array([float(value) for value in values])


def times_off(case, mistake, kind, other=None):
    """How many times the tolerance a mistake is off at most, from what is right, or from what another mistake gives."""
    most = 0.0
    for name, output in case["outputs"].items():
        wrong, right = (numbers(case["wrong"].get(one, {}).get(name, output["values"])) for one in (mistake, other))
        with np.errstate(invalid="ignore"):
            off = np.abs(wrong - right) / output["tolerance"][kind]
        off[(wrong == right) | (np.isnan(wrong) & np.isnan(right))] = 0
        most = max(most, float(np.max(np.where(np.isfinite(off), off, np.inf))))
    return most


def cases_of(files):
    return [(file, group, case) for file in files for group in file["groups"] for case in group["cases"]]


def matrix(files, kind):
    """By mistake, and by case: how many times the tolerance of the type the result is off."""
    table = defaultdict(dict)
    for _, _, case in cases_of(files):
        for mistake in case["wrong"]:
            table[mistake][case["id"]] = times_off(case, mistake, kind)
    return table
