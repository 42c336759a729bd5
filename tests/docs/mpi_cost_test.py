#!/usr/bin/env python3
"""Tests of the model of docs/mpi_cost.md: against numbers worked out by hand, what the library counted, and what was measured."""

import json
import statistics
import sys
import unittest
from dataclasses import replace
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import make_pages_test  # noqa: E402
from generator import mpi_cost as model  # noqa: E402
from generator import mpi_cost_tables  # noqa: E402

SMALL = model.Layer(d_model=6, heads=3, d_ff=10)
# One multiply-add, byte or message per second, and free memory: what is counted becomes seconds.
UNIT = model.Machine(number=1, products=1, attention=1, memory=float("inf"), near=model.Link(0, 1), far=model.Link(0, 1))


class ByHand(unittest.TestCase):
    """Twelve tokens on three ranks of four tokens and one head of two features each; a layer of 4 · 36 + 2 · 60 = 264 weights."""

    def test_ring(self):
        cost = model.ring(SMALL, 12, 3)
        self.assertEqual((cost.maps, cost.attention), (4 * 264, 2 * 4 * 12 * 6))
        self.assertEqual((cost.sent, cost.messages), (2 * (2 * 4 * 6), 2))  # two hops with keys and values of four tokens
        # Keys and values are read and written once; after each of three hops two merges read two tensors and write one.
        self.assertEqual(cost.moved, 2 * (2 * 4 * 6) + 3 * 2 * (3 * 4 * 6))
        # Weights; the input; queries, keys, values and context; two blocks; partial results of a hop and of a pair; sums and factors.
        self.assertEqual(cost.memory, 264 + 24 + 4 * 24 + 2 * 48 + 2 * 4 * (6 + 2 * 3) + 4 * 4 * 3)

    def test_ulysses(self):
        cost = model.ulysses(SMALL, 12, 3)
        self.assertEqual((cost.maps, cost.attention), (4 * 264, 2 * 12 * 12 * 2))
        # To each of two other ranks: queries, keys and values of one head of four tokens; then one head's contexts of its four tokens.
        self.assertEqual((cost.sent, cost.messages), (2 * (3 * 4 * 2) + 2 * (4 * 2), 4))
        self.assertEqual(cost.moved, 4 * (12 * 2) * (2 + 4))  # four tensors: read, written; cleared, read twice, written
        # Weights; the input; queries, keys, values and context of tokens; of a head, with its sums; the first exchange, both sides.
        self.assertEqual(cost.memory, 264 + 24 + 4 * 24 + 12 * (4 * 2 + 2) + 3 * 24 + 3 * 24)

    def test_tensor_parallel(self):
        cost = model.tensor_parallel(SMALL, 12, 3)
        self.assertEqual((cost.maps, cost.attention), (12 * (4 * 6 * 2 + 2 * 6 * 4), 2 * 12 * 12 * 2))  # 10 hidden units: 4, 3, 3
        self.assertEqual((cost.sent, cost.messages), (2 * (4 * (12 * 6 / 3)), 8))  # two sums of four messages with a third each
        self.assertEqual(cost.moved, 2 * 2 * 3 * 24)  # two sums of two thirds of 72 numbers that arrive: two are read, one written
        # Its part of the weights; the input and the sum of all tokens; queries, keys, values and context of a head.
        self.assertEqual(cost.memory, (4 * 6 * 2 + 2 * 6 * 4) + 2 * 72 + 4 * 24)

    def test_one_rank_computes_the_same_in_each_way_and_sends_nothing(self):
        for name, way in model.WAYS.items():
            with self.subTest(name):
                cost = way(SMALL, 12, 1)
                self.assertEqual((cost.maps, cost.attention), (12 * 264, 2 * 144 * 6))
                self.assertEqual((cost.sent, cost.messages, model.travelling(cost, UNIT, 1)), (0, 0, 0))

    def test_more_ranks_than_heads_help_the_ring_alone(self):
        for name, way in model.WAYS.items():
            with self.subTest(name):
                on_heads, on_more = (way(SMALL, 48, ranks).attention for ranks in (3, 12))
                self.assertEqual(on_heads / on_more, 4 if name == "ring" else 1)


