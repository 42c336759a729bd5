"""python3 check.py CASES MODULE:FUNCTION [TYPE] calls it with inputs, parameters and weights by name, where it takes all of them.

CASES is vectors/cases or vectors/kernels. Where the variable VECTORS_JUNIT names a file, a report for build servers is written to it.
"""
import contextlib, importlib, inspect, json, math, os, pathlib, re, sys  # noqa: E401
from xml.sax.saxutils import quoteattr
with contextlib.suppress(ImportError):  # header.py, which reads the files by this one, needs no NumPy
    import numpy as np

TYPES = ("float64", "float32", "float16", "bfloat16")
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}  # the largest error of a rounding

class Damaged(Exception):  # a file by which nothing can be checked
    pass

def expect(holds, what):
    if not holds:
        raise ValueError(what)

def is_number(value):
    return value in ("NaN", "Infinity", "-Infinity") if isinstance(value, str) else type(value) in (int, float) and math.isfinite(value)

def expect_array(name, entry):
    shape, formula = entry["shape"], [entry.get("multiplier"), entry.get("offset")] if "rule" not in entry else [entry["rule"]]
    expect(len(shape) <= 5 and all(type(size) is int and 0 < size < 10**7 for size in shape), f"{name} has the shape {shape}")
    is_whole = len(entry["values"]) == math.prod(shape) and all(map(is_number, entry["values"])) if formula == [None, None] else \
        math.prod(shape) < 10**7 and all(type(one) is int and one >= 0 for one in formula)
    expect(is_whole, f"{name} has not a number for each place of {shape}")

def call_of(name):  # 2 of calls.2.output; None where it is of no call
    if not name.startswith("calls."):
        return None
    match = re.fullmatch(r"calls\.(0|[1-9]\d{0,3})\..+", name)
    expect(match, f"{name} names no call, expected such as calls.0.output")
    return int(match[1])

def scopes_of(case):  # of each request the scopes of its calls: [["calls.0.", "calls.1."], ["calls.2."]]
    scopes = iter(range(sum(case["requests"])))
    return [[f"calls.{next(scopes)}." for _ in range(calls)] for calls in case["requests"]]

def expect_calls(case):  # each has inputs and outputs, and there is no other
    requests = case.get("requests", [])
    is_right = isinstance(requests, list) and all(type(calls) is int and 0 < calls <= 1000 for calls in requests) and sum(requests) <= 1000
    expect(is_right and bool(requests) == ("requests" in case), f"requests is {requests}, expected how many calls each has, 1000 in all at most")
    expect(not requests or "rows" not in case, "it has several calls, and rows of an output")
    for part in ("inputs", "outputs"):
        calls = {*map(call_of, case[part])}
        expect(calls - {None} == {*range(sum(requests))}, f"a call has no {part}, or {part} are of a call that requests has not")
        expect(not requests or part == "inputs" or None not in calls, "an output is of no call")

def expect_case(case):  # one that a program of zeros can't pass
    inputs, outputs, rows = case["inputs"], case["outputs"], case.get("rows", [])
    expect(inputs and outputs, "it has no inputs, or no outputs")
    expect_calls(case)
    for name, entry in [*inputs.items(), *case.get("weights", {}).items(), *outputs.items()]:
        expect_array(name, entry)
    for name, right in outputs.items():
        expect(all(is_number(right["tolerance"][kind]) and right["tolerance"][kind] > 0 for kind in TYPES), f"{name} has a tolerance that is not above 0")
        expect(not rows or len(rows) == right["shape"][-2], f"{name} has not a row for each of rows")
    expect(all(type(row) is int and 0 <= row < next(iter(inputs.values()))["shape"][-2] for row in rows), "rows has one that no result has")
    for which in ("accepted", "wrong"):
        for other, values in case.get(which, {}).items():
            values = {name: numbers for name, numbers in values.items() if name != "formulas"}
            expect(values and all(len(numbers) == math.prod(outputs[name]["shape"]) and all(map(is_number, numbers)) for name, numbers in values.items()),
                   f"{which} {other} has not the numbers of the outputs")

