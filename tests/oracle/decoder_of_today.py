#!/usr/bin/env python3
"""Holds `attn run llama` against a decoder of PyTorch's modules, under the names that Hugging Face's Llama has.

    decoder_of_today.py ATTN REWRITE_WEIGHTS [SEED]

Eight decoders of random sizes, compared as modules.py compares its modules; see there.
"""

import functools
import sys

import modules  # ends with 77 where there is no PyTorch
from modules import CODES
from small_decoder import by_pytorch, draw_inputs

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, d_model, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(d_model)), epsilon

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon))


class Attention(nn.Module):
    """Heads side by side in one tensor, keys and values repeated for each head that shares them."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q_proj = nn.Linear(c["d_model"], c["heads"] * c["d_k"], bias=False)
        self.k_proj = nn.Linear(c["d_model"], c["groups"] * c["d_k"], bias=False)
        self.v_proj = nn.Linear(c["d_model"], c["groups"] * c["d_k"], bias=False)
        self.o_proj = nn.Linear(c["heads"] * c["d_k"], c["d_model"], bias=False)
        if c["normed"]:  # as Qwen3 has them
            self.q_norm, self.k_norm = (Norm(c["d_k"], c["epsilon"]) for _ in range(2))

    def turned(self, x):
        n, d = x.shape[-2:]
        angles = torch.outer(torch.arange(n).double(), self.c["base"] ** (-torch.arange(0, d, 2).double() / d))
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)

    def forward(self, x):
        split = lambda packed, heads: packed.view(x.shape[0], heads, -1).transpose(0, 1)
        queries, keys = split(self.q_proj(x), self.c["heads"]), split(self.k_proj(x), self.c["groups"])
        if self.c["normed"]:
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        queries, keys = self.turned(queries), self.turned(keys)
        shared = self.c["heads"] // self.c["groups"]
        keys = keys.repeat_interleave(shared, dim=0)
        values = split(self.v_proj(x), self.c["groups"]).repeat_interleave(shared, dim=0)
        scores = queries @ keys.transpose(-1, -2) / self.c["d_k"] ** 0.5
        later = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).triu(1)
        contexts = scores.masked_fill(later, -torch.inf).softmax(-1) @ values
        return self.o_proj(contexts.transpose(0, 1).reshape(x.shape[0], -1))


class Network(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(c["d_model"], c["d_ff"], bias=False) for _ in range(2))
        self.down_proj = nn.Linear(c["d_ff"], c["d_model"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attention(c), Network(c)
        self.input_layernorm, self.post_attention_layernorm = (Norm(c["d_model"], c["epsilon"]) for _ in range(2))

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocabulary"], c["d_model"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["layers"]))
        self.norm = Norm(c["d_model"], c["epsilon"])

    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.model = Model(c)
        self.lm_head = None if c["tied"] else nn.Linear(c["d_model"], c["vocabulary"], bias=False)

    def forward(self, ids):
        x = self.model(ids)
        return x @ self.model.embed_tokens.weight.T if self.lm_head is None else self.lm_head(x)


def draw_configuration(draw, number):
    groups = draw.choice([1, 2, 3])
    c = {
        "groups": groups, "heads": groups * draw.choice([1, 2, 4]), "d_k": draw.choice([2, 4, 6]),
        "d_model": draw.choice([3, 8, 11]), "d_ff": draw.choice([1, 5, 12]), "layers": draw.randint(1, 3),
        "vocabulary": draw.choice([7, 30]), "n": draw.choice([1, 2, 9]), "tied": draw.random() < 0.5,
        "epsilon": draw.choice([1e-5, 1e-6, 0.1]), "base": draw.choice([10000.0, 500000.0, 10.0]),
        "type": list(CODES)[number % 3], "ending": (".safetensors", ".npz")[number % 2],
        "prefix": "", "normed": draw.random() < 0.5,
    }  # fmt: skip
    return c | {"module": "llama", "make": lambda: Decoder(c)}


def flags_of(c):
    return ["--without-config", "--heads", c["heads"], "--epsilon", c["epsilon"], "--rotary-base", c["base"]]


if __name__ == "__main__":
    check = functools.partial(modules.check, sys.modules[__name__])
    sys.exit(modules.main(sys.argv[1:], __doc__, check, 8, seed=18))
