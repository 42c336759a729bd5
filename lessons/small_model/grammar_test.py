"""Whether the grammar tells the stories that it says it tells, and knows what can come next."""

import json
import math
import random
import unittest
from collections import Counter
from pathlib import Path

import grammar

FOLDER = Path(__file__).resolve().parent


def words_of(story):
    return [step.word for step in story]


class Stories(unittest.TestCase):
    def setUp(self):
        self.stories = [grammar.random_story(random.Random(seed)) for seed in range(300)]

    def test_use_every_word_of_the_vocabulary_and_no_other(self):
        used = {word for story in self.stories for word in words_of(story)}
        self.assertEqual(used, set(grammar.vocabulary()))
        self.assertEqual(len(grammar.vocabulary()), len(used))
        self.assertTrue(40 <= len(used) <= 120)

    def test_fit_the_positions_of_the_model(self):
        positions = json.loads((FOLDER / "config.json").read_text())["positions"]
        self.assertLessEqual(max(len(grammar.random_story(random.Random(seed))) for seed in range(3000)), positions)

    def test_are_about_one_name_one_place_and_up_to_three_things(self):
        counts = Counter()
        for story in self.stories:
            words = words_of(story)
            for kind in (grammar.NAMES, grammar.PLACES):
                self.assertEqual(len({word for word in words if word in kind}), 1)
            first = words[: words.index(".")]
            counts[first.count("a")] += 1
            for kind in (grammar.COLOURS, grammar.THINGS):
                self.assertEqual(sum(word in kind for word in first), first.count("a"))
            girl = words[0] in grammar.GIRLS
            self.assertEqual(girl, "She" in words)
            self.assertNotEqual(girl, "He" in words)
            self.assertFalse({"his"} & set(words) if girl else {"her"} & set(words))
        self.assertEqual(set(counts), {1, 2, 3})

    def test_give_a_thing_the_colour_that_it_had_at_first(self):
        for story in self.stories:
            words = words_of(story)
            pairs = {(colour, thing) for _, colour, thing, _ in grammar.combinations_of(words)}
            for colour, thing in zip(words, words[1:]):
                if colour in grammar.COLOURS and thing in grammar.THINGS:
                    self.assertIn((colour, thing), pairs)

    def test_end_once(self):
        for story in self.stories:
            self.assertEqual(words_of(story).index(grammar.END), len(story) - 1)


class NextWord(unittest.TestCase):
    def test_distributions_are_those_that_the_story_was_drawn_from(self):
        story = grammar.random_story(random.Random(1))
        words = words_of(story)
        for place, step in enumerate(story):
            self.assertEqual(grammar.next_words(words[:place]), step.chances)
            self.assertAlmostEqual(sum(step.chances.values()), 1)
        self.assertEqual(grammar.next_words(words), {})

    def test_is_known_where_the_story_has_said_it(self):
        for prompt, word in (
            ("Lily had a red ball .", "She"),
            ("Tom had a red ball .", "He"),
            ("Lily had a red ball . She took the ball to the park . The ball was", "red"),
            ("Lily had a red ball . She took it to the park . She was happy at the", "park"),
            ("Lily had a red ball . She took it to the park . The ball was red . Then", "Lily"),
            ("Lily had a red ball and a blue kite . She took the blue", "kite"),
            ("Lily had a red ball and a blue kite . She took the red", "ball"),
            ("Lily had a red ball and a blue kite and a pink hat . She took the blue kite to the park . The pink", "hat"),
            ("Lily had a red ball . She took it to the park . Again Lily took", "it"),
        ):
            self.assertEqual(grammar.next_words(prompt.split()), {word: 1.0})

    def test_frequencies_in_stories_are_the_distributions(self):
        second = Counter(words_of(grammar.random_story(random.Random(seed)))[1] for seed in range(3000))
        chances = grammar.next_words(["Lily"])
        self.assertEqual(set(second), set(chances))
        for word, p in chances.items():
            self.assertLess(abs(second[word] / 3000 - p), 0.04)

    def test_entropy_is_that_of_the_distribution(self):
        self.assertEqual(grammar.entropy({"red": 1.0}), 0)
        self.assertAlmostEqual(grammar.entropy(grammar.even("abcdefgh")), math.log(8))
        self.assertAlmostEqual(grammar.entropy({"a": 0.75, "b": 0.25}), 0.5623351446)

    def test_words_that_begin_no_story_are_refused(self):
        with self.assertRaisesRegex(ValueError, "'blue'"):
            grammar.next_words("Lily had a red ball . She took it to the park . The ball was blue".split())
        with self.assertRaisesRegex(ValueError, "has ended"):
            grammar.next_words(words_of(grammar.random_story(random.Random(1))) + ["Lily"])


class HeldOut(unittest.TestCase):
    def test_combinations_are_a_tenth_and_the_sentences_own_is_among_them(self):
        held_out = grammar.held_out_combinations()
        self.assertIn(len(held_out), (409, 410, 411))
        self.assertIn(grammar.Combination("Lily", "red", "ball", "park"), held_out)
        self.assertEqual(held_out, grammar.held_out_combinations())

    def test_stories_are_of_other_combinations_than_those_trained_on(self):
        apart = grammar.held_out_combinations()
        for held_out in (True, False):
            for story in grammar.stories(200, held_out, seed=3):
                self.assertEqual(bool(grammar.combinations_of(words_of(story)) & apart), held_out)

    def test_combinations_name_every_thing_with_its_colour(self):
        found = grammar.combinations_of("Lily had a big red ball and a blue kite . She took the ball to the park .".split())
        self.assertEqual(found, {("Lily", "red", "ball", "park"), ("Lily", "blue", "kite", "park")})


if __name__ == "__main__":
    unittest.main()
