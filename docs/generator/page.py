"""A page as it is written: its title, its label and its first sentence."""

import re

from .errors import PageError

HEADING = re.compile(r"^# +(?P<title>.*?)(?: *\{#(?P<label>[\w-]+)\})? *$", re.MULTILINE)


class Page:
    def __init__(self, source, label, lesson=None):
        self.source = source
        self.lesson = lesson
        self.text = source.read_text(encoding="utf-8")
        heading = HEADING.search(self.text)
        if heading is None:
            raise PageError(f"{source}:1: a page begins with a title: # Title {{#label}}")
        self.title = heading["title"]
        self.label = heading["label"] or label or "index"  # Doxygen's own name for the main page
        self.file = "README.md" if label is None else f"{lesson or label}.md"  # among the pages of the repository
        if heading["label"] is None and label is not None:
            self.text = f"{self.text[: heading.end('title')]} {{#{label}}}{self.text[heading.end():]}"

    def under(self, anchor, text=None, mark=None):
        """The level of the heading with that anchor, and the text under it, to the next heading of its level or above.

        The text can be a filled one, in which a heading ends with another mark than {#anchor}."""
        text = self.text if text is None else text
        heading = re.search(rf"^(#+) .*{re.escape(mark or f'{{#{anchor}}}')} *$", text, re.MULTILINE)
        if heading is None:
            file = f"lessons/{self.lesson}/lesson.md" if self.lesson else f"docs/{self.source.name}"
            raise PageError(f"{file} has no heading {{#{anchor}}}")
        end = re.search(rf"^#{{1,{len(heading[1])}}} ", text[heading.end() :], re.MULTILINE)
        return len(heading[1]), text[heading.end() : heading.end() + end.start() if end else None]

    def summary(self, text):
        """The first sentence of the first paragraph, for tables of pages."""
        body = text[HEADING.search(text).end() :]
        for paragraph in re.split(r"\n\s*\n", re.sub(r"^```.*?^```$", "", body, flags=re.DOTALL | re.MULTILINE)):
            paragraph = " ".join(paragraph.split())
            if paragraph and not re.match(r"[#\\@|<]|\[TOC\]|- |\d+\. ", paragraph):
                return re.split(r"(?<=[.?!])\s", paragraph, maxsplit=1)[0].rstrip(":")
        return ""