def expect_kernel(case):  # the same of a case that keeps some numbers and sums of large results
    expect(case["inputs"] and case["outputs"], "it has no inputs, or no outputs")
    for name, entry in case["inputs"].items():
        expect_array(name, entry)
    for name, right in case["outputs"].items():
        shape, places, block = right["shape"], right["places"], right["block"]
        size = math.prod(shape)
        expect(1 <= len(shape) <= 5 and all(type(one) is int and 0 < one < 10**7 for one in shape) and size < 10**7, f"{name} has the shape {shape}")
        expect(type(block) is int and block > 0 and all(type(place) is int and 0 <= place < size for place in places), f"{name} has places outside of it")
        count = len(places) + -(-size // block)
        expect(len(right["values"]) == len(right["scale"]) == count and all(map(is_number, right["values"])), f"{name} has not a number for each place and sum")
        expect(all(is_number(one) and one > 0 for one in [*right["scale"], *(right["roundings"][kind] for kind in TYPES)]), f"{name} has a tolerance that is not above 0")
        expect(all(is_number(right["rough"][kind]) and right["rough"][kind] >= 0 for kind in TYPES[2:]), f"{name} has no rough tolerance")
        expect(any(value not in (0, "NaN") for value in right["values"]), f"{name} is zero")
    for forms in (forms for which in ("accepted", "wrong") for forms in case[which].values()):
        expect(isinstance(forms, list) and forms, "a mistake has no form")
        for parts in ({name: part for name, part in form.items() if name != "form"} for form in forms):
            expect(parts and all(len(part["at"]) == len(part["values"]) > 0 and all(map(is_number, part["values"])) and all(
                type(at) is int and 0 <= at < len(case["outputs"][name]["values"]) for at in part["at"]) for name, part in parts.items()), "a form has not its numbers")

def read(path):  # a file of vectors, whole
    where = ""
    try:
        file = json.loads(pathlib.Path(path).read_text())
        expect(isinstance(file, dict) and file["schema"] in ("vectors_schema_1", "vectors_kernels_1") and re.fullmatch(r"\w+", file["function"]), "it is none of vectors_schema_1")
        expect(file["groups"] and all(isinstance(group["parameters"], dict) and group["cases"] for group in file["groups"]), "a group has no cases")
        for case in (case for group in file["groups"] for case in group["cases"]):
            expect(re.fullmatch(r"\w+/\d+/\d+", case["id"]), "a case has no id")
            where = case["id"] + ": "
            (expect_kernel if file["schema"] == "vectors_kernels_1" else expect_case)(case)
            expect({*case.get("wrong", {})} <= {*file["notes"]}, "a mistake has no note")
        return file
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__} {error}" if isinstance(error, (KeyError, TypeError, IndexError, AttributeError)) else str(error)
        raise Damaged(f"{path} is no file of vectors, expected one as vectors/schema.json says: {where}{what}") from None

def files_in(folder):
    paths = sorted(pathlib.Path(folder).glob("*.json"))
    if not paths:
        raise Damaged(f"{folder} has no files of vectors, expected such as vectors/cases")
    return {path: read(path) for path in paths}

def bits_by_rule(seed, size):
    x = np.arange(size, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(seed * 0x85EBCA6B & 0xFFFFFFFF)
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x7FEB352D)
    x = (x ^ x >> np.uint32(15)) * np.uint32(0x846CA68B)
    return x ^ x >> np.uint32(16)

def array(entry):
    if "rule" in entry:  # whole sixteenths between -2 and 2
        return ((bits_by_rule(entry["rule"], math.prod(entry["shape"])) % np.uint32(65)).astype(float) - 32).reshape(entry["shape"]) / 16
    if "multiplier" in entry:
        place = np.arange(np.prod(entry["shape"]))
        return (((entry["multiplier"] * place + entry["offset"]) % 251 - 125) / 64).reshape(entry["shape"])
    return np.array([float(value) for value in entry["values"]]).reshape(entry["shape"]).astype(entry.get("type", "float64"))

def is_near(mine, numbers, tolerance):  # NaN for NaN, and infinity for infinity
    return np.allclose(mine, np.reshape(numbers, np.shape(mine)), rtol=0, atol=tolerance, equal_nan=True)

def named(case, mine, kind, which):  # the mistakes, or the conventions, whose results these are
    def is_of(outputs, name, right):
        if name not in outputs:
            return is_near(mine[name], array(right), right["tolerance"][kind])
        numbers = np.array([float(value) for value in outputs[name]])
        largest = np.max(np.abs(numbers[np.isfinite(numbers)]), initial=1)
        return is_near(mine[name], numbers, max(right["tolerance"][kind], 1e-6) * largest)
    return [name for name, outputs in case.get(which, {}).items() if all(is_of(outputs, *one) for one in case["outputs"].items())]

def real(name, value):
    if np.asarray(value).dtype.kind in "cSUmM":
        raise TypeError(f"{name} is of the type {np.asarray(value).dtype}, expected real numbers")
    return np.asarray(value, float)

