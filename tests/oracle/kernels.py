#!/usr/bin/env python3
"""Checks vectors/kernels against PyTorch in float64, and against what vectors/make_kernels.py makes now: kernels.py [FOLDER]

The results are written from the papers, without tiles: gradients are autograd's. Of each mistake it checks that it is none of the right
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
import make_kernels  # noqa: E402

EXACT = 1e-11


def one(queries, keys, values, bias=None, sinks=None, positions=None, first=0, causal=None, left_window=None, softcap=None, scale=None):
    """(h, n, d), (g, m, d), (g, m, e): the output (h, n, e) and the log of the sum (h, n)."""
    times = queries.shape[0] // keys.shape[0]
    keys, values = keys.repeat_interleave(times, 0), values.repeat_interleave(times, 0)
    scores = queries @ keys.mT * (1 / math.sqrt(queries.shape[-1]) if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    place, key = torch.arange(queries.shape[1])[:, None] + first, torch.arange(keys.shape[1]) if positions is None else positions
    can = (key >= 0) & (key <= place if causal else True) & (key >= place - left_window if left_window is not None else True)
    scores = scores.masked_fill(~can, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:2], 1)], -1)
    log_sum = torch.logsumexp(scores, -1)
    weights = torch.softmax(scores.masked_fill(~torch.isfinite(log_sum)[..., None], 0), -1) * torch.isfinite(log_sum)[..., None]
    return weights[..., :keys.shape[1]] @ values, log_sum


def attention(layout, inputs, options):
    """The output and the log of the sum, in the layout."""
    beside = {name: inputs[name] for name in ("bias", "sinks") if name in inputs}
    if layout == "qkv":
        inputs = dict(zip(("queries", "keys", "values"), inputs["qkv"].unbind(2)))
    parts = []
    if layout == "rows":
        (a, b), (q, k, v) = ([inputs[f"cu_seqlens_{x}"].tolist() for x in ("queries", "keys")], [inputs[x].transpose(0, 1) for x in ("queries", "keys", "values")])
        for i in range(len(a) - 1):
            parts.append(one(q[:, a[i]:a[i + 1]], k[:, b[i]:b[i + 1]], v[:, b[i]:b[i + 1]], first=b[i + 1] - b[i] - a[i + 1] + a[i], **beside, **options))
        return torch.cat([part[0].transpose(0, 1) for part in parts]), torch.cat([part[1] for part in parts], -1)
    for i, q in enumerate(inputs["queries"]):
        positions = None
        if layout == "pages":
            m, table = int(inputs["lengths"][i]), inputs["block_table"][i]
            k, v = (inputs[name][table].flatten(0, 1)[:m] for name in ("key_pages", "value_pages"))
        elif layout == "ring":
            m, size, k, v = int(inputs["lengths"][i]), inputs["key_ring"].shape[2], inputs["key_ring"][i], inputs["value_ring"][i]
            positions = torch.full((size,), -1)
            for token in range(m):
                positions[token % size] = token
        else:
            k, v = inputs["keys"][i], inputs["values"][i]
        if layout in ("bnhd", "qkv", "pages"):
            q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
        m = k.shape[1] if layout in ("bhnd", "bnhd", "qkv") else m
        parts.append(one(q, k, v, positions=positions, first=m - q.shape[1], **beside, **options))
    output = torch.stack([part[0] for part in parts])
    return output.transpose(1, 2) if layout in ("bnhd", "qkv", "pages") else output, torch.stack([part[1] for part in parts])


def merged(first_output, first_log_sum, second_output, second_log_sum, base):
    log = math.log(2) if base == 2 else 1.0
    logs = torch.stack([first_log_sum, second_log_sum]) * log
    both, weights = torch.logsumexp(logs, 0), torch.softmax(logs, 0)[..., None]
    return {"output": weights[0] * first_output + weights[1] * second_output, "log_sum": both / log}


def results(function, parameters, case):
    inputs = {name: torch.from_numpy(check.array(entry)) for name, entry in case["inputs"].items()}
    if function == "merge_kernel":
        return merged(**inputs, **parameters)
    options = {name: value for name, value in parameters.items() if name != "layout"}
    if not function.endswith("_backward"):
        return dict(zip(("output", "log_sum"), attention(parameters["layout"], inputs, options)))
    grad = inputs.pop("grad.output")
    leaves = {name: one.requires_grad_() for name, one in inputs.items() if one.dtype == torch.float64}
    attention(parameters["layout"], inputs, options)[0].backward(grad)
    return {f"grad.{name}": leaf.grad for name, leaf in leaves.items()}


def main(folder=ROOT / "vectors" / "kernels"):
    cases = forms = 0
    for file in check.files_in(folder).values():
        for group, case in ((group, case) for group in file["groups"] for case in group["cases"]):
            found = results(file["function"], group["parameters"], case)
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
    print(f"{cases} cases of kernels: the results are PyTorch's; {forms} wrong results are others")
    return 0


def is_same(made, published, name=""):
    """The last digits depend on the machine, and what is measured on its order of sums."""
    if name in ("roundings", "rough"):
        return all(0.4 < (one + 1e-9) / (published[kind] + 1e-9) < 2.5 for kind, one in made.items())
    if name == "scale":
        return np.allclose(made, published, rtol=0.1)
    if isinstance(made, dict):
        return isinstance(published, dict) and list(made) == list(published) and all(is_same(one, published[key], key) for key, one in made.items())
    if isinstance(made, list):
        return isinstance(published, list) and len(made) == len(published) and all(map(is_same, made, published))
    return made == published or (isinstance(made, float) and isinstance(published, float) and math.isclose(made, published, rel_tol=1e-6, abs_tol=1e-11))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
