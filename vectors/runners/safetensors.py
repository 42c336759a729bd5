#!/usr/bin/env python3
"""Makes a .safetensors file of each file of vectors: safetensors.py CASES FOLDER

A tensor's name is that of its case and its place: attention_causal/1/1/inputs/queries, …/outputs/output, …/wrong/causal_top_left/output.
Parameters, tolerances and comments stand in the JSON file of the same name. Exit code 2 where CASES has no vectors, or one is damaged.
"""

import json
import sys
from pathlib import Path

import numpy as np

from check import Damaged, array, files_in

TYPES = {"float64": "F64", "float32": "F32", "bool": "BOOL", "int64": "I64"}


def tensors(file):
    for case in (case for group in file["groups"] for case in group["cases"]):
        for part in ("inputs", "weights", "outputs"):
            for name, entry in case.get(part, {}).items():
                yield f"{case['id']}/{part}/{name}", array(entry)
        for step in case.get("steps", []):
            yield f"{case['id']}/steps/{step['name']}", array(step)
        for part in ("accepted", "wrong"):
            for other, outputs in case.get(part, {}).items():
                for name, values in outputs.items():
                    yield f"{case['id']}/{part}/{other}/{name}", array({"shape": case["outputs"][name]["shape"], "values": values})


def write(path, named):
    header, data = {}, b""
    for name, numbers in named:
        kept = np.ascontiguousarray(numbers).tobytes()
        header[name] = {"dtype": TYPES[str(numbers.dtype)], "shape": list(numbers.shape), "data_offsets": [len(data), len(data) + len(kept)]}
        data += kept
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def main(folder, output):
    try:
        files = files_in(folder)
    except Damaged as error:
        print(f"safetensors.py: {error}", file=sys.stderr)
        return 2
    Path(output).mkdir(parents=True, exist_ok=True)
    for path, file in files.items():
        write(Path(output) / f"{path.stem}.safetensors", tensors(file))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
