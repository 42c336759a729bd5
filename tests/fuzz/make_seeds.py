#!/usr/bin/env python3
"""Makes what the fuzzers start from: make_seeds.py FOLDER TRACE.npz GOLDEN.npz ...

A folder a fuzzer: the files as they are, the arrays in them, the formulas of the trace, a few .safetensors and a few vocabularies.
"""

import json
import pathlib
import struct
import sys
import zipfile

LESSONS = pathlib.Path(__file__).resolve().parent.parent.parent / "lessons"

# Every word of the formula language, over the arrays that the fuzzer of formulas knows.
FORMULAS = """
x @ y
x @ x.T / sqrt(x.shape[1])
softmax(where(mask, x, -inf))
softmax(x, axis=0)
sum(x, axis=1, keepdims=True) + mean(x) - max(x, axis=-1) * min(y)
exp(x) + log(abs(x)) + tanh(x) - sigmoid(-x) + relu(x) + erf(x) + sin(pi * x) + cos(x) + floor(x) ** 2
concat(x, x * 2.5e-1, axis=0)
repeat(y, 2, axis=0)
interleave(x, x)
diag(y) + outer(y, y)
arange(6)[1:5:2]
reshape(permute(x, 1, 0), 2, 3)
x[:, ::2][-1, None]
x[ids]
x[..., 0]
(x < 1) & (y >= 2) == mask
"""


def safetensors(tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_seeds():
    sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "BOOL": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8,
             "U8": 1, "U16": 2, "U32": 4, "U64": 8}
    yield safetensors({})
    for dtype, size in sizes.items():
        yield safetensors({"x": (dtype, [2], bytes([1] + [0] * (2 * size - 1)))})
    yield safetensors({"a.weight": ("F32", [2, 3], bytes(24)), "a.bias": ("BF16", [], b"\x80\x3f"),
                       "none": ("I64", [0, 4], b"")})


def tokenizer_seeds():
    yield (LESSONS / "17_story" / "tokens.json").read_bytes()
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["a", "aa", "\u2581", "\u2581a", "<", "<s"]
    yield json.dumps({"tokens": tokens, "scores": list(range(len(tokens)))}).encode()
    yield json.dumps({"tokens": ["a", "b", "ab"], "scores": [0, -1.5, 1e300], "bos": None}, ensure_ascii=False).encode()


def put(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(contents):
        (folder / f"{number:03}").write_bytes(content)


def main(folder, trace, *goldens):
    folder = pathlib.Path(folder)
    archives = [pathlib.Path(path).read_bytes() for path in (trace, *goldens)]
    put(folder / "npz", archives)
    put(folder / "trace", archives[:1])
    put(folder / "safetensors", safetensors_seeds())
    put(folder / "tokenizer", tokenizer_seeds())

    with zipfile.ZipFile(trace) as archive:
        put(folder / "npy", [archive.read(name) for name in archive.namelist() if name.endswith(".npy")])
        formulas = [step["formula"] for step in json.loads(archive.read("steps.json"))["steps"]]
    put(folder / "formula", [text.encode() for text in FORMULAS.strip().splitlines() + formulas])


if __name__ == "__main__":
    main(*sys.argv[1:])
