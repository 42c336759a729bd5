"""python3 check.py CASES MODULE:FUNCTION [TYPE] calls it with inputs, parameters and weights by name, where it takes all of them."""
import contextlib, importlib, inspect, json, pathlib, sys, numpy as np  # noqa: E401

def array(entry):
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

def check(case, parameters, function, kind):  # "" where it is right, else what it is
    given = {**{name: array(entry) for name, entry in case["inputs"].items()}, **parameters}
    if "weights" in case:
        given["weights"] = {name: array(entry) for name, entry in case["weights"].items()}
    result, outputs = function(**given), case["outputs"]
    result = result if isinstance(result, dict) else dict(zip(outputs, result if isinstance(result, tuple) else [result]))
    mine = {name: np.asarray(result[name], float)[(..., case["rows"], slice(None)) if "rows" in case else ...] for name in outputs}
    if any(list(mine[name].shape) != outputs[name]["shape"] for name in outputs): return "the result has another shape"  # noqa: E701
    if all(is_near(mine[name], array(right), right["tolerance"][kind]) for name, right in outputs.items()) or named(case, mine, kind, "accepted"):
        return ""
    names = " or ".join(named(case, mine, kind, "wrong"))
    return f"your numbers are those of {names}" if names else "no mistake that this case has gives these numbers"

if __name__ == "__main__":
    sys.path.insert(0, "")
    (module, name), kind, found = sys.argv[2].split(":"), sys.argv[3] if len(sys.argv) > 3 else "float64", {}
    function = getattr(importlib.import_module(module), name)
    for file in [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"))]:
        for case, group in [(case, group) for group in file["groups"] for case in group["cases"] if file["function"] == name]:
            with contextlib.suppress(NotImplementedError, TypeError):
                inspect.signature(function).bind(**dict.fromkeys([*case["inputs"], *group["parameters"], *({"weights"} & set(case))]))
                try:
                    found[case["id"]] = check(case, group["parameters"], function, kind)
                except NotImplementedError: raise  # noqa: E701
                except Exception as error:  # noqa: BLE001 (whatever stops it)
                    found[case["id"]] = f"it fails: {type(error).__name__}: {error}"
    failed = [f"failed {one}: {wrong}" for one, wrong in found.items() if wrong]
    print(*failed, f"{len(found) - len(failed)} of {len(found)} cases passed", sep="\n")
    sys.exit(bool(failed) or not found)
