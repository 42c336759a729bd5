"""The stories of the small model: a grammar, and the distribution of each next word given the story so far.

A story is told by one function that takes every decision by choosing the next word. So the words so far always say
where in the grammar a story stands, and the distribution of the next word, given all of them, is known exactly.
"""

import itertools
import math
import random
from collections import Counter
from typing import Callable, NamedTuple

GIRLS = ("Lily", "Mia", "Anna", "Zoe")
BOYS = ("Tom", "Ben", "Max", "Sam")
NAMES = GIRLS + BOYS
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "pink", "brown")
THINGS = ("ball", "kite", "hat", "cup", "car", "book", "box", "drum")
PLACES = ("park", "shop", "beach", "farm", "zoo", "lake", "school", "library")
SIZES = ("big", "small")
AGES = ("old", "new")
MOODS = ("happy", "glad", "sad")
MOST_THINGS = 3
END = "<end>"
SENTENCE = "Lily had a red ball . She"  # the first words of a held-out story

# The chance of each decision that is not even.
SIZE_CHANCE = 0.3
AND_CHANCE = 0.75
WAYS = {"took": 0.3, "carried": 0.2, "lost": 0.15, "found": 0.15, "played": 0.2}
TO = ("took", "carried")


class Combination(NamedTuple):
    """What a story is about: who had which thing, and the place of the story."""

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
    told: list[str] = []
    things: list[list[str]] = []  # such as ["big", "red", "ball"]

    def say_one(chances: dict[str, float]) -> str:
        told.append(choose(chances))
        return told[-1]

    def say(text: str) -> None:
        for word in text.split():
            say_one({word: 1.0})

    def name_one() -> None:
        """ "ball"; of several things "red ball", since the colour says which."""
        left = [words[-1:] if len(things) == 1 else words[-2:] for words in things]
        while left:
            counts = Counter(words[0] for words in left)
            said = say_one({word: count / len(left) for word, count in counts.items()})
            left = [words[1:] for words in left if words[0] == said and len(words) > 1]

    def another_thing() -> list[str]:
        """ "red ball" or "big red ball"."""
        say("a")
        colours = {colour: (1 - SIZE_CHANCE) / len(COLOURS) for colour in COLOURS}
        words = [say_one(colours | {size: SIZE_CHANCE / len(SIZES) for size in SIZES})]
        if words[0] in SIZES:
            words.append(say_one(even(COLOURS)))
        return [*words, say_one(even(THINGS))]

    def name_thing() -> None:
        """ "it", "the ball" or "her ball"; of several things "the red ball" or "her red ball"."""
        if say_one({"the": 0.5, "it": 0.25, her: 0.25} if len(things) == 1 else {"the": 0.7, her: 0.3}) != "it":
            name_one()

    # Lily had a big red ball and a blue kite .
    name = say_one(even(NAMES))
    pronoun, her = ("She", "her") if name in GIRLS else ("He", "his")
    say_one(even(("had", "got", "made")))
    things.append(another_thing())
    while len(things) < MOST_THINGS and say_one({"and": AND_CHANCE, ".": 1 - AND_CHANCE}) == "and":
        things.append(another_thing())
    if len(things) == MOST_THINGS:
        say(".")

    # She took the ball to the park .
    say(pronoun)
    begin = len(told)
    way = say_one(WAYS)
    if way == "played":
        say("with")
    name_thing()
    say("to the" if way in TO else "at the")
    place = say_one(even(PLACES))
    say(".")
    deed = " ".join(told[begin:])

    # The ball was red .   Or, of several things: The blue kite was old .   And: She was happy at the park .
    left = {"The": 3, pronoun: 1, "Then": 1, "Again": 1}
    while (opening := say_one({word: weight / sum(left.values()) for word, weight in left.items()})) in ("The", pronoun):
        del left[opening]
        if opening == pronoun:
            say("was")
            say_one(even(MOODS))
            say(f"at the {place} .")
        else:
            name_one()
            say("was")
            say_one(even(AGES if len(things) > 1 else things[0][-2:-1]))
            say(".")

    # Then Lily took the ball home .   Or: Again Lily took the ball to the park .
    say(name)
    if opening == "Again":
        say(deed)
    else:
        if say_one(even(("took", "went"))) == "took":
            name_thing()
        say("home .")
    say(END)


def combinations_of(words: list[str]) -> set[Combination]:
    """What a story is about, for each of its things."""
    place = next(word for word in words if word in PLACES)
    first = words[: words.index(".")]
    return {Combination(words[0], *pair, place) for pair in zip(first, first[1:]) if pair[1] in THINGS}


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
    """Stories with a held-out combination in each, or stories with none."""
    apart = held_out_combinations()
    source = random.Random(seed)
    found: list[list[Step]] = []
    while len(found) < count:
        story = random_story(source)
        if bool(combinations_of([step.word for step in story]) & apart) == held_out:
            found.append(story)
    return found


def vocabulary() -> list[str]:
    """Every word of every story; a word's place is its id."""
    return [
        END, ".", *NAMES, "She", "He", "her", "his", "it", "a", "the", "The", "Then",
        "had", "got", "made", *SIZES, *COLOURS, *THINGS, *WAYS, "with", "to", "at", *PLACES,
        "was", *MOODS, "went", "home", "and", "Again", *AGES,
    ]  # fmt: skip
