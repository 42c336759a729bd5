"""The small model in PyTorch: a pre-norm decoder as GPT-2 has it, with learned positions and a tied output."""

import torch
from torch import nn

import grammar

LAYERS, HEADS, D_MODEL, D_FF, POSITIONS = 2, 4, 32, 64, 56
VOCABULARY = grammar.vocabulary()
ID = {word: number for number, word in enumerate(VOCABULARY)}


def causal_mask(n):
    """As PyTorch wants it: true where a token can not attend."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)


class SmallModel(nn.Module):
    """Its layers are PyTorch's; their parts are called one by one, since the weights of each head are wanted, too."""

    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(len(VOCABULARY), D_MODEL)
        self.position_embedding = nn.Embedding(POSITIONS, D_MODEL)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.norm = nn.LayerNorm(D_MODEL)
        for table in (self.token_embedding, self.position_embedding):
            nn.init.normal_(table.weight, std=D_MODEL**-0.5)

    def forward(self, ids, mask=None):
        """The logits of each next word, and of each layer the attention weights (stories, heads, n, n).

        mask (n, n): true where a token can not attend; causal unless given
        """
        n = ids.shape[1]
        mask = causal_mask(n) if mask is None else mask
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(n))
        maps = []
        for layer in self.layers:
            y = layer.norm1(x)
            attended, weights = layer.self_attn(y, y, y, attn_mask=mask, average_attn_weights=False)
            x = x + attended
            x = x + layer.linear2(layer.linear1(layer.norm2(x)).relu())
            maps.append(weights)
        return self.norm(x) @ self.token_embedding.weight.T, maps


def configuration():
    """What config.json says."""
    sizes = {"layers": LAYERS, "heads": HEADS, "d_model": D_MODEL, "d_ff": D_FF, "positions": POSITIONS}
    return sizes | {"activation": "relu", "epsilon": 1e-5, "vocabulary": VOCABULARY}