def given_to(case, parameters, scope=""):  # by the names that the function knows; of several calls, to that of a scope
    own = {name.removeprefix(scope): array(entry) for name, entry in case["inputs"].items() if name.startswith(scope) or call_of(name) is None}
    weights = {"weights": {name: array(entry) for name, entry in case["weights"].items()}} if "weights" in case else {}
    return {**own, **parameters, **weights}

def names_of(case, parameters):  # of all that the function is given
    scopes = [scope for request in scopes_of(case) for scope in request] if "requests" in case else [""]
    names = {name.removeprefix(scope) for scope in scopes for name in case["inputs"] if name.startswith(scope) or call_of(name) is None}
    return {*names, *parameters, *({"weights"} & set(case)), *(["state"] if "requests" in case else [])}

def by_name(result, names):
    return result if isinstance(result, dict) else dict(zip(names, result if isinstance(result, tuple) else [result]))

def results_of(case, parameters, function):  # a call also gets the state that the one before it returned, and returns one for the next
    if "requests" not in case:
        return by_name(function(**given_to(case, parameters)), case["outputs"])
    results = {}
    for request in scopes_of(case):
        state = None
        for scope in request:
            answer = function(**given_to(case, parameters, scope), state=state)
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise TypeError("expected a pair, the result and the state for the next call")
            result, state = answer
            names = [name for name in case["outputs"] if name.startswith(scope)]
            found = by_name(result, [name.removeprefix(scope) for name in names])
            results.update({name: found[name.removeprefix(scope)] for name in names})
    return results

def furthest(case, mine, kind):  # where the results are furthest out, in tolerances
    def off(name):
        with np.errstate(invalid="ignore"):
            distances = np.abs(mine[name] - array(case["outputs"][name])) / case["outputs"][name]["tolerance"][kind]
        return np.where(mine[name] == array(case["outputs"][name]), 0, np.where(np.isnan(distances), np.inf, distances))
    name = max(mine, key=lambda name: off(name).max())
    index = np.unravel_index(np.argmax(off(name)), mine[name].shape)
    shown = [case["rows"][place] if "rows" in case and axis == len(index) - 2 else int(place) for axis, place in enumerate(index)]
    found, right = mine[name][index], array(case["outputs"][name])
    roundings = abs(found - right[index]) / (UNITS[kind] * max(np.max(np.abs(right[np.isfinite(right)]), initial=0), 1e-300))
    return f"{name}{shown} is {found:.9g}, expected {right[index]:.9g}, {roundings:.3g} roundings off"

def kept(whole, right):  # the numbers at some places, and sums of blocks with signs by the rule
    flat = whole.ravel()
    signed = flat * (1.0 - 2.0 * (bits_by_rule(0, flat.size) & np.uint32(1)))
    return np.concatenate([flat[right["places"]], [signed[at:at + right["block"]].sum() for at in range(0, flat.size, right["block"])]])

def roundings_off(mine, numbers, scale, kind):
    with np.errstate(invalid="ignore"):
        off = np.abs(mine - numbers) / (UNITS[kind] * scale)
    return np.where((mine == numbers) | (np.isnan(mine) & np.isnan(numbers)), 0, np.where(np.isnan(off), np.inf, off))

def numbers_of(entry, name="values"):
    return np.array([float(value) for value in entry[name]])

def is_form(case, mine, kind, form):  # the numbers that it has, to seven digits
    for name, part in form.items():
        if name != "form":
            right, wrong, at = case["outputs"][name], numbers_of(part), part["at"]
            growth = max(1.0, np.max(np.abs(wrong[np.isfinite(wrong)]), initial=0) / max(np.max(np.abs(numbers_of(right)[at]), initial=0), 1e-300))
            tolerance = np.maximum(right["roundings"][kind] * UNITS[kind] * numbers_of(right, "scale")[at] * growth, 1e-6 * np.abs(wrong))
            off = np.abs(mine[name][at] - wrong)
            if not np.all((off <= tolerance) | (mine[name][at] == wrong) | (np.isnan(mine[name][at]) & np.isnan(wrong))):
                return False
    return True

def names_of_kernel(case, mine, kind, which):
    found = {name: [form["form"] for form in forms if is_form(case, mine, kind, form)] for name, forms in case[which].items()}
    return [name + (f" ({forms[0]})" if forms[0] else "") for name, forms in found.items() if forms]

def is_accepted(case, mine, kind, off):  # another convention: what it has in place of what is right, the rest right
    outputs = case["outputs"]
    return any(all(is_form(case, mine, kind, form) if name in form else np.max(off[name]) <= outputs[name]["roundings"][kind] for name in outputs)
               for forms in case["accepted"].values() for form in forms)

