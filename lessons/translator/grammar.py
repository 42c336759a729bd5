"""The sentences of the translator: English ones of a small grammar, and what each can be in French.

    Lily had a big red ball .   Lily avait une grande balle rouge .

The twist: French puts the colour after its thing, and article, size and colour agree with the gender of the French word
for the thing, which comes later. One thing, the bike, has three translations of different genders, so that the likeliest
first word does not begin the likeliest sentence.
"""

import itertools
import random

NAMES = ("Lily", "Mia", "Anna", "Tom", "Ben", "Max")
VERBS = {"had": "avait", "wanted": "voulait", "found": "trouvait", "lost": "perdait"}
SIZES = {"big": ("grand", "grande"), "small": ("petit", "petite")}
COLOURS = {
    "red": ("rouge", "rouge"), "blue": ("bleu", "bleue"), "green": ("vert", "verte"), "black": ("noir", "noire"),
    "white": ("blanc", "blanche"),
}  # fmt: skip
MASCULINE, FEMININE = 0, 1
# Of each thing: how often it is translated with which word.
THINGS = {
    "ball": {("balle", FEMININE): 1.0}, "car": {("voiture", FEMININE): 1.0}, "cup": {("tasse", FEMININE): 1.0},
    "doll": {("poupée", FEMININE): 1.0}, "kite": {("cerf-volant", MASCULINE): 1.0}, "book": {("livre", MASCULINE): 1.0},
    "hat": {("chapeau", MASCULINE): 1.0}, "boat": {("bateau", MASCULINE): 1.0},
    "bike": {("vélo", MASCULINE): 0.4, ("bicyclette", FEMININE): 0.35, ("bécane", FEMININE): 0.25},
}  # fmt: skip
START, END = "<start>", "<end>"
SIZE_CHANCE, AND_CHANCE = 0.3, 0.4
SENTENCE = "Lily had a red ball ."


def vocabulary():
    """Both languages in one table; a name and the full stop are the same word in both."""
    french = ["un", "une", "et", *VERBS.values(), *itertools.chain(*SIZES.values(), *COLOURS.values())]
    french += [word for words in THINGS.values() for word, _ in words]
    return list(dict.fromkeys([START, END, ".", *NAMES, *VERBS, "a", "and", *SIZES, *COLOURS, *THINGS, *french]))


def noun_phrase(size, colour, thing, word, gender):
    """ "a big red ball", "une grande balle rouge" """
    english = ["a", *([size] if size else []), colour, thing]
    french = [("un", "une")[gender], *([SIZES[size][gender]] if size else []), word, COLOURS[colour][gender]]
    return english, french


def held_out(name, colour, thing):
    """One combination in eight is never trained on: Lily's red ball is one of them."""
    places = [list(words).index(word) for words, word in ((NAMES, name), (COLOURS, colour), (THINGS, thing))]
    return sum(places) % 8 == 0


def pairs(count, of_held_out, seed):
    """English sentences and their translations, both as lists of words. Of the held out, every thing is a new combination."""
    draw = random.Random(seed)
    found = []
    while len(found) < count:
        name, verb = draw.choice(NAMES), draw.choice(list(VERBS))
        english, french, combinations = [name, verb], [name, VERBS[verb]], []
        while True:
            size = draw.choice(list(SIZES)) if draw.random() < SIZE_CHANCE else None
            colour, thing = draw.choice(list(COLOURS)), draw.choice(list(THINGS))
            word, gender = draw.choices(list(THINGS[thing]), list(THINGS[thing].values()))[0]
            phrases = noun_phrase(size, colour, thing, word, gender)
            english, french = english + phrases[0], french + phrases[1]
            combinations.append(held_out(name, colour, thing))
            if len(combinations) == 2 or draw.random() >= AND_CHANCE:
                break
            english, french = [*english, "and"], [*french, "et"]
        if all(given == of_held_out for given in combinations):
            found.append(([*english, "."], [*french, ".", END]))
    return found


def translations(english):
    """Every right translation of an English sentence, as tuples of words with the end, and its chance."""
    name, verb, *rest = english[:-1]
    phrases = [list(group) for other, group in itertools.groupby(rest, lambda word: word == "and") if not other]
    found = {(name, VERBS[verb]): 1.0}
    for place, (_, *size, colour, thing) in enumerate(phrases):
        joined = ("et",) if place else ()
        found = {
            (*said, *joined, *noun_phrase(size[0] if size else None, colour, thing, word, gender)[1]): chance * share
            for said, chance in found.items()
            for (word, gender), share in THINGS[thing].items()
        }
    return {(*said, ".", END): chance for said, chance in found.items()}
