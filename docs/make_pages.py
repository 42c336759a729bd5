#!/usr/bin/python3
"""Makes the Markdown pages that Doxygen reads: every number in their prose comes from a run.

    docs/make_pages.py --root REPOSITORY --build BUILD/docs [--attn PROGRAM] [--lab] [--renew]

reads lessons/NN_topic/lesson.md, docs/*.md, include/attn and BUILD/docs/traces/NN_topic.npz, and writes
BUILD/docs/pages and BUILD/docs/include. In BUILD/docs/repository it writes what is committed: the same pages as plain Markdown,
and a script for each lesson; --renew puts them into the repository. A line of a page stays on its line, so that Doxygen's complaints point to the
right one. Placeholders:

    {{weights[0,1]}}  {{weights[0,1]:.2f}}  {{weights}}  {{03_scale_and_softmax:weights[0]}}
    {{table weights}}  {{shape weights}}  {{formula weights}}  {{steps}}  {{steps head.0}}
    {{report heads.colour_of_thing.average_weight:.2f}}  {{translator words}}   what script/train-model measured
    {{said:translator}}  {{vocabulary translator}}   ids as words, all words with their ids
    {{count rows l15_mistakes}}  {{Count points l18_wrong}}  {{count sections xtensor_pitfalls}}   a word, of what the section has
    {{numpy}}                        what a reader puts before the page's NumPy lines, folded
    {{speed encoder.1.times.least:.2f}}  {{speed_table encoder_1}}   what bench/fast/fast.py measured
    {{picture NAME}}                 a function of docs/pictures/PAGE.py
    {{graph}}  {{graph --depth 1}}   attn graph of the lesson's run
    {{fold TITLE}} ... {{end}}  {{question TEXT}} ... {{end}}   what unfolds
    {{on_site TEXT}}                 a sentence about the site, which has no sense in docs/pages
    {{appendix}}  {{appendix head.0}}   the program, its steps or those of a scope, and its output, folded
    {{solution}}                     the solved exercise in C++ and in Python, folded
    {{output diff_wrong}}  {{lessons}}  {{pages}}  {{library}}  {{pitfalls}}  {{pitfall_formulas}}
    {{syllabus}}  {{questions}}
    {{vectors cases}}  {{vectors matrix}}   of vectors/cases

They are filled in prose, in code spans and in formulas, not in fenced blocks; write \\{{ for two braces. A link to
another page is written as GitHub wants it, [notation](../../docs/notation.md). A block fenced as python is run, and what it
computes is compared with the run of the lesson: see docs/generator/examples.py.

An unknown name, a bad index or a missing trace is an error: exit code 2, and a line with the file and the line.
"""

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from generator import current  # noqa: E402
from generator.errors import PageError  # noqa: E402
from generator.site import Site  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", type=Path, required=True, help="the repository")
    parser.add_argument("--build", type=Path, required=True, help="the folder with traces/ and results/; pages/ goes there")
    parser.add_argument("--attn", type=Path, help="the attn program, which draws the graphs")
    parser.add_argument("--lab", action="store_true", help="the site has docs/lab: pages compute what the reader changes")
    parser.add_argument("--renew", action="store_true", help="put the pages and scripts that are committed into the repository")
    arguments = parser.parse_args()
    try:
        Site(arguments.root.resolve(), arguments.build.resolve(), arguments.attn, arguments.lab).write()
        if arguments.renew:
            print(current.renew(arguments.root.resolve(), arguments.build.resolve() / "repository"))
    except PageError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
