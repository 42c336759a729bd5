"""Trains relatives of the small model, which differ in their attention alone, and measures their losses.

    relatives.py [FOLDER]

Writes relatives.json to FOLDER, by default its own: for each relative the numbers that its cache keeps of a token in each
layer, its parameters, and the expected loss of three seeds. Lesson 24 shows them.
"""

import json
import sys

import torch
from torch import nn

import grammar
from measure import batch_of, expected_loss
from model import D_FF, D_MODEL, HEADS, LAYERS, POSITIONS, VOCABULARY, causal_mask
from train import HELD_OUT_STORIES, TRAINING_STORIES, recipe, train

SEEDS = (1, 2, 3)
D_K = D_MODEL // HEADS
# What a relative's keys and values are made of: heads of their own or shared ones, or a latent of so many features.
RELATIVES = {"heads_4": {"groups": 4}, "heads_2": {"groups": 2}, "heads_1": {"groups": 1}, "latent_16": {"latent": 16}, "latent_8": {"latent": 8}}


class RmsNorm(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * self.gain


class Attention(nn.Module):
    """Causal attention of HEADS heads over keys and values of `groups` heads, or over those that are made of a latent."""

    def __init__(self, groups=HEADS, latent=None):
        super().__init__()
        self.groups = HEADS if latent else groups
        self.query = nn.Linear(D_MODEL, D_MODEL)
        self.compress = nn.Sequential(nn.Linear(D_MODEL, latent), RmsNorm(latent)) if latent else nn.Identity()
        self.key_value = nn.Linear(latent or D_MODEL, 2 * self.groups * D_K)
        self.output = nn.Linear(D_MODEL, D_MODEL)
        self.kept = latent or 2 * groups * D_K  # numbers of each token

    def forward(self, x):
        heads = lambda packed, count: packed.unflatten(-1, (count, D_K)).transpose(-3, -2)
        query = heads(self.query(x), HEADS)
        key, value = (heads(part, self.groups).repeat_interleave(HEADS // self.groups, dim=-3) for part in self.key_value(self.compress(x)).chunk(2, dim=-1))
        scores = (query @ key.transpose(-1, -2) / D_K**0.5).masked_fill(causal_mask(x.shape[-2]), -torch.inf)
        return self.output((scores.softmax(dim=-1) @ value).transpose(-3, -2).flatten(-2))


class Block(nn.Module):
    def __init__(self, **attention):
        super().__init__()
        self.norm1, self.self_attn, self.norm2 = nn.LayerNorm(D_MODEL), Attention(**attention), nn.LayerNorm(D_MODEL)
        self.network = nn.Sequential(nn.Linear(D_MODEL, D_FF), nn.ReLU(), nn.Linear(D_FF, D_MODEL))

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.network(self.norm2(x))


class Relative(nn.Module):
    """The small model with other attention; it gives no weights of heads."""

    def __init__(self, **attention):
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(len(VOCABULARY), D_MODEL), nn.Embedding(POSITIONS, D_MODEL)
        self.layers = nn.ModuleList(Block(**attention) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(D_MODEL)
        for table in (self.token_embedding, self.position_embedding):
            nn.init.normal_(table.weight, std=D_MODEL**-0.5)

    def forward(self, ids):
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.token_embedding.weight.T, None


@torch.no_grad()
def loss_on(model, stories):
    ids, _ = batch_of(stories)
    return expected_loss(model(ids)[0], stories)


def main(folder):
    stories, held_out = grammar.stories(TRAINING_STORIES, held_out=False, seed=1), grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2)
    found = {}
    for name, attention in RELATIVES.items():
        losses = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            model = Relative(**attention)
            train(model, stories)
            losses.append(loss_on(model, held_out))
            print(f"{name} seed {seed}: expected loss {losses[-1]:.4f}", flush=True)
        found[name] = {"kept": model.layers[0].self_attn.kept, "parameters": sum(parameter.numel() for parameter in model.parameters()),
                       "losses": losses, "mean": sum(losses) / len(losses)}  # fmt: skip
    (folder / "relatives.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(recipe.run(main, __file__, __doc__))
