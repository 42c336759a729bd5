#!/usr/bin/python3
"""Collects the text of the built pages for the search: docs/generator/search.py HTML_FOLDER

writes HTML_FOLDER/search_texts.js: for each section of each page, each question that unfolds on it, and each question of
questions.html, its page, its heading, its address, its words, its kind (question, lesson, exercise, page or library), and the words that it emphasises.
docs/theme/search.js makes an index of them in the reader's browser. docs/synonyms.tsv has words that say the same.
"""

import html.parser
import json
import re
import sys
from pathlib import Path

SKIPPED = {"script", "style", "svg"}
SKIPPED_CLASSES = {"fragment", "memname", "steps", "pager", "contents-of-page"}  # code, names of steps, and links to other places
EMPHASIS = {"em", "strong", "b", "i"}  # where a term is explained, it is set so
NOT_PROSE = re.compile(r"(dir_|functions|namespace|classes|annotated|hierarchy|doxygen_crawl|files|concepts|pages|modules|topics|part_)|.*-members\.html")
SYNONYMS = Path(__file__).resolve().parents[1] / "synonyms.tsv"
KINDS = {"lesson": r"lesson_", "library": r"class|struct|group|concept"}  # by how a page's file is called
LONGEST_OF_LIBRARY = 400  # letters of a section of the library's pages: what it is for


class Section:
    def __init__(self, anchor="", unfolds=False):
        self.heading, self.anchor, self.unfolds, self.words, self.terms = "", anchor, unfolds, [], []


class Sections(html.parser.HTMLParser):
    """The sections of a page: a heading with an anchor begins one, and what unfolds is one of its own."""

    def __init__(self):
        super().__init__()
        self.title, self.sections, self.around = "", [Section()], []
        self.now = self.sections[0]
        self.inside, self.skipped, self.heading, self.in_title, self.emphasis = False, [], None, False, 0
        self.rows, self.row = [], None  # of tables: the first link, and the cells' texts

    def begin(self, *section):
        self.now = Section(*section)
        self.sections.append(self.now)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        classes = set((attributes.get("class") or "").split())
        if tag == "title" and not self.inside:  # a picture can have one, too
            self.in_title = True
        if tag == "div" and classes == {"contents"}:
            self.inside = True
        if tag in SKIPPED or classes & SKIPPED_CLASSES or self.skipped[-1:] == [tag]:
            self.skipped.append(tag)
        if self.inside and tag == "details":
            self.around.append(self.now)
            self.begin(attributes.get("id", self.now.anchor), True)
        if self.inside and re.fullmatch("h[1-4]|summary", tag):
            self.heading = []
            if tag != "summary":
                self.begin(attributes.get("id", ""))
        self.emphasis += tag in EMPHASIS
        if tag == "tr":
            self.row = ["", []]
            self.rows.append(self.row)
        if tag == "td" and self.row is not None:
            self.row[1].append("")
        if tag == "a" and self.row is not None and not self.row[0]:
            self.row[0] = attributes.get("href", "")
        if self.heading is not None and tag == "a" and attributes.get("id"):
            self.now.anchor = attributes["id"]

    def handle_endtag(self, tag):
        if tag == "title":
            self.in_title = False
        self.emphasis -= tag in EMPHASIS
        if self.skipped and self.skipped[-1] == tag:
            self.skipped.pop()
        if self.heading is not None and re.fullmatch("h[1-4]|summary", tag):
            self.now.heading = words_of("".join(self.heading))
            self.heading = None
        if tag == "details" and self.around:
            self.now = self.around.pop()

    def handle_data(self, data):
        if self.row is not None and self.row[1]:
            self.row[1][-1] += data
        if self.in_title:
            self.title += data
        elif self.inside and not self.skipped:
            (self.heading if self.heading is not None else self.now.words).append(data)
            if self.emphasis and self.heading is None:
                self.now.terms.append(data)


def words_of(text):
    """Without what only TeX reads."""
    text = re.sub(r"\\sqrt\b", "√", text)
    return " ".join(re.sub(r"\\f?[\[\]()$]|\\[a-zA-Z]+|\\.|[{}]", " ", re.sub(r"([_^])\{(\w+)\}", r"\1\2", text)).split())


def texts(folder):
    for path in sorted(folder.glob("*.html")):
        if NOT_PROSE.match(path.name):
            continue
        parser = Sections()
        parser.feed(path.read_text(encoding="utf-8"))
        title = re.sub(r"^attn: ", "", parser.title.strip())
        if path.name == "questions.html":
            yield from ([title, words_of(cells[0]), link, words_of(cells[1]), "question", ""] for link, cells in parser.rows if len(cells) == 2 and link)
            continue
        of_page = next((kind for kind, begins in KINDS.items() if re.match(begins, path.name)), "page")
        for section in parser.sections:
            text = words_of(" ".join(section.words))
            if text:
                address = path.name + (f"#{section.anchor}" if section.anchor else "")
                kind = "exercise" if section.unfolds and of_page == "lesson" else of_page
                yield [title, section.heading, address, text[:LONGEST_OF_LIBRARY] if kind == "library" else text, kind, words_of(" ".join(section.terms))]


def main():
    folder = Path(sys.argv[1])
    synonyms = [line.split("\t") for line in SYNONYMS.read_text(encoding="utf-8").splitlines()[1:]]
    lines = (f"window.{name} = {json.dumps(value, ensure_ascii=False, separators=(',', ':'))};\n" for name, value in (("attnTexts", list(texts(folder))), ("attnSynonyms", synonyms)))
    (folder / "search_texts.js").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
