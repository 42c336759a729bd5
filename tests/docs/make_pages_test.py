#!/usr/bin/env python3
"""Tests of docs/make_pages.py: what a placeholder becomes, and what stops the pages from being made."""

import io
import json
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from xml.etree import ElementTree

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from generator import current  # noqa: E402
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
    ("x", "", (2, 3), ["n", "d_model"], npy((2, 3), [1, 0, 1, 0, 2, 0])),
]


class SiteCase(unittest.TestCase):
    """A site of one lesson, whose run has STEPS."""

    attn = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.build = self.root / "build"
        (self.root / "docs").mkdir()
        (self.root / "docs" / "main_page.md").write_text("# attn\n\n{{parts}}\n")
        entry = '{"01_one", part::first, "One", "What is new.", {}}'
        self.write("lessons/curriculum.cpp", f'namespace part {{\nconstexpr std::string_view first = "I. First";\n}}\n{{{entry}}};\n')
        for name in ("notation", "lab", "formulas"):
            (self.root / "docs" / f"{name}.md").write_text(f"# {name.capitalize()} {{#{name}}}\n\nLetters. More.\n")
        (self.root / "include" / "attn" / "ops").mkdir(parents=True)
        (self.root / "lessons" / "01_one").mkdir(parents=True)
        (self.build / "traces").mkdir(parents=True)
        with zipfile.ZipFile(self.build / "traces" / "01_one.npz", "w") as archive:
            for path, _, _, _, data in STEPS:
                archive.writestr(f"{path}.npy", data)
            steps = [{"path": p, "formula": f, "shape": list(s), "axes": a, "module": "", "options": {}} for p, f, s, a, _ in STEPS]
            archive.writestr("steps.json", json.dumps({"format": "attn trace 2", "steps": steps, "aliases": [{"path": "same", "target": "weights"}]}))

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def page(self, body):
        """What the lesson's page becomes, without its title."""
        self.write("lessons/01_one/lesson.md", f"# Lesson 1: one {{#lesson_01_one}}\n\n{body}\n")
        Site(self.root, self.build, self.attn).write()
        return (self.build / "pages" / "01_one.md").read_text().split("\n", 2)[2].rstrip("\n")

    def main_page(self, body, lesson="x"):
        """What the main page becomes, without its title."""
        self.write("docs/main_page.md", f"# attn\n\n{body}\n")
        self.page(lesson)
        return (self.build / "pages" / "main_page.md").read_text().split("\n", 2)[2].rstrip("\n")

    def refused(self, body):
        with self.assertRaises(PageError) as caught:
            self.page(body)
        return str(caught.exception)


class Counts(SiteCase):
    """What a page claims to have is counted."""

    TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n\n| other |\n|---|\n| 1 |"
    LIST = "- one,\n  on two lines\n- two\n\n- another list"

    def test_rows_points_and_sections_are_counted_where_they_stand(self):
        for inside, text in {
            "count rows here": "three", "Count rows here": "Three", "count points there": "two", "count sections lesson_01_one": "two",
        }.items():  # fmt: skip
            with self.subTest(inside):
                page = self.page(f"{{{{{inside}}}}} of them\n\n## Here {{#here}}\n\n```\n| no |\n```\n\n{self.TABLE}\n\n## There {{#there}}\n\n{self.LIST}")
                self.assertTrue(page.startswith(f"{text} of them"), page[:40])

    def test_a_heading_can_count_what_stands_under_it(self):
        self.assertIn("## All three {#here}", self.page(f"## All {{{{count rows here}}}} {{#here}}\n\n{self.TABLE}"))

    def test_nothing_to_count_is_an_error(self):
        for inside, message in {
            "count rows there": "there are no rows under {#there}", "count rows nowhere": "lessons/01_one/lesson.md has no heading {#nowhere}",
            "count words there": "cannot count 'words'; write one of rows, points, sections",
        }.items():  # fmt: skip
            with self.subTest(inside):
                self.assertIn(message, self.refused(f"{{{{{inside}}}}}\n\n## There {{#there}}\n\nNothing."))

    def test_no_page_says_how_many_mistakes_or_models_it_has_without_counting_them(self):
        told = r"(?i)\b(two|three|four|five|six|seven|eight|nine|ten) (published models|models on|mistakes\b(?! are told apart))"
        for path in [*sorted((ROOT / "lessons").glob("*/lesson.md")), *sorted((ROOT / "docs").glob("*.md"))]:
            with self.subTest(path.relative_to(ROOT)):
                self.assertNotRegex(" ".join(path.read_text(encoding="utf-8").split()), told)


