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


def module_logits(tokens, state, config, allowed):
    """By nn.TransformerEncoderLayer."""
    for i in range(config["layers"]):
        options = {"dropout": 0, "batch_first": True, "norm_first": True, "dtype": torch.float64}
        layer = nn.TransformerEncoderLayer(config["d_model"], config["heads"], config["d_ff"], **options)
        layer.load_state_dict(layers.inside(f"layers.{i}.", state))
        tokens = layer(tokens[None], src_mask=~allowed)[0]
    norm = nn.LayerNorm(config["d_model"], dtype=torch.float64)
    norm.load_state_dict(layers.inside("norm.", state))
    return norm(tokens) @ state.get("lm_head.weight", state["token_embedding.weight"]).T


def sentence_ids():
    vocabulary = json.loads((FOLDER / "config.json").read_text())["vocabulary"]
    return [vocabulary.index(word) for word in grammar.SENTENCE.split()]


def decoder(ids, file, mask=None):
    """Every step of a decoder in lessons/, whose config.json lies beside its weights, on a list of ids; a draft's sizes are its own.

    mask (n, n): true where a token can attend, joined with the causal one
    """
    config = json.loads((file.parent / "config.json").read_text())
    state = {name: tensor.double() for name, tensor in load_safetensors(file).items()}
    ids = torch.tensor(ids)
    config |= {"layers": len({name.split(".")[1] for name in state if name.startswith("layers.")}), "d_model": state["norm.weight"].shape[0],
               "d_ff": state["layers.0.linear1.weight"].shape[0]}  # fmt: skip
    n, table, positions = len(ids), state["token_embedding.weight"], state["position_embedding.weight"]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    allowed = causal if mask is None else causal & mask
    embedded = table[ids] + positions[:n]
    golden = {
        "ids": ids, "token_embedding": table, "tokens": table[ids], "position_embedding.table": positions,
        "position_embedding.positions": positions[:n], "embedded": embedded, "causal": causal, "mask": allowed,
    }  # fmt: skip
    steps = layers.encoder(embedded, state, config["layers"], "pre", "relu", config["heads"], allowed)
    golden |= {name: step for name, step in steps.items() if name not in ("x", "output")}
    if "lm_head.weight" in state:
        golden["output_weights"] = state["lm_head.weight"].T
    golden["logits"] = steps["norm.output"] @ golden.get("output_weights", table.T)
    if "layers.0.self_attn.sinks" not in state:
        with torch.no_grad():
            layers.expect(golden["logits"], module_logits(embedded, state, config, allowed))
    return {name: step.contiguous().numpy() for name, step in golden.items()}


def small_model(ids=None):
    """The small model's, on the sentence unless ids are given."""
    return decoder(ids or sentence_ids(), FOLDER / "model.safetensors")
