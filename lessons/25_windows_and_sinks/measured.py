"""Measures what windows take from the small model, and how much weight stories260K puts on its first token.

    measured.py STORIES260K [FOLDER]

STORIES260K is the folder of that model, with stories260K.npz. Writes measured.json to FOLDER, by default its own.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

LESSONS = Path(__file__).resolve().parents[1]
sys.path += [str(LESSONS), str(LESSONS / "small_model")]
import grammar
import measure as roles
import recipe
from model import ID, SmallModel

WIDTHS = (4, 8, 12, 16, 24, 32)
ROLES = (roles.colour_of_thing, roles.thing_after_colour, roles.name_for_pronoun, roles.place_again, roles.thing_again, roles.name_again)
HELD_OUT_STORIES, FROM = 1000, 8  # average weights are those of the ninth word and later ones


# -------------------------------------------------------------------------------------------------------- the small model


def chance_in_role(logits, stories, role):
    """The mean probability of the word that stands in the story, where it follows from the word that the role attends to."""
    p = logits.double().softmax(dim=-1)
    told = [(row, [step.word for step in story]) for row, story in enumerate(stories)]
    return float(np.mean([p[row, i, ID[words[i + 1]]].item() for row, words in told for i, _ in role(words) if i + 1 < len(words)]))


def distance_in_role(stories, role):
    pairs = [(i, places) for story in stories for i, places in role([step.word for step in story])]
    return float(np.mean([i - max(places) for i, places in pairs if places]))


@torch.no_grad()
def small_model():
    model = SmallModel().eval()
    recipe.load(LESSONS / "small_model" / "model.safetensors", model)
    stories = grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2)
    ids, targets = roles.batch_of(stories)
    run = lambda **mask: model(ids, ~recipe.window_mask(ids.shape[1], **mask))
    logits, maps = run()
    is_late = targets != roles.PADDING
    is_late[:, :FROM] = False
    found = {
        "loss": roles.expected_loss(logits, stories),
        "on_first": [[weights[:, head, :, 0][is_late].mean().item() for head in range(weights.shape[1])] for weights in maps],
        "evenly": (1 / torch.arange(1, ids.shape[1] + 1)).expand_as(ids)[is_late].mean().item(),  # if all tokens had the same weight
        "roles": {role.__name__: {"distance": distance_in_role(stories, role), "all": chance_in_role(logits, stories, role)} for role in ROLES},
        "window": {}, "window_and_first": {},
    }  # fmt: skip
    for width in WIDTHS:
        windowed, _ = run(width=width)
        found["window"][width] = roles.expected_loss(windowed, stories)
        found["window_and_first"][width] = roles.expected_loss(run(width=width, kept=1)[0], stories)
        for role in ROLES:
            found["roles"][role.__name__][width] = chance_in_role(windowed, stories, role)
    return found


# ----------------------------------------------------------------------------------------------------------- stories260K


class Stories:
    """A small Llama: 5 layers, 8 heads over 4 of keys and values, rotary pairs (2i, 2i + 1); in float64."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {name: torch.from_numpy(array).double() for name, array in np.load(folder / "stories260K.npz").items()}

    def norm(self, x, gain):
        return x / (x.square().mean(dim=-1, keepdim=True) + self.config["rms_eps"]).sqrt() * self.weights[gain + ".weight"]

    def rotated(self, x):
        width = x.shape[-1]
        angles = torch.arange(x.shape[-2]).double()[:, None] * self.config["rope_theta"] ** (-torch.arange(0, width, 2).double() / width)
        pairs = torch.view_as_complex(x.unflatten(-1, (width // 2, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)

    def __call__(self, ids, mask):
        """Logits (texts, n, tokens), and of each layer the weights (texts, heads, n, n)."""
        w, heads, groups = self.weights, self.config["n_heads"], self.config["n_kv_heads"]
        x, maps = w["token_embd.weight"][ids], []
        for layer in range(self.config["n_layers"]):
            name = f"blk.{layer}."
            y = self.norm(x, name + "attn_norm")
            apart = lambda role, count: (y @ w[f"{name}attn_{role}.weight"].T).unflatten(-1, (count, -1)).transpose(-3, -2)
            query, key, value = self.rotated(apart("q", heads)), self.rotated(apart("k", groups)), apart("v", groups)
            key, value = (each.repeat_interleave(heads // groups, dim=-3) for each in (key, value))
            maps.append((query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).masked_fill(mask, -torch.inf).softmax(dim=-1))
            x = x + (maps[-1] @ value).transpose(-3, -2).flatten(-2) @ w[name + "attn_output.weight"].T
            y = self.norm(x, name + "ffn_norm")
            x = x + (F.silu(y @ w[name + "ffn_gate.weight"].T) * (y @ w[name + "ffn_up.weight"].T)) @ w[name + "ffn_down.weight"].T
        return self.norm(x, "output_norm") @ w["output.weight"].T, maps


@torch.no_grad()
def stories260k(folder, texts=32, n=256, begin=1):
    """On texts that the model writes itself: the weight on the beginning, and the loss with a window, from the middle on."""
    model = Stories(folder)
    torch.manual_seed(0)
    ids = torch.full((texts, 1), begin)
    while ids.shape[1] < n:
        logits, _ = model(ids, ~recipe.window_mask(ids.shape[1]))
        ids = torch.cat([ids, torch.multinomial(logits[:, -1].softmax(dim=-1), 1)], dim=1)

    def loss(**mask):
        logits, maps = model(ids, ~recipe.window_mask(n, **mask))
        return F.cross_entropy(logits[:, n // 2 : -1].flatten(0, 1), ids[:, n // 2 + 1 :].flatten()).item(), maps

    found, maps = loss()
    on_first = [[weights[:, head, n // 2 :, 0].mean().item() for head in range(weights.shape[1])] for weights in maps]
    return {"texts": texts, "tokens": n, "loss": found, "on_first": on_first, "most_on_first": max(map(max, on_first)),
            "window": {width: loss(width=width)[0] for width in (32, 64, 128)},
            "window_and_first": {width: loss(width=width, kept=1)[0] for width in (32, 64, 128)}}  # fmt: skip


def main(arguments):
    if not 1 <= len(arguments) <= 2 or arguments[0] == "--help":
        print(__doc__, file=sys.stderr)
        return 2
    recipe.be_deterministic()
    folder = Path(arguments[1]) if len(arguments) == 2 else Path(__file__).resolve().parent
    found = {"small_model": small_model(), "stories260K": stories260k(Path(arguments[0]))}
    (folder / "measured.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