class Pages(SiteCase):
    def test_a_page_is_summed_up_by_its_first_sentence_whatever_code_is_before_it(self):
        for body, sentence in {
            "Letters. More.": "Letters.", "`attn view` shows steps: all. More.": "`attn view` shows steps: all.",
            "```sh\nrun it\n\nnow\n```\n\nIt runs. More.": "It runs.", "[TOC]\n\nThis is it:\n\n- no": "This is it",
        }.items():  # fmt: skip
            with self.subTest(body):
                self.write("docs/notation.md", f"# Notation {{#notation}}\n\n{body}\n")
                self.assertIn(f"<td>{sentence}</td>", self.main_page("{{pages notation lab formulas}}"))

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
        for suffix in ("cpp", "py"):
            self.write(f"tests/exercises/01_one.{suffix}", "done\n")
        page = self.page("{{solution}}")
        for language, suffix in (("C++", "cpp"), ("Python", "py")):
            summary = page.index(f"<details><summary>A solution in {language}</summary>")
            self.assertLess(summary, page.index(f"\\include 01_one.{suffix}"))
        self.assertEqual(page.count("</details>"), 2)

    def test_the_menu_lists_the_lessons_with_their_numbers(self):
        self.page("x")
        menu = (self.build / "menu.html").read_text()
        self.assertRegex(menu, r'<li data-lesson="01"><a href="\$relpath\^lesson_01_one.html"><span class="number">1</span> [^<]+</a></li>')

    def test_the_main_page_has_no_trace_of_its_own(self):
        self.write("docs/main_page.md", "# attn\n\n{{weights}}\n")
        self.assertIn("docs/main_page.md:3: {{weights}}: only a lesson's page has a trace", self.refused("x"))

    def test_lessons_are_listed_with_their_first_sentence(self):
        self.assertIn("<td>A token is a row.</td>", self.main_page("{{lessons first}}", "A token is\na row. And more."))

    def test_what_unfolds_has_its_title_as_text(self):
        for verb in ("fold", "question"):
            page = self.page(f"{{{{{verb} Is n < m?}}}}\n\nNo.\n\n{{{{end}}}}")
            self.assertEqual(
                page, r"\htmlonly[block]<details><summary>Is n &lt; m?</summary>\endhtmlonly" "\n\nNo.\n\n" r"\htmlonly[block]</details>\endhtmlonly"
            )
            self.assertIn(f"lesson.md:3: {{{{{verb}}}}}: 01_one has no step '{verb}'", self.refused(f"{{{{{verb}}}}}"))

    def test_contents_are_the_sections_on_one_line(self):
        page = self.page('[TOC]\n\n## The "why" {#why}\n\n### Within {#within}\n\n## Last {#last}')
        first, *others = page.split("\n")
        self.assertEqual(first, r"""<div class="contents-of-page"><ul><li>\ref why "The 'why'"</li><li>\ref last "Last"</li></ul></div>""")
        self.assertEqual(others, ["", '## The "why" {#why}', "", "### Within {#within}", "", "## Last {#last}"])

    def test_numbers_of_the_report_say_what_measured_them(self):
        self.assertIn("there is no report.json", self.refused("{{report parameters}}"))
        report = {"parameters": 1234, "heads": [{"weight": 0.51239}], "name": "small"}
        self.write("lessons/small_model/report.json", json.dumps(report))
        self.assertEqual(self.page("`{{report parameters}}` `{{report heads.0.weight:.2f}}`"), "`1234` `0.51`")
        span = '<span class="from-run one" title="heads.0.weight = 0.51239, script/train-model">0.5124</span>'
        self.assertEqual(self.page("It is {{report heads.0.weight}}."), f"It is {span}.")
        for path in ("heads.1.weight", "heads.first", "parameters.all", "loss"):
            self.assertIn(f"report.json has no {path}", self.refused(f"{{{{report {path}}}}}"))
        self.assertIn("name of lessons/small_model/report.json is no number", self.refused("{{report name}}"))

    def test_headers_keep_their_lines(self):
        text = (
            "#pragma once\n\nnamespace attn {\n\n/// Additive: w . x.\n/// @param trace  | step | shape | formula |\n"
            "///               |------|-------|---------|\n///               | q | (n) | |\n///               | s | (n) | q @ k.T |\n"
            "void f();\n\n} // namespace attn\n"
        )
        self.write("include/attn/reference/ops/f.hpp", text)
        self.page("x")
        copy = (self.build / "include" / "attn" / "reference" / "ops" / "f.hpp").read_text()
        self.assertEqual(copy.count("\n"), text.count("\n"))
        self.assertIn("@addtogroup library_ops", copy.split("\n")[2])
        self.assertIn("<td>`q @ k.T`</td></tr></table></div>", copy)
        self.assertIn("w · x", copy)

    def test_the_program_ends_with_2_and_says_why(self):
        self.write("lessons/01_one/lesson.md", "# One\n\n{{wieghts}}\n")
        errors, sys.stderr = sys.stderr, io.StringIO()
        arguments, sys.argv = sys.argv, ["make_pages.py", "--root", str(self.root), "--build", str(self.build)]
        try:
            self.assertEqual(make_pages.main(), 2)
            self.assertIn("docs: lessons/01_one/lesson.md:3:", sys.stderr.getvalue())
        finally:
            sys.stderr, sys.argv = errors, arguments


