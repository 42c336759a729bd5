#!/usr/bin/env python3
"""Prints the weights of each folder: names.py FOLDER. Layers that have the same are one line."""

import json
import pathlib
import re
import struct
import sys


def main():
    for folder in sorted(pathlib.Path(sys.argv[1]).glob("*/model.safetensors")):
        with open(folder, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        header.pop("__metadata__", None)
        lines = {}
        for name, tensor in header.items():
            numbers = re.findall(r"\.(\d+)(?=\.)", name)
            line = re.sub(r"\.\d+(?=\.)", ".N", name), tuple(tensor["shape"])
            lines.setdefault(line, []).append("/".join(numbers))
        print(f"\n## {folder.parent.name}")
        for (name, shape), where in lines.items():
            print(f"{name} {shape}" + (f"  [{' '.join(where)}]" if where != [""] else ""))


main()
