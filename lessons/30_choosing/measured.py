"""Measures what cuts do to the small model's words, and how many guesses of several drafts it accepts.

    measured.py [FOLDER]

Writes measured.json to FOLDER, by default its own.
"""

import json
import sys
from pathlib import Path

LESSONS = Path(__file__).resolve().parents[1]
sys.path += [str(LESSONS), str(LESSONS / "small_model")]
import torch

import grammar
import recipe
from draft import Draft
from measure import batch_of
from model import ID, POSITIONS, VOCABULARY, SmallModel
from train import TRAINING_STORIES

HELD_OUT_STORIES, STORIES, GUESSES, BEGIN = 1000, 300, (1, 2, 3, 4, 6, 8), 1
CUTS = {
    "none": {}, "top_k_1": {"top_k": 1}, "top_k_5": {"top_k": 5}, "top_k_10": {"top_k": 10}, "top_p_90": {"top_p": 0.9}, "top_p_95": {"top_p": 0.95},
    "min_p_05": {"min_p": 0.05}, "min_p_10": {"min_p": 0.1}, "min_p_20": {"min_p": 0.2},
}  # fmt: skip
TEMPERATURES = (0.5, 1.0, 2.0)


# ------------------------------------------------------------------------------------------------------------------ cuts


def chances_of(logits, temperature=1.0, top_k=None, top_p=1.0, min_p=0.0):
    """As attn's token_probabilities(): (…, words) of logits."""
    chances = (logits / temperature).softmax(dim=-1)
    falling, order = chances.sort(dim=-1, descending=True, stable=True)
    kept = (falling.cumsum(dim=-1) - falling < top_p) & (falling >= min_p * falling[..., :1])
    if top_k:
        kept[..., top_k:] = False
    falling = falling * kept
    return torch.zeros_like(chances).scatter(-1, order, falling / falling.sum(dim=-1, keepdim=True))


def cuts(model):
    """For each cut, on held-out stories: the probability of words that the grammar does not allow there, and the words that it allows
    which were cut, by their probability in the grammar; averages over all words but the first."""
    stories = grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2)
    ids, _ = batch_of(stories)
    logits = model(ids)[0].double()
    true = torch.zeros_like(logits)
    counted = torch.zeros(ids.shape, dtype=torch.bool)
    for row, story in enumerate(stories):
        for place, step in enumerate(story[1:]):
            counted[row, place] = True
            for word, chance in step.chances.items():
                true[row, place, ID[word]] = chance
    logits, true = logits[counted], true[counted]
    found = {}
    for temperature in TEMPERATURES:
        for name, cut in CUTS.items():
            chances = chances_of(logits, temperature, **cut)
            found.setdefault(name, {})[f"{temperature:g}".replace(".", "_")] = {
                "wrong": chances[true == 0].sum().item() / len(chances), "lost": true[chances == 0].sum().item() / len(chances),
                "words": (chances > 0).sum().item() / len(chances),
            }  # fmt: skip
    return found


# ---------------------------------------------------------------------------------------------------------------- drafts


class WordBefore:
    """A table instead of a model: how often a word followed another in the training stories, and a hundredth more for each pair."""

    def __init__(self, stories):
        counts = torch.full((len(VOCABULARY), len(VOCABULARY)), 0.01)
        for story in stories:
            words = [ID[step.word] for step in story]
            for one, other in zip(words, words[1:]):
                counts[one, other] += 1
        self.logits = counts.log()

    def __call__(self, ids):
        return self.logits[ids], None


class FirstLayer:
    """The small model without its second layer, as nobody trained it."""

    def __init__(self, model):
        self.model = model

    def __call__(self, ids):
        layers = self.model.layers
        self.model.layers = layers[:1]
        logits = self.model(ids)
        self.model.layers = layers
        return logits


def after(model, ids, lengths, source, temperature):
    """The probabilities of the word after each text's last (texts, words), and a word that they draw."""
    chances = model(ids)[0][torch.arange(len(ids)), lengths - 1].double()
    chances = chances_of(chances, temperature) if temperature else torch.nn.functional.one_hot(chances.argmax(dim=-1), len(VOCABULARY)).double()
    return chances, torch.multinomial(chances, 1, generator=source)[:, 0]


