"""The stories of the small model: a grammar, and the distribution of each next word given the story so far.

A story is told by one function that takes every decision by choosing the next word. So the words so far always say
where in the grammar a story stands, and the distribution of the next word, given all of them, is known exactly.
"""

import itertools
import math
import random
from typing import Callable, NamedTuple

GIRLS = ("Lily", "Mia", "Anna", "Zoe")
BOYS = ("Tom", "Ben", "Max", "Sam")
NAMES = GIRLS + BOYS
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "pink", "brown")
THINGS = ("ball", "kite", "hat", "cup", "car", "book", "box", "drum")
PLACES = ("park", "shop", "beach", "farm", "zoo", "lake", "school", "library")
MOODS = ("happy", "glad", "sad")
END = "<end>"
SENTENCE = "Lily had a red ball . She"  # the first words of a held-out story

# The chance of each decision that is not even.
SIZE_CHANCE = 0.3
WAYS = {"took": 0.3, "carried": 0.2, "lost": 0.15, "found": 0.15, "played": 0.2}
TO = ("took", "carried")


class Combination(NamedTuple):
    """What a story is about."""

    name: str
    colour: str
    thing: str
    place: str


class Step(NamedTuple):
    """One word of a story, and what the next word could have been when it was chosen."""

    word: str
    chances: dict[str, float]


Choose = Callable[[dict[str, float]], str]


def even(words) -> dict[str, float]:
    """The distribution in which each word is as likely as each other."""
    return {word: 1 / len(words) for word in words}


def tell(choose: Choose) -> None:
    """Tell one story. `choose` is given the distribution of the next word and returns the word."""

    def say(text: str) -> None:
        for word in text.split():
            choose({word: 1.0})

    def name_thing(pronoun: str, thing: str) -> None:
        """ "it", "the ball" or "her ball"."""
        her = "her" if pronoun == "She" else "his"
        if choose({"the": 0.5, "it": 0.25, her: 0.25}) != "it":
            say(thing)

    # Lily had a big red ball .
    name = choose(even(NAMES))
    pronoun = "She" if name in GIRLS else "He"
    choose(even(("had", "got", "made")))
    say("a")
    colours = {colour: (1 - SIZE_CHANCE) / len(COLOURS) for colour in COLOURS}
    colour = choose(colours | {size: SIZE_CHANCE / 2 for size in ("big", "small")})
    if colour not in COLOURS:
        colour = choose(even(COLOURS))
    thing = choose(even(THINGS))
    say(".")

    # She took the ball to the park .
    say(pronoun)
    way = choose(WAYS)
    if way == "played":
        say("with")
    name_thing(pronoun, thing)
    say("to the" if way in TO else "at the")
    place = choose(even(PLACES))
    say(".")

    # The ball was red . She was happy at the park . In either order, or only one of them.
    left = ["The", pronoun]
    opening = choose(even(left))
    while opening != "Then":
        left.remove(opening)
        if opening == "The":
            say(f"{thing} was {colour} .")
        else:
            say("was")
            choose(even(MOODS))
            say(f"at the {place} .")
        opening = choose(even([*left, "Then"]))

    # Then Lily took the ball home .
    say(name)
    if choose(even(("took", "went"))) == "took":
        name_thing(pronoun, thing)
    say("home .")
    say(END)


def combination_of(words: list[str]) -> Combination:
    """What a story is about."""
    return Combination(*(next(word for word in words if word in kind) for kind in (NAMES, COLOURS, THINGS, PLACES)))


def random_story(source: random.Random) -> list[Step]:
    """A story, with the distribution from which each word was drawn."""
    steps = []

    def draw(chances: dict[str, float]) -> str:
        word = source.choices(list(chances), list(chances.values()))[0]
        steps.append(Step(word, chances))
        return word

    tell(draw)
    return steps


class _Heard(Exception):
    """The words that were given are used up."""


def next_words(words: list[str]) -> dict[str, float]:
    """The exact distribution of the word after these; empty after the end of a story.

    Raises ValueError where no story begins with these words.
    """
    rest = list(words)
    found: dict[str, float] = {}

    def follow(chances: dict[str, float]) -> str:
        if not rest:
            found.update(chances)
            raise _Heard
        word = rest.pop(0)
        if word not in chances:
            raise ValueError(f"no story goes on with {word!r} here; it can go on with {', '.join(chances)}")
        return word

    try:
        tell(follow)
    except _Heard:
        return found
    if rest:
        raise ValueError(f"a story has ended before {rest[0]!r}")
    return {}


def entropy(chances: dict[str, float]) -> float:
    """The loss in nats that no model can go below on average: -sum p log p."""
    return -sum(p * math.log(p) for p in chances.values() if p > 0)


def held_out_combinations(share: float = 0.1, seed: int = 0) -> set[Combination]:
    """The combinations of name, colour, thing and place that training does not see, with that of SENTENCE among them."""
    everything = [Combination(*words) for words in itertools.product(NAMES, COLOURS, THINGS, PLACES)]
    held_out = set(random.Random(seed).sample(everything, round(share * len(everything))))
    return held_out | {Combination("Lily", "red", "ball", "park")}


def stories(count: int, held_out: bool, seed: int) -> list[list[Step]]:
    """Stories of held-out combinations, or of all others."""
    apart = held_out_combinations()
    source = random.Random(seed)
    found: list[list[Step]] = []
    while len(found) < count:
        story = random_story(source)
        if (combination_of([step.word for step in story]) in apart) == held_out:
            found.append(story)
    return found


def vocabulary() -> list[str]:
    """Every word of every story; a word's place is its id."""
    return [
        END, ".", *NAMES, "She", "He", "her", "his", "it", "a", "the", "The", "Then",
        "had", "got", "made", "big", "small", *COLOURS, *THINGS, *WAYS, "with", "to", "at", *PLACES,
        "was", *MOODS, "went", "home",
    ]  # fmt: skip
