#!/usr/bin/python3
"""Collects the text of the built pages for the search: docs/generator/search.py HTML_FOLDER

writes HTML_FOLDER/search_texts.js: for each section of each page, and for each question of questions.html, its page, its heading,
its address, its words, and its kind: question, course or library. lunr makes an index of them in the reader's browser. Other
words for a heading stand in docs/synonyms.tsv.
"""

import html.parser
import json
import re
import sys
from pathlib import Path

SKIPPED = {"script", "style", "svg"}
NOT_PROSE = re.compile(r"(dir_|functions|namespace|classes|annotated|hierarchy|doxygen_crawl|files|concepts|pages|modules|topics)|.*-members\.html")
SYNONYMS = Path(__file__).resolve().parents[1] / "synonyms.tsv"
LONGEST_OF_LIBRARY = 400  # letters of a section of the library's pages: what it is for


class Sections(html.parser.HTMLParser):
    """The sections of a page: a heading with an anchor begins one."""

    def __init__(self):
        super().__init__()
        self.title, self.sections = "", [["", "", []]]  # heading, anchor, words
        self.inside, self.skipped, self.heading, self.in_title = False, [], None, False
        self.rows, self.row, self.cell = [], None, None  # of tables: the cells' texts, and the first link

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "title" and not self.inside:  # a picture can have one, too
            self.in_title = True
        if tag == "div" and attributes.get("class") == "contents":
            self.inside = True
        of_code = tag in ("div", "pre") and (self.skipped[-1:] == [tag] or "fragment" in (attributes.get("class") or ""))
        if tag in SKIPPED or of_code or (tag == "table" and "memname" in (attributes.get("class") or "")):
            self.skipped.append(tag)
        if self.inside and re.fullmatch("h[1-4]", tag):
            self.heading = []
            self.sections.append(["", attributes.get("id", ""), []])
        if tag == "tr":
            self.row = ["", []]
            self.rows.append(self.row)
        if tag == "td" and self.row is not None:
            self.row[1].append("")
        if tag == "a" and self.row is not None and not self.row[0]:
            self.row[0] = attributes.get("href", "")
        if self.heading is not None and tag == "a" and attributes.get("id"):
            self.sections[-1][1] = attributes["id"]

    def handle_endtag(self, tag):
        if tag == "title":
            self.in_title = False
        if self.skipped and self.skipped[-1] == tag:
            self.skipped.pop()
        if self.heading is not None and re.fullmatch("h[1-4]", tag):
            self.sections[-1][0] = " ".join("".join(self.heading).split())
            self.heading = None

    def handle_data(self, data):
        if self.row is not None and self.row[1]:
            self.row[1][-1] += data
        if self.in_title:
            self.title += data
        elif self.inside and not self.skipped:
            (self.heading if self.heading is not None else self.sections[-1][2]).append(data)


def words_of(text):
    return " ".join(re.sub(r"\\f?[\[\]()$]|\\[a-zA-Z]+", " ", text).split())


def texts(folder):
    for path in sorted(folder.glob("*.html")):
        if NOT_PROSE.match(path.name):
            continue
        parser = Sections()
        parser.feed(path.read_text(encoding="utf-8"))
        title = re.sub(r"^attn: ", "", parser.title.strip())
        if path.name == "questions.html":
            yield from ([title, *map(words_of, (cells[0],)), link, words_of(cells[1]), "question"] for link, cells in parser.rows if len(cells) == 2 and link)
            continue
        of_library = re.match(r"(class|struct|group|concept)", path.name)
        for heading, anchor, words in parser.sections:
            text = words_of(" ".join(words))
            if text:
                address = path.name + (f"#{anchor}" if anchor else "")
                yield [title, heading, address, text[:LONGEST_OF_LIBRARY] if of_library else text, "library" if of_library else "course"]


def with_synonyms(entries):
    """Entries, each with the other words for its heading."""
    listed = [line.split("\t") for line in SYNONYMS.read_text(encoding="utf-8").splitlines()[1:]]
    for entry in entries:
        yield [*entry, " ".join(typed for typed, heading in listed if heading.lower() in entry[1].lower())]


def main():
    folder = Path(sys.argv[1])
    found = list(with_synonyms(texts(folder)))
    (folder / "search_texts.js").write_text(f"window.attnTexts = {json.dumps(found, ensure_ascii=False, separators=(',', ':'))};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
