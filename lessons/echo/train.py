"""Trains the echo model of lesson 25, with a learned sink and without, and measures what a window takes from it.

    train.py [FOLDER]

A text is made of the letters a to z and two signs. After a letter, a sign comes in one of five cases, and otherwise a letter that
is drawn by a table of the letter before; after a sign the letter before it comes again. So the model's one head has something to
look for at a sign only. The task is the Bigram-Backcopy of Guo et al. 2024, "Active-Dormant Attention Heads", section 2.

Writes model.safetensors, with_sink.safetensors, config.json and report.json to FOLDER, by default its own. One thread and
fixed seeds: a second run on the same machine prints the same losses.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("train.py: there is no PyTorch; Debian's package is python3-torch")

import recipe

BEGIN, LETTERS, SIGNS = "<begin>", "abcdefghijklmnopqrstuvwxyz", "!?"
VOCABULARY = [BEGIN, *LETTERS, *SIGNS]
FIRST_SIGN = VOCABULARY.index(SIGNS[0])
SIGN_CHANCE = 0.2
LENGTH = 24  # words of a text, with the beginning
FROM = 2  # the place of the first word from which the next one is predicted
D_MODEL, D_FF = 16, 32
SEEDS, KEPT_SEED = (1, 2, 3), 2
STEPS, TEXTS_PER_STEP, LEARNING_RATE, WEIGHT_DECAY, WARM_UP = 3000, 64, 5e-3, 0.01, 100
TEST_TEXTS, WINDOW = 2000, 4


def chances_after():
    """For each word the chances of the next (words, words); those after a sign depend on the letter before it."""
    torch.manual_seed(0)
    table = torch.zeros(len(VOCABULARY), len(VOCABULARY))
    letters = slice(1, FIRST_SIGN)
    table[0, letters] = 1 / len(LETTERS)
    drawn = torch.distributions.Dirichlet(torch.full((len(LETTERS),), 0.3)).sample((len(LETTERS),))
    table[letters, letters] = (1 - SIGN_CHANCE) * drawn
    table[letters, FIRST_SIGN:] = SIGN_CHANCE / len(SIGNS)
    return table


def texts(count, table, seed):
    """Ids (count, LENGTH), and the chances of the word after each (count, LENGTH, words)."""
    source = torch.Generator().manual_seed(seed)
    ids, chances = torch.zeros(count, LENGTH, dtype=torch.long), torch.zeros(count, LENGTH, len(VOCABULARY))
    for place in range(LENGTH):
        last = ids[:, place]
        before = F.one_hot(ids[:, max(place - 1, 0)], len(VOCABULARY)).float()
        chances[:, place] = torch.where((last >= FIRST_SIGN)[:, None], before, table[last])
        if place + 1 < LENGTH:
            ids[:, place + 1] = torch.multinomial(chances[:, place], 1, generator=source)[:, 0]
    return ids, chances


class Echo(nn.Module):
    """One pre-norm layer with one head and learned positions; with a sink, one more score in each softmax."""

    def __init__(self, has_sink):
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(len(VOCABULARY), D_MODEL), nn.Embedding(LENGTH, D_MODEL)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(D_MODEL, 1, D_FF, dropout=0.0, batch_first=True, norm_first=True)])
        self.norm, self.lm_head = nn.LayerNorm(D_MODEL), nn.Linear(D_MODEL, len(VOCABULARY), bias=False)
        self.layers[0].self_attn.register_parameter("sinks", nn.Parameter(torch.zeros(1)) if has_sink else None)

    def forward(self, ids, allowed):
        """Logits (texts, n, words), and the weights (texts, n, n), with the sink's in the last column where there is one."""
        layer, attention, n = self.layers[0], self.layers[0].self_attn, ids.shape[1]
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(n))
        query, key, value = F.linear(layer.norm1(x), attention.in_proj_weight, attention.in_proj_bias).chunk(3, dim=-1)
        scores = (query @ key.transpose(-1, -2) / D_MODEL**0.5).masked_fill(~allowed, -torch.inf)
        if attention.sinks is not None:
            scores = torch.cat([scores, attention.sinks.expand(*scores.shape[:-1], 1)], dim=-1)
        weights = scores.softmax(dim=-1)
        x = x + attention.out_proj(weights[..., :n] @ value)
        x = x + layer.linear2(layer.linear1(layer.norm2(x)).relu())
        return self.lm_head(self.norm(x)), weights


def expected_loss(logits, chances):
    """-sum p log q in nats, of which the least is the entropy of p; of the places from FROM on."""
    return -(chances.double() * logits.double().log_softmax(dim=-1)).sum(dim=-1)[:, FROM:].mean()


def trained(has_sink, seed, table):
    torch.manual_seed(seed)
    model = Echo(has_sink)

    def loss_at(step):
        ids, _ = texts(TEXTS_PER_STEP, table, seed=10000 * seed + step)
        logits, _ = model(ids, recipe.window_mask(LENGTH))
        return F.cross_entropy(logits[:, FROM:-1].flatten(0, 1), ids[:, FROM + 1 :].flatten())

    recipe.train(model, loss_at, STEPS, LEARNING_RATE, WEIGHT_DECAY, WARM_UP, every=1000)
    return model


@torch.no_grad()
def report(model, ids, chances):
    """Losses under masks, and where the weight goes, of the places from FROM on."""
    loss = lambda **mask: expected_loss(model(ids, recipe.window_mask(LENGTH, **mask))[0], chances).item()
    _, weights = model(ids, recipe.window_mask(LENGTH))
    late, is_sign = weights[:, FROM:], ids[:, FROM:] >= FIRST_SIGN
    on_self = weights[..., :LENGTH].diagonal(dim1=-2, dim2=-1)[:, FROM:]
    on_word_before = weights[..., :LENGTH].diagonal(offset=-1, dim1=-2, dim2=-1)[:, FROM - 1 :]
    found = {
        "loss": loss(), "loss_in_window": loss(width=WINDOW), "loss_in_window_and_first": loss(width=WINDOW, kept=1),
        "letters_on_first": late[..., 0][~is_sign].mean().item(), "letters_on_themselves": on_self[~is_sign].mean().item(),
        "signs_on_first": late[..., 0][is_sign].mean().item(), "signs_on_word_before": on_word_before[is_sign].mean().item(),
    }  # fmt: skip
    if model.layers[0].self_attn.sinks is not None:
        found["letters_on_sink"] = late[..., -1][~is_sign].mean().item()
    return found


def main(folder):
    table = chances_after()
    ids, chances = texts(TEST_TEXTS, table, seed=1)
    found = {"parameters": sum(parameter.numel() for parameter in Echo(False).parameters()), "texts": TEST_TEXTS, "window": WINDOW,
             "entropy": -torch.special.xlogy(chances.double(), chances.double()).sum(dim=-1)[:, FROM:].mean().item()}  # fmt: skip
    for name, has_sink in (("model", False), ("with_sink", True)):
        found[name] = []
        for seed in SEEDS:
            model = trained(has_sink, seed, table)
            found[name].append(report(model, ids, chances))
            print(name, seed, found[name][-1], flush=True)
            if seed == KEPT_SEED:
                recipe.save(folder / f"{name}.safetensors", model)
    (folder / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    sizes = {"layers": 1, "heads": 1, "d_model": D_MODEL, "d_ff": D_FF, "positions": LENGTH}
    (folder / "config.json").write_text(json.dumps(sizes | {"vocabulary": VOCABULARY}) + "\n")


if __name__ == "__main__":
    sys.exit(recipe.run(main, __file__, __doc__))
