"""How many rows, points or sections a page has, as a word: a claim such as "five mistakes" is counted from what it is about."""

import re

from .errors import PageError

WORDS = "no one two three four five six seven eight nine ten eleven twelve".split()
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def first_block(text, line):
    """The first lines of a text that follow each other and match."""
    return re.search(rf"(?:^(?:{line}).*\n?)+", text, re.MULTILINE)


def rows(text, _level):
    """Of the first table, without its header."""
    table = first_block(text, r"\|")
    return len(table[0].strip().splitlines()) - 2 if table else 0


def points(text, _level):
    """Of the first list."""
    found = first_block(text, r"- |\d+\. |  +\S")
    return len(re.findall(r"^(?:- |\d+\. )", found[0], re.MULTILINE)) if found else 0


def sections(text, level):
    """Headings one level below."""
    return len(re.findall(rf"^#{{{level + 1}}} ", text, re.MULTILINE))


COUNTED = {"rows": rows, "points": points, "sections": sections}


def count(page, text):
    """{{count rows ANCHOR}}: how many rows the first table under the heading has, and so on."""
    what, _, anchor = text.partition(" ")
    if what not in COUNTED:
        raise PageError(f"cannot count '{what}'; write one of {', '.join(COUNTED)}: {{{{count rows l15_mistakes}}}}")
    level, under = page.under(anchor.strip())
    found = COUNTED[what](FENCED.sub("", under), level)
    if found == 0:
        raise PageError(f"there are no {what} under {{#{anchor.strip()}}}")
    return WORDS[found] if found < len(WORDS) else str(found)
