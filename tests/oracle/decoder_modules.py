#!/usr/bin/env python3
"""Runs decoders and Transformers of PyTorch and of attn on the same numbers, and carries weights there and back.

    decoder_modules.py ATTN_PROGRAM REWRITE_WEIGHTS_PROGRAM [SEED]

Nine configurations drawn from a seed, three of each module; otherwise as modules.py, which see.
"""

import functools
import sys

import modules
from modules import ACTIVATIONS, CODES, mask_shapes

import torch
from torch import nn


def draw_configuration(draw, number):
    heads = draw.choice([1, 2, 3])
    d_model, d_ff = heads * draw.choice([2, 3, 4]), draw.choice([1, 4, 7])
    norm, activation, epsilon = draw.choice(["pre", "post"]), draw.choice(list(ACTIVATIONS)), draw.choice([1e-5, 1e-3])
    layers, final_norm = draw.randint(1, 3), draw.random() < 0.5
    module = ("decoder-layer", "decoder", "transformer")[number % 3]
    options = {"activation": ACTIVATIONS[activation], "norm_first": norm == "pre", "layer_norm_eps": epsilon}
    options |= {"batch_first": True, "dropout": 0}

    def make():
        layer = nn.TransformerDecoderLayer(d_model, heads, d_ff, **options)
        last = nn.LayerNorm(d_model, eps=epsilon) if final_norm else None
        if module == "decoder-layer":
            return layer
        if module == "decoder":
            return nn.TransformerDecoder(layer, layers, last)
        transformer = nn.Transformer(d_model, heads, layers, layers, d_ff, **options)
        transformer.encoder.enable_nested_tensor = False
        return transformer

    sequences = draw.choice([None, 1, 2, 3])
    is_batch = sequences is not None
    return {
        "module": module, "make": make, "heads": heads, "d_model": d_model, "d_ff": d_ff, "norm": norm,
        "activation": activation, "epsilon": epsilon, "layers": layers, "final_norm": final_norm,
        "n": draw.choice([1, 2, 4, 5]), "m": draw.choice([1, 3, 6]), "batch": sequences,
        "mask": draw.choice(["none", "causal", "causal"]), "given_masks": draw.random() < 0.5,
        "lengths": is_batch and draw.random() < 0.7, "memory_lengths": is_batch and draw.random() < 0.7,
        "ending": (".safetensors", ".npz")[number % 2], "type": list(CODES)[number % 3],
        "prefix": "model." if number % 4 == 2 else "",
    }  # fmt: skip


def draw_inputs(draw, c):
    shape = lambda *sizes: (*([] if c["batch"] is None else [c["batch"]]), *sizes)
    is_whole = c["module"] == "transformer"
    x, memory = ("target", "source") if is_whole else ("x", "memory")
    inputs = {name: torch.randn(shape(c[size], c["d_model"]), dtype=torch.float64) for name, size in ((x, "n"), (memory, "m"))}
    lengths = lambda most: torch.tensor([draw.randint(1, most) for _ in range(c["batch"])])
    if c["lengths"]:
        inputs["target_lengths" if is_whole else "lengths"] = lengths(c["n"])
    if c["memory_lengths"]:
        inputs["source_lengths" if is_whole else "memory_lengths"] = lengths(c["m"])
    if c["given_masks"]:
        sizes = {"target_mask" if is_whole else "mask": "nn", "memory_mask": "nm"} | ({"source_mask": "mm"} if is_whole else {})
        for name, (rows, columns) in sizes.items():
            inputs[name] = torch.rand(draw.choice(mask_shapes(c["batch"], c[rows], c[columns]))) < 0.7
            inputs[name][..., 0] = True
    return inputs


def forbidden(allowed, heads):
    """PyTorch's masks are true where one may **not** look; one for each sequence it wants once for each head."""
    return None if allowed is None else ~(allowed if allowed.dim() == 2 else allowed.repeat_interleave(heads, dim=0))


def by_pytorch(module, inputs, c):
    module.train()
    n, m, heads = c["n"], c["m"], c["heads"]
    is_whole = c["module"] == "transformer"
    target_mask = inputs.get("target_mask" if is_whole else "mask")
    if c["mask"] == "causal":
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        target_mask = causal if target_mask is None else causal & target_mask
    padding = lambda name, size: torch.arange(size) >= inputs[name][:, None] if name in inputs else None
    asked = {"tgt_mask": forbidden(target_mask, heads), "memory_mask": forbidden(inputs.get("memory_mask"), heads)}
    if not is_whole:
        asked |= {"tgt_key_padding_mask": padding("lengths", n), "memory_key_padding_mask": padding("memory_lengths", m)}
        return module(inputs["x"], inputs["memory"], **asked)
    of_source = padding("source_lengths", m)
    asked |= {"tgt_key_padding_mask": padding("target_lengths", n), "memory_key_padding_mask": of_source}
    asked |= {"src_mask": forbidden(inputs.get("source_mask"), heads), "src_key_padding_mask": of_source}
    return module(inputs["source"], inputs["target"], **asked)


def flags_of(c):
    flags = ["--heads", c["heads"], "--norm", c["norm"], "--activation", c["activation"], "--epsilon", c["epsilon"]]
    flags += [] if c["mask"] == "none" else ["--mask", c["mask"]]
    flags += ["--prefix", c["prefix"]] if c["prefix"] else []
    flags += ["--layers", c["layers"]] if c["module"] != "decoder-layer" else []
    return [str(flag) for flag in flags]


if __name__ == "__main__":
    check = functools.partial(modules.check, sys.modules[__name__])
    sys.exit(modules.main(sys.argv[1:], __doc__, check, 9, seed=1417))
