#!/usr/bin/env python3
"""The model vectors: models_test.py ATTN [FAMILY ...]. What is right is what attn computes; check_logits, in Python and C++, says right of it and names each
mistake of its own numbers; and damaged files are refused."""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "vectors/models"
PYTHON = [sys.executable, ROOT / "vectors/check_logits.py"]


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=600)


def expect(holds, what):
    if not holds:
        sys.exit(f"models_test: {what}")


def compiled(place):
    program = place / "check_logits"
    built = run("c++", "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-o", program, ROOT / "vectors/check_logits.cpp")
    expect(built.returncode == 0, built.stderr)
    return [program]


def expect_right(attn, folder, file, place):
    """attn computes the goldens, which are transformers', to 1e-10: logits and what comes out of each layer."""
    once = file["cases"][0]
    ids = np.array(once["ids"][0])
    encoder = {given: np.array(once[name][0]) for name, given in (("encoder_ids", "ids"), ("input_features", "input_features")) if name in once}
    np.savez(place / "in.npz", **encoder, **{"decoder_ids" if encoder else "ids": ids})
    trace = place / "trace.npz"
    ran = run(attn, "run", "model", "--weights", folder, "--input", place / "in.npz", "--trace", trace, "--quiet")
    expect(ran.returncode == 0, f"{folder.name}: {ran.stderr}")
    with np.load(trace) as found:
        logits = found["output"]
        off = np.abs(logits[once["rows"]] - np.array(once["logits"])).max()
        expect(off <= 1e-10, f"{folder.name}: attn is {off:.1e} from transformers")
        for number, layer in enumerate(once["hidden"]):
            layer_at = f"{'decoder.' if encoder else ''}layers.{number}"
            name = f"{layer_at}.output"
            mine = found[name if name in found else f"{layer_at}.norm2.output"][-1]  # a layer that ends with a norm
            expect(np.allclose(mine, layer, rtol=1e-6, atol=1e-6), f"{folder.name}: after layer {number} attn is {np.abs(mine - layer).max():.1e} off")
    for case in file["cases"][1:]:
        if case["id"] in ("steps", "chunks"):
            expect(np.abs(logits[case["rows"]] - np.array(case["logits"])).max() <= 1e-10, f"{folder.name}: {case['id']} differ from once")
    return logits


def expect_apart(folder, file):
    """What is claimed of each mistake, from the numbers alone."""
    def far(found, right):
        off = np.abs(np.array(found) - right)
        return max(np.sqrt(np.mean(off**2)), off.max() / 6)

    tolerance, columns = file["tolerance"], file["columns"]
    expect(0 < tolerance["float32"] < tolerance["float16"] < tolerance["bfloat16"], f"{folder.name}: the tolerances {tolerance}")
    for case in file["cases"]:
        right = np.array(case["logits"][-1])[columns]
        expect(case["wrong"] or case["id"] != "once", f"{folder.name}/{case['id']}: no mistakes")
        for number, one in enumerate(case["wrong"]):
            what = f"{folder.name}/{case['id']}: {one['names']}"
            expect(far(one["logits"], right) > 2 * tolerance[one["seen_in"]], f"{what} is near what is right")
            expect(all(name in file["mistakes"] for name in one["names"]), f"{what} has no sentence")
            expect(all(far(one["logits"], other["logits"]) > 0.5 * tolerance["float32"] for other in case["wrong"][:number]), f"{what} is there twice")


