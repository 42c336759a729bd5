#!/usr/bin/env python3
"""A program that computes nothing does not pass: cheats_test.py ATTN

Each cheat is a function that gives something without attention: zeros, ones, its input, the mean of the values, numbers with the mean and
variance of the right ones, NaN, the results of another case, and a table of the published results, which fails on fresh vectors. Against
each of all functions it has to fail; the table passes the published cases, and none of the fresh ones.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]
from attn import vectors  # noqa: E402

# Cases that it passes at most: one key alone has its value for a result, whatever the scores; and a result of one or two numbers has
# their mean and variance.
PASSES = {("mean_of_the_values", "attention"): 2, ("input", "attention"): 2, ("mean_and_variance", "attention"): 2,
          ("mean_and_variance", "cross_entropy"): 2}


def calls_of(case):
    """The scopes of its calls, and each as a case of its own; of an ordinary case itself."""
    scopes = [scope for request in vectors.vector_check.scopes_of(case) for scope in request] if "requests" in case else [""]
    return [(scope, {**case, "outputs": {name.removeprefix(scope): entry for name, entry in case["outputs"].items() if name.startswith(scope)}})
            for scope in scopes]


def key_of(given):
    """The inputs, as one looks them up."""
    def flat(value):
        if isinstance(value, dict):
            return tuple((name, flat(one)) for name, one in sorted(value.items()))
        return value.tobytes() if isinstance(value, np.ndarray) else repr(value)
    return flat(given)


class Cheats:
    """Each is called as a function of its own, with the published results at hand."""

    def __init__(self, files):
        self.cases, self.table = [], {}
        for file, group, case in [(file, group, case) for file in files for group in file["groups"] for case in group["cases"]]:
            for scope, call in calls_of(case):
                self.cases.append(call)
                self.table[file["function"], key_of(vectors.vector_check.given_to(case, group["parameters"], scope))] = call

    def case_of(self, function, given):
        """The published case, which tells a cheat the shape of its results."""
        return self.table[function, key_of(given)]

    def results(self, case, make):
        found = {}
        for name, entry in case["outputs"].items():
            shape = list(entry["shape"])
            if "rows" in case:
                shape[-2] = max(case["rows"]) + 1
            found[name] = make(shape, vectors.vector_check.array(entry))
        return found

    def zeros(self, case, given):
        return self.results(case, lambda shape, _: np.zeros(shape))

    def ones(self, case, given):
        return self.results(case, lambda shape, _: np.ones(shape))

    def nan(self, case, given):
        return self.results(case, lambda shape, _: np.full(shape, np.nan))

    def input(self, case, given):
        arrays = [value for value in given.values() if isinstance(value, np.ndarray)]
        arrays.sort(key=lambda array: array.shape != given.get("values", given.get("x", arrays[0])).shape)
        return self.results(case, lambda shape, _: np.resize(given.get("values", arrays[0]), shape))

    def mean_of_the_values(self, case, given):
        values = given.get("values", next(value for value in given.values() if isinstance(value, np.ndarray)))
        return self.results(case, lambda shape, _: np.broadcast_to(np.resize(values.mean(axis=-2 if values.ndim > 1 else 0), shape[-1:]), shape))

    def mean_and_variance(self, case, given):
        random = np.random.default_rng(1)

        def draw(shape, right):
            drawn = random.standard_normal(shape)
            drawn = (drawn - drawn.mean()) / (drawn.std() or 1)
            return right.mean() + drawn * right.std()
        return self.results(case, draw)

    def another_case(self, case, given):
        others = [other for other in self.cases if other["id"] != case["id"]]
        numbers = np.concatenate([vectors.vector_check.array(entry).ravel() for other in others[:20] for entry in other["outputs"].values()])
        return self.results(case, lambda shape, _: np.resize(numbers, shape))

    def look_up(self, case, given):
        def whole(shape, right):  # of which a case can have some rows only
            result = np.zeros(shape)
            result[(..., case["rows"], slice(None)) if "rows" in case else ...] = right
            return result
        return self.results(case, whole)


def results_of(cheat, cheats, function, folder=None):
    """What is said of it, as a function that may be called several times."""
    def call(**given):
        found = cheat(cheats.case_of(function, {name: value for name, value in given.items() if name != "state"}), given)
        return (found, None) if "state" in given else found

    return vectors.check(call, function, folder)


def passed(cheat, cheats, function):
    """How many cases of how many."""
    results = results_of(cheat, cheats, function)
    return sum(not one.message for one in results), len(results)


def main(attn):
    os.environ["ATTN"] = attn
    files = list(vectors.files_in(vectors.folder_of_vectors()))
    cheats = Cheats(files)
    names = sorted({file["function"] for file in files})
    for name in ("zeros", "ones", "nan", "input", "mean_of_the_values", "mean_and_variance", "another_case"):
        for function in names:
            right, count = passed(getattr(cheats, name), cheats, function)
            allowed = PASSES.get((name, function), 0)
            if right > allowed:
                print(f"{name} pass {right} of {count} cases of {function}, expected {allowed}")
                return 1
    print(f"seven cheats fail the cases of all {len(names)} functions")

    with tempfile.TemporaryDirectory() as fresh:
        vectors.call("vectors", "--seed", 2, "-o", fresh)
        unknown = 0
        for function in names:
            right, count = passed(cheats.look_up, cheats, function)
            assert right == count, f"the table itself passes {right} of {count} cases of {function}"
            found = results_of(cheats.look_up, cheats, function, Path(fresh))
            known = [one for one in found if not one.message]
            if known:
                print(f"a table of published results passes the fresh {known[0].id}")
                return 1
            unknown += len(found)
    print(f"a table of the published results passes none of {unknown} fresh cases")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