class Seconds(unittest.TestCase):
    def test_the_ring_waits_below_so_many_tokens_per_rank_and_not_above(self):
        link = model.Link(0, 2)
        machine = replace(UNIT, number=4, attention=50, near=link, far=link)
        least = model.tokens_that_hide(machine, link)
        self.assertEqual(least, 100)
        for n, waits in ((least - 1, True), (least, False), (least + 1, False)):
            with self.subTest(n):
                messages = model.parts(model.ring(SMALL, 5 * n, 5), machine, 5)["messages"]
                self.assertEqual(messages > 1e-6, waits)

    def test_nothing_hides_where_cores_move_the_messages(self):
        cost = model.ring(SMALL, 5000, 5)
        self.assertEqual(model.parts(cost, replace(UNIT, overlaps=False), 5)["messages"], cost.sent)
        self.assertEqual(model.parts(model.ulysses(SMALL, 5000, 5), UNIT, 5)["messages"], model.ulysses(SMALL, 5000, 5).sent)

    def test_four_ranks_on_two_cores_compute_no_faster_than_two(self):
        two, four = (model.parts(model.ring(SMALL, 48, ranks), replace(UNIT, cores=2), ranks) for ranks in (2, 4))
        self.assertEqual((four["maps"], four["attention"]), (two["maps"], two["attention"]))

    def test_links_change_where_a_node_ends(self):
        machine = replace(UNIT, near=model.Link(1, 1), far=model.Link(100, 1), node=8)
        self.assertEqual((machine.link(8).latency, machine.link(9).latency), (1, 100))

    def test_few_tokens_wait_for_weights(self):
        machine = replace(UNIT, products=1e9, memory=2)
        self.assertEqual(model.parts(model.ring(SMALL, 1, 1), machine, 1)["maps"], 264 / 2)

    def test_the_longest_sequence_fits_and_one_more_token_does_not(self):
        machine = replace(UNIT, capacity=10_000)
        for name, way in model.WAYS.items():
            with self.subTest(name):
                longest = model.longest(way, SMALL, machine, 1)
                self.assertGreater(longest, 1)
                self.assertTrue(model.fits(way(SMALL, longest, 1), machine))
                self.assertFalse(model.fits(way(SMALL, longest + 1, 1), machine))

    def test_a_link_is_found_again_from_its_times(self):
        rows = [{"size": size, "seconds": 2e-6 + size / 5e9} for size in (8, 1000, 10**5, 10**7)]
        link = model.fitted(rows)
        self.assertAlmostEqual(link.latency / 2e-6, 1)
        self.assertAlmostEqual(link.bandwidth / 5e9, 1)


class Claims(unittest.TestCase):
    """What the page says in words about the large layer, on a grid of ranks and tokens."""

    grid = [(2**i, 1024 * 2**j) for i in range(1, 11) for j in range(14)]
    measured = model.Measured(ROOT)
    machines = (model.PUBLISHED, mpi_cost_tables.alone(measured.machine))

    def test_tensor_parallel_is_alone_the_fastest_only_where_others_lack_memory(self):
        for machine in self.machines:
            for ranks, tokens in self.grid:
                if model.fastest_ways(model.LARGE, machine, tokens, ranks) == ["tensor parallel"]:
                    others = [model.WAYS[name](model.LARGE, tokens, ranks) for name in ("ring", "Ulysses")]
                    self.assertFalse(any(model.fits(cost, machine) for cost in others), (ranks, tokens))

    def test_from_three_to_h_ranks_ulysses_sends_least(self):
        for ranks in (3, 4, 8, 16, 32):
            sent = {name: way(model.LARGE, 96 * 1024, ranks).sent for name, way in model.WAYS.items()}
            self.assertEqual(min(sent, key=sent.get), "Ulysses")
            self.assertAlmostEqual(sent["tensor parallel"] / sent["ring"], 2)

    def test_long_sequences_beyond_h_ranks_are_those_of_the_ring(self):
        for machine in self.machines:
            for ranks in (64, 128, 256, 512, 1024):
                self.assertEqual(model.fastest_ways(model.LARGE, machine, 10_000_000, ranks), ["ring"])


