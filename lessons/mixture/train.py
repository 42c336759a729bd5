"""Trains the mixture of experts of lesson 26 on the small model's stories, with a balancing term and without, and dense networks beside it.

    train.py [FOLDER]

Writes model.safetensors, unbalanced.safetensors, both in float16, config.json and report.json to FOLDER, by default its own. One thread and
fixed seeds: a second run on the same machine prints the same losses.
"""

import json
import sys
from pathlib import Path

LESSONS = Path(__file__).resolve().parents[1]
sys.path += [str(LESSONS), str(LESSONS / "small_model")]
try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("train.py: there is no PyTorch; Debian's package is python3-torch")

import grammar
import recipe
from measure import PADDING, batch_of, expected_loss, loss_of
from model import D_MODEL, HEADS, ID, LAYERS, POSITIONS, VOCABULARY, causal_mask

EXPERTS, TOP, D_FF = 8, 2, 16  # of which each token has TOP; features of each
BALANCE = 0.01  # what the balancing term is multiplied by
SEEDS = (1, 2, 3)  # the first one's weights are kept
STEPS, STORIES_PER_STEP, LEARNING_RATE, WEIGHT_DECAY, WARM_UP = 2000, 48, 5e-3, 0.01, 100
TRAINING_STORIES, HELD_OUT_STORIES = 20000, 1000
KINDS = {
    "names": grammar.NAMES, "sizes": grammar.SIZES, "colours": grammar.COLOURS, "things": grammar.THINGS, "places": grammar.PLACES, "She He": ("She", "He"),
    "her his it": ("her", "his", "it"), "a the The": ("a", "the", "The"), "had got made": ("had", "got", "made"),
    "ways": tuple(grammar.WAYS), "with to at": ("with", "to", "at"), "was": ("was",), "moods ages": (*grammar.MOODS, *grammar.AGES),
    "and": ("and",), "Then Again": ("Then", "Again"), "went home": ("went", "home"), "full stop": (".",),
}  # fmt: skip


class Gated(nn.Module):
    """SwiGLU: (silu(x W_gate) * x W_up) W_down."""

    def __init__(self, d_ff):
        super().__init__()
        linear = lambda d_in, d_out: nn.Linear(d_in, d_out, bias=False)
        self.gate_proj, self.up_proj, self.down_proj = linear(D_MODEL, d_ff), linear(D_MODEL, d_ff), linear(d_ff, D_MODEL)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """Each token has the `top` experts of the largest scores, weighted by these over their sum.

    One expert is weighted by its score: over itself it would be 1, and the router would learn nothing.
    """

    def __init__(self, top=TOP):
        super().__init__()
        self.top = top
        self.router = nn.Linear(D_MODEL, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Gated(D_FF) for _ in range(EXPERTS))

    def forward(self, x):
        self.scores = self.router(x).softmax(dim=-1)
        self.chosen = torch.zeros_like(self.scores).scatter(-1, self.scores.topk(self.top).indices, 1.0)
        weights = self.scores * self.chosen
        if self.top > 1:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return sum(weights[..., i, None] * expert(x) for i, expert in enumerate(self.experts))

    def imbalance(self, is_real):
        """EXPERTS times the sum over experts of their share of the choices and their mean score: 1 where both are even.

        Fedus et al. 2022, "Switch Transformers", section 2.2.
        """
        share, score = self.chosen[is_real].mean(dim=0) / self.top, self.scores[is_real].mean(dim=0)
        return EXPERTS * (share * score).sum()


