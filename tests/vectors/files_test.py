#!/usr/bin/env python3
"""What vectors/cases promises: files_test.py [--jsonschema]

The files are small; every mistake is caught by two cases at a hundred times the tolerance of float32; no case can be left out without
losing a mistake, two that are told apart, a group, or a size; and no right result is what a program gives that computes nothing.
With --jsonschema the files are given to python3-jsonschema, and to each change of one it has to object. Exit code 77 without it.
"""

import copy
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from generator.vectors import caught_times, read_files, times_off, told_times  # noqa: E402

LARGEST_FILE, LARGEST_SUM = 72_000, 1_720_000
LARGEST_KERNELS, KERNELS_SUM = 420_000, 1_300_000
TILES, BY_TILES = (16, 32, 64, 128, 256), ("not_rescaled", "rescaled_by_wrong_maximum", "tail_not_masked", "tail_lost", "causal_border_of_tile",
                                           "window_at_tile_border", "backward_last_tile_alone", "backward_tail_lost", "delta_of_one_tile")


def needs_of(file, group, case):
    """What a case is good for, and how many cases of that kind it takes: as src/vectors/make.cpp has it."""
    caught = [name for name in case["wrong"] if times_off(case, name, "float32") > caught_times]
    needs = {(f"{file['name']}: {group['comment']}" + (f": {case['comment']}" if is_for_itself(file, group) else ""), 1)}
    for name in caught:
        needs |= {(name, 2), (f"{file['function']}: {name}", 1)}
        needs |= {(f"{file['function']}: {name} or {other}", 1) for other in caught
                  if name < other and times_off(case, name, "float32", other) > told_times}
    return needs


def is_for_itself(file, group):
    plan = json.loads((ROOT / "src" / "vectors" / "plan" / f"{file['name']}.json").read_text())
    return next(one for one in plan["groups"] if one["comment"] == group["comment"]).get("keeps_all", False)


def check_cases(files):
    needs = {case["id"]: needs_of(file, group, case) for file in files for group in file["groups"] for case in group["cases"]}
    met = Counter(need for all_needs in needs.values() for need in all_needs)
    mistakes = {name for name, count in met if count == 2}
    rare = [name for name in mistakes if met[name, 2] < 2]
    assert not rare, f"caught by one case alone: {rare}"
    assert len(mistakes) >= 150, f"{len(mistakes)} mistakes are caught, expected 150"
    needless = [one for one, all_needs in needs.items() if all(met[name, count] > count for name, count in all_needs)]
    assert not needless, f"nothing is lost without {needless}"
    print(f"{len(files)} files, {len(needs)} cases, each of them needed; {len(mistakes)} mistakes, each caught by two or more")


def check_sizes():
    sizes = {path.name: path.stat().st_size for path in (ROOT / "vectors" / "cases").iterdir()}
    assert max(sizes.values()) <= LARGEST_FILE, f"{max(sizes, key=sizes.get)} has {max(sizes.values())} bytes, expected {LARGEST_FILE} at most"
    assert sum(sizes.values()) <= LARGEST_SUM, f"{sum(sizes.values())} bytes in all, expected {LARGEST_SUM} at most"
    print(f"{sum(sizes.values())} bytes, {max(sizes.values())} in the largest file")


def check_kernels(files):
    """Each mistake at tiles is there with each size of tiles, and each mistake can be seen in bfloat16 by some case."""
    sizes = [path.stat().st_size for path in (ROOT / "vectors" / "kernels").iterdir()]
    assert max(sizes) <= LARGEST_KERNELS and sum(sizes) <= KERNELS_SUM, f"{max(sizes)} and {sum(sizes)} bytes, expected {LARGEST_KERNELS} and {KERNELS_SUM}"
    forms = {(name, form["form"]) for file in files for _, case in kernel_cases(file) for name, all_forms in case["wrong"].items() for form in all_forms}
    for mistake in BY_TILES:
        tiles = TILES[:3] if mistake == "backward_last_tile_alone" else TILES  # at these sizes larger ones have the same last tile
        missing = [tile for tile in tiles if not any(name == mistake and str(tile) in form.split() for name, form in forms)]
        assert not missing, f"{mistake} is not there in tiles of {missing}"
    unseen = {name for name, _ in forms} - {name for file in files for _, case in kernel_cases(file) for name, all_forms in case["wrong"].items()
                                           if any(is_seen(case, form) for form in all_forms)}
    assert not unseen, f"in bfloat16 nobody can see {unseen}: docs/vectors.md says that each mistake is seen"
    widths = {case["inputs"]["queries"]["shape"][-1] for file in files for _, case in kernel_cases(file) if "queries" in case["inputs"]}
    assert widths >= {32, 64, 80, 128, 256}, widths
    print(f"{len(files)} files of kernels, {sum(sizes)} bytes; {len({name for name, _ in forms})} mistakes in {len(forms)} forms")


