#!/usr/bin/env python3
"""What transformers computes for rotary positions, from config.json to rotated queries, with each of its scalings.

    rotary_scaling.py    writes tests/golden/rotary_scaling.npz

It needs transformers 5.12.1 and PyTorch. generate.py does not run it, since that package is on few machines. transformers'
own functions and modules compute, in float64: their source is compiled again with double in place of float, and nothing else
changed. A case has `config`, the bytes of a config.json; `first`, the position of the first token; `x`, queries (n, d) of one
head; and what comes out: `frequencies`, `attention_factor`, `output`. Where its name begins with pairs_, GLM's rotation of
neighbours computes; otherwise Phi-3's of halves. tests/files/families/rotary_config.cpp reads it.
"""

import inspect
import json
import textwrap
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import LlamaConfig, modeling_rope_utils
from transformers.models.glm import modeling_glm
from transformers.models.phi3 import modeling_phi3

from generate import write

torch.set_default_dtype(torch.float64)
IN_DOUBLE = {"torch.float32": "torch.float64", "torch.float)": "torch.float64)", ".float()": ".double()"}


def in_double(module, name, expected):
    """A function or class of transformers, compiled again."""
    source = textwrap.dedent(inspect.getsource(getattr(module, name)))
    assert sum(source.count(single) for single in IN_DOUBLE) == expected, f"{name} has other casts than when this was written"
    for single, double in IN_DOUBLE.items():
        source = source.replace(single, double)
    scope = dict(vars(module))
    exec(source, scope)
    return scope[name]


for rope_type, function in modeling_rope_utils.ROPE_INIT_FUNCTIONS.items():
    casts = {"yarn": 3, "longrope": 3, "proportional": 2}.get(rope_type, 1)
    modeling_rope_utils.ROPE_INIT_FUNCTIONS[rope_type] = in_double(modeling_rope_utils, function.__name__, casts)
Rotary = in_double(modeling_phi3, "Phi3RotaryEmbedding", 5)  # Llama's, but a part of the features can be rotated
ROTATIONS = {"halves": modeling_phi3.apply_rotary_pos_emb, "pairs": modeling_glm.apply_rotary_pos_emb}

MODEL = {"hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}
SHORT = [1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3]
LONG = [1, 1.5, 2, 4, 8, 12, 16, 24]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

# name: (what the config has besides, first position, tokens)
CASES = {
    "default": ({"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}, 0, 5),
    "no_parameters": ({}, 3, 4),
    "partial": ({"rope_theta": 1000.0, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, 2, 5),
    "partial_of_config": ({"partial_rotary_factor": 0.75}, 2, 5),
    "pairs_partial": ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, 2, 5),
    "linear": ({"rope_scaling": {"type": "linear", "factor": 8.0}, "rope_theta": 100.0}, 100, 6),
    "linear_partial": ({"rope_parameters": {"rope_type": "linear", "factor": 2.5, "partial_rotary_factor": 0.25}}, 100, 6),
    "dynamic_within": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 58, 6),
    "dynamic_beyond": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 60, 12),
    "dynamic_cached": ({"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}, "rope_theta": 200.0}, 300, 1),
    "dynamic_partial": ({"rope_scaling": {"type": "dynamic", "factor": 3.0}, "partial_rotary_factor": 0.5}, 90, 3),
    "yarn": ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, "max_position_embeddings": 256}, 200, 5),
    "yarn_defaults": ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 300.0}}, 100, 5),
    "yarn_betas": ({"rope_parameters": {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 1024, "beta_fast": 8.0, "beta_slow": 0.5}}, 5000, 5),
    "yarn_not_truncated": ({"rope_parameters": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "rope_theta": 150000.0}}, 9000, 5),
    "yarn_deepseek": ({"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.707}, "max_position_embeddings": 163840}, 9000, 5),
    "yarn_mscales_equal": ({"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0}, "max_position_embeddings": 163840}, 9000, 5),
    "yarn_one_mscale": ({"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 0.5}}, 9000, 5),
    "yarn_attention_factor": ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "attention_factor": 1.5}}, 100, 5),
    "yarn_factor_null": ({"rope_scaling": {"type": "yarn", "factor": None, "original_max_position_embeddings": 64}, "max_position_embeddings": 512}, 100, 5),
    "yarn_short_training": ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4}}, 20, 5),
    "yarn_one_pair": ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 1.1, "beta_slow": 1.0, "truncate": False}}, 100, 5),
    "pairs_yarn_partial": ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "partial_rotary_factor": 0.5}}, 100, 5),
    "llama3": ({"rope_scaling": LLAMA3, "rope_theta": 500000.0, "max_position_embeddings": 128}, 100, 5),
    "llama3_long": ({"rope_parameters": LLAMA3 | {"rope_theta": 500000.0, "original_max_position_embeddings": 8192, "factor": 32.0}, "max_position_embeddings": 131072}, 100000, 5),
    "llama3_bounds": ({"rope_parameters": LLAMA3 | {"rope_theta": 10.0, "low_freq_factor": 0.5, "high_freq_factor": 2.0, "original_max_position_embeddings": 100}, "max_position_embeddings": 128}, 100, 5),
    "longrope_short": ({"rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}, "original_max_position_embeddings": 16}, 10, 6),
    "longrope_long": ({"rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}, "original_max_position_embeddings": 16}, 10, 7),
    "longrope_cached": ({"rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 16}}, 40, 1),
    "longrope_factor": ({"rope_parameters": {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 16, "factor": 32.0}}, 10, 7),
    "longrope_attention_factor": ({"rope_parameters": {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 16, "attention_factor": 1.19}}, 10, 7),
    "longrope_partial": ({"rope_parameters": {"rope_type": "longrope", "short_factor": SHORT[:4], "long_factor": LONG[:4], "original_max_position_embeddings": 16, "partial_rotary_factor": 0.5}}, 10, 7),
    "longrope_not_longer": ({"rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 64}}, 10, 7),
}  # fmt: skip


def case(name, besides, first, n, seed):
    given = MODEL | besides
    config = LlamaConfig(**json.loads(json.dumps(given)))
    module = Rotary(config)
    width = MODEL["hidden_size"] // MODEL["num_attention_heads"]
    x = torch.from_numpy(np.round(np.random.RandomState(seed).standard_normal((n, width)) * 64) / 64)
    cos, sin = module(x, torch.arange(first, first + n)[None])
    assert cos.dtype == torch.float64
    rotate = ROTATIONS["pairs" if name.startswith("pairs_") else "halves"]
    output, _ = rotate(x[None, None], x[None, None], cos, sin)
    return {
        "config": np.frombuffer(json.dumps(given).encode(), np.uint8), "first": first, "x": x, "frequencies": module.inv_freq,
        "attention_factor": module.attention_scaling, "output": output[0, 0],
    }  # fmt: skip


if __name__ == "__main__":
    assert transformers.__version__ == "5.12.1", transformers.__version__
    golden = {}
    for i, (name, (besides, first, n)) in enumerate(CASES.items()):
        golden |= {f"{name}.{step}": array for step, array in case(name, besides, first, n, i).items()}
    write(Path(__file__).resolve().parent / "rotary_scaling.npz", golden)
    print(f"rotary_scaling.npz: {len(CASES)} cases")