class Block(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.norm1, self.self_attn = nn.LayerNorm(D_MODEL), nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
        self.norm2, self.feed_forward = nn.LayerNorm(D_MODEL), network

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, y, attn_mask=causal_mask(x.shape[1]), need_weights=False)[0]
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    """The small model with other feed-forward networks."""

    def __init__(self, network):
        super().__init__()
        self.embedding, self.position_embedding = nn.Embedding(len(VOCABULARY), D_MODEL), nn.Embedding(POSITIONS, D_MODEL)
        self.layers = nn.ModuleList(Block(network()) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(D_MODEL)
        for table in (self.embedding, self.position_embedding):
            nn.init.normal_(table.weight, std=D_MODEL**-0.5)

    def forward(self, ids):
        x = self.embedding(ids) + self.position_embedding(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embedding.weight.T


# Networks by name: what makes one, and its share of the balancing term.
MODELS = {
    "balanced": (Experts, BALANCE),
    "unbalanced": (Experts, 0.0),
    "one_balanced": (lambda: Experts(top=1), BALANCE),
    "one_unbalanced": (lambda: Experts(top=1), 0.0),
    "dense_used": (lambda: Gated(TOP * D_FF), 0.0),
    "dense_stored": (lambda: Gated(EXPERTS * D_FF), 0.0),
}


def numbers_of(network):
    """How many numbers a network has, and how many of them a token uses: all but those of experts that it does not have."""
    count = lambda module: sum(parameter.numel() for parameter in module.parameters())
    stored, unused = count(network), count(network.experts[network.top :]) if isinstance(network, Experts) else 0
    return {"stored": stored, "used": stored - unused}


def trained(network, balance, seed, stories):
    torch.manual_seed(seed)
    model = Decoder(network)

    def loss_at(step):
        first = step * STORIES_PER_STEP % len(stories)
        ids, targets = batch_of(stories[first : first + STORIES_PER_STEP])
        loss = loss_of(model(ids), targets)
        return loss + balance * sum(layer.feed_forward.imbalance(targets != PADDING) for layer in model.layers) if balance else loss

    recipe.train(model, loss_at, STEPS, LEARNING_RATE, WEIGHT_DECAY, WARM_UP, every=1000)
    return model


@torch.no_grad()
def report(model, stories):
    ids, targets = batch_of(stories)
    found = {"loss": expected_loss(model(ids), stories)}
    networks = [layer.feed_forward for layer in model.layers]
    if not isinstance(networks[0], Experts):
        return found
    is_real = targets != PADDING
    shares = [network.chosen[is_real].mean(dim=0) / network.top for network in networks]
    found["largest_share"] = max(share.max().item() for share in shares)
    found["smallest_share"] = min(share.min().item() for share in shares)
    return found


@torch.no_grad()
def kinds_by_expert(model, stories):
    """How many of the words of each kind an expert of the first layer gets, by kind, of each expert."""
    ids, targets = batch_of(stories)
    model(ids)
    chosen, is_real = model.layers[0].feed_forward.chosen, targets != PADDING
    of_kind = lambda words: torch.isin(ids, torch.tensor([ID[word] for word in words]))
    return {name: chosen[is_real & of_kind(words)].mean(dim=0).tolist() for name, words in KINDS.items()}


def main(folder):
    stories, held_out = grammar.stories(TRAINING_STORIES, held_out=False, seed=1), grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2)
    found = {"experts": EXPERTS, "top": TOP, "d_ff": D_FF}
    for name, (network, balance) in MODELS.items():
        found[name] = {**numbers_of(network()), "seeds": []}
        for seed in SEEDS:
            model = trained(network, balance, seed, stories)
            found[name]["seeds"].append(report(model, held_out))
            print(name, seed, found[name]["seeds"][-1], flush=True)
            if seed == SEEDS[0] and network is Experts:
                found[name]["kinds"] = kinds_by_expert(model, held_out)
                recipe.save(folder / ("model.safetensors" if balance else "unbalanced.safetensors"), model, is_half=True)
    (folder / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    sizes = {"layers": LAYERS, "heads": HEADS, "d_model": D_MODEL, "experts": EXPERTS, "top": TOP, "d_ff": D_FF}
    (folder / "config.json").write_text(json.dumps(sizes | {"vocabulary": VOCABULARY}) + "\n")


if __name__ == "__main__":
    sys.exit(recipe.run(main, __file__, __doc__))
