"""The registers of the course: pitfalls, what the source documents say, and questions that readers ask.

Each becomes a list on a page, and its references have to hold: a lesson, a step, a heading that the site has."""

import itertools
import json
import re

from .errors import PageError, read_text
from .numbers import number_text


def rows(site, name):
    """The rows of docs/NAME.tsv, the first of them its header."""
    table = read_text(site.root / "docs" / f"{name}.tsv", "the repository")
    found = [line.split("\t") for line in table.splitlines()]
    if any(len(row) != len(found[0]) for row in found):
        raise PageError(f"docs/{name}.tsv has a row that is not of {len(found[0])} columns")
    return found


def pitfalls(site):
    """A section for each pitfall: the list, and for an exhibit the numbers of lesson 23 and whose comparisons notice it."""
    listed = json.loads(read_text(site.build / "pitfalls.json", "attn pitfalls --json"))
    header, *kills = rows(site, "kill_table")
    noticed = {row[0]: dict(zip(header[1:], row[1:])) for row in kills}
    trace = site.trace_called("23_pitfalls")
    return "\n".join(
        pitfall_section(site, pitfall, exhibit_rows(trace[f"changes.{pitfall['id']}"].item(), noticed[pitfall["id"]]) if pitfall["is_exhibit"] else [])
        for pitfall in listed
    )


def calls(site):
    """A section for each mistake with a cache: in which schedules it shows, as attn.calls_table computed it, and what has the same pattern."""
    page = site.page_called("calls")
    sections = []
    for name, kind, wrong, others, sentence, why, link in rows(site, "calls_table")[1:]:
        same = ", ".join(site.writer.link(other, page, f"calls_{other}") for other in others.split("; ") if other)
        table = [
            ("made in", f"a decoder: {kind}"), ("wrong in", wrong.replace("; ", ", ")), ("has the pattern of", same or "no other"),
            ("seen", f"[{link.removeprefix('https://github.com/')}]({link})"),
        ]  # fmt: skip
        sections.append(f"### {name} {site.writer.anchor(f'calls_{name}')}\n\n{markdown(sentence)} {markdown(why)}\n\n{site.writer.table(('', ''), table, 'mistake')}\n")
    return "\n".join(sections)


def pitfall_formulas(site):
    """How the formulas of mistakes are written: a section of what is written for those who add one."""
    readme = read_text(site.root / "src" / "mistakes" / "list" / "README.md", "the repository")
    text = readme.partition("## The formulas\n")[2].partition("\n## ")[0].strip()
    return text.replace("](../../../docs/pages/formulas.md)", f"]({site.writer.target(site.page_called('formulas'))})")


def exhibit_rows(change, by):
    unseen = "; ".join(f"{words} {by[column]}" for column, words in (("lessons that don't", "not by lesson"), ("modules that don't", "not by")) if by[column])
    return [("changes the example by", number_text(change, ".3g")), ("noticed by", f"lesson {by['lessons that notice']}; {by['modules that notice']}{'; ' + unseen if unseen else ''}")]


def pitfall_section(site, pitfall, more):
    forms = sum(len(form["values"]) for form in pitfall["forms"])
    rows = [
        ("step", f"`{pitfall['step']}`"), ("right", f"`{pitfall['right']}`" if pitfall["right"] else "no formula"), ("instead", f"`{pitfall['mistaken']}`"), ("forms", forms), *more,
        ("seen", f"[{markdown(pitfall['seen'])}]({pitfall['link']})"),
    ]  # fmt: skip
    heading = f"### {pitfall['id']} {site.writer.anchor('pitfall_' + pitfall['id'])}"
    return f"{heading}\n\n{pitfall['sentence']} {pitfall['why']}\n\n{site.writer.table(('', ''), rows, 'mistake')}\n"


def syllabus(site):
    """A table for each source document: what it says, and which lesson, step and test answer it."""
    sections = []
    for document, of_document in itertools.groupby(rows(site, "syllabus")[1:], key=lambda row: row[0]):
        lines = [f"### Document {document} {site.writer.anchor(f'source_{document}')}", "", "| kind | what it says | lesson | step | test |", "|---|---|---|---|---|"]
        for _, kind, says, lesson, step, test in of_document:
            lines.append(f"| {kind} | {markdown(says)} | {link_to_lesson(site, lesson)} | {f'`{step}`' if step else ''} | {markdown(test)} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def link_to_lesson(site, name):
    return site.writer.link(str(int(name[:2])), site.lesson_called(name)) if name else "not here"


def questions(site):
    """The questions that readers ask: each with its answer in a sentence, a number of a run, and the place on a page that has it."""
    answered = []
    for question, lesson, anchor, reference, answer in rows(site, "questions")[1:]:
        page = site.lesson_called(lesson)
        number = site.expand(page, reference, "text", False)
        if number not in page.under(anchor, site.fill(page), site.writer.anchor(anchor))[1]:
            raise PageError(f"docs/questions.tsv: '{question}': the section {anchor} of {lesson} does not show {{{{{reference}}}}}")
        answered.append((site.writer.link(question, page, anchor), f"{markdown(answer)} {number}"))
    return site.writer.table(("question", "in short, with a number from the run"), answered, "pages")


def markdown(text):
    """Plain words that mean nothing to Markdown."""
    return re.sub(r"([*_\\[\]<>#|])", r"\\\1", text)