PICTURES = """
from generator.picture import figure, picture

@picture
def shares(site):
    weights = site.trace_called("01_one")["weights"]
    drawn, axes = figure(2, 2)
    axes.bar(range(weights.shape[1]), weights[1])
    return drawn, f"The largest is {weights.max():.2f} < 1."

@picture
def halves(site):
    drawn, axes = figure(4, 2, columns=2)
    for half, place in zip(site.trace_called("01_one")["weights"], axes):
        place.bar(range(half.size), half)
    return drawn, "The first row, and the second."

@picture
def halves_to_one_scale(site):
    drawn, axes = figure(4, 2, columns=2, sharey=True)
    axes[0].set_yticks([0], ["an even share"])
    return drawn, "The same, on one axis."

def helper(site):
    return None
"""

# Says what it was asked, as attn graph would draw it; refuses the step 'nowhere'.
DRAWS = """#!/bin/sh
case "$*" in *nowhere*) echo "attn: graph: there is no step nowhere" >&2; exit 2;; esac
echo "<svg><!-- $* --></svg>"
"""


class Pictures(SiteCase):
    def setUp(self):
        super().setUp()
        self.write("bin/attn", DRAWS)
        self.attn = self.root / "bin" / "attn"
        self.attn.chmod(0o755)

    def included(self, page):
        """The file that a page of one picture includes."""
        self.assertRegex(page, r"^\\htmlinclude\[block\] [\w-]+\.html$")
        return (self.build / "results" / page.split(" ")[1]).read_text()

    def test_a_picture_is_drawn_from_the_run_in_the_colours_of_the_page(self):
        self.write("docs/pictures/lesson_01.py", PICTURES)
        drawn = self.included(self.page("{{picture shares}}"))
        self.assertIn('<figcaption id="picture-01_one-shares">The largest is 0.75 &lt; 1.</figcaption>', drawn)
        self.assertIn('<svg role="img" aria-labelledby="picture-01_one-shares"', drawn)
        self.assertIn("var(--attn-blue)", drawn)
        self.assertNotIn("#0102", drawn)

    def test_panels_are_pieces_of_one_picture_each_with_the_numbers_of_its_axes(self):
        self.write("docs/pictures/lesson_01.py", PICTURES)
        drawn = self.included(self.page("{{picture halves}}"))
        self.assertIn('<div role="img" aria-labelledby="picture-01_one-halves" class="panels"><div><svg', drawn)
        self.assertEqual(drawn.count("<svg"), 2)
        used = [set(re.findall(r'url\(#([\w-]+)', svg)) for svg in drawn.split("<svg")[1:]]
        self.assertTrue(all(used) and not used[0] & used[1], used)  # no piece names what stands in the other
        self.assertEqual([svg.count("an even share") for svg in self.included(self.page("{{picture halves_to_one_scale}}")).split("<svg")[1:]], [1, 1])

    def test_only_what_is_marked_as_a_picture_can_be_shown(self):
        self.assertIn("there is no docs/pictures/lesson_01.py, which would draw 'shares'", self.refused("{{picture shares}}"))
        self.write("docs/pictures/lesson_01.py", PICTURES)
        self.assertIn("docs/pictures/lesson_01.py has no picture 'helper'; it has shares, halves, halves_to_one_scale", self.refused("{{picture helper}}"))

    def test_a_graph_is_drawn_by_attn_with_its_caption_as_title(self):
        drawn = self.included(self.page("{{graph --to weights | One step, < all.}}"))
        trace = self.build / "traces" / "01_one.npz"
        self.assertIn(f"<!-- graph {trace} --format svg --title One step, < all. --to weights -->", drawn)
        self.assertIn(">One step, &lt; all.</figcaption>", drawn)
        self.assertEqual(drawn, self.included(self.page("{{graph 01_one: --to weights | One step, < all.}}")))

    def test_a_graph_needs_a_caption_a_trace_and_a_step(self):
        self.assertIn("say what is to be seen", self.refused("{{graph --to weights}}"))
        self.assertIn("say what is to be seen", self.refused("{{graph}}"))
        self.assertIn("there is no trace 02_two.npz", self.refused("{{graph 02_two: | All steps.}}"))
        self.assertIn("lesson.md:3: {{graph --to nowhere | x}}: attn graph: attn: graph: there is no step nowhere", self.refused("{{graph --to nowhere | x}}"))


