#!/usr/bin/env python3
"""Holds `attn run experts` against a mixture of experts of PyTorch's, in which each token goes through its own experts only.

    mixture_of_experts.py ATTN REWRITE_WEIGHTS [SEED]

Sixteen mixtures of random sizes and options, compared as modules.py compares its modules; see there.
"""

import functools
import sys

import modules  # ends with 77 where there is no PyTorch
from modules import CODES

import torch
from torch import nn
from torch.nn import functional as F

SCORINGS = {"softmax": lambda logits: logits.softmax(-1), "sigmoid": torch.sigmoid, "logits": lambda logits: logits}
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu-tanh": functools.partial(F.gelu, approximate="tanh"), "silu": F.silu,
               "quick-gelu": lambda x: x * torch.sigmoid(1.702 * x)}  # fmt: skip


class Network(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.gate_proj, self.up_proj = (nn.Linear(c["d_model"], c["d_ff"], c["biased"]) for _ in range(2))
        self.down_proj = nn.Linear(c["d_ff"], c["d_model"], c["biased"])

    def forward(self, x):
        gate, up, limit = self.gate_proj(x), self.up_proj(x), self.c["limit"]
        if limit:
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return self.down_proj(ACTIVATIONS[self.c["activation"]](gate) * (up + self.c["up_shift"]))


class Router(nn.Linear):
    def __init__(self, c):
        super().__init__(c["d_model"], c["experts"], c["biased"])
        self.e_score_correction_bias = nn.Parameter(torch.zeros(c["experts"])) if c["corrected"] else None


class Mixture(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.router = Router(c)
        self.experts = nn.ModuleList(Network(c) for _ in range(c["experts"]))
        if c["shared"]:
            self.shared_expert = Network(c)
        if c["shared"] == "gated":
            self.shared_expert_gate = nn.Linear(c["d_model"], 1, bias=False)

    def route(self, tokens):
        """Which experts each token has, and how much of each: (tokens, top) both."""
        c = self.c
        scores = choice = SCORINGS[c["scoring"]](self.router(tokens))
        if c["corrected"]:
            choice = choice + self.router.e_score_correction_bias
        if c["groups"]:
            count, kept, best = c["groups"]
            grouped = choice.view(len(tokens), count, -1)
            of_groups = grouped.topk(best, dim=-1).values.sum(-1).topk(kept, dim=-1).indices
            hidden = torch.ones(len(tokens), count, dtype=torch.bool).scatter(1, of_groups, False)
            choice = grouped.masked_fill(hidden[..., None], -torch.inf).view(len(tokens), -1)
        indices = choice.topk(c["top"], dim=-1).indices
        weights = scores.gather(1, indices)
        if c["normalization"] == "sum":
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        elif c["normalization"] == "softmax":
            weights = weights.softmax(-1)
        return indices, weights * c["factor"]

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        indices, weights = self.route(tokens)
        result = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            token, place = torch.where(indices == i)
            weight = weights[token, place, None]
            output = expert(weight * tokens[token]) if self.c["weighting"] == "input" else weight * expert(tokens[token])
            result = result.index_add(0, token, output)
        if self.c["shared"]:
            gate = torch.sigmoid(self.shared_expert_gate(tokens)) if self.c["shared"] == "gated" else 1
            result = result + gate * self.shared_expert(tokens)
        return result.view(x.shape)


def draw_configuration(draw, number):
    groups = draw.choice([None, None, (2, 1, 2), (3, 2, 1), (2, 2, 1)])
    size = draw.choice([2, 3])
    experts = groups[0] * size if groups else draw.choice([1, 2, 5, 8])
    weighting = draw.choice(["output", "output", "input"])
    c = {
        "experts": experts, "groups": groups, "top": draw.randint(1, groups[1] * size if groups else experts),
        "scoring": draw.choice(list(SCORINGS)), "factor": draw.choice([1, 2.5]),
        "d_model": draw.choice([3, 6]), "d_ff": draw.choice([4, 7]), "n": draw.choice([1, 5]), "batch": draw.choice([0, 2]),
        # Where an expert's bias meets the weight 0 of a token that did not choose it, it counts: Llama 4 has none.
        "biased": weighting == "output" and draw.random() < 0.5, "corrected": draw.random() < 0.5,
        "shared": draw.choice(["", "open", "gated"]), "activation": draw.choice(list(ACTIVATIONS)),
        "limit": draw.choice([0, 0, 0.5]), "up_shift": draw.choice([0, 0, 1]), "weighting": weighting,
        "type": list(CODES)[number % 3], "ending": (".safetensors", ".npz")[number % 2], "prefix": "",
    }  # fmt: skip
    c["normalization"] = draw.choice(["softmax", "none"] if c["scoring"] == "logits" else ["sum", "softmax", "none"])
    return c | {"module": "experts", "make": lambda: Mixture(c)}


def draw_inputs(_draw, c):
    return {"x": torch.randn(*([c["batch"]] if c["batch"] else []), c["n"], c["d_model"], dtype=torch.float64)}


def by_pytorch(module, inputs, _c):
    return module(inputs["x"])


def flags_of(c):
    flags = ["--top", c["top"], "--scoring", c["scoring"], "--normalization", c["normalization"], "--scaling-factor",
             c["factor"], "--weighting", c["weighting"], "--activation", c["activation"], "--up-shift", c["up_shift"]]  # fmt: skip
    if c["limit"]:
        flags += ["--limit", c["limit"]]
    if c["groups"]:
        flags += ["--groups", c["groups"][0], "--kept-groups", c["groups"][1], "--group-best", c["groups"][2]]
    return flags


if __name__ == "__main__":
    check = functools.partial(modules.check, sys.modules[__name__])
    sys.exit(modules.main(sys.argv[1:], __doc__, check, 16, seed=26))