def place_text(name, right, at):
    def index(place):
        return f"{name}{[int(one) for one in np.unravel_index(place, right['shape'])]}"
    if at < len(right["places"]):
        return index(right["places"][at])
    begin = (at - len(right["places"])) * right["block"]
    end = min(begin + right["block"], math.prod(right["shape"])) - 1
    return f"the signed sum of {index(begin)} to {index(end)}" if end > begin else index(begin)

def check_kernel(case, whole, kind):
    outputs = case["outputs"]
    with np.errstate(invalid="ignore"):
        mine = {name: kept(whole[name], right) for name, right in outputs.items()}
    off = {name: roundings_off(mine[name], numbers_of(right), numbers_of(right, "scale"), kind) for name, right in outputs.items()}
    times = {name: off[name] / right["roundings"][kind] for name, right in outputs.items()}
    if all(np.max(one) <= 1 for one in times.values()) or is_accepted(case, mine, kind, off):
        return ""
    names = " or ".join(names_of_kernel(case, mine, kind, "wrong"))
    if names:
        return f"your numbers are those of {names}"
    name = max(times, key=lambda name: np.max(times[name]))
    at, right = int(np.argmax(times[name])), outputs[name]
    rough = kind in TYPES[2:] and all(np.max(off[one]) <= max(outputs[one]["rough"][kind], outputs[one]["roundings"][kind]) for one in outputs)
    return (f"{place_text(name, right, at)} is {mine[name][at]:.9g}, expected {float(right['values'][at]):.9g}, {off[name][at]:.3g} roundings off, "
            f"{right['roundings'][kind]:.3g} allowed; " + (f"kept_in_short_type is as far off: sums or scores in {kind}" if rough else
                                                          "no mistake that this case has gives these numbers"))

def check(case, parameters, function, kind):  # "" where it is right, else what it is
    result, outputs = results_of(case, parameters, function), case["outputs"]
    mine = {name: real(name, result[name])[(..., case["rows"], slice(None)) if "rows" in case else ...] for name in outputs}
    for name, right in outputs.items():
        if list(mine[name].shape) != right["shape"]: return f"{name} has the shape {list(mine[name].shape)}, expected {right['shape']}"  # noqa: E701
    if all("places" in right for right in outputs.values()):
        return check_kernel(case, mine, kind)
    if all(is_near(mine[name], array(right), right["tolerance"][kind]) for name, right in outputs.items()) or named(case, mine, kind, "accepted"):
        return ""
    names = " or ".join(named(case, mine, kind, "wrong"))
    return f"your numbers are those of {names}" if names else f"{furthest(case, mine, kind)}; no mistake that this case has gives these numbers"

def failure(case, parameters, function, kind):  # the same, and whatever stops it, sys.exit() too
    try:
        return check(case, parameters, function, kind)
    except NotImplementedError: raise  # noqa: E701
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return f"it fails: {type(error).__name__}: {error}"

def function_of(module, name):
    try:
        return getattr(importlib.import_module(module), name)
    except SystemExit as error:
        raise ImportError(f"{module} calls sys.exit({error}) where it is imported") from None

def write_junit(found):  # {id: message}
    cases = "".join(f" <testcase classname={quoteattr(one.split('/')[0])} name={quoteattr(one)}>" +
                    (f"<failure message={quoteattr(wrong)}/>" if wrong else "") + "</testcase>\n" for one, wrong in found.items())
    if "VECTORS_JUNIT" in os.environ:
        pathlib.Path(os.environ["VECTORS_JUNIT"]).write_text(
            f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="vectors" tests="{len(found)}" failures="{sum(map(bool, found.values()))}">\n{cases}</testsuite>\n')

if __name__ == "__main__":
    sys.path.insert(0, "")
    (module, _, name), kind, found = sys.argv[2].partition(":"), sys.argv[3] if len(sys.argv) > 3 else "float64", {}
    try:
        function, files = function_of(module, name), files_in(sys.argv[1]).values()
        expect(kind in TYPES, f"{kind} is none of {', '.join(TYPES)}")
    except (Damaged, ImportError, AttributeError, ValueError) as error:
        sys.stderr.write(f"check.py: {error}\n")
        sys.exit(2)
    for case, group in [(case, group) for file in files for group in file["groups"] for case in group["cases"] if file["function"] == name]:
        with contextlib.suppress(NotImplementedError, TypeError):
            inspect.signature(function).bind(**dict.fromkeys(names_of(case, group["parameters"])))
            found[case["id"]] = failure(case, group["parameters"], function, kind)
    failed = [f"failed {one}: {wrong}" for one, wrong in found.items() if wrong]
    write_junit(found)
    print(*failed, f"{len(found) - len(failed)} of {len(found)} cases passed", sep="\n")
    sys.exit(bool(failed) or not found)
