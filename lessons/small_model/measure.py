"""What the small model has learned: its loss against the grammar's entropy, and the average weights of its heads."""

import math

import torch
from torch.nn import functional as F

import grammar
from model import HEADS, ID, VOCABULARY

PADDING = -100  # a target that cross_entropy leaves out

# ------------------------------------------------------------------------------------------------------- heads by name
#
# Each function gives, of one story, the pairs (from, to) that a head of that name would connect: `from` is the place of
# the word that attends, `to` lists the places whose weights are summed.


def previous_word(words):
    """Each word to the word before it."""
    return [(i, [i - 1]) for i in range(1, len(words))]


def colour_before_thing(words):
    """A thing of the first sentence, to the colour before it."""
    return [(i, [i - 1]) for i in range(words.index(".")) if words[i] in grammar.THINGS]


def thing_after_colour(words):
    """A colour said again, to the thing that it was said of."""
    first = [i for i in range(words.index(".")) if words[i] in grammar.THINGS]
    again = [i for i in range(words.index("."), len(words) - 1) if words[i] in grammar.COLOURS and words[i + 1] in grammar.THINGS]
    return [(i, [j for j in first if words[j - 1] == words[i]]) for i in again]


def name_for_pronoun(words):
    """The full stop after which She or He is next, to the name."""
    names = [i for i, word in enumerate(words) if word in grammar.NAMES]
    before = [i for i in range(len(words) - 1) if words[i] == "." and words[i + 1] in ("She", "He")]
    return [(i, [j for j in names if j < i]) for i in before]


def name_at_pronoun(words):
    """She or He itself, to the name."""
    names = [i for i, word in enumerate(words) if word in grammar.NAMES]
    return [(i, [j for j in names if j < i]) for i, word in enumerate(words) if word in ("She", "He")]


def first_mention(words, before, kind):
    """Each place of a word after which one of that kind is next that was said before, to where it was said first."""
    again = [i for i in range(len(words) - 1) if words[i] == before and words[i + 1] in kind]
    return [(i, [words.index(words[i + 1])]) for i in again if words.index(words[i + 1]) < i]


def colour_of_thing(words):
    """`was` of "The ball was", to the colour."""
    return first_mention(words, "was", grammar.COLOURS)


def thing_again(words):
    """`The`, to the thing."""
    return first_mention(words, "The", grammar.THINGS)


def place_again(words):
    """`the` of "She was happy at the", to the place."""
    return first_mention(words, "the", grammar.PLACES)


def name_again(words):
    """`Then`, to the name."""
    return first_mention(words, "Then", grammar.NAMES)


ROLES = (
    previous_word, colour_before_thing, thing_after_colour, name_for_pronoun, name_at_pronoun, colour_of_thing, thing_again,
    place_again, name_again,
)  # fmt: skip


def average_weights(maps, stories, role):
    """Of each layer and head: the average weight on what the role connects, over all pairs of all stories."""
    pairs = [(row, *pair) for row, story in enumerate(stories) for pair in role([step.word for step in story])]
    cells = [(row, source, target) for row, source, targets in pairs for target in targets]
    rows, sources, targets = (list(places) for places in zip(*cells))
    return torch.stack([layer[rows, :, sources, targets].double().sum(0) for layer in maps]) / len(pairs)


def named_head(maps, stories, role):
    """The head with the largest average weight, and that of every head."""
    averages = average_weights(maps, stories, role)
    layer, head = divmod(int(averages.argmax()), HEADS)
    every = [[round(weight, 4) for weight in row] for row in averages.tolist()]
    return {
        "connects": role.__doc__.rstrip("."), "layer": layer, "head": head, "average_weight": every[layer][head],
        "average_weight_by_layer_and_head": every,
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- losses


def batch_of(stories):
    """Ids (stories, n) and the next word's id at each of them; shorter stories are padded at their end."""
    longest = max(map(len, stories))
    ids = torch.full((len(stories), longest), ID[grammar.END])
    targets = torch.full((len(stories), longest), PADDING)
    for row, story in enumerate(stories):
        numbers = torch.tensor([ID[step.word] for step in story])
        ids[row, : len(story)] = numbers
        targets[row, : len(story) - 1] = numbers[1:]
    return ids, targets


def loss_of(logits, targets):
    """-log p of the next word, in nats, averaged over all words but the first of each story."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PADDING)


def expected_loss(logits, stories):
    """The same averaged over what the grammar could have said, too: -sum p log q, of which the least is the entropy."""
    log_q = logits.double().log_softmax(-1).tolist()
    losses = [
        -sum(p * log_q[row][place][ID[word]] for word, p in step.chances.items())
        for row, story in enumerate(stories)
        for place, step in enumerate(story[1:])
    ]
    return sum(losses) / len(losses)


def chance(model, prompt, word):
    """The probability that the model gives a word after a prompt."""
    logits, _ = model(torch.tensor([[ID[each] for each in prompt.split()]]))
    return logits[0, -1].double().softmax(0)[ID[word]].item()


ASKED = (
    ("Lily had a red ball . She took the ball to the park . The ball was", "red"),
    ("Lily had a red ball .", "She"),
    ("Lily had a red ball and a blue kite . She took the blue", "kite"),
    ("Lily had a red ball and a blue kite . She took the red", "ball"),
)


@torch.no_grad()
def report(model, stories):
    """What report.json says."""
    ids, targets = batch_of(stories)
    logits, maps = model(ids)
    steps = [step for story in stories for step in story[1:]]
    entropy = sum(grammar.entropy(step.chances) for step in steps) / len(steps)
    expected = expected_loss(logits, stories)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "words": len(VOCABULARY),
        "held_out_stories": len(stories),
        "held_out_loss": loss_of(logits.double(), targets).item(),
        "grammar_loss_of_the_same_words": -sum(math.log(step.chances[step.word]) for step in steps) / len(steps),
        "held_out_expected_loss": expected,
        "grammar_entropy": entropy,
        "above_entropy": expected / entropy - 1,
        "chances": [{"prompt": prompt, "word": word, "chance": chance(model, prompt, word)} for prompt, word in ASKED],
        "heads": {role.__name__: named_head(maps, stories, role) for role in ROLES},
    }


def say(found):
    """The report in words."""
    print(f"{found['parameters']} parameters, {found['words']} words")
    print(f"held-out stories: loss {found['held_out_loss']:.4f}, the grammar's own {found['grammar_loss_of_the_same_words']:.4f}")
    print(
        f"expected loss {found['held_out_expected_loss']:.4f}, entropy of the grammar {found['grammar_entropy']:.4f}: "
        f"{100 * found['above_entropy']:.2f} % above it"
    )
    for asked in found["chances"]:
        print(f"P({asked['word']} | {asked['prompt']}) = {asked['chance']:.4f}")
    for name, head in found["heads"].items():
        print(f"{name:19} layer {head['layer']} head {head['head']}  {head['average_weight']:.4f}  {head['connects']}")
