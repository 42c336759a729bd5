#!/usr/bin/env python3
"""Looks at the pages that are read on the repository's page, and at whether they are current.

    tests/docs/pages_test.py                 what is committed: no placeholder, no command of Doxygen's, no dead link, 4 MB at most
    tests/docs/pages_test.py BUILD/docs      also that it is what script/docs has just made there

Exit codes: 0 all is well; 1 something is broken; 77 BUILD/docs is not there.
"""

import os
import re
import sys
import urllib.parse
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"
LARGEST = 4_000_000
READ_HERE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(path for room in sorted(ROOT.glob("[a-z]*/")) if room.name != "build" for path in sorted(room.rglob("README.md")))]
FENCE = re.compile(r"^(```+|~~~+)[^\n]*\n.*?^\1 *$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


def prose(text):
    """A page without its code and formulas, line for line."""
    blank = lambda match: "\n" * match[0].count("\n")  # noqa: E731
    return CODE.sub(blank, FENCE.sub(blank, text))


# ------------------------------------------------------------------------------------------------------ what is left in a page


def left_over(text):
    """What no reader of Markdown should see: (line, what)."""
    found, text = [], prose(text)
    for what, pattern in (
        ("a placeholder", r"\{\{[^}\n]*"), ("a heading's label", r"\{#[^}\n]*"), ("a command", r"(?<![\\\w])[\\@](?:[a-zA-Z]+|f[$\[\]])"),
        ("[TOC]", r"\[TOC\]"), ("a reference that is no link", r"\]\(@ref|^ {0,3}\[[^\]\n]+\]:"), ("a link inside HTML, where it is not read,", r"^<(?:div|p|center)\b[^\n]*\]\([^\n]*"),
    ):  # fmt: skip
        found += [(text[: match.start()].count("\n") + 1, f"{what} is left: {match[0]}") for match in re.finditer(pattern, text, re.MULTILINE)]
    return found


def uneven_tables(text):
    """Tables whose rows have not as many cells as their header, which a | in a cell makes."""
    found, cells = [], None
    for number, line in enumerate(FENCE.sub(lambda match: "\n" * match[0].count("\n"), text).split("\n"), 1):
        if not line.startswith("|"):
            cells = None
            continue
        count = len(re.findall(r"(?<!\\)\|", line))
        if cells is not None and count != cells:
            found.append((number, f"{count - 1} cells in a table of {cells - 1}"))
        cells = cells or count
    return found


def unbalanced_folds(text):
    opened, closed = (len(re.findall(tag, prose(text))) for tag in ("<details>", "</details>"))
    return [(1, f"{opened} folds begin, {closed} end")] if opened != closed else []


# ---------------------------------------------------------------------------------------------------------------------- links


def anchors(path):
    """The places of a page that a link can lead to: those that it names, and those that GitHub makes of headings."""
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r'<a id="([^"]+)"></a>', text))
    for heading in re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"<[^>]*>", "", heading).strip().lower()
        named.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return named


def dead_links(path, known):
    """The links of a document that lead nowhere: (line, what)."""
    found, text = [], prose(path.read_text(encoding="utf-8"))
    for match in re.finditer(r"\]\(([^()\s]+)\)", text):
        address = match[1]
        if re.match(r"[a-z]+:", address):
            continue
        file, _, anchor = address.partition("#")
        target = Path(os.path.normpath(path.parent / urllib.parse.unquote(file))) if file else path
        line = text[: match.start()].count("\n") + 1
        if not target.exists() or not target.is_relative_to(ROOT):
            found.append((line, f"a dead link: {address}"))
        elif anchor and anchor not in known.setdefault(target, anchors(target)):
            found.append((line, f"a dead anchor: {address}"))
        elif target.suffix == ".md" and target.parent == ROOT / "docs" or target.name == "lesson.md":
            found.append((line, f"a link to what is no page: {address}; its page is in {PAGES.relative_to(ROOT)}"))
    return found


def check_pages():
    """Problems of the committed pages, and of what leads to them."""
    problems, known, used = [], {}, set()
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        used |= set(re.findall(r"\]\((images/[^()]+)\)", text))
        problems += [(path, *problem) for problem in (*left_over(text), *uneven_tables(text), *unbalanced_folds(text))]
    for path in dict.fromkeys([*sorted(PAGES.glob("*.md")), *READ_HERE]):
        problems += [(path, *problem) for problem in dead_links(path, known)]
    pictures = {path.relative_to(PAGES).as_posix() for path in PAGES.glob("images/*")}
    problems += [(PAGES / name, 1, "no page shows this picture") for name in sorted(pictures - used)]
    size = sum(path.stat().st_size for path in PAGES.rglob("*") if path.is_file())
    if not 0 < size <= LARGEST:
        problems.append((PAGES, 1, f"{size} bytes in all, {LARGEST} at most"))
    return [f"{path.relative_to(ROOT)}:{line}: {what}" for path, line, what in problems], size


def main(arguments):
    if len(arguments) > 1 or arguments[:1] == ["--help"]:
        print(__doc__)
        return 2
    folder = Path(arguments[0]) / "repository" if arguments else None
    if folder is not None and not folder.is_dir():
        print(f"pages_test.py: skipped, there is no {folder}: script/docs makes it")
        return 77
    problems, size = check_pages()
    if folder is not None:
        sys.path.insert(0, str(ROOT / "docs"))
        from generator import current

        changed, gone = current.differences(ROOT, folder)
        problems += [f"{name} is not current{difference}" for name, difference in changed.items()] + [f"{name} is made no more" for name in gone]
        if changed or gone:
            problems.append("to renew them: script/docs --pages")
    print("\n".join(problems) or f"{len(list(PAGES.glob('*.md')))} pages, {size / 1e6:.2f} MB in all, are well{' and current' if folder else ''}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
