#!/usr/bin/env python3
"""Tests of docs/make_pages.py: what a placeholder becomes, and what stops the pages from being made."""

import io
import json
import struct
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from generator.errors import PageError  # noqa: E402
from generator.site import Site  # noqa: E402
import make_pages  # noqa: E402


def npy(shape, values, kind="<f8", code="d"):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}{code}", *values)


STEPS = [
    ("scores", "queries @ keys.T", (2, 3), ["n", "m"], npy((2, 3), [2, 4, 4, 4, 16, 12])),
    ("weights", "softmax(scores)", (2, 3), ["n", "m"], npy((2, 3), [0.25, 0.5, 0.25, 0.125, 0.75, 0.125], "<f4", "f")),
    ("mask", "", (2,), ["m"], npy((2,), [True, False], "|b1", "?")),
    ("d_k.64.variance", "", (), [], npy((), [0.00012])),
    ("masked", "where(a | b, @x, -inf)", (2,), [], npy((2,), [-float("inf"), 1.5])),
    ("ids", "", (3,), [], npy((3,), [7, -1, 0], "<i8", "q")),
]


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.build = self.root / "build"
        (self.root / "docs").mkdir()
        (self.root / "docs" / "main_page.md").write_text("# attn\n\n{{lessons}}\n")
        (self.root / "docs" / "notation.md").write_text("# Notation {#notation}\n\nLetters. More.\n")
        (self.root / "include" / "attn" / "ops").mkdir(parents=True)
        (self.root / "lessons" / "01_one").mkdir(parents=True)
        (self.build / "traces").mkdir(parents=True)
        with zipfile.ZipFile(self.build / "traces" / "01_one.npz", "w") as archive:
            for path, _, _, _, data in STEPS:
                archive.writestr(f"{path}.npy", data)
            steps = [{"path": p, "formula": f, "shape": list(s), "axes": a, "module": "", "options": {}} for p, f, s, a, _ in STEPS]
            archive.writestr("steps.json", json.dumps({"format": "attn trace 2", "steps": steps, "aliases": [{"path": "same", "target": "weights"}]}))

    def page(self, body):
        (self.root / "lessons" / "01_one" / "lesson.md").write_text(f"# Lesson 1: one {{#lesson_01_one}}\n\n{body}\n")
        Site(self.root, self.build).write()
        return (self.build / "pages" / "01_one.md").read_text().split("\n", 2)[2].rstrip("\n")

    def refused(self, body):
        with self.assertRaises(PageError) as caught:
            self.page(body)
        return str(caught.exception)

    def test_numbers_in_code_spans(self):
        for reference, text in {
            "weights[0,1]": "0.5000", "weights[0,1]:.2f": "0.50", "scores[1,-1]": "12", "scores[1]": "[4, 16, 12]",
            "scores[:,1]": "[4, 16]", "scores[1,1:]": "[16, 12]", "d_k.64.variance": "1.200e-04", "masked": "[-inf, 1.5000]",
            "mask": "[true, false]", "ids": "[7, -1, 0]", "shape weights": "(2, 3)", "shape ids": "(3,)",
            "01_one:scores[0,0]": "2", "same[0,1]": "0.5000", "formula weights": "softmax(scores)",
        }.items():  # fmt: skip
            with self.subTest(reference):
                self.assertEqual(self.page(f"`{{{{{reference}}}}}`"), f"`{text}`")

    def test_a_number_in_prose_says_where_it_comes_from(self):
        self.assertEqual(
            self.page("It is {{weights[0,1]}}."),
            'It is <span class="from-run one" title="weights[0,1] = 0.5, lesson 01_one">0.5000</span>.',
        )

    def test_formulas_get_tex(self):
        self.assertEqual(self.page(r"\f$ {{masked}} = {{d_k.64.variance}} \f$"), r"\f$ \begin{bmatrix} -\infty & 1.5000 \end{bmatrix} = 1.200 \cdot 10^{-4} \f$")

    def test_a_table_stays_on_its_line(self):
        lines = self.page("{{table weights}}\nnext").split("\n")
        self.assertEqual(lines[1], "next")
        self.assertIn('<td class="share-8">0.7500</td>', lines[0])
        self.assertIn("<th>n = 1</th>", lines[0])

    def test_steps_are_listed_in_order(self):
        table = self.page("{{steps}}")
        places = [table.index(f"`{path}`") for path, *_ in STEPS]
        self.assertEqual(places, sorted(places))
        self.assertIn("`(n=2, m=3)`", table)
        self.assertIn("`where(a | b, @x, -inf)`", table)

    def test_fenced_blocks_and_escaped_braces_are_left_alone(self):
        self.assertEqual(self.page("```cpp\nM x{{1, 2}, {3, 4}}; // {{nothing}}\n```"), "```cpp\nM x{{1, 2}, {3, 4}}; // {{nothing}}\n```")
        self.assertEqual(self.page(r"\{{1, 2}}"), "{{1, 2}}")

    def test_links_between_pages_become_references(self):
        self.assertEqual(self.page("[n](../../docs/notation.md) [a](../../docs/notation.md#axes)"), "[n](@ref notation) [a](@ref axes)")
        self.assertIn("lessons/01_one/lesson.md:3: the link goes to nowhere.md", self.refused("[n](nowhere.md)"))

    def test_mistakes_name_file_and_line(self):
        for body, message in {
            "\n\n{{wieghts}}": "lessons/01_one/lesson.md:5: {{wieghts}}: 01_one has no step 'wieghts'; it has scores, weights",
            "{{weights[2,0]}}": "index 2 is outside axis 0 of a tensor (2, 3)",
            "{{weights[0,0,0]}}": "the index has 3 entries, the tensor is (2, 3)",
            "{{weights[x]}}": "cannot read 'weights[x]'",
            "{{weights:.2q}}": "'.2q' is no format for a number",
            "{{02_two:weights}}": "there is no trace 02_two.npz",
            "`{{wieghts}}`": "lessons/01_one/lesson.md:3:",
            r"\f$ {{wieghts}} \f$": "lessons/01_one/lesson.md:3:",
            "{{weights": "{{ without }} on its line",
        }.items():
            with self.subTest(body):
                self.assertIn(message, self.refused(body))

    def test_a_solution_is_folded_and_has_to_be_there(self):
        self.assertIn("there is no 01_one.cpp", self.refused("{{solution}}"))
        exercises = self.root / "tests" / "exercises"
        exercises.mkdir(parents=True)
        for suffix in ("cpp", "py"):
            (exercises / f"01_one.{suffix}").write_text("done\n")
        page = self.page("{{solution}}")
        for language, suffix in (("C++", "cpp"), ("Python", "py")):
            summary = page.index(f"<details><summary>A solution in {language}</summary>")
            self.assertLess(summary, page.index(f"\\include 01_one.{suffix}"))
        self.assertEqual(page.count("</details>"), 2)

    def test_the_main_page_has_no_trace_of_its_own(self):
        (self.root / "docs" / "main_page.md").write_text("# attn\n\n{{weights}}\n")
        self.assertIn("docs/main_page.md:3: {{weights}}: only a lesson's page has a trace", self.refused("x"))

    def test_lessons_are_listed_with_their_first_sentence(self):
        self.page("A token is\na row. And more.")
        self.assertIn("<td>A token is a row.</td>", (self.build / "pages" / "main_page.md").read_text())

    def test_headers_keep_their_lines(self):
        text = (
            "#pragma once\n\nnamespace attn {\n\n/// Additive: w . x.\n/// @param trace  | step | shape | formula |\n"
            "///               |------|-------|---------|\n///               | q | (n) | |\n///               | s | (n) | q @ k.T |\n"
            "void f();\n\n} // namespace attn\n"
        )
        (self.root / "include" / "attn" / "ops" / "f.hpp").write_text(text)
        self.page("x")
        copy = (self.build / "include" / "attn" / "ops" / "f.hpp").read_text()
        self.assertEqual(copy.count("\n"), text.count("\n"))
        self.assertIn("@addtogroup library_ops", copy.split("\n")[2])
        self.assertIn("<td>`q @ k.T`</td></tr></table></div>", copy)
        self.assertIn("w · x", copy)

    def test_the_program_ends_with_2_and_says_why(self):
        (self.root / "lessons" / "01_one" / "lesson.md").write_text("# One\n\n{{wieghts}}\n")
        errors, sys.stderr = sys.stderr, io.StringIO()
        arguments, sys.argv = sys.argv, ["make_pages.py", "--root", str(self.root), "--build", str(self.build)]
        try:
            self.assertEqual(make_pages.main(), 2)
            self.assertIn("docs: lessons/01_one/lesson.md:3:", sys.stderr.getvalue())
        finally:
            sys.stderr, sys.argv = errors, arguments


if __name__ == "__main__":
    unittest.main()
