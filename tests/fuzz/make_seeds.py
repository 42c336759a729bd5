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


# Traces as the fuzzers write them, see traces.hpp.
TRACE = """queries||2,2|1,0,0.5,-1
keys||3,2|1,2,0,1,-1,0.5
values||3,2|1,2,3,4,5,6
mask||2,3|1,0,1,1,1,0|b
head.0.scores|queries @ keys.T|2,3|1,0,-1,-1.5,-1,-1
head.0.scaled|scores / sqrt(keys.shape[-1])|2,3|0.7071067811865475,0,-0.7071067811865475,-1.0606601717798212,-0.7071067811865475,-0.7071067811865475
head.0.masked|where(mask, scaled, -inf)|2,3|0.7071067811865475,-inf,-0.7071067811865475,-1.0606601717798212,-0.7071067811865475,-inf
head.0.weights|softmax(masked)|2,3|0.8044296825069569,0,0.1955703174930431,0.4125127545843045,0.5874872454156955,0
output|head.0.weights @ values|2,2|1.7822812699721724,2.7822812699721724,2.174974490831391,3.174974490831391
head.0.context=output
"""
NORM = """x||2,3|1,2,4,-1,0,3
mean|mean(x, axis=1, keepdims=True)|2,1|2.3333333333333335,0.6666666666666666
variance|mean((x - mean) ** 2, axis=1, keepdims=True)|2,1|1.5555555555555556,2.888888888888889
normalized|(x - mean) / sqrt(variance + 1e-05)|2,3|0,0,0,0,0,0
rows|x[arange(2)]|2,3|1,2,4,-1,0,3
row|x[-1, ::2]|2|-1,3
all|concat(repeat(x, 2, axis=0), outer(mean[:, 0], row), axis=1)|4,5|0
"""
RUNS = """
attention --input attention.npz --trace t.npz --mask causal --left-window 1 --scale 0.5
attention --input masked.npz --round float16 --score dot --normalization none
attention --input overflow.npz --precision 3 --softcap 30
multi-head-attention --input x.npz --weights w.npz --heads 2
feed-forward --input x.npz --weights w.npz --parameters
layer-norm --input x.npz --weights w.npz --ablate mean
restricted-attention --input attention.npz --radius 1 --stride 2
rotary --input x.npz --first 7
positions --input x.npz --pitfall mask_zero
embedding --input ids.npz --weights w.npz --prefix out_proj.
softmax --input x.npz
activation --input x.npz
"""


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
    for target in ("diff", "explain", "verify"):
        put(folder / target, [text.encode() for text in (TRACE, NORM, TRACE + "---\n" + TRACE)])
    put(folder / "run", [text.encode() for text in RUNS.strip().splitlines()])

    with zipfile.ZipFile(trace) as archive:
        put(folder / "npy", [archive.read(name) for name in archive.namelist() if name.endswith(".npy")])
        formulas = [step["formula"] for step in json.loads(archive.read("steps.json"))["steps"]]
    put(folder / "formula", [text.encode() for text in FORMULAS.strip().splitlines() + formulas])


if __name__ == "__main__":
    main(*sys.argv[1:])
