#!/usr/bin/env python3
"""Asks the site's search what readers ask, in node: search_test.py [BUILD/docs]

Without a site: what the ranking does, on a few sections made up here. With one: the questions of questions.tsv, whose first hit
has to answer most of them. Some are asked in public, at the address beside them. Exit code 77 where there is no node.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = Path(__file__).with_name("questions.tsv")
ANSWERED = 32  # of the questions, at least

ASK = r"""
const { readFileSync } = require("node:fs"), vm = require("node:vm");
const [, search, texts, questions] = process.argv;
const window = { addEventListener() {} };
const document = { addEventListener() {}, createElement: () => ({}), head: { append: script => script.onload() } };
const page = vm.createContext({ window, document });
vm.runInContext(readFileSync(texts, "utf8") + readFileSync(search, "utf8") + "\nthis.search = attnSearch;", page);
page.search.ready().then(() => console.log(JSON.stringify(JSON.parse(readFileSync(questions, "utf8")).map(question =>
    page.search.find(question).map(found => ({ ...found, shown: page.search.excerpt(found.text, question, found.kind) }))))));
"""


def ask(texts, questions):
    """What the search finds for each question, given the file search_texts.js."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "questions.json"
        asked.write_text(json.dumps(questions), encoding="utf-8")
        done = subprocess.run(["node", "-e", ASK, ROOT / "docs" / "theme" / "search.js", texts, asked], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


# ---------------------------------------------------------------------------------------------------- a few sections

SECTIONS = [  # page, heading, address, text, kind, emphasised words
    ["Lesson 1", "The formula", "a", "Scores, weights and values. Softmax gives weights.", "lesson", ""],
    ["Lesson 3", "Why softmax?", "b", "Scores can be negative.", "question", ""],
    ["Lesson 5", "The causal mask", "c", "A query attends to earlier tokens; key_padding_mask hides padding.", "lesson", ""],
    ["Lesson 6", "Multiply by W^O", "d", "The output map mixes heads.", "lesson", ""],
    ["Lesson 13", "Writing with a key/value cache", "e", "Keys are kept. " * 40 + "Queries are not cached.", "lesson", ""],
    ["Lesson 14", "Depth", "f", "Such stacks train with a small rate (warm-up), and weight decay.", "lesson", "warm-up"],
    ["Lesson 15", "A recurrence", "g", "A decay of memory has a weight that training finds, in a recurrence of gates.", "lesson", ""],
    ["Lesson 19: across machines", "", "i", "Ranks.", "lesson", ""],
    ["class Mask", "mask", "h", "A mask of a key, for the causal mask.", "library", ""],
    *([f"Lesson {n}", "Attention", f"x{n}", "Attention attends to tokens.", "lesson", ""] for n in range(20, 40)),
]
SYNONYMS = [["kv cache", "key/value cache"], ["W^O", "out_proj", "output map"]]
FIRST = {  # what is typed, and the address that comes first; none where it is not covered
    "softmax": "b", "why is softmax used?": "b", "causal masking": "c", "the masks": "c", "key_padding_mask": "c", "keypaddingmask": "c",
    "W_O": "d", "what is out_proj for": "d", "kv cache": "e", "KV-cache": "e", "cach": "e", "warmup": "f", "warm-up": "f", "weight decay": "f", "many machines": "i",
    "why do we need it": None, "": None, "lora": None, "fine-tuning with lora": None, "quantized experts": None,
}  # fmt: skip


def check_ranking():
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.js"
        texts.write_text(f"window.attnTexts = {json.dumps(SECTIONS)}; window.attnSynonyms = {json.dumps(SYNONYMS)};\n", encoding="utf-8")
        found = dict(zip(FIRST, ask(texts, list(FIRST))))
        marked = ask(texts, ["queries cached"])[0][0]
    problems = [f"'{typed}' finds {[hit['address'] for hit in found[typed]][:3]}, expected {first} first" for typed, first in FIRST.items() if (found[typed] or [{"address": None}])[0]["address"] != first]
    shown, words = "".join(text for text, _ in marked["shown"]), [text for text, is_word in marked["shown"] if is_word]
    if not shown.startswith("… ") or words != ["Queries", "cached"]:
        problems.append(f"an excerpt is '{shown}' with the words {words}")
    return problems


# ---------------------------------------------------------------------------------------------------- the site


def answers(hit, where):
    return hit["address"] in where or hit["address"].partition("#")[0] in where


def check_questions(site):
    rows = [line.split("\t") for line in QUESTIONS.read_text(encoding="utf-8").splitlines()[1:]]
    answered, with_number, problems = 0, 0, []
    for (question, where, _), hits in zip(rows, ask(site / "search_texts.js", [row[0] for row in rows])):
        for place in where.split() if where != "not covered" else ():
            if not (site / place.partition("#")[0]).is_file():
                problems.append(f"{QUESTIONS.name}: '{question}': the site has no {place}")
        is_right = answers(hits[0], where.split()) if hits and where != "not covered" else not hits and where == "not covered"
        answered += is_right
        with_number += bool(is_right and hits and any(letter.isdigit() for text, _ in hits[0]["shown"] for letter in text))
        if not is_right:
            print(f"search_test: '{question}' finds first {hits[0]['address'] if hits else 'nothing'}")
    print(f"search_test: the first hit answers {answered} of {len(rows)} questions, {with_number} of them with a number beside it")
    return [*problems, *([f"at least {ANSWERED} should be answered"] if answered < ANSWERED else [])]


def main():
    if shutil.which("node") is None:
        print("search_test: SKIPPED: there is no node")
        return 77
    problems = check_questions(Path(sys.argv[1]) / "html") if len(sys.argv) > 1 else check_ranking()
    for problem in problems:
        print(f"search_test: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