def expect_named(program, folder, file, place):
    """Mistaken logits get their names; right ones, as other types round them, none."""
    for case in file["cases"]:
        right = np.array(case["logits"])
        path = place / "logits.npy"
        for dtype in (np.float64, np.float32, np.float16):
            np.save(path, right[-1].astype(dtype))
            ran = run(*program, folder, path, "--case", case["id"])
            expect(ran.returncode == 0 and ran.stdout.startswith("right"), f"{folder.name}/{case['id']}: {ran.stdout}{ran.stderr}")
        for one in case["wrong"][:: max(1, len(case["wrong"]) // 4)]:
            mine = right.copy()
            mine[-1, file["columns"]] = one["logits"]
            np.save(path, mine.astype(np.float32))
            ran = run(*program, folder, path, "--case", case["id"])
            expect(ran.returncode == 1 and one["names"][0] in ran.stdout, f"{folder.name}/{case['id']}: {one['names']}: {ran.stdout}{ran.stderr}")
        if case["id"] in ("steps", "chunks", "packed"):  # the same last token: a layer that is wrong is so in every call
            one = next(one for one in file["cases"][0]["wrong"] if one["seen_in"] == "bfloat16")
            right[-1, file["columns"]] = one["logits"]
            np.save(path, right[-1].astype(np.float32))
            ran = run(*program, folder, path, "--case", case["id"])
            expect(ran.returncode == 1 and one["names"][0] in ran.stdout, f"{folder.name}/{case['id']}: {one['names']}: {ran.stdout}{ran.stderr}")
        right = np.array(case["logits"])
        np.save(path, right[-1] + 0.3 * np.cos(np.arange(right.shape[1])))
        ran = run(*program, folder, path, "--case", case["id"])
        expect(ran.returncode == 1 and "looks like" not in ran.stdout, f"{folder.name}/{case['id']}: {ran.stdout}")


def expect_forms(program, folder, file, place):
    """The same numbers in each form of a file."""
    case = file["cases"][0]
    last, rows = case["logits"][-1], [x for row in case["logits"] for x in row]
    for name, data in {
        "a.bin": struct.pack(f"<{len(last)}f", *last), "b.json": json.dumps(case["logits"]).encode(), "c.json": json.dumps({"logits": last}).encode(),
        "d.txt": " ".join(map(repr, rows)).encode(), "e.csv": b"[" + ",\n".join(map(repr, last)).encode() + b"]\n",
    }.items():
        (place / name).write_bytes(data)
        ran = run(*program, folder, place / name, "--type", "float32")
        expect(ran.returncode == 0 and "in float32" in ran.stdout, f"{name}: {ran.stdout}{ran.stderr}")


def expect_refused(program, folder, file, place):
    right = np.array(file["cases"][0]["logits"][-1])
    whole = place / "whole.npy"
    np.save(whole, right)
    data = whole.read_bytes()
    bad = {
        "missing.npy": None, "empty.npy": b"", "empty.txt": b"", "short.npy": data[:-1], "header.npy": data[:40], "magic.npy": data[:8],
        "long.npy": data + b"\0", "other.bin": struct.pack("<63f", *right[:63]), "odd.bin": b"abc", "word.txt": b"0.5 zero", "open.json": b"[1, 2",
        "words.json": b'["a"]', "names.json": b'{"numbers": [1]}', "deep.json": b"[" * 5000, "binary.txt": bytes(range(256)), "true.json": b"[true]",
        "huge.npy": data.replace(b"(64,)", b"(6e9,)").replace(b"'<f8'", b"'|O8'"),
    }
    for name, array in {"complex.npy": right.astype(complex), "whole_numbers.npy": right.astype(int), "columns.npy": np.asfortranarray(np.ones((2, 64)))}.items():
        np.save(place / name, array)
        bad[name] = (place / name).read_bytes()
    for name, content in bad.items():
        if content is not None:
            (place / name).write_bytes(content)
        ran = run(*program, folder, place / name)
        expect(ran.returncode == 2 and ran.stderr.startswith("check_logits: ") and name in ran.stderr and "Traceback" not in ran.stderr, f"{name}: {ran}")
    for number in (np.nan, np.inf):
        np.save(place / "nan.npy", np.where(np.arange(len(right)) == 3, number, right))
        ran = run(*program, folder, place / "nan.npy")
        expect(ran.returncode == 1 and "not finite" in ran.stdout, f"{number}: {ran}")
    for flags in (["--case", "../../etc/passwd"], ["--type", "int8"], ["--case"], ["--other", "1"]):
        expect(run(*program, folder, whole, *flags).returncode == 2, flags)
    damaged = place / "damaged"
    text = (folder / "cases.json").read_text()
    for content in ("", "{}", "[]", text[: len(text) // 2], text.replace('"rows"', '"row"'), text.replace('"vocabulary": 64', '"vocabulary": "../x"'), json.dumps({**file, "columns": [10**9]})):
        shutil.rmtree(damaged, ignore_errors=True)
        damaged.mkdir()
        (damaged / "cases.json").write_text(content)
        ran = run(*program, damaged, whole)
        expect(ran.returncode == 2 and ran.stderr.startswith("check_logits: ") and "Traceback" not in ran.stderr, f"{content[:60]!r}: {ran}")


def main():
    folders = sorted(path.parent for path in MODELS.glob("*/cases.json"))
    expect(len(folders) >= 5, f"{MODELS} has {len(folders)} models")
    folders = [folder for folder in folders if folder.name in sys.argv[2:] or not sys.argv[2:]]
    with tempfile.TemporaryDirectory() as temporary:
        place = pathlib.Path(temporary)
        cpp = compiled(place)
        for number, folder in enumerate(folders):
            file = json.loads((folder / "cases.json").read_text())
            expect_right(sys.argv[1], folder, file, place)
            expect_apart(folder, file)
            expect_named(cpp, folder, file, place)
            if number == 0:
                expect_named(PYTHON, folder, file, place)
                for program in (cpp, PYTHON):
                    expect_forms(program, folder, file, place)
                    expect_refused(program, folder, file, place)
    print(f"{len(folders)} models")


main()
