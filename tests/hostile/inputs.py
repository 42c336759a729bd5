#!/usr/bin/env python3
"""Gives attn files and flags that nobody would mean, and looks at how it ends: inputs.py BIN [--list] [--only TEXT]

Files that are cut off at each kilobyte, fields of the wrong type, sizes that are negative, huge or don't fit, names with slashes and NUL,
links in a circle, JSON a hundred thousand deep, archives that unpack to gigabytes, references to oneself, flags with absurd values. Each
run ends with exit code 1 or 2 and an error of one line within 20 seconds of a processor and 2 GB, or with 0 where what it was given can
be used after all. --list prints each input with what attn said. BIN is the build's bin folder. Needs Python alone.
"""

import argparse
import collections
import copy
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from programs import npy, write_npz

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "golden" / "families" / "llama"
SECONDS, BYTES = 20, 2 << 30
DEEP = 100_000
WRONG = (None, True, -1, 0, 1.5, 1e30, "text", "", [], {}, [[]], {"a": {"a": {}}}, 10 ** 400)


class Case:
    def __init__(self, name, words, usable=False):
        self.name, self.words, self.usable = name, [str(word) for word in words], usable


def numbers(count):
    chance = random.Random(count)
    return [chance.gauss(0, 1) for _ in range(count)]


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write_members(path, content, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in content.items():
            with archive.open(zipfile.ZipInfo(name), "w") as file:
                file.write(data.encode() if isinstance(data, str) else data)


def header(descr, shape, order="False", version=b"\x01\x00"):
    """An .npy file's first bytes, with whatever is said in them."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode("utf-8", "surrogateescape")


def safetensors(entries, data=b"", length=None):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


class Desk:
    def __init__(self, folder, attn):
        self.folder, self.attn, self.count = Path(folder), attn, 0
        self.input = self.folder / "input.npz"
        write_npz(self.input, {"queries": (numbers(320), (20, 16)), "keys": (numbers(480), (30, 16)), "values": (numbers(480), (30, 16))})
        self.ids = self.folder / "ids.npz"
        write_npz(self.ids, {"ids": ([1, 2, 3], (3,))})
        self.tokens = self.folder / "tokens.npz"
        write_npz(self.tokens, {"x": (numbers(320), (20, 16))})
        self.trace = self.folder / "trace.npz"
        subprocess.run([attn, "run", "attention", "--input", self.input, "--quiet", "--trace", self.trace], check=True)

    def path(self, name):
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        return folder / name

    def put(self, data, name="x.npz"):
        path = self.path(name)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def npz(self, content, method=zipfile.ZIP_STORED):
        path = self.path("x.npz")
        write_members(path, content, method)
        return path

    def read(self, path):
        """The commands that read a trace, or arrays."""
        attn = self.attn
        return [[attn, "verify", path], [attn, "explain", path, "weights[0,0]"], [attn, "diff", path, self.trace], [attn, "diff", self.trace, path, "--diagnose"],
                [attn, "graph", path], [attn, "grad", path, "--check"], [attn, "view", path, "-o", self.path("page.html")], [attn, "run", "attention", "--input", path]]

    def attention(self, path, *flags):
        return [self.attn, "run", "attention", "--quiet", "--input", path, *flags]

    def model(self, change=None, config=None, weights=None, **files):
        """A folder of a model with another configuration or other weights."""
        folder = self.path("model")
        shutil.copytree(MODEL, folder)
        (folder / "expected.npz").unlink()
        if change:
            given = json.loads((folder / "config.json").read_text())
            change(given)
            config = json.dumps(given)
        if config is not None:
            (folder / "config.json").write_text(config)
        if weights is not None:
            (folder / "model.safetensors").write_bytes(weights)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return [self.attn, "run", "model", "--weights", folder, "--input", self.ids, "--quiet"]


# ------------------------------------------------------------------------------------------------ what is given


def cut_off(desk):
    for path, words in ((desk.trace, desk.read), (desk.input, lambda cut: [desk.attention(cut)])):
        whole = path.read_bytes()
        for end in range(0, len(whole), 1024):
            for command in words(desk.put(whole[:end])):
                yield Case(f"{path.name} cut off at {end} bytes", command)
    whole = (MODEL / "model.safetensors").read_bytes()
    for end in range(0, len(whole), 1024):
        yield Case(f"model.safetensors cut off at {end} bytes", desk.model(weights=whole[:end]))


def steps(desk):
    """A listing of steps in which one thing is another."""
    content = members(desk.trace)
    listing = json.loads(content["steps.json"])
    for field in ("path", "formula", "axes", "module", "options", "shape"):
        for value in WRONG:
            other = copy.deepcopy(listing)
            other["steps"][-1][field] = value
            trace = desk.npz({**content, "steps.json": json.dumps(other)})
            for command in desk.read(trace)[:2]:
                yield Case(f"steps.json: {field} is {json.dumps(value)[:40]}", command, usable=True)
    for name, text in {"nothing": "", "a list": "[]", "null": "null", "a number that no double holds": "1" + "0" * 5000, "NaN": "NaN",
                       "a hundred thousand brackets": "[" * DEEP, "a hundred thousand objects": '{"steps":' * DEEP, "half a letter": '{"steps": "\ud800',
                       "NUL": '{"steps": []}\0', "two listings": '{"steps": [], "steps": 3}'}.items():
        yield from (Case(f"steps.json: {name}", command, usable=True) for command in desk.read(desk.npz({**content, "steps.json": text.encode("utf-8", "surrogatepass")}))[:4])
    for name, aliases in {"of itself": [["a", "a"]], "in a circle": [["a", "b"], ["b", "a"]], "of nothing": [["a", "nothing"]], "twice": [["a", "output"], ["a", "scores"]]}.items():
        other = {**listing, "aliases": [{"path": path, "target": target} for path, target in aliases]}
        yield from (Case(f"steps.json: an alias {name}", command, usable=True) for command in desk.read(desk.npz({**content, "steps.json": json.dumps(other)})))
    for formula in ("(" * DEEP, "scores" + "[0]" * 10_000, "softmax(" * 5000 + "x" + ")" * 5000, "arange(1e300)", "reshape(scores, -1, -1)", "scores @ scores @ scores",
                    "repeat(scores, 1000000000, axis=0)", "zeros(1000000000000)", "scores[1000000000000000000000]", "-" * DEEP + "1", "1" * DEEP, "scores / 0", "weights", "output"):
        other = copy.deepcopy(listing)
        other["steps"][-1]["formula"] = formula
        yield from (Case(f"steps.json: the formula {formula[:30]}", command, usable=True) for command in desk.read(desk.npz({**content, "steps.json": json.dumps(other)}))[:6])
    yield from (Case("steps.json: a step without its array", command) for command in desk.read(desk.npz({"steps.json": content["steps.json"]}))[:3])


def arrays(desk):
    """Arrays of an .npz that are none."""
    good = {name + ".npy": npy(numbers(20 * 16), (20, 16)) for name in ("queries", "keys", "values")}
    heads = {"2^62 numbers": header("'<f8'", f"({2 ** 62},)"), "more numbers than can be counted": header("'<f8'", f"({2 ** 40}, {2 ** 40})"), "a negative size": header("'<f8'", "(-1, 16)"),
             "a size of no whole number": header("'<f8'", "(1.5, 16)"), "a size of 400 digits": header("'<f8'", f"({'9' * 60},)"), "Python's objects": header("'|O'", "(2,)"),
             "a type of nothing": header("'<f3'", "(2,)"), "a structure": header("[('a', '<f8')]", "(2,)"), "complex numbers": header("'<c16'", "(2, 16)"), "words": header("'<U4'", "(2, 16)"),
             "Fortran's order of nothing": header("'<f8'", "(20, 16)", order="7"), "version 9": header("'<f8'", "(2,)", version=b"\x09\x09"), "no text": b"\x93NUMPY\x01\x00\xff\xff",
             "letters": b"\x93NUMPY\x01\x00\x10\x00" + b"\xff" * 16, "a hundred axes": header("'<f8'", "(" + "1," * 40 + ")"), "brackets": b"\x93NUMPY\x02\x00" + struct.pack("<I", 200_000) + b"(" * 200_000,
             "code": header("__import__('os').system('touch evil')", "(2,)"), "nothing": b"", "fewer numbers than its shape": header("'<f8'", "(20, 16)") + b"\0" * 8,
             "more numbers than its shape": npy(numbers(20 * 16), (20, 16)) + b"\0" * 8, "a pickle": b"\x80\x04cos\nsystem\n(S'touch evil'\ntR."}
    for name, data in heads.items():
        yield Case(f"an array of {name}", desk.attention(desk.npz({**good, "queries.npy": data})))
    for shape in ("()", "(0, 16)", "(20, 0)", "(320,)", "(1, 1, 1, 20, 16)", "(16, 20)"):
        count = eval("*".join(shape.strip("(),").replace(" ", "").split(",")) or "1")  # of numbers
        yield Case(f"queries of the shape {shape}", desk.attention(desk.npz({**good, "queries.npy": header("'<f8'", shape) + b"\0" * 8 * count})), usable=True)
    for name in ("../queries.npy", "/etc/queries.npy", "a/b/c.npy", "", ".npy", "queries\\.npy", "x" * 60_000 + ".npy", "q\x1b[31m.npy", "queries.npy/", "\u202equeries.npy", "steps.json", "__proto__.npy"):
        yield Case(f"a member called {name[:30]!r}", desk.attention(desk.npz({**good, name: good["queries.npy"]})), usable=not name.endswith(".npy"))
        yield Case(f"a member called {name[:30]!r}, compared", [desk.attn, "diff", desk.trace, desk.npz({name: good["queries.npy"]}), "--diagnose"])
    nul = desk.npz({"queriesX.npy": good["queries.npy"], **{name: good[name] for name in ("keys.npy", "values.npy")}})
    nul.write_bytes(nul.read_bytes().replace(b"queriesX", b"queries\0"))
    yield Case("a member's name with NUL", desk.attention(nul))
    twice = desk.path("x.npz")
    with zipfile.ZipFile(twice, "w") as archive:
        for name, data in [*good.items(), *good.items()]:
            archive.writestr(name, data)
    yield Case("every member twice", desk.attention(twice))
    path = desk.npz(good)
    whole = path.read_bytes()
    for at in range(0, len(whole), 501):
        yield Case(f"a byte changed at {at}", desk.attention(desk.put(whole[:at] + bytes([whole[at] ^ 0xA5]) + whole[at + 1:])), usable=True)
    for value in (float("nan"), float("inf"), 1e308, 5e-324):
        yield Case(f"all numbers {value}", desk.attention(desk.npz({**good, "queries.npy": npy([value] * 320, (20, 16))})), usable=True)
    for count in (10_000_000, 400_000_000):  # kilobytes that unpack to gigabytes
        bomb = desk.path("x.npz")
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open("queries.npy", "w", force_zip64=True) as file:
            file.write(header("'<f8'", f"({count // 16}, 16)"))
            for _ in range(count // 1_000_000):
                file.write(bytes(8_000_000))
        yield Case(f"{count} zeros in {bomb.stat().st_size >> 10} KiB", desk.attention(bomb))
        yield Case(f"{count} zeros in {bomb.stat().st_size >> 10} KiB, compared", [desk.attn, "diff", desk.trace, bomb, "--diagnose"])
    texts = desk.path("x.npz")
    with zipfile.ZipFile(texts, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open("steps.json", "w", force_zip64=True) as file:
        for _ in range(3000):
            file.write(b" " * (1 << 20))
    yield from (Case("a listing of 3 GiB of blanks", command) for command in desk.read(texts)[:3])
    many = desk.npz({f"a{i}.npy": header("'<f8'", "()") + bytes(8) for i in range(60_000)})
    yield Case("60,000 arrays", desk.attention(many))
    yield Case("60,000 arrays, compared", [desk.attn, "diff", desk.trace, many], usable=True)


def recordings(desk):
    """What attn_record.json says of arrays."""
    array = {"scores.npy": npy(numbers(600), (20, 30)), "out.npy": npy(numbers(320), (20, 16))}
    entry = {"name": "scores", "file": "m.py", "line": 3, "variable": "scores", "function": "f", "reads": []}
    listings = {"of itself": [{**entry, "reads": ["scores"]}], "in a circle": [{**entry, "reads": ["out"]}, {**entry, "name": "out", "reads": ["scores"]}], "of nothing": [{**entry, "reads": ["nothing"]}],
                "a hundred thousand times": [{**entry, "reads": ["scores"] * DEEP}], "twice": [entry, entry], "of no array": [{**entry, "name": "nothing"}]}
    for name, listing in listings.items():
        text = json.dumps({"format": "attn record 1", "arrays": listing})
        yield Case(f"a recording that reads {name}", [desk.attn, "diff", desk.trace, desk.npz({**array, "attn_record.json": text}), "--diagnose"], usable=name == "of nothing")  # of what was too large to be kept
        yield Case(f"two recordings that read {name}", [desk.attn, "diff", *[desk.npz({**array, "attn_record.json": text})] * 2], usable=True)
    for field in (*entry, "format", "arrays"):
        for value in WRONG:
            listing = {"format": "attn record 1", "arrays": [{**entry, field: value}]} if field in entry else {"format": "attn record 1", "arrays": [entry], field: value}
            yield Case(f"a recording whose {field} is {json.dumps(value)[:40]}", [desk.attn, "diff", desk.trace, desk.npz({**array, "attn_record.json": json.dumps(listing)})], usable=True)
    yield Case("a recording of brackets", [desk.attn, "diff", desk.trace, desk.npz({**array, "attn_record.json": "[" * DEEP})])


def weights(desk):
    """Headers of .safetensors, and folders of models."""
    one = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    heads = {"a header of 2^60 bytes": safetensors({}, length=2 ** 60), "a header of 2^64 - 1 bytes": safetensors({}, length=2 ** 64 - 1), "brackets": safetensors(b"[" * DEEP),
             "a header of nothing": safetensors(b""), "null": safetensors(b"null"), "offsets that are negative": safetensors({"a": {**one, "data_offsets": [-16, 0]}}, bytes(16)),
             "offsets in another order": safetensors({"a": {**one, "data_offsets": [16, 0]}}, bytes(16)), "offsets beyond the file": safetensors({"a": {**one, "data_offsets": [0, 10 ** 15]}}, bytes(16)),
             "tensors that overlap": safetensors({"a": one, "b": one}, bytes(16)), "a type of nothing": safetensors({"a": {**one, "dtype": "F7"}}, bytes(16)),
             "more numbers than can be counted": safetensors({"a": {**one, "shape": [2 ** 40, 2 ** 40]}}, bytes(16)), "sizes that are negative": safetensors({"a": {**one, "shape": [-2, -2]}}, bytes(16)),
             "sizes that are words": safetensors({"a": {**one, "shape": ["2", "2"]}}, bytes(16)), "tensors that are numbers": safetensors({"a": 3}), "a name with NUL": safetensors({"a\0b": one}, bytes(16)),
             "a name of 100,000 letters": safetensors({"a" * DEEP: one}, bytes(16)), "200,000 tensors": safetensors({f"a{i}": {**one, "shape": [0], "data_offsets": [0, 0]} for i in range(200_000)}),
             "letters": b"\xff" * 5000}
    for name, data in heads.items():
        yield Case(f"weights with {name}", desk.model(weights=data))
        yield Case(f"a norm's weights with {name}", [desk.attn, "run", "layer-norm", "--input", desk.tokens, "--weights", desk.put(data, "w.safetensors")])
    for index in ("{}", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "../../../../etc/passwd"}}', '{"weight_map": {"a": "/dev/zero"}}', '{"weight_map": {"a": "model.safetensors.index.json"}}', "[" * DEEP):
        words = desk.model(**{"model__safetensors__index__json": index})
        (Path(words[words.index("--weights") + 1]) / "model.safetensors").unlink()
        yield Case(f"an index {index[:60]}", words)


def configs(desk):
    given = json.loads((MODEL / "config.json").read_text())
    for field in given:
        for value in WRONG:
            yield Case(f"config.json: {field} is {json.dumps(value)[:40]}", desk.model(lambda config: config.update({field: value})), usable=True)
    for field in ("num_hidden_layers", "vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size"):
        for value in (7, 10 ** 9, 2 ** 31, 2 ** 63, 2 ** 64 - 1):
            yield Case(f"config.json: {field} is {value}", desk.model(lambda config: config.update({field: value})), usable=field == "intermediate_size")
    for value in ({"rope_type": "linear", "factor": 0}, {"rope_type": "yarn", "factor": -1}, {"rope_type": "longrope", "short_factor": [0], "long_factor": []}, {"rope_type": ["linear"]},
                  {"rope_type": "llama3", "factor": 1e308}, {"rope_theta": 0}, {"rope_theta": "x"}, [1, 2]):
        yield Case(f"config.json: rope_parameters is {json.dumps(value)}", desk.model(lambda config: config.update(rope_parameters=value)))
    for name, text in {"nothing": "", "brackets": "[" * DEEP, "objects": '{"a":' * DEEP, "a number": "3", "a million keys": "{" + ",".join(f'"k{i}":0' for i in range(1_000_000)) + "}",
                       "the same key twice": '{"model_type": "llama", "model_type": "../../x"}', "half a letter": '{"model_type": "\ud800"}', "70 MB": '{"model_type": "' + "x" * 70_000_000 + '"}'}.items():
        path = desk.model(config="{}")
        (Path(path[4]) / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        yield Case(f"config.json: {name}", path)
    for model_type in ("../../../etc/passwd", "llama\0", "x" * 10_000, "common", "LLAMA"):
        yield Case(f"config.json: model_type {model_type[:30]!r}", desk.model(lambda config: config.update(model_type=model_type)))
    for ids in ([-1, 2, 3], [10 ** 12, 1, 1], [40, 1, 1]):
        write_npz(path := desk.path("ids.npz"), {"ids": (ids, (3,))})
        words = desk.model()
        yield Case(f"ids {ids}", [*words[:6], path])


def paths(desk):
    loop, other = desk.path("loop.npz"), desk.path("other.npz")
    loop.symlink_to(other)
    other.symlink_to(loop)
    own = desk.path("own.npz")
    own.symlink_to(own.name)
    pipe = desk.path("pipe.npz")
    os.mkfifo(pipe)
    for path in (loop, own, pipe, desk.folder, "/dev/zero", "/dev/stdin", "/proc/self/mem", "/proc/self/environ", "", "\n", "x" * 5000, "-", "--", desk.put(b""), desk.put(b"PK"), desk.put(b"PK\x05\x06" + bytes(18)),
                 desk.put(random.Random(1).randbytes(100_000)), "/nonexistent/x.npz", desk.input / "x.npz"):
        for command in desk.read(path):
            yield Case(f"the path {str(path)[-30:]!r}", command)
    for target in (loop, "/dev/full", desk.folder, "/nonexistent/x", "/proc/x", "x" * 5000):
        yield Case(f"a trace into {str(target)[-30:]!r}", desk.attention(desk.input, "--trace", target))
    yield Case("a trace into its own input", desk.attention(desk.input, "--trace", desk.input))
    for name in ("config.json", "model.safetensors"):
        words = desk.model()
        (Path(words[4]) / name).unlink()
        (Path(words[4]) / name).symlink_to(name)
        yield Case(f"a folder whose {name} is a link to itself", words)
    for tokens in (b"\0" * 1000, b"\xff\xfe" * 1000, b"x\n" * 1_000_000, b"x" * 1_000_000, b""):
        yield Case(f"tokens {tokens[:6]!r}", [desk.attn, "view", desk.trace, "-o", desk.path("p.html"), "--tokens", desk.put(tokens, "t.txt")], usable=True)


def flags(desk):
    attn = desk.attn
    absurd = ("-1", "0", "99999999999999999999", "nan", "inf", "1e400", "", " ", "x", "1.5", "0x10", "-0", "'", "--", "\x1b[31m", "9" * 5000)
    for flag in ("--precision", "--heads", "--left-window", "--right-window", "--kept", "--scale", "--softcap", "--mask", "--score", "--round", "--ablate", "--pitfall", "--color"):
        for value in absurd:
            yield Case(f"attention {flag} {value[:20]!r}", desk.attention(desk.input, flag, value), usable=True)
    for flag in ("--atol", "--rtol", "--budget", "--type", "--names", "--map"):
        for value in absurd:
            yield Case(f"diff {flag} {value[:20]!r}", [attn, "diff", desk.trace, desk.trace, flag, value], usable=True)
    for value in (*absurd, "1:0", "5:", ":", "0:99", "-1:2", "0:1:2", "99999999999999999999:", "0:99999999999999999999"):
        yield Case(f"model --layers {value[:20]!r}", [*desk.model(), "--layers", value], usable=value in ("0", "-0", ":"))
    for value in ("=", "a=", "=a", "*=*", "*=a", "a*b*c=d", "**=x", "model.*=model.*", "x" * 100_000 + "=y", "*" * 50 + "=x"):
        yield Case(f"model --rename {value[:30]!r}", [*desk.model(), "--rename", value], usable=True)
    for cell in ("", "[", "weights", "weights[", "weights[]", "weights[-1,0]", "weights[99,0]", "weights[0]", "weights[0,0,0]", "weights[99999999999999999999,0]", "weights[0,0", "weights]0[", "[0,0]", "w" * 100_000,
                 "weights[" + "0," * 50_000 + "0]", "weights[a,b]", "weights[0.5,0]", "\0x", "(" * DEEP, "nothing[0,0]", "weights[:,:]", "../x[0]"):
        yield Case(f"explain {cell[:30]!r}", [attn, "explain", desk.trace, cell.replace("\0", "")], usable=cell in ("weights", "weights[0]", "weights[-1,0]", "weights[:,:]"))
    for flag in ("--depth", "--terms", "--precision", "--budget"):
        for value in absurd:
            yield Case(f"explain {flag} {value[:20]!r}", [attn, "explain", desk.trace, "weights[0,0]", flag, value], usable=True)
    for flag in ("--depth", "--to", "--scope", "--format"):
        for value in absurd:
            yield Case(f"graph {flag} {value[:20]!r}", [attn, "graph", desk.trace, flag, value], usable=True)
    for value in ("-1", "65536", "99999999999", "x", "", "1.5"):
        yield Case(f"view --port {value!r}", [attn, "view", desk.trace, "--no-browser", "--port", value])
    for value in ("-1", "x", "99999999999999999999", "1.5", ""):
        yield Case(f"vectors --seed {value!r}", [attn, "vectors", "--seed", value, "-o", desk.path("v")])
    for value in ("-1", "0", "x", "99999999999", "1.5", "nan"):
        yield Case(f"vectors --limit {value!r}", [attn, "vectors", "--program", "true {input} {output}", "--limit", value])
    for words in ([], ["nothing"], ["run"], ["run", "nothing"], ["run", ""], ["diff"], ["diff", desk.trace], ["diff", *[desk.trace] * 3], ["verify", *[desk.trace] * 2], ["run", "attention", "--input"], ["--nothing"],
                  ["run", "attention", "--input", desk.input, "--input", desk.input], ["explain", desk.trace], ["vectors"], ["vectors", "--program", ""], ["vectors", "-o", "/proc/x"], ["pitfalls", "nothing"], ["grad", desk.trace, "--of", "nothing"],
                  ["grad", desk.trace, "--seed", desk.input], ["x" * 100_000]):
        yield Case(f"attn {' '.join(str(word)[-20:] for word in words)}", [attn, *words], usable=not words)


def vectors(desk):
    """Files of vectors; those with other numbers are in tests/vectors/runners_test.py."""
    for name, text in {"brackets": "[" * DEEP, "nothing": "", "a number": "3", "objects": '{"groups":' * DEEP, "letters": "\udcff\udcfe", "a schema": '{"schema": "vectors_schema_1", "function": "f", "groups": [{"cases": 3}]}',
                       "cases that are words": '{"schema": "vectors_schema_1", "function": "f", "notes": {}, "groups": [{"parameters": {}, "cases": ["x"]}]}'}.items():
        folder = desk.put(text.encode("utf-8", "surrogateescape"), "a.json").parent
        yield Case(f"vectors of {name}", [desk.attn, "vectors", "--vectors", folder, "--program", "true {input} {output}"])
    softmax = desk.path("x.json").parent
    shutil.copy(ROOT / "vectors" / "cases" / "softmax.json", softmax)
    answers = {"brackets": "python3 -c 'print(\"[\" * 100000)' >{output}", "a list": "echo '[1]' >{output}", "a huge shape": "echo '{\"output\": {\"shape\": [4611686018427387904, 4], \"values\": []}}' >{output}",
               "nothing": "touch {output}", "a folder": "mkdir {output}", "a pipe": "mkfifo {output}", "a link to itself": "ln -s output.json {output}", "zeros without an end": "ln -s /dev/zero {output}",
               "a number of 400 digits": "echo '{\"output\": {\"shape\": [1], \"values\": [1e999]}}' >{output}", "its own end": "kill -SEGV $$ {output}", "negative sizes": "echo '{\"output\": {\"shape\": [-3, -4], \"values\": []}}' >{output}"}
    for name, command in answers.items():
        yield Case(f"a program that answers with {name}", [desk.attn, "vectors", "--vectors", softmax, "--program", command + " # {input}"])


PARTS = (cut_off, steps, arrays, recordings, weights, configs, paths, flags, vectors)

# ------------------------------------------------------------------------------------------------ how it has to end


def run(words, folder):
    """@return exit code, standard output and errors, seconds of a processor, bytes"""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, start_new_session=True)
        begin = time.monotonic()
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() - begin > 6 * SECONDS:  # the machine may have other things to do
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in (output, errors):
            stream.seek(0)
            texts.append(stream.read(100_000).decode(errors="replace"))
        return process.returncode, *texts, used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def faults(case, code, errors, seconds, used):
    if code not in ((0, 1, 2) if case.usable else (1, 2)):
        yield f"ended with {code}"
    if code == 2 and (errors.count("\n") < 1 or len([line for line in errors.splitlines() if not line.startswith("  ")]) != 1 or len(errors) > 20_000):
        yield "is no error of one line"
    if "json.exception" in errors or "std::" in errors or "basic_string" in errors or "vector::" in errors or "a mistake in attn" in errors:
        yield "has words of a library, or blames attn"
    if seconds > SECONDS:
        yield f"took {seconds:.0f} s"
    if used > BYTES:
        yield f"took {used >> 20} MiB"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path, help="the build's bin folder")
    parser.add_argument("--list", action="store_true", help="print each input, and what attn said")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth input only")
    parser.add_argument("--only", default="", metavar="TEXT", help="inputs with this in their names, or one part: " + ", ".join(part.__name__ for part in PARTS))
    given = parser.parse_args(arguments)
    codes, wrong, most = collections.Counter(), [], (0.0, 0)
    with tempfile.TemporaryDirectory(prefix="attn-hostile-") as folder:
        desk = Desk(folder, given.bin.resolve() / "attn")
        here = desk.path("here").parent
        for part in PARTS:
            if given.only in [one.__name__ for one in PARTS] and given.only != part.__name__:
                continue
            for number, case in enumerate(part(desk)):
                if number % given.every:
                    continue
                if given.only not in case.name and given.only != part.__name__:
                    continue
                try:
                    code, output, errors, seconds, used = run(case.words, here)
                except (OSError, ValueError) as error:  # the system takes no such words
                    print(f"{case.name}: can't be started: {error}") if given.list else None
                    continue
                codes[code] += 1
                most = (max(most[0], seconds), max(most[1], used))
                said = (errors or output).strip().splitlines() or [""]
                if given.list:
                    print(f"{case.name} | {' '.join(case.words[1:3])[:40]} | {code} | {seconds:.2f} s, {used >> 20} MiB | {(said[0] if errors else said[-1]).replace(folder, '')[:200]}", flush=True)
                for fault in faults(case, code, errors, seconds, used):
                    wrong.append(f"{case.name}: {' '.join(word[-60:] for word in case.words[1:])[:200]}: {fault}: {errors[-300:]!r}")
        assert not (here / "evil").exists(), "a file's words were run"
    print(f"{sum(codes.values())} runs, " + ", ".join(f"{count} times {code}" for code, count in sorted(codes.items())) + f"; at most {most[0]:.1f} s and {most[1] >> 20} MiB; {len(wrong)} wrong")
    for line in wrong[:60]:
        print("  " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
