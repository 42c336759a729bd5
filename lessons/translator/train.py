"""Trains the translator of lesson 13 on the grammar's pairs of sentences, and measures it on new combinations.

    train.py [FOLDER]

Writes model.safetensors, config.json and report.json to FOLDER, by default its own. One thread and fixed seeds: a second
run on the same machine prints the same losses.
"""

import json
import math
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("train.py: there is no PyTorch; Debian's package is python3-torch")

import grammar
import recipe

LAYERS, HEADS, D_MODEL, D_FF = 2, 2, 16, 32
SEED = 1
STEPS, PAIRS_PER_STEP, LEARNING_RATE = 2000, 64, 4e-3
WARM_UP = 200  # steps
TRAINING_PAIRS, HELD_OUT_PAIRS = 20000, 1000
VOCABULARY = grammar.vocabulary()
ID = {word: number for number, word in enumerate(VOCABULARY)}
PADDING = -100  # of targets: cross_entropy leaves it out


def positions(n):
    angles = torch.arange(n)[:, None] / 10000 ** (2 * torch.arange(D_MODEL // 2) / D_MODEL)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(n, D_MODEL)


class Translator(nn.Module):
    """nn.Transformer without the norms after its stacks, between one table for source, target and logits."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(len(VOCABULARY), D_MODEL) * D_MODEL**-0.5)
        self.transformer = nn.Transformer(D_MODEL, HEADS, LAYERS, LAYERS, D_FF, dropout=0.0, batch_first=True)
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.transformer.encoder.enable_nested_tensor = False

    def embed(self, ids):
        return self.table[ids] * D_MODEL**0.5 + positions(ids.shape[1])

    def forward(self, source, target, padded):
        """Logits (pairs, n, vocabulary); padded (pairs, m) is true where the source has no word."""
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        output = self.transformer(
            self.embed(source), self.embed(target), tgt_mask=later, src_key_padding_mask=padded, memory_key_padding_mask=padded
        )
        return output @ self.table.T


def batch_of(pairs):
    """Ids of the sources, of the targets shifted right, of the wanted words, and where the sources are padded."""
    as_tensor = lambda lists, fill: nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in lists], True, fill)
    english = [[ID[word] for word in english] for english, _ in pairs]
    french = [[ID[word] for word in french] for _, french in pairs]
    shifted = [[ID[grammar.START], *ids[:-1]] for ids in french]
    lengths = torch.tensor([len(ids) for ids in english])
    source = as_tensor(english, 0)
    return source, as_tensor(shifted, 0), as_tensor(french, PADDING), torch.arange(source.shape[1]) >= lengths[:, None]


def loss_of(model, pairs):
    """The mean over all words that are to be written, in nats."""
    source, target, wanted, padded = batch_of(pairs)
    return F.cross_entropy(model(source, target, padded).flatten(0, 1), wanted.flatten(), ignore_index=PADDING)


def train(model, pairs):
    def loss_at(step):
        first = step * PAIRS_PER_STEP % (len(pairs) - PAIRS_PER_STEP)
        return loss_of(model, pairs[first : first + PAIRS_PER_STEP])

    recipe.train(model, loss_at, STEPS, LEARNING_RATE, 0.0, WARM_UP, every=500)


@torch.no_grad()
def write(model, english, most=20):
    """Greedy decoding of one sentence: the words that are written."""
    source = torch.tensor([[ID[word] for word in english]])
    ids = [ID[grammar.START]]
    while len(ids) <= most and VOCABULARY[ids[-1]] != grammar.END:
        ids.append(int(model(source, torch.tensor([ids]), torch.zeros_like(source, dtype=torch.bool))[0, -1].argmax()))
    return tuple(VOCABULARY[number] for number in ids[1:])


@torch.no_grad()
def report(model, held_out):
    right = sum(write(model, english) in grammar.translations(english) for english, _ in held_out)
    chances = [[math.log(grammar.translations(english)[tuple(french)]), len(french)] for english, french in held_out]
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "words": len(VOCABULARY),
        "training_pairs": TRAINING_PAIRS,
        "held_out_pairs": len(held_out),
        "held_out_loss": loss_of(model, held_out).item(),
        "grammar_loss_of_the_same_words": -sum(chance for chance, _ in chances) / sum(words for _, words in chances),
        "right_translations": right,
    }


def main(folder):
    torch.manual_seed(SEED)
    model = Translator()
    train(model, grammar.pairs(TRAINING_PAIRS, False, seed=1))
    for parameter in model.parameters():
        parameter.data = parameter.data.half().float()  # 11 binary digits: the page that computes with them loads faster
    model.eval()
    found = report(model, grammar.pairs(HELD_OUT_PAIRS, True, seed=2))
    for name, value in found.items():
        print(f"{name} {value}")
    for english in (grammar.SENTENCE, "Tom wanted a big blue car and a black hat .", "Mia had a white bike ."):
        print(english, "->", " ".join(write(model, english.split())))
    recipe.save(folder / "model.safetensors", model, is_half=True)
    (folder / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    sizes = {"layers": LAYERS, "heads": HEADS, "d_model": D_MODEL, "d_ff": D_FF}
    (folder / "config.json").write_text(json.dumps(sizes | {"vocabulary": VOCABULARY}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(recipe.run(main, __file__, __doc__))
