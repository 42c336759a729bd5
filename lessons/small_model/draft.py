"""Trains the draft of lesson 30: a relative of the small model with one layer and half as many features, on the same stories.

    draft.py [FOLDER]

Writes draft.safetensors, in float16, to FOLDER, by default its own. One thread and a fixed seed: a second run on the same machine
prints the same losses.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import torch
from torch import nn

import grammar
import recipe
from model import HEADS, POSITIONS, VOCABULARY, causal_mask
from train import SEED, TRAINING_STORIES, train

D_MODEL, D_FF = 16, 32


class Draft(nn.Module):
    """Built as the small model is: token and position tables, one pre-norm layer, a norm, and the table of tokens again."""

    def __init__(self):
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(len(VOCABULARY), D_MODEL), nn.Embedding(POSITIONS, D_MODEL)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, dropout=0.0, batch_first=True, norm_first=True)])
        self.norm = nn.LayerNorm(D_MODEL)
        for table in (self.token_embedding, self.position_embedding):
            nn.init.normal_(table.weight, std=D_MODEL**-0.5)

    def forward(self, ids):
        n = ids.shape[1]
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(n))
        for layer in self.layers:
            y = layer.norm1(x)
            x = x + layer.self_attn(y, y, y, attn_mask=causal_mask(n), need_weights=False)[0]
            x = x + layer.linear2(layer.linear1(layer.norm2(x)).relu())
        return self.norm(x) @ self.token_embedding.weight.T, None


def main(folder):
    torch.manual_seed(SEED)
    draft = Draft()
    train(draft, grammar.stories(TRAINING_STORIES, held_out=False, seed=1))
    recipe.save(folder / "draft.safetensors", draft, is_half=True)


if __name__ == "__main__":
    sys.exit(recipe.run(main, __file__, __doc__))
