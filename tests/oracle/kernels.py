#!/usr/bin/env python3
"""Checks vectors/kernels against PyTorch in float64, and against what vectors/make_kernels.py makes now: kernels.py [FOLDER]

The results are those of vectors/runners/by_torch.py, and of the definitions that flashinfer.py there makes. Of each mistake it checks that it is none of the right
results. Exit code 0 where all agree, 1 where something does not, 77 where there is no PyTorch.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError:
    print("kernels.py: skipped, there is no PyTorch")
    sys.exit(1 if "CI" in __import__("os").environ else 77)

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "vectors" / "runners"), str(ROOT / "vectors")]
import check  # noqa: E402
import flashinfer  # noqa: E402
import make_kernels  # noqa: E402

EXACT = 1e-11


def main(folder=ROOT / "vectors" / "kernels"):
    cases = forms = 0
    for file in check.files_in(folder).values():
        for group, case in ((group, case) for group in file["groups"] for case in group["cases"]):
            definition, _ = flashinfer.definition_of(file["function"], group["parameters"], case)
            scope = {}
            exec(definition["reference"], scope)
            found = dict(zip(case["outputs"], scope["run"](*(torch.from_numpy(check.array(entry)) for entry in case["inputs"].values()))))
            kept = {}
            for name, right in case["outputs"].items():
                whole = found[name].detach().numpy()
                expected, scale = check.numbers_of(right), check.numbers_of(right, "scale")
                kept[name] = check.kept(whole, right)
                if list(whole.shape) != right["shape"] or not np.all((np.abs(kept[name] - expected) <= EXACT * scale) | (kept[name] == expected)):
                    print(f"{case['id']}: {name} by PyTorch is {kept[name]}, expected {expected}")
                    return 1
            for name, form in ((name, form) for name, all_forms in case["wrong"].items() for form in all_forms):
                if check.is_form(case, kept, "float32", form):
                    print(f"{case['id']}: {name} {form['form']} is what is right")
                    return 1
                forms += 1
            cases += 1
    with tempfile.TemporaryDirectory() as made:
        make_kernels.main(made)
        for path in sorted(Path(made).glob("*.json")):
            if not is_same(json.loads(path.read_text()), json.loads((Path(folder) / path.name).read_text())):
                print(f"{path.name} is not what vectors/make_kernels.py makes now: script/vectors makes it")
                return 1
    with tempfile.TemporaryDirectory() as other:
        damaged = Path(other, "damaged")
        damaged.mkdir()
        (damaged / "kernel_sizes.json").write_text((Path(folder) / "kernel_sizes.json").read_text()[:1000])
        refused = [flashinfer.main(place, Path(other, "out")) for place in (other, damaged, ROOT / "vectors" / "cases", Path(other, "none"))]
        if refused != [2, 2, 2, 2] or Path(other, "out").exists():
            print(f"flashinfer.py gives {refused} where there are no kernels")
            return 1
        if flashinfer.main(folder, Path(other, "out")) != 0 or len(list(Path(other, "out", "blob").rglob("*.safetensors"))) != cases:
            print("flashinfer.py does not make a workload of each case")
            return 1
    print(f"{cases} cases of kernels: the results are PyTorch's; {forms} wrong results are others")
    return 0


def is_same(made, published, name=""):
    """The last digits depend on the machine, and what is measured on its order of sums; of float64, where what is right is rounded as well, on its exp, too."""
    if name in ("roundings", "rough"):
        times = {kind: (one + 1e-9) / (published[kind] + 1e-9) for kind, one in made.items()}
        return all(1 / most < times[kind] < most for kind, most in zip(times, (5, 2.5, 2.5, 2.5)))
    if name == "scale":
        return np.allclose(made, published, rtol=0.1)
    if isinstance(made, dict):
        return isinstance(published, dict) and list(made) == list(published) and all(is_same(one, published[key], key) for key, one in made.items())
    if isinstance(made, list):
        return isinstance(published, list) and len(made) == len(published) and all(map(is_same, made, published))
    return made == published or (isinstance(made, float) and isinstance(published, float) and math.isclose(made, published, rel_tol=1e-6, abs_tol=1e-11))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
