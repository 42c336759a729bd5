#!/usr/bin/python3
"""Collects the text of the built pages for the search: docs/generator/search.py HTML_FOLDER

writes HTML_FOLDER/search_texts.js: for each section of each page its page, its heading, its address and its words. lunr
makes an index of them in the reader's browser.
"""

import html.parser
import json
import re
import sys
from pathlib import Path

SKIPPED = {"script", "style", "svg"}
NOT_PROSE = re.compile(r"(dir_|functions|namespace|classes|annotated|hierarchy|doxygen_crawl|files|concepts|pages|modules|topics)|.*-members\.html")
LONGEST_OF_LIBRARY = 400  # letters of a section of the library's pages: what it is for


class Sections(html.parser.HTMLParser):
    """The sections of a page: a heading with an anchor begins one."""

    def __init__(self):
        super().__init__()
        self.title, self.sections = "", [["", "", []]]  # heading, anchor, words
        self.inside, self.skipped, self.heading, self.in_title = False, [], None, False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "title":
            self.in_title = True
        if tag == "div" and attributes.get("class") == "contents":
            self.inside = True
        of_code = tag in ("div", "pre") and (self.skipped[-1:] == [tag] or "fragment" in (attributes.get("class") or ""))
        if tag in SKIPPED or of_code or (tag == "table" and "memname" in (attributes.get("class") or "")):
            self.skipped.append(tag)
        if self.inside and re.fullmatch("h[1-4]", tag):
            self.heading = []
            self.sections.append(["", attributes.get("id", ""), []])
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
        if self.in_title:
            self.title += data
        elif self.inside and not self.skipped:
            (self.heading if self.heading is not None else self.sections[-1][2]).append(data)


def texts(folder):
    for path in sorted(folder.glob("*.html")):
        if NOT_PROSE.match(path.name):
            continue
        parser = Sections()
        parser.feed(path.read_text(encoding="utf-8"))
        title = re.sub(r"^attn: ", "", parser.title.strip())
        of_library = re.match(r"(class|struct|group|concept)", path.name)
        for heading, anchor, words in parser.sections:
            text = " ".join(re.sub(r"\\f?[\[\]()$]|\\[a-zA-Z]+", " ", " ".join(words)).split())
            if text:
                address = path.name + (f"#{anchor}" if anchor else "")
                yield [title, heading, address, text[:LONGEST_OF_LIBRARY] if of_library else text]


def main():
    folder = Path(sys.argv[1])
    found = list(texts(folder))
    (folder / "search_texts.js").write_text(f"window.attnTexts = {json.dumps(found, ensure_ascii=False, separators=(',', ':'))};\n", encoding="utf-8")


if __name__ == "__main__":
    main()
