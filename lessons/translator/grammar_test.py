#!/usr/bin/env python3
"""Checks the sentences of the translator: what each can be in French, and what training does not see."""

import unittest

import grammar


class Sentences(unittest.TestCase):
    def test_an_article_agrees_with_the_word_that_follows_later(self):
        self.assertEqual(
            grammar.translations("Lily had a big red ball and a small black hat .".split()),
            {tuple("Lily avait une grande balle rouge et un petit chapeau noir . <end>".split()): 1.0},
        )

    def test_a_thing_with_three_words_has_three_translations(self):
        found = grammar.translations("Mia lost a white bike .".split())
        self.assertEqual(
            {" ".join(words): chance for words, chance in found.items()},
            {
                "Mia perdait un vélo blanc . <end>": 0.4, "Mia perdait une bicyclette blanche . <end>": 0.35,
                "Mia perdait une bécane blanche . <end>": 0.25,
            },
        )  # fmt: skip

    def test_every_pair_is_a_translation_of_known_words(self):
        known = set(grammar.vocabulary())
        for is_held_out in (False, True):
            for english, french in grammar.pairs(200, is_held_out, seed=3):
                self.assertIn(tuple(french), grammar.translations(english))
                self.assertAlmostEqual(sum(grammar.translations(english).values()), 1)
                self.assertLessEqual({*english, *french}, known)

    def test_training_never_sees_a_combination_that_is_held_out(self):
        def combinations(is_held_out):
            pairs = grammar.pairs(500, is_held_out, seed=4)
            return {(english[0], *words) for english, _ in pairs for words in zip(english, english[1:])
                    if words[0] in grammar.COLOURS and words[1] in grammar.THINGS}  # fmt: skip

        self.assertFalse(combinations(False) & combinations(True))
        self.assertIn(("Lily", "red", "ball"), combinations(True))


if __name__ == "__main__":
    unittest.main()
