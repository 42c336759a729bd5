"""Makes the golden of lesson 30: cuts of the small model's next words, and guesses of its draft.

By PyTorch in float64: the models step by step as in small_model.py, cuts by sorting, speculation as the papers have it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

import small_model
from layers import within
from small_model import FOLDER, decoder

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))
import planted

TEMPERATURE, TOP_K, TOP_P, MIN_P, GUESSES = 2.0, 4, 0.8, 0.2, 4
SEED, DRAWS = 35, 10000


def even(draw, count):
    """Numbers from 0, below 1."""
    return (draw(count) + 1) / 2


def word_at(probabilities, number):
    return int(np.searchsorted(np.cumsum(probabilities), number, side="right"))


def before(chances):
    """The sum of the chances of all that are more likely, by sorting."""
    falling, order = chances.sort(descending=True, stable=True)
    return torch.zeros_like(chances).scatter(-1, order, falling.cumsum(-1) - falling)


def cut(logits):
    chances = torch.softmax(torch.from_numpy(logits) / TEMPERATURE, dim=-1)
    kept = {"among_k": torch.zeros_like(chances, dtype=torch.bool).scatter(-1, chances.topk(TOP_K).indices, True)}
    more = before(chances[0])
    kept |= {"in_nucleus": more[None] < TOP_P, "likely": chances / chances.max() >= MIN_P}
    steps = {"logits": logits, "chances": chances, "among_k": kept["among_k"], "before": more} | kept
    for name, mask in zip(("by_k", "by_p", "by_min_p"), kept.values()):
        steps[name] = torch.nn.functional.normalize(chances * mask, p=1, dim=-1)
    steps |= {name: mask.sum().double() for name, mask in zip(("kept_by_k", "kept_by_p", "kept_by_min_p"), kept.values())}
    return {name: np.asarray(step) for name, step in steps.items()} | within("together", together(logits))


def together(logits):
    """All cuts, one after the other, each with what the one before it left."""
    scaled = torch.from_numpy(logits) / TEMPERATURE
    among_k = torch.zeros_like(scaled, dtype=torch.bool).scatter(-1, scaled.topk(TOP_K).indices, True)
    left = scaled.masked_fill(~among_k, -torch.inf)
    chances = torch.softmax(left, dim=-1)
    more = before(chances[0])[None]
    steps = {"logits": logits, "scaled": scaled, "among_k": among_k, "left": left, "chances": chances, "before": more, "in_nucleus": more < TOP_P,
             "likely": chances >= MIN_P * chances.max()}  # fmt: skip
    steps["kept"] = chances.masked_fill(~(steps["in_nucleus"] & steps["likely"]), 0)
    return steps | {"probabilities": steps["kept"] / steps["kept"].sum()}


def order(logits):
    temperatures = torch.tensor([0.5, 1, 2, 4], dtype=torch.float64)
    divided = torch.from_numpy(logits) / temperatures[:, None]
    chances = torch.softmax(divided, dim=-1)
    left = torch.stack([torch.where(before(row) < TOP_P, row, 0) for row in chances])
    probabilities = left / left.sum(dim=-1, keepdim=True)
    steps = {"temperatures": temperatures, "divided": divided, "chances": chances, "probabilities": probabilities, "sizes": (left > 0).sum(dim=-1).double()}
    return {"logits": logits, "top_p": np.array([TOP_P])} | {name: step.numpy() for name, step in steps.items()}


def chances_after(ids, file):
    return torch.softmax(torch.from_numpy(decoder(ids, file)["logits"]), dim=-1).numpy()


def speculate(drafted, draft, target, uniform):
    """Leviathan et al. 2023, algorithm 1, word by word: how many stand, and the probabilities of the next word."""
    ratios = [float(target[i, word] / draft[i, word]) for i, word in enumerate(drafted)]
    stands = [number < min(1, ratio) for number, ratio in zip(uniform, ratios)]
    accepted = stands.index(False) if False in stands else len(stands)
    if accepted == len(drafted):
        return accepted, target[accepted], None
    excess = np.maximum(target[accepted] - draft[accepted], 0)
    return accepted, excess / excess.sum(), excess


def counted(place, draft, target, all_rows):
    q, p, numbers = draft[place], target[place], even(planted.SplitMix(30), 3 * DRAWS).reshape(DRAWS, 3)
    words, again = np.zeros(len(p)), np.zeros(len(p))
    for guess_number, number, second in numbers:
        word = word_at(q, guess_number)
        accepted, chances, _ = speculate([word], q[None], np.stack([p, all_rows[place + 1]]), [number])
        words[word if accepted else word_at(chances, second)] += 1
        again[word if accepted else word_at(p, second)] += 1
    share, again_share = words / words.sum(), again / again.sum()
    off = lambda found: np.abs(found - p).max()
    return {"draws": DRAWS, "place": place, "chances": p, "deviation": np.sqrt(p - p**2) / DRAWS**0.5, "words": words, "share": share, "again": again,
            "again_share": again_share, "off": off(share), "again_off": off(again_share)}  # fmt: skip


def saved():
    rate, guesses, cost = np.array([0.5, 0.6, 0.7, 0.8, 0.9]), np.array([1, 2, 3, 4, 6, 8]), 0.2
    words = np.array([[sum(each**i for i in range(many + 1)) for many in guesses] for each in rate])  # 1 + a + a² + …
    return {"rate": rate, "guesses": guesses, "cost": cost, "words": words, "faster": words / (1 + cost * guesses)}


def written(prompt, large, small, end=0, positions=56):
    """The likeliest words, with four guesses of the draft for each call of the model."""
    text, calls = list(prompt), 0
    while text[-1] != end:
        guessed = list(text)
        while len(guessed) < min(len(text) + GUESSES, positions):
            guessed.append(int(decoder(guessed, small)["logits"][-1].argmax()))
        own, calls = decoder(guessed, large)["logits"].argmax(axis=1), calls + 1
        for place in range(len(text), len(guessed) + 1):
            text.append(int(own[place - 1]))
            if text[-1] == end or place == len(guessed) or guessed[place] != text[-1]:
                break
    words = len(text) - len(prompt)
    return {"words": float(words), "calls": float(calls), "words_each_call": words / calls}


def lesson_30():
    large, small = FOLDER / "model.safetensors", FOLDER / "draft.safetensors"
    ids = small_model.sentence_ids()
    words = decoder(ids, large)
    logits = words["logits"][-1:]
    golden = {"ids": ids, "temperature": [TEMPERATURE], "top_k": [TOP_K], "top_p": [TOP_P], "min_p": [MIN_P]} | within("words", words) | cut(logits)
    golden |= within("order", order(logits))

    draw, drafted = planted.SplitMix(SEED), []
    for _ in range(GUESSES):
        drafted.append(word_at(chances_after([*ids, *drafted], small)[-1], even(draw, 1)[0]))
    uniform = even(draw, GUESSES)
    text = [*ids, *drafted]
    runs = {"small": decoder(text, small), "large": decoder(text, large)}
    golden |= {"guesses": [GUESSES], "seed": [SEED], "drafted": drafted, "uniform": uniform, "text": text} | within("small", runs["small"]) | within("large", runs["large"])

    n = len(ids)
    chances = {name: torch.softmax(torch.from_numpy(run["logits"]), dim=-1).numpy() for name, run in runs.items()}
    draft, all_rows = chances["small"][n - 1 : n - 1 + GUESSES], chances["large"][n - 1 :]
    target = all_rows[:GUESSES]
    accepted, following, excess = speculate(drafted, draft, all_rows, uniform)
    q, p = (np.array([rows[i, word] for i, word in enumerate(drafted)]) for rows in (draft, target))
    steps = {"drafted": drafted, "uniform": uniform, "draft": draft, "target": all_rows, "is_drafted": np.eye(draft.shape[1])[drafted], "q": q, "p": p,
             "acceptance": np.minimum(1, p / q), "accepted": accepted, "excess": excess, "next": following}  # fmt: skip
    golden |= within("guess", steps)

    both = np.minimum(draft, target)
    overlap = both.sum(axis=1)
    more = np.maximum(target - draft, 0)
    again = both + (1 - overlap)[:, None] * target
    off = lambda other: 0.5 * np.abs(other - target).sum(axis=1)
    exact = {"draft": draft, "all_rows": all_rows, "target": target, "both": both, "accepted": overlap, "excess": more, "next": more / more.sum(axis=1)[:, None],
             "result": target, "again": again, "again_off": off(again), "draft_off": off(draft)}  # fmt: skip
    golden |= within("exact", exact) | within("counted", {"target": all_rows} | counted(int(off(again).argmax()), draft, target, all_rows)) | within("saved", saved())
    golden |= within("written", written(ids, large, small))
    return {name: np.asarray(array) for name, array in golden.items()}