class Registers(SiteCase):
    LESSON = "## Why {#why}\n\nThe weight is {{weights[0,1]:.2f}}.\n\n### More {#more}\n\n{{scores[0,0]}}\n\n## Then {#then}\n\n{{scores[1,1]}}"

    def questions(self, *rows):
        lines = ["question\tlesson\tanchor\treference\tanswer", *("\t".join(row) for row in rows)]
        self.write("docs/questions.tsv", "\n".join(lines) + "\n")
        return self.main_page("{{questions}}", self.LESSON)

    def test_a_question_has_its_answer_its_number_and_its_place(self):
        page = self.questions(("Why?", "01_one", "why", "weights[0,1]:.2f", "Because of *it*, here"))
        self.assertIn(r'<td>\ref why "Why?"</td><td>Because of \*it\*, here <span class="from-run one"', page)
        self.assertIn(">0.50</span></td>", page)

    def test_a_question_s_number_stands_in_its_section(self):
        self.questions(("Why?", "01_one", "why", "scores[0,0]", "x"))  # in a section within it
        for anchor, reference in (("why", "scores[1,1]"), ("more", "weights[0,1]:.2f"), ("why", "weights[0,1]:.3f")):
            with self.subTest(reference), self.assertRaisesRegex(PageError, f"'Why\\?': the section {anchor} of 01_one does not show"):
                self.questions(("Why?", "01_one", anchor, reference, "x"))

    def test_a_question_names_a_heading_a_lesson_and_a_step(self):
        for row, message in (
            (("01_one", "whence", "scores[0,0]"), "lessons/01_one/lesson.md has no heading {#whence}"),
            (("02_two", "why", "scores[0,0]"), "there is no lesson 02_two"),
            (("01_one", "why", "socres[0,0]"), "01_one has no step 'socres'"),
        ):
            with self.subTest(row), self.assertRaises(PageError) as caught:
                self.questions(("Why?", *row, "x"))
            self.assertIn(message, str(caught.exception))

    def test_a_register_s_rows_have_the_columns_of_its_header(self):
        with self.assertRaisesRegex(PageError, "docs/questions.tsv has a row that is not of 5 columns"):
            self.questions(("Why?", "01_one", "why", "scores[0,0]"))

    def test_a_picture_that_moves_gets_the_words_and_steps_of_its_options(self):
        def page(options):
            self.write("lessons/01_one/lesson.md", f"# Lesson 1: one {{#lesson_01_one}}\n\n{{{{moving turns {options} | Turn it.}}}}\n")
            Site(self.root, self.build, self.attn, has_lab=True).write()
            return (self.build / "pages" / "01_one.md").read_text()

        self.write("docs/lab/page/turns.js", "")
        self.write("lessons/parrot/config.json", '{"vocabulary": ["hello", "you"]}')
        text = page("recorded=01_one:w*,ids words=parrot speed=3")
        self.assertIn('<script type="application/json">{"weights":{"shape":[2,3],"values":[0.25,0.5,0.25,0.125,0.75,0.125]},"ids":{"shape":[3],"values":[7.0,-1.0,0.0]}}</script>', text)
        self.assertIn('data-moving="turns" data-speed="3" hidden', text)
        self.assertIn('attnWords = {"parrot": ["hello", "you"]}', text)
        for options, message in {"recorded=01_one:nothing": "01_one has no step nothing", "recorded=01_one:masked": "masked of 01_one has numbers that are not finite"}.items():
            with self.assertRaisesRegex(PageError, message):
                page(options)

    def test_the_syllabus_has_a_table_for_each_document(self):
        rows = ("document kind says lesson step test", "000 formula a_b 01_one scores t", "000 remark more   t", "001 table | 01_one  t")
        self.write("docs/syllabus.tsv", "\n".join(row.replace(" ", "\t") for row in rows) + "\n")
        self.assertEqual(
            [line for line in self.main_page("{{syllabus}}").split("\n") if line and not line.startswith(("|--", "| kind"))],
            ["### Document 000 {#source_000}", r'| formula | a\_b | \ref lesson_01_one "1" | `scores` | t |', "| remark | more | not here |  | t |",
             "### Document 001 {#source_001}", r'| table | \| | \ref lesson_01_one "1" |  | t |'],
        )  # fmt: skip

    def test_how_mistakes_are_written_is_what_their_readme_says(self):
        written = "In [them](../../../docs/pages/formulas.md), `%` is any text.\n\n| `{v}` | a value |"
        self.write("src/mistakes/list/README.md", f"# The list\n\n## The formulas\n\n{written}\n\n## How to add one\n\nWrite it.\n")
        self.assertEqual(self.main_page("{{pitfall_formulas}}"), written.replace("../../../docs/pages/formulas.md", "@ref formulas"))


