#!/usr/bin/env python3
"""Tests of what docs/speed.md makes of measurements, with measurements made up here; and of the committed ones."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "bench" / "fast")]
from generator import speed  # noqa: E402
from generator.errors import PageError  # noqa: E402
from rows import SHAPES, all_rows  # noqa: E402


def line(run, contender, least, share=0.5, row="encoder 1 128"):
    return {"run": run, "threads": 1, "row": row, "contender": contender, "median_ms": 2 * least, "least_ms": least, "share": share}


LINES = [
    line(1, "sgemm", 2), line(1, "fast", 4, 0.5), line(1, "reference", 1), line(1, "PyTorch", 8), line(1, "ONNX Runtime", 6),
    line(2, "sgemm", 2), line(2, "fast", 5, 0.4), line(2, "reference", 1), line(2, "PyTorch", 8), line(2, "ONNX Runtime", 9),
    line(1, "fast", 3, 2.0, "story 15M 16"), line(2, "fast", 3, 2.5, "story 15M 16"),
]  # fmt: skip


class Measured(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        (root / "docs").mkdir()
        about = {"processor": "P", "processors": 2, "system": "S", "commit": "C", "load_before": 0.1, "load_after": 0.2, "date": "D"}
        (root / "docs" / "speed.json").write_text(json.dumps({"machine": about, "lines": LINES}))
        self.measured = speed.Measured(root)

    def tearDown(self):
        self.folder.cleanup()

    def test_beside_the_best_peer_of_each_run(self):
        """6/4 and 8/5: the reference and sgemm are no peers."""
        lines = self.measured.of("encoder", 1)["encoder 1 128"]
        self.assertEqual(speed.times_faster(lines), [1.5, 1.6])
        self.assertEqual(speed.shares(lines), [0.5, 0.4])

    def test_numbers_in_prose(self):
        numbers = speed.numbers(self.measured)
        self.assertEqual(numbers["encoder"]["1"], {"times": {"least": 1.5, "most": 1.6}, "share": {"least": 0.4, "most": 0.5}})
        self.assertEqual(numbers["story"]["1"]["times"], {})
        self.assertEqual(numbers["runs"], 2)

    def test_table(self):
        header, rows = speed.table(self.measured, "encoder_1")
        self.assertIn(("1 × 128", "4.5", "1", "8", "7.5", "1.50 to 1.60", "40% to 50%", "2.00"), rows)
        self.assertNotIn("sgemm", header)
        self.assertEqual([row[:3] for row in speed.table(self.measured, "story_1")[1]], [("15M, 16 tokens", "3", "")])

    def test_unknown_table(self):
        with self.assertRaises(PageError):
            speed.table(self.measured, "encoder_3")


class Committed(unittest.TestCase):
    def test_every_row_is_there_with_one_and_two_threads(self):
        lines = speed.Measured(ROOT).lines
        found = {(line["row"], line["threads"]) for line in lines if line["contender"] == "fast"}
        self.assertEqual(found, {(row.line, threads) for row in all_rows([512, 2048, 8192]) for threads in (1, 2)})

    def test_work_by_hand(self):
        """One token of d_model 512 meets 4 maps of 512 by 512 and two of 512 by 2048, a multiply-add each; one score."""
        row = next(row for row in all_rows([512]) if row.line == "encoder 1 128")
        self.assertEqual(row.work, 128 * 2 * (4 * 512 * 512 + 2 * 512 * 2048) + 4 * 128 * 128 * 512)

    def test_numbers_of_the_published_model(self):
        """stories260K has 260,032 parameters, its tied output not counted."""
        self.assertEqual(SHAPES["260K"].numbers, 260_032)


if __name__ == "__main__":
    unittest.main()
