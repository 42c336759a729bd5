#!/usr/bin/env python3
"""Makes a dataset of FlashInfer-Bench of vectors/kernels: flashinfer.py KERNELS OUT

OUT gets definitions/ (a contract for each function, layout, options and sizes that a kernel is compiled for), workloads/ (a line for each case) and
blob/ (the inputs, in float32). A definition's reference is by_torch.py here, which needs PyTorch; making it needs NumPy alone. Exit code 2 where
KERNELS has no vectors, or one is damaged.
"""

import json
import sys
from pathlib import Path

from check import Damaged, array, files_in
from safetensors import write

Q, K, V = ("heads", "queries", "width"), ("groups", "keys", "width"), ("groups", "keys", "value_width")
SHAPES = {  # the axes of what a kernel is given, by its layout
    "bhnd": {"queries": ("batch", *Q), "keys": ("batch", *K), "values": ("batch", *V)},
    "bnhd": {"queries": ("batch", "queries", "heads", "width"), "keys": ("batch", "keys", "groups", "width"), "values": ("batch", "keys", "groups", "value_width")},
    "qkv": {"qkv": ("batch", "queries", "three", "heads", "width")},
    "rows": {"queries": ("queries", "heads", "width"), "keys": ("keys", "groups", "width"), "values": ("keys", "groups", "value_width"),
             "cu_seqlens_queries": ("ends",), "cu_seqlens_keys": ("ends",)},
    "pages": {"queries": ("batch", "queries", "heads", "width"), "key_pages": ("pages", "page_size", "groups", "width"),
              "value_pages": ("pages", "page_size", "groups", "value_width"), "block_table": ("batch", "most_pages"), "lengths": ("batch",)},
    "ring": {"lengths": ("batch",), "queries": ("batch", *Q), "key_ring": ("batch", "groups", "ring", "width"), "value_ring": ("batch", "groups", "ring", "value_width")},
    "merge": {f"{which}_{what}": ("batch", "heads", "queries", "value_width")[:4 if what == "output" else 3] for which in ("first", "second") for what in ("output", "log_sum")},
}  # fmt: skip
BESIDE = {"bias": ("heads", "queries", "keys"), "sinks": ("heads",)}
COMPILED = ("heads", "groups", "width", "value_width", "page_size", "ring", "three")  # axes of which a kernel knows the size
KINDS = {"rows": "gqa_ragged", "pages": "gqa_paged"}


def identifier(name):
    return name.replace(".", "_")


def axes_of(layout, name, shape):
    """The axes of an input or a result; a result is in the layout of the queries."""
    shapes = {**SHAPES[layout], **BESIDE}
    given = name.removeprefix("grad.")
    if given in shapes:
        return shapes[given]
    queries = shapes.get("queries", ("batch", *Q) if layout == "merge" else ("batch", "queries", "heads", "width"))
    if given == "log_sum":  # heads before queries in each layout
        return ("heads", "queries") if layout == "rows" else ("batch", "heads", "queries")
    return (*queries[:-1], "value_width" if "qkv" not in shapes else "width")


def definition_of(function, parameters, case):
    """A definition, and the sizes of the axes that each workload gives."""
    layout = parameters.get("layout", "merge")
    if "kernel" not in function or layout not in SHAPES:
        raise Damaged(f"{case['id']}: {function} is no kernel with a layout that is known")
    axes, sizes = {}, {}
    for part in ("inputs", "outputs"):
        axes[part] = {name: axes_of(layout, name, entry["shape"]) for name, entry in case[part].items()}
        for name, entry in case[part].items():
            if len(axes[part][name]) != len(entry["shape"]):
                raise Damaged(f"{case['id']}: {name} has the shape {entry['shape']}, expected ({', '.join(axes[part][name])})")
            for axis, size in zip(axes[part][name], entry["shape"]):
                if sizes.setdefault(axis, size) != size:
                    raise Damaged(f"{case['id']}: {name} is {entry['shape']}, and {axis} is {sizes[axis]} elsewhere")
    fixed = {axis: size for axis, size in sizes.items() if axis in COMPILED}
    options = {name: value for name, value in parameters.items() if name != "layout"}
    name = "_".join([function, layout, *(f"{key}_{value}" for key, value in options.items()), *(f"{axis}{size}" for axis, size in fixed.items() if axis != "three"),
                     *(key for key in BESIDE if key in case["inputs"])])  # fmt: skip
    specs = {
        part: {identifier(one): {"shape": list(axes[part][one]), "dtype": "int64" if entry.get("type") == "int64" else "float32"} for one, entry in case[part].items()}
        for part in axes
    }
    given = ", ".join(f"{one!r}: {identifier(one)}" for one in case["inputs"])
    run = f"""

def run({", ".join(specs["inputs"])}):
    found = results({function!r}, {parameters!r}, {{{given}}})
    return tuple(found[name] for name in {tuple(case["outputs"])!r})
"""
    return {
        "name": identifier(name).replace("-", "_"), "op_type": KINDS.get(layout, "attention"), "description": f"{function} of attn's test vectors: {json.dumps(parameters)}", "tags": ["attn"],
        "axes": {axis: {"type": "const", "value": size} if axis in fixed else {"type": "var"} for axis, size in sizes.items()}, "constraints": [],
        **specs, "reference": (Path(__file__).parent / "by_torch.py").read_text(encoding="utf-8") + run,
    }, {axis: size for axis, size in sizes.items() if axis not in fixed}  # fmt: skip


def main(folder, output):
    try:
        files = files_in(folder)
        cases = [(file["function"], group["parameters"], case) for file in files.values() for group in file["groups"] for case in group["cases"]]
        made = [(*definition_of(*one), one[2]) for one in cases]
    except (Damaged, KeyError, ValueError) as error:
        print(f"flashinfer.py: {error}", file=sys.stderr)
        return 2
    root, lines = Path(output), {}
    for definition, sizes, case in made:
        name, kind = definition["name"], definition["op_type"]
        place = Path("blob", "workloads", kind, name, f"{identifier(case['id']).replace('/', '_')}.safetensors")
        arrays = [(identifier(one), array(entry)) for one, entry in case["inputs"].items()]
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        write(root / place, [(one, numbers.astype("float32") if numbers.dtype.kind == "f" else numbers) for one, numbers in arrays])
        inputs = {one: {"type": "safetensors", "path": place.as_posix(), "tensor_key": one} for one, _ in arrays}
        workload = {"definition": name, "workload": {"uuid": case["id"], "axes": sizes, "inputs": inputs}}
        lines.setdefault((kind, name), []).append(json.dumps(workload))
        (root / "definitions" / kind).mkdir(parents=True, exist_ok=True)
        (root / "definitions" / kind / f"{name}.json").write_text(json.dumps(definition, indent=2) + "\n", encoding="utf-8")
    for (kind, name), all_lines in lines.items():
        (root / "workloads" / kind).mkdir(parents=True, exist_ok=True)
        (root / "workloads" / kind / f"{name}.jsonl").write_text("\n".join(all_lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} definitions, {len(made)} workloads")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
