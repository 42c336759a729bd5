#!/usr/bin/env python3
"""Checks vectors/ against what does not come from attn: PyTorch's results, and NumPy's of every formula.

    vectors.py ATTN [FOLDER]    FOLDER has the published files, which are compared with what attn makes now

Of each case: the result is what vectors_by_torch.py computes in float64; every step is what NumPy makes of its formula; and
so is the result of each mistake and each convention, with the formulas that it changes. Exit code 0 where all agree, 1 where
something does not, 77 where there is no PyTorch.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError:
    print("vectors.py: skipped, there is no PyTorch")
    sys.exit(1 if "CI" in __import__("os").environ else 77)

import formulas
import vectors_by_torch

EXACT, SHORT = 1e-12, 2e-6  # of what has every digit, and of what has seven
MODULUS = 251


class Failure(Exception):
    pass


def array(entry):
    shape = tuple(entry["shape"])
    if "multiplier" in entry:
        place = np.arange(math.prod(shape))
        return (((entry["multiplier"] * place + entry["offset"]) % MODULUS - 125) / 64).reshape(shape)
    return np.array([float(value) for value in entry["values"]]).reshape(shape).astype(bool if entry.get("type") == "bool" else float)


def compare(what, found, expected, close):
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1)
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=close, atol=close * scale, equal_nan=True):
        raise Failure(f"{what} is\n{found}\nexpected\n{expected}")


def tensors(entries):
    kinds = {"bool": torch.bool, "int64": torch.int64}
    return {name: torch.from_numpy(array(entry)).to(kinds.get(entry.get("type"), torch.float64)) for name, entry in entries.items()}


def by_torch(function, parameters, case):
    """The results, by PyTorch."""
    inputs, weights = tensors(case["inputs"]), tensors(case.get("weights", {}))
    given = dict(parameters)
    if "requests" in case:
        return by_calls(getattr(vectors_by_torch, function), parameters, case["requests"], inputs, weights)
    name = function.removesuffix("_backward")
    call = getattr(vectors_by_torch, name)
    if name == function:
        result = call(**inputs, **({"weights": weights} if weights else {}), **given)
        rows = case.get("rows")
        return {"output": result[..., rows, :] if rows else result}
    seed = inputs.pop("grad.output")
    if name == "gru":
        inputs["initial_hidden"] = torch.zeros(1, weights["weight_hh_l0"].shape[1], dtype=torch.float64)
    leaves = {part: tensor.requires_grad_() for part, tensor in inputs.items() if tensor.dtype == torch.float64}
    parts, weights = vectors_by_torch.with_parts(name, weights)
    output = call(**inputs, **({"weights": weights} if weights else {}), **given)
    (output * seed).sum().backward()
    leaves.update(parts)
    return {f"grad.{part}": leaf.grad for part, leaf in leaves.items()}


def by_calls(call, parameters, requests, inputs, weights):
    """The same of several calls, each with the state that the one before it has left."""
    results, number = {}, 0
    shared = {name: array for name, array in inputs.items() if not name.startswith("calls.")}
    for calls in requests:
        state = None
        for _ in range(calls):
            scope = f"calls.{number}."
            own = {name.removeprefix(scope): array for name, array in inputs.items() if name.startswith(scope)}
            results[scope + "output"], state = call(state, **shared, **own, **({"weights": weights} if weights else {}), **parameters)
            number += 1
    return results


class NotYet(Exception):
    pass


class Some:
    """Arrays by the names of some steps, not all of which have been computed."""

    def __init__(self, names, arrays):
        self.names, self.arrays = set(names) | {"given"}, arrays

    def __contains__(self, name):
        return name in self.names

    def __getitem__(self, name):
        if name not in self.arrays:
            raise NotYet(name)
        return self.arrays[name]


def by_numpy(case, changed):
    """All steps, by their formulas, of which some are others: such a one can use a later step, where no earlier one has the name."""
    order = [step["name"] for step in case["steps"]]
    given = {step["name"]: array(step) for step in case["steps"]}
    steps = {step["name"]: changed.get(step["name"], step["formula"]) for step in case["steps"]}
    arrays = {name: given[name] for name in order if not steps[name]}
    aliases = case.get("aliases", {})

    def compute(name):
        known = {**arrays, "given": given[name]}
        try:
            return formulas.evaluate(steps[name], Some(order[:order.index(name)], known), aliases, name)
        except KeyError:
            return formulas.evaluate(steps[name], Some(order, known), aliases, name)

    left = [name for name in order if steps[name]]
    while left:
        later = []
        for name in left:
            try:
                found = compute(name)
                arrays[name] = found if found.dtype == bool else found.astype(float)
            except NotYet:
                later.append(name)
        if len(later) == len(left):
            raise Failure(f"{left[0]} = {steps[left[0]]} follows from itself")
        left = later
    return arrays


def check_case(function, parameters, case):
    outputs = {name: array(entry) for name, entry in case["outputs"].items()}
    mine = by_torch(function, parameters, case)
    if set(mine) != set(outputs):
        raise Failure(f"PyTorch gives {sorted(mine)}, expected {sorted(outputs)}")
    for name, expected in outputs.items():
        compare(f"{name} by PyTorch", mine[name].detach().numpy(), expected, EXACT)
    if "steps" not in case:
        return 0
    arrays, aliases = by_numpy(case, {}), case.get("aliases", {})
    for step in case["steps"]:
        compare(f"{step['name']} by NumPy", arrays[step["name"]], array(step), SHORT)
    for name, entry in {**case["wrong"], **case.get("accepted", {})}.items():
        arrays = by_numpy(case, entry.pop("formulas"))
        for output in outputs:
            expected = array({**case["outputs"][output], "values": entry[output]}) if output in entry else outputs[output]
            step = next(one for one in (output.replace("grad.", "grad.group_"), output, aliases.get(output)) if one in arrays)
            compare(f"{output} of {name} by NumPy", arrays[step], expected, 20 * SHORT)
    return 1 + len(case["wrong"])


def numbers(entry):
    """Everything in a file that is no number, and the numbers."""
    if isinstance(entry, bool) or not isinstance(entry, (int, float)):
        if isinstance(entry, dict):
            parts = [numbers(value) for key, value in entry.items() if key != "tolerance"]  # which is measured, to two digits
            return [*entry, *(part[0] for part in parts)], [number for part in parts for number in part[1]]
        if isinstance(entry, list):
            parts = [numbers(value) for value in entry]
            return [part[0] for part in parts], [number for part in parts for number in part[1]]
        return entry, []
    return None, [float(entry)]


def check_published(made, published):
    """Text for text and number for number; the last digits depend on the machine, and tolerances are measured."""
    names = {path.name for path in Path(made).glob("*.json")}
    found = {path.name for path in Path(published).glob("*.json")} - {"schema.json"}
    if names != found:
        raise Failure(f"{published} has {sorted(found - names)} and lacks {sorted(names - found)}: script/vectors makes them")
    for name in sorted(names):
        (text, one), (other_text, other) = (numbers(json.loads((Path(folder) / name).read_text())) for folder in (made, published))
        if text != other_text or not np.allclose(one, other, rtol=1e-6, atol=1e-12):
            raise Failure(f"{published}/{name} is not what attn makes now: script/vectors makes it")


def main(attn, published=None):
    alternatives = cases = 0
    with tempfile.TemporaryDirectory() as folder:
        made, long = f"{folder}/made", f"{folder}/long"
        subprocess.run([attn, "vectors", "-o", made], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([attn, "vectors", "--formulas", "-o", long], check=True, stdout=subprocess.DEVNULL)
        for path in sorted(Path(long).glob("*.json")):
            file = json.loads(path.read_text())
            for group in file["groups"]:
                for case in group["cases"]:
                    try:
                        alternatives += check_case(file["function"], group["parameters"], case)
                    except Failure as failure:
                        print(f"{case['id']}: {failure}")
                        return 1
                    cases += 1
        try:
            if published:
                check_published(made, published)
        except Failure as failure:
            print(failure)
            return 1
    print(f"{cases} cases: the results are PyTorch's; {alternatives} sets of steps and results are NumPy's by their formulas")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