class NumPyLines(SiteCase):
    """What a lesson's fences of python compute is compared with the run."""

    def page_of(self, *blocks):
        return self.page("\n\n".join(f"```python\n{block}\n```" for block in blocks))

    def refusal_of(self, *blocks):
        return self.refused("\n\n".join(f"```python\n{block}\n```" for block in blocks))

    def test_lines_that_compute_what_the_run_has_stay_as_they_are(self):
        block = "masked = np.where(mask, -np.inf, 1.5)"
        self.assertEqual(self.page_of(block), f'\\htmlonly[block]<i class="python"></i>\\endhtmlonly\n```python\n{block}\n```')

    def test_a_later_block_knows_what_an_earlier_one_computed(self):
        self.page_of("def fill(allowed):\n    return np.where(allowed, -np.inf, 1.5)", "masked = fill(mask)")
        self.assertIn("NameError", self.refusal_of("masked = fill(mask)"))

    def test_another_number_is_refused_at_the_line_of_its_block(self):
        message = self.refusal_of("masked = np.where(mask, -np.inf, 1.5)", "scores = np.array([[2, 4, 4], [4, 16, 12 + 1e-9]])")
        self.assertRegex(message, r"^lessons/01_one/lesson\.md:7: the NumPy lines make scores\[1, 2\] .*12\.000000001.*, the run has .*12")

    def test_what_no_run_confirms_is_refused(self):
        for block, message in {
            "masked = np.where(mask, 1.5, -np.inf)": "the NumPy lines make masked[0]",
            "masked = np.append(mask, 0.0)": "the NumPy lines make masked (3,), the run has (2,)",
            "masked = 1 / missing": "the NumPy lines fail: NameError: name 'missing' is not defined",
            "half = 0.5\nthird = 1 / 3": "the NumPy lines compute half, third, none of which is a step of 01_one",
        }.items():
            with self.subTest(block):
                self.assertIn(f"lessons/01_one/lesson.md:3: {message}", self.refusal_of(block))

    def test_only_what_is_given_has_its_name_before_it_is_computed(self):
        self.page_of("masked = np.where(mask, -np.inf, 1.5 + 0 * ids[2] * d_k_64_variance)")
        self.assertIn("name 'scores' is not defined", self.refusal_of("weights = scores / 2"))

    def test_what_is_kept_by_its_name_is_compared_and_has_its_variable(self):
        self.page_of('keep("masked", np.where(given["mask"], -np.inf, 1.5 + 0 * given["d_k.64.variance"]))', 'keep("same", np.array([[1, 2, 1], [0.5, 3, 0.5]]) / 4)')
        self.page_of('keep("masked", np.where(mask, -np.inf, 1.5))\nassert masked[1] == 1.5')
        self.assertIn("the NumPy lines make masked[0]", self.refusal_of('keep("masked", np.where(mask, 1.5, -np.inf))'))
        self.assertIn("compute mask.ed, which is no step of 01_one", self.refusal_of('keep("mask.ed", mask)'))

    def test_a_page_shows_what_comes_before_its_lines(self):
        self.assertIn("lesson_01_one --quiet --trace t.npz", self.page("{{numpy}}"))

    def test_a_fence_of_py_is_shown_and_not_run(self):
        body = "```py\nmasked = 1 / 0\n```\n\n```python\nmasked = np.where(mask, -np.inf, 1.5)\n```"
        page = self.page(body)
        self.assertEqual(page.count('<i class="python"></i>'), 2)  # neither has links to C++
        self.assertEqual(page.replace('\\htmlonly[block]<i class="python"></i>\\endhtmlonly\n', ""), body)


