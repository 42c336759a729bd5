"""Trains the small model on the grammar's stories, and measures it on stories of other combinations.

    train.py [FOLDER]

Writes untrained.safetensors, model.safetensors, vocabulary.json and report.json to FOLDER, by default its own. One
thread and fixed seeds: a second run gives the same weights.
"""

import json
import math
import struct
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import grammar

SEED = 1
LAYERS, HEADS, D_MODEL, D_FF, POSITIONS = 2, 4, 32, 64, 40
STEPS, STORIES_PER_STEP, LEARNING_RATE, WEIGHT_DECAY = 2500, 64, 4e-3, 0.01
TRAINING_STORIES, HELD_OUT_STORIES = 40000, 2000
PADDING = -100  # a target that cross_entropy leaves out

VOCABULARY = grammar.vocabulary()
ID = {word: number for number, word in enumerate(VOCABULARY)}


class SmallModel(nn.Module):
    """A pre-norm decoder as GPT-2 has it, with PyTorch's own layers: learned positions and a tied output."""

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

    def forward(self, ids):
        """The logits of each next word, and each layer's attention weights (stories, heads, n, n)."""
        n = ids.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(n))
        maps = []
        for layer in self.layers:
            normalized = layer.norm1(x)
            attended, weights = layer.self_attn(
                normalized, normalized, normalized, attn_mask=causal, average_attn_weights=False
            )
            x = x + attended
            x = x + layer.linear2(F.relu(layer.linear1(layer.norm2(x))))
            maps.append(weights)
        return self.norm(x) @ self.token_embedding.weight.T, maps


def batch_of(stories):
    """Ids (stories, n) and the next word's id at each of them; shorter stories are padded with the end."""
    longest = max(map(len, stories))
    ids = torch.full((len(stories), longest), ID[grammar.END])
    targets = torch.full((len(stories), longest), PADDING)
    for row, story in enumerate(stories):
        numbers = torch.tensor([ID[step.word] for step in story])
        ids[row, : len(story)] = numbers
        targets[row, : len(story) - 1] = numbers[1:]
    return ids, targets


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PADDING)


def train(model, stories):
    """AdamW, with a warm-up and a cosine; says the loss now and then."""
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY)
    shape = lambda step: min(1, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / STEPS))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, shape)
    for step in range(STEPS):
        first = step * STORIES_PER_STEP % len(stories)
        ids, targets = batch_of(stories[first : first + STORIES_PER_STEP])
        loss = loss_of(model(ids)[0], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == STEPS - 1:
            print(f"step {step:5}  loss {loss.item():.4f}", flush=True)


def next_word_chances(model, prompt):
    """Of each word of the vocabulary: the chance that it comes after the prompt."""
    logits, _ = model(torch.tensor([[ID[word] for word in prompt.split()]]))
    return dict(zip(VOCABULARY, logits[0, -1].softmax(0).tolist()))


def previous_word(words):
    """(from, to) of each word and the one before it."""
    return [(i, [i - 1]) for i in range(1, len(words) - 1)]


def name_for_pronoun(words):
    """(from, to): where She or He is predicted, and each earlier place of the name."""
    return [
        (i, [j for j in range(i) if words[j] in grammar.NAMES])
        for i in range(len(words) - 1)
        if words[i + 1] in ("She", "He")
    ]


def pronoun_itself(words):
    """(from, to): She or He, and each earlier place of the name."""
    return [
        (i, [j for j in range(i) if words[j] in grammar.NAMES]) for i in range(len(words)) if words[i] in ("She", "He")
    ]


def colour_of_thing(words):
    """(from, to): `was`, where a colour is predicted, and the colour's first place."""
    return [
        (i, [words.index(words[i + 1])])
        for i in range(len(words) - 1)
        if words[i] == "was" and words[i + 1] in grammar.COLOURS
    ]


def place_again(words):
    """(from, to): `the`, where a place is predicted that was named before, and its first place."""
    return [
        (i, [words.index(words[i + 1])])
        for i in range(len(words) - 1)
        if words[i + 1] in grammar.PLACES and words[i + 1] in words[:i]
    ]


def name_again(words):
    """(from, to): `Then`, where the name is predicted, and its first place."""
    return [(words.index("Then"), [0])]


ROLES = {f.__name__: f for f in (previous_word, name_for_pronoun, pronoun_itself, colour_of_thing, place_again, name_again)}


def average_weights(maps, stories, role):
    """Of each layer and head: the average weight on what the role names, over all places of all stories."""
    total, count = torch.zeros(LAYERS, HEADS), 0
    for row, story in enumerate(stories):
        for source, targets in role([step.word for step in story]):
            total += torch.stack([layer[row, :, source, targets].sum(-1) for layer in maps])
            count += 1
    return total / count


def best_head(averages):
    layer, head = divmod(int(averages.argmax()), HEADS)
    return {"layer": layer, "head": head, "average_weight": round(averages.max().item(), 4)}


def measure(model, stories):
    """What report.json says."""
    ids, targets = batch_of(stories)
    with torch.no_grad():
        logits, maps = model(ids)
        steps = [step for story in stories for step in story[1:]]
        floor = sum(grammar.entropy(step.chances) for step in steps) / len(steps)
        chosen = -sum(math.log(step.chances[step.word]) for step in steps) / len(steps)
        loss = loss_of(logits.double(), targets).item()
        return {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "held_out_stories": len(stories),
            "held_out_loss": loss,
            "grammar_loss_same_stories": chosen,
            "grammar_entropy": floor,
            "P(red | Lily had a red ball . She took the ball to the park . The ball was)": next_word_chances(
                model, "Lily had a red ball . She took the ball to the park . The ball was"
            )["red"],
            "P(She | Lily had a red ball .)": next_word_chances(model, "Lily had a red ball .")["She"],
            "heads": {name: best_head(average_weights(maps, stories, role)) for name, role in ROLES.items()},
        }


def save(path, tensors):
    """A .safetensors file of float32."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        numbers = tensor.detach().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(SEED)
    began = time.monotonic()
    model = SmallModel()
    save(folder / "untrained.safetensors", model.state_dict())
    train(model, grammar.stories(TRAINING_STORIES, held_out=False, seed=1))
    save(folder / "model.safetensors", model.state_dict())
    report = measure(model, grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2))
    print(json.dumps(report, indent=1), time.monotonic()-began)
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    (folder / "vocabulary.json").write_text(json.dumps(VOCABULARY) + "\n")


if __name__ == "__main__":
    main()
