"""Makes the golden of the small model: every step on the lessons' sentence, by PyTorch in float64.

The layers are those of layers.py, step by step. The logits have to be those of PyTorch's own modules.
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn

import layers

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "lessons" / "small_model"
sys.path.insert(0, str(HERE.parent / "oracle"))
sys.path.insert(0, str(FOLDER))
import grammar
from modules import load_safetensors


def module_logits(tokens, state, config):
    """By nn.TransformerEncoderLayer."""
    later = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)
    for i in range(config["layers"]):
        options = {"dropout": 0, "batch_first": True, "norm_first": True, "dtype": torch.float64}
        layer = nn.TransformerEncoderLayer(config["d_model"], config["heads"], config["d_ff"], **options)
        layer.load_state_dict(layers.inside(f"layers.{i}.", state))
        tokens = layer(tokens[None], src_mask=later)[0]
    norm = nn.LayerNorm(config["d_model"], dtype=torch.float64)
    norm.load_state_dict(layers.inside("norm.", state))
    return norm(tokens) @ state["token_embedding.weight"].T


def sentence_ids():
    vocabulary = json.loads((FOLDER / "config.json").read_text())["vocabulary"]
    return [vocabulary.index(word) for word in grammar.SENTENCE.split()]


def small_model(ids=None):
    """Every step on a list of ids: those of the sentence unless given."""
    config = json.loads((FOLDER / "config.json").read_text())
    state = {name: tensor.double() for name, tensor in load_safetensors(FOLDER / "model.safetensors").items()}
    ids = torch.tensor(ids or sentence_ids())
    n, table, positions = len(ids), state["token_embedding.weight"], state["position_embedding.weight"]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    embedded = table[ids] + positions[:n]
    golden = {
        "ids": ids, "token_embedding": table, "tokens": table[ids], "position_embedding.table": positions,
        "position_embedding.positions": positions[:n], "embedded": embedded, "causal": causal, "mask": causal,
    }  # fmt: skip
    steps = layers.encoder(embedded, state, config["layers"], "pre", "relu", config["heads"], causal)
    golden |= {name: step for name, step in steps.items() if name not in ("x", "output")}
    golden["logits"] = steps["norm.output"] @ table.T
    with torch.no_grad():
        layers.expect(golden["logits"], module_logits(embedded, state, config))
    return {name: step.contiguous().numpy() for name, step in golden.items()}