def speculated(model, draft, guesses, temperature, seed=1):
    """Stories that the model writes with a draft, from their first word on: words written, calls of the model, and by story the text.

    Every text is at another place, so that its guesses stand in a table of its own.
    """
    source = torch.Generator().manual_seed(seed)
    rows = torch.arange(STORIES)
    names = torch.tensor([ID[name] for name in grammar.NAMES])
    ids = torch.zeros(STORIES, POSITIONS + guesses + 1, dtype=torch.long)
    ids[:, 0] = names[rows % len(names)]
    lengths = torch.ones(STORIES, dtype=torch.long)
    calls = accepted_guesses = judged = 0
    ids_of = lambda: ids[:, :POSITIONS]
    is_open = torch.ones(STORIES, dtype=torch.bool)
    while is_open.any():
        begin, q = lengths.clone(), []
        many = min(guesses, int(POSITIONS - lengths[is_open].max()))  # no text may grow beyond the positions
        for _ in range(many):
            chances, word = after(draft, ids_of(), lengths, source, temperature)
            ids[rows, lengths] = word
            lengths = (lengths + 1).clamp(max=POSITIONS - 1)
            q.append(chances)
        logits = model(ids_of())[0].double()
        standing, new = is_open.clone(), begin.clone()
        for i in range(many + 1):
            at = (begin + i - 1).clamp(max=POSITIONS - 1)
            p = logits[rows, at]
            p = chances_of(p, temperature) if temperature else torch.nn.functional.one_hot(p.argmax(dim=-1), len(VOCABULARY)).double()
            rest, is_accepted = p, torch.zeros(STORIES, dtype=torch.bool)
            if i < many:
                guess = ids[rows, (begin + i).clamp(max=POSITIONS - 1)]
                ratio = p[rows, guess] / q[i][rows, guess].clamp(min=1e-300)
                is_accepted = standing & (torch.rand(STORIES, generator=source, dtype=torch.double) < ratio)
                excess = (p - q[i]).clamp(min=0)
                rest = torch.where(excess.sum(dim=-1, keepdim=True) > 0, excess, p)
                judged += int(standing.sum())
                accepted_guesses += int(is_accepted.sum())
            drawn = torch.multinomial(rest, 1, generator=source)[:, 0]
            word = torch.where(is_accepted, ids[rows, (begin + i).clamp(max=POSITIONS - 1)], drawn)
            ids[rows[standing], (begin + i)[standing]] = word[standing]
            new[standing] += 1
            standing = is_accepted & (word != ID[grammar.END]) & (new < POSITIONS)
        calls += int(is_open.sum())
        lengths = torch.where(is_open, new, begin)
        is_open = is_open & (ids[rows, lengths - 1] != ID[grammar.END]) & (lengths < POSITIONS)
    words = int((lengths - BEGIN).sum())
    return {"words_each_call": words / calls, "accepted": accepted_guesses / judged, "words": words, "calls": calls}


def drafts(model):
    draft = Draft().eval()
    recipe.load(LESSONS / "small_model" / "draft.safetensors", draft)
    size = lambda each: sum(parameter.numel() for parameter in each.parameters())
    table = WordBefore(grammar.stories(TRAINING_STORIES, held_out=False, seed=1))
    kinds = {"word_before": (table, table.logits.numel()), "first_layer": (FirstLayer(model), None), "draft": (draft, size(draft)), "itself": (model, size(model))}
    ids, targets = batch_of(grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2))
    is_word = targets >= 0
    p = model(ids)[0][is_word].double().softmax(dim=-1)
    found = {"parameters": size(model), "stories": STORIES}
    for name, (kind, parameters) in kinds.items():
        if parameters is None:
            parameters = size(model) - size(model.layers[1])
        q = kind(ids)[0][is_word].double().softmax(dim=-1)
        found[name] = {"parameters": parameters, "share": parameters / size(model), "overlap": torch.minimum(p, q).sum(dim=-1).mean().item(),
                       "matches": (p * q).sum(dim=-1).mean().item(), "guesses": {}}  # fmt: skip
        for guesses in GUESSES:
            if name != "itself":
                found[name]["guesses"][guesses] = speculated(model, kind, guesses, 1.0)
        print(name, found[name], flush=True)
    return found


@torch.no_grad()
def main(folder):
    model = SmallModel().eval()
    recipe.load(LESSONS / "small_model" / "model.safetensors", model)
    found = {"stories": HELD_OUT_STORIES, "cuts": cuts(model), "drafts": drafts(model)}
    (folder / "measured.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(recipe.run(main, __file__, __doc__))
