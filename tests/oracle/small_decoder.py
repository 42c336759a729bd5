#!/usr/bin/env python3
"""Holds `attn run gpt` against PyTorch's layers: decoders of random sizes, and the committed small model.

    small_decoder.py ATTN REWRITE_WEIGHTS [SEED]

Eight decoders, compared as modules.py compares its modules; see there.
"""

import sys
import tempfile
from pathlib import Path

import modules  # ends with 77 where there is no PyTorch
from modules import ACTIVATIONS, CODES, expect, load, report

import torch
from torch import nn

SMALL_MODEL = Path(__file__).resolve().parents[2] / "lessons" / "small_model"


class Decoder(nn.Module):
    """Embeddings, nn.TransformerEncoderLayer with a causal mask, a norm, and an output map or the embedding."""

    def __init__(self, c):
        super().__init__()
        d = c["d_model"]
        self.token_embedding = nn.Embedding(c["vocabulary"], d)
        self.position_embedding = nn.Embedding(c["positions"], d)
        options = {"activation": ACTIVATIONS[c["activation"]], "layer_norm_eps": c["epsilon"], "norm_first": True}
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, c["heads"], c["d_ff"], dropout=0, batch_first=True, **options)
            for _ in range(c["layers"])
        )
        self.norm = nn.LayerNorm(d, eps=c["epsilon"])
        if not c["tied"]:
            self.lm_head = nn.Linear(d, c["vocabulary"], bias=False)

    def forward(self, ids):
        n = len(ids)
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(n))
        for layer in self.layers:
            x = layer(x[None], src_mask=later)[0]
        x = self.norm(x)
        return self.lm_head(x) if hasattr(self, "lm_head") else x @ self.token_embedding.weight.T


def draw_configuration(draw, number):
    heads, n = draw.choice([1, 2, 4]), draw.choice([1, 2, 9])
    c = {
        "heads": heads, "d_model": heads * draw.choice([1, 3, 4]), "d_ff": draw.choice([1, 5, 12]),
        "layers": draw.randint(1, 3), "vocabulary": draw.choice([7, 30]), "n": n, "positions": n + draw.choice([0, 4]),
        "tied": draw.random() < 0.5, "epsilon": draw.choice([1e-5, 1e-3, 0.1]),
        "activation": draw.choice(list(ACTIVATIONS)), "type": list(CODES)[number % 3],
        "ending": (".safetensors", ".npz")[number % 2], "prefix": "",
    }  # fmt: skip
    return c | {"module": "gpt", "make": lambda: Decoder(c)}


def draw_inputs(_draw, c):
    return {"ids": torch.randint(c["vocabulary"], (c["n"],))}


def by_pytorch(module, inputs, _c):
    return module(inputs["ids"])


def flags_of(c):
    return ["--heads", c["heads"], "--epsilon", c["epsilon"], "--activation", c["activation"]]


def check_small_model(attn):
    """The committed files on a whole story, in float64."""
    c = {"heads": 4, "d_model": 32, "d_ff": 64, "layers": 2, "tied": True, "epsilon": 1e-5, "activation": "relu"}
    sys.path.insert(0, str(SMALL_MODEL))
    import grammar

    words = [step.word for step in grammar.stories(1, held_out=True, seed=3)[0]]
    inputs = {"ids": torch.tensor([grammar.vocabulary().index(word) for word in words])}
    for name in ("model", "untrained"):
        state = load(SMALL_MODEL / f"{name}.safetensors")
        sizes = {"vocabulary": len(grammar.vocabulary()), "positions": len(state["position_embedding.weight"])}
        module = Decoder(c | sizes).double()
        module.load_state_dict(state, strict=True)
        with tempfile.TemporaryDirectory() as folder:
            weights = SMALL_MODEL / f"{name}.safetensors"
            found = modules.run_attn(attn, Path(folder), "gpt", weights, inputs, flags_of(c))
            error = expect(f"attn's logits of {name}", found, modules.output_by_pytorch(sys.modules[__name__], module, inputs, c))
        report(f"small model, {name}, {len(words)} words", error)


def check(attn, rewrite, number, seed):
    if number == 0:
        check_small_model(attn)
    modules.check(sys.modules[__name__], attn, rewrite, number, seed)


if __name__ == "__main__":
    sys.exit(modules.main(sys.argv[1:], __doc__, check, 8, seed=11))
