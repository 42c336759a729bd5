#!/usr/bin/env python3
"""Compares `attn run model` with what transformers computed.

    check.py ATTN FOLDER [NAME ...]

FOLDER has for each model config.json, model.safetensors and expected.npz, as make.py writes them: a line a model, one sequence,
a batch that is padded on the right, the same on the left, one sequence whose tokens have types, and one of tokens that are embedded already, at places of their own; with the pooled result of the first two where there is one. Exit code 0 where all that isn't refused agrees to 1e-10, 1 where something does not. Needs NumPy.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np

import attn

NEAR = 1e-10


def compare(program, folder, file, kind):
    """Of one sequence (""), of a batch ("batch_", "left_"), or of one whose tokens have types ("typed_")."""
    own = kind if kind in ("batch_", "left_") else ""
    prefixes = {name: name.split("_")[0] + "_" if name.startswith(("batch_", "left_")) else "" for name in attn.INPUTS}
    members = {name: file[name] for name in attn.INPUTS if name in file and prefixes[name] == own}
    if kind == "":
        members.pop("token_type_ids", None)
    given = ("inputs_embeds", "position_ids")
    members = {name: array for name, array in members.items() if (name in given) == (kind == "embedded_")}
    what = kind + ("logits" if "logits" in file and kind != "embedded_" else "output")
    if not members or what not in file:
        return "none"
    expected = file[what]
    try:
        found, pooled = attn.run(program, folder, members)
    except attn.Refused as error:
        return "refused: " + str(error).split("\n")[0]
    except attn.Crashed as error:
        return f"FAILED: {error}"
    lengths = members.get("batch_decoder_lengths", members.get("batch_lengths"))
    kept = None if lengths is None else attn.real(lengths, expected)
    if kind == "left_":
        kept = members["left_attention_mask"] == 1
    difference = attn.apart(found, expected, kept)
    if kind in ("", "batch_") and kind + "pooled" in file:
        if pooled is None:
            return "APART: no pooled result"
        difference = max(difference, attn.apart(pooled.reshape(file[kind + "pooled"].shape), file[kind + "pooled"]))
    if difference <= NEAR:
        return f"{difference:.1e}"
    if found.shape != expected.shape:
        return f"APART: {found.shape}, expected {expected.shape}"
    return f"APART: {difference:.1e}"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, folder, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    counts = {"agree": 0, "refused": 0, "apart": 0}
    print(f"{'model':24} {'one sequence':14} {'padded right':14} padded left, token types or tokens")
    for path in sorted(folder.glob("*/expected.npz")):
        name = path.parent.name
        if names and name not in names:
            continue
        with np.load(path) as file:
            file = dict(file)
        one, batch, left, typed, embedded = (compare(program, path.parent, file, kind) for kind in ("", "batch_", "left_", "typed_", "embedded_"))
        if one.startswith(("refused", "FAILED")):
            print(f"{name:24} {one}", flush=True)
        else:
            print(f"{name:24} {one:14} {batch:14} {left[:60]}" + "".join(f" {one}" for one in (typed, embedded) if one != "none"), flush=True)
        bad = any(word.startswith(("APART", "FAILED")) for word in (one, batch, left, typed, embedded))
        counts["apart" if bad else "refused" if one.startswith("refused") else "agree"] += 1
    print(", ".join(f"{number} {what}" for what, number in counts.items()))
    sys.exit(1 if counts["apart"] or not counts["agree"] + counts["refused"] else 0)


main()