def kernel_cases(file):
    return [(group, case) for group in file["groups"] for case in group["cases"]]


def is_seen(case, form):
    """Whether a form is further from what is right than the tolerance of bfloat16."""
    for name, part in form.items():
        right = case["outputs"].get(name)
        if right and any(value == "NaN" or abs(float(value) - float(right["values"][at])) > right["roundings"]["bfloat16"] * 2**-8 * right["scale"][at]
                         for at, value in zip(part["at"], part["values"])):
            return True
    return False


def check_inputs(files):
    """All inputs are numbers that bfloat16 holds, and no result is zero throughout."""
    for file in files:
        for group in file["groups"]:
            for case in group["cases"]:
                for part in ("inputs", "weights"):
                    for name, entry in case.get(part, {}).items():
                        numbers = np.array(entry.get("values", [0]), dtype=np.float32)
                        assert not np.any(numbers.view(np.uint32) & 0xFFFF), f"{case['id']}: {name} is not exact in bfloat16"
                for name, entry in case["outputs"].items():
                    assert any(entry["values"]), f"{case['id']}: {name} is zero"


def changes(file):
    """The same file with one thing wrong, many times."""
    case = ("groups", 0, "cases", 0)
    output = next(iter(file["groups"][0]["cases"][0]["outputs"]))
    for path, value in [(("schema",), "vectors_schema_2"), (("notes",), []), (("groups",), []), ((*case, "result"), "right"), ((*case, "id"), "1"),
                        ((*case, "more"), 1), ((*case, "outputs", output, "tolerance", "float32"), 0), ((*case, "outputs", output, "values", 0), "inf"),
                        ((*case, "outputs", output, "shape"), [-1]), ((*case, "wrong", "mistake"), {}), ((*case, "inputs"), {}),
                        ((*case, "requests"), []), ((*case, "requests"), [0]), ((*case, "requests"), [2.5]), ((*case, "requests"), 3),
                        ((*case, "inputs", "calls.x.queries"), {"shape": [1], "values": [1]})]:
        other = copy.deepcopy(file)
        place = other
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        yield path, other


def check_schema(files):
    try:
        import jsonschema
    except ImportError:
        print("files_test.py: skipped, there is no python3-jsonschema")
        return 77
    schema = json.loads((ROOT / "vectors" / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for file in files:
        name = file.pop("name")
        for error in validator.iter_errors(file):
            raise AssertionError(f"{name}: {list(error.path)}: {error.message[:200]}")
    for path, other in changes(files[0]):
        assert not validator.is_valid(other), f"the schema allows another {path}"
    validator = jsonschema.Draft202012Validator(json.loads((ROOT / "vectors" / "schema_kernels.json").read_text()))
    for file in read_files(ROOT / "vectors" / "kernels"):
        name = file.pop("name")
        for error in validator.iter_errors(file):
            raise AssertionError(f"{name}: {list(error.path)}: {error.message[:200]}")
        file["groups"][0]["cases"][0]["outputs"]["output"] = {}
        assert not validator.is_valid(file), "the schema of kernels allows an output of nothing"
    print(f"{len(files)} files are as vectors/schema.json says, and those of kernels as schema_kernels.json")
    return 0


def main(words):
    files = read_files()
    if "--jsonschema" in words:
        return check_schema(files)
    check_sizes()
    check_kernels(read_files(ROOT / "vectors" / "kernels"))
    check_inputs(files)
    check_cases(files)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