class AsMeasured(unittest.TestCase):
    """docs/mpi_cost.json: the library counted its bytes, and clocks its seconds."""

    measured = model.Measured(ROOT)

    def cost(self, way, row):
        return way(self.measured.layer, row["size"], row["ranks"])

    def test_bytes_are_those_that_the_library_counted(self):
        for what, way in (("ring", model.ring), ("ulysses", model.ulysses)):
            rows = self.measured.of(what)
            self.assertEqual({row["ranks"] for row in rows}, {1, 2, 4})
            for row in rows:
                with self.subTest(what, row=row):
                    cost = self.cost(way, row)
                    self.assertEqual((4 * cost.sent, 4 * cost.working), (row["sent"], row["memory"]))

    def test_what_is_given_to_sums_is_what_the_library_counted(self):
        for row in self.measured.of("tensor_parallel"):
            with self.subTest(row=row):  # with a ring, a sum sends 2 (P - 1) / P times what is given to it
                given = 8 * self.cost(model.tensor_parallel, row).sent / (2 * (row["ranks"] - 1) / row["ranks"]) if row["ranks"] > 1 else 0
                self.assertEqual(given, row["sent"])

    def test_predicted_times_are_those_of_the_runs_within_a_factor_of_two(self):
        for ranks in (1, 2, 4):
            ratios = [found / predicted for row, predicted, found in self.measured.runs() if row["ranks"] == ranks]
            with self.subTest(ranks=ranks):
                self.assertGreater(len(ratios), 5)
                self.assertTrue(0.5 < statistics.median(ratios) < 2, ratios)

    def test_constants_are_those_of_a_machine(self):
        machine = self.measured.machine
        self.assertTrue(0 < machine.near.latency < 1e-2 and 1e8 < machine.near.bandwidth < 1e12, machine)


class Page(make_pages_test.SiteCase):
    def setUp(self):
        super().setUp()
        self.write("docs/mpi_cost.json", (ROOT / "docs" / "mpi_cost.json").read_text())

    def test_numbers_come_from_the_file_and_the_model(self):
        cores = json.loads((ROOT / "docs" / "mpi_cost.json").read_text())["machine"]["cores"]
        self.assertEqual(self.page("`{{cost cores}}` `{{cost hide.far:.0f}}`"), f"`{cores}` `14800`")  # 2 · 370e12 / 50e9
        self.assertIn("bench/mpi_cost.py", self.page("It is {{cost hide.near:.0f}}."))

    def test_every_table_has_rows(self):
        for name in mpi_cost_tables.TABLES:
            with self.subTest(name):
                self.assertGreater(self.page(f"{{{{cost_table {name}}}}}").count("<tr>"), 2)

    def test_other_constants_give_other_tables(self):
        before = self.page("{{cost_table runs}}")
        document = json.loads((self.root / "docs" / "mpi_cost.json").read_text())
        for row in document["measured"]:
            row["processor_seconds"] *= 2 if row["what"] == "attention" else 1
        self.write("docs/mpi_cost.json", json.dumps(document))
        self.assertNotEqual(before, self.page("{{cost_table runs}}"))

    def test_what_there_is_not_is_refused(self):
        self.assertIn("docs/mpi_cost.json has no hide.nowhere", self.refused("{{cost hide.nowhere}}"))
        self.assertIn("hide of docs/mpi_cost.json is no number", self.refused("{{cost hide}}"))
        self.assertIn("there is no table 'nothing' of costs", self.refused("{{cost_table nothing}}"))
        (self.root / "docs" / "mpi_cost.json").unlink()
        self.assertIn("there is no mpi_cost.json", self.refused("{{cost cores}}"))


if __name__ == "__main__":
    unittest.main()