class ForRepository(SiteCase):
    """The same pages as plain Markdown, and a lesson's NumPy lines as a script."""

    def plain(self, body):
        """What the lesson's page becomes, without its title and the links around it."""
        self.page(body)
        text = (self.build / "repository" / "docs" / "pages" / "01_one.md").read_text()
        self.assertEqual(text.split("\n")[0], '# Lesson 1: one <a id="lesson_01_one"></a>')
        self.assertIn("> On the site this is `build/docs/html/lesson_01_one.html`, where you change a number", text)
        return text.split("\n", 4)[4].rstrip("\n")

    def test_numbers_and_links_are_plain(self):
        self.assertEqual(self.plain("It is {{weights[0,1]}}, `{{scores[1]}}`, {{shape weights}}."), "It is 0.5000, `[4, 16, 12]`, (2, 3).")
        self.assertEqual(self.plain("[n](../../docs/notation.md) [a](../../docs/notation.md#axes)"), "[n](notation.md) [a](notation.md#axes)")
        self.assertEqual(self.plain("A{{on_site , and a button}}."), "A.")
        self.assertEqual(self.plain('<div class="start">[n](../../docs/notation.md)</div>'), "**[n](notation.md)**")
        self.assertEqual(self.page("A{{on_site , and a button}}."), "A, and a button.")

    def test_formulas_are_as_github_writes_them(self):
        self.assertEqual(self.plain("Let \\f$ a_0\n{{ids[0]}} \\f$ be\n\n\\f[ b = c \\f]\n\nso."), "Let $`a_0 7`$ be\n\n```math\nb = c\n```\n\nso.")

    def test_tables_name_rows_and_columns(self):
        self.assertEqual(
            self.plain("{{table scores}}\n{{table mask}}"),
            "`scores` = `queries @ keys.T`\n\n|  | m = 0 | m = 1 | m = 2 |\n| :-- | --: | --: | --: |\n| n = 0 | 2 | 4 | 4 |\n| n = 1 | 4 | 16 | 12 |\n\n"
            "`mask`\n\n| m = 0 | m = 1 |\n| --: | --: |\n| true | false |",
        )
        self.assertEqual(self.plain("{{table x}}"), "`x`\n\n| d_model = | 0 | 1 | 2 |\n| --: | --: | --: | --: |\n| n = 0 | 1 | 0 | 1 |\n| n = 1 | 0 | 2 | 0 |")
        self.assertIn("<tr><th>d_model =</th><th>0</th><th>1</th><th>2</th></tr>", self.page("{{table x}}"))
        self.assertIn("<tr><th>d_model = 0</th><th>1</th><th>2</th></tr>", self.page("{{table x[0]}}"))
        self.assertIn("| `masked` | `(2,)` | `where(a \\| b, @x, -inf)` |", self.plain("{{steps}}"))

    def test_sections_have_places_that_links_lead_to(self):
        self.assertEqual(self.plain("[TOC]\n\n## Why {#why}"), '[Why](01_one.md#why)\n\n## Why <a id="why"></a>')

    def test_a_step_is_in_numpy_and_folded_in_cpp(self):
        self.write("lessons/01_one/lesson.cpp", "int f()\n{\n    //! [half]\n    if (a)\n        b;\n    //! [half]\n}\n")
        cpp = "<details><summary>C++</summary>\n\n```cpp\nif (a)\n    b;\n```\n\n</details>"
        snippet, numpy = "\\snippet 01_one/lesson.cpp half", "```python\nmasked = np.where(mask, -np.inf, 1.5)\n```"
        self.assertEqual(self.plain(f"{snippet}\n\n{numpy}\n\nnext"), f"{numpy}\n\n{cpp}\n\nnext")
        self.assertEqual(self.plain(f"{snippet}\n\nnext"), f"{cpp}\n\nnext")
        self.assertEqual(self.page(f"{snippet}\n\n{numpy}"), f'{snippet}\n\\htmlonly[block]<i class="either"></i>\\endhtmlonly\n{numpy}')
        self.assertEqual(self.page(f"{snippet}\n\nnext"), f'{snippet}\n\\htmlonly[block]<i class="alone"></i>\\endhtmlonly\nnext')
        self.assertIn("lessons/01_one/lesson.cpp has no lines between two marks //! [third]", self.refused(snippet.replace("half", "third")))

    def test_a_picture_is_a_file_in_light_and_dark(self):
        self.write("docs/pictures/lesson_01.py", PICTURES)
        self.assertEqual(self.plain("{{picture shares}}"), "![01 one, shares](images/01_one-shares.svg)\n\n<sub>The largest is 0.75 &lt; 1.</sub>")
        drawn = (self.build / "repository" / "docs" / "pages" / "images" / "01_one-shares.svg").read_text()
        for part in ("@media(prefers-color-scheme:dark)", "fill:var(--attn-blue)", '<rect width="100%" height="100%" fill="var(--attn-paper)"/>', 'height="'):
            self.assertIn(part, drawn)
        ElementTree.fromstring(drawn)

    def test_numpy_lines_are_a_script_that_stops_at_another_number(self):
        body = "{{numpy}}\n\n## Fill {#fill}\n\n```python\nmasked = np.where(mask, -np.inf, 1.5)\n```\n\n{{masked}}"
        self.assertIn("[lesson.py](../../lessons/01_one/lesson.py): all NumPy lines", self.plain(body))
        script = self.build / "repository" / "lessons" / "01_one" / "lesson.py"
        text = script.read_text()
        self.assertIn("keep('mask', np.array([True, False]), given)", text)
        self.assertIn("# ---- Fill\n\nmasked = np.where(mask, -np.inf, 1.5)\n\nshow('masked', masked, [-np.inf, 1.5000])", text)
        self.assertFalse(script.with_suffix(".npz").exists())
        for changed, code in ((text, 0), (text.replace("inf, 1.5)", "inf, 1.6)"), 1)):
            script.write_text(changed)
            self.assertEqual(subprocess.run([sys.executable, script], capture_output=True, check=False).returncode, code)

    def test_what_differs_in_its_last_digit_only_is_current(self):
        for one, other, is_same in (
            ("0.1234 of 12 words", "0.1235 of 12 words", True), ("0.1234", "0.1236", False), ("12 words", "13 words", False), ("a 1", "b 1", False),
            ("1.20e-05", "1.21e-05", True), ("−0.50", "−0.51", True), ("0.50", "-0.50", False), ("same", "same", True),
            ("0.244985552", "0.244985538", True), ("0.244985552", "0.244995552", False), ("8.4e-15", "1.4e-14", True), ("8.4e-5", "1.4e-4", False),
            ("same: 27 equal, 29 noise, 4 bug", "same: 56 noise, 4 bug", True), ("29 noise, 4 bug", "29 noise, 5 bug", False), ("1000000", "1000001", False),
        ):  # fmt: skip
            with self.subTest((one, other)):
                self.assertEqual(current.same(one, other), is_same)

    def test_a_number_of_a_training_can_differ_on_its_page_and_where_a_question_leads_to_it(self):
        for name, line, is_same in (
            ("15_training.md", "a loss of {}", True), ("questions.md", "[A warm-up?](15_training.md#l15_warm_up) | {}", True),
            ("questions.md", "[A head?](06_multi_head.md#l6_heads) | {}", False), ("questions.md", "after training, {}", False),
        ):  # fmt: skip
            with self.subTest((name, line)):
                for folder, loss in (("a", "0.902"), ("b", "0.898")):
                    self.write(f"{folder}/{name}", f"Questions\n{line.format(loss)}\n")
                self.assertEqual(current.same_file(self.root / "a" / name, self.root / "b" / name), is_same)

    def test_only_what_differs_is_written_and_what_is_made_no_more_is_removed(self):
        self.page("It is {{weights[0,1]}}.")
        made = self.build / "repository"
        pages = self.root / "docs" / "pages"
        self.write("docs/pages/01_one.md", (made / "docs" / "pages" / "01_one.md").read_text().replace("0.5000", "0.5001"))
        self.write("docs/pages/old.md", "old")
        self.assertIn(" removed", current.renew(self.root, made))
        self.assertIn("0.5001", (pages / "01_one.md").read_text())
        self.assertFalse((pages / "old.md").exists())
        self.assertEqual((pages / "notation.md").read_text(), (made / "docs" / "pages" / "notation.md").read_text())
        self.assertEqual(current.differences(self.root, made), ({}, []))
        self.write("docs/pages/01_one.md", (pages / "01_one.md").read_text().replace("It is", "It was"))
        self.assertIn("'It was 0.5001.' is now 'It is 0.5000.'", current.differences(self.root, made)[0]["docs/pages/01_one.md"])


if __name__ == "__main__":
    unittest.main()
