"""The registers of the course: pitfalls, what the source documents say, and questions that readers ask.

Each becomes a list on a page, and its references have to hold: a lesson, a step, a heading that the site has."""

import itertools
import json
import re

from . import tables
from .errors import PageError, read_text
from .numbers import number_text
from .tables import quoted


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
        pitfall_section(pitfall, exhibit_rows(trace[f"changes.{pitfall['id']}"].item(), noticed[pitfall["id"]]) if pitfall["is_exhibit"] else "")
        for pitfall in listed
    )


def calls(site):
    """A section for each mistake with a cache: in which schedules it shows, as attn.calls_table computed it, and what has the same pattern."""
    sections = []
    for name, kind, wrong, others, sentence, why, link in rows(site, "calls_table")[1:]:
        same = ", ".join(rf'\ref calls_{other} "{other}"' for other in others.split("; ") if other)
        sections.append(
            f"### {name} {{#calls_{name}}}\n\n{markdown(sentence)} {markdown(why)}\n\n"
            f"| | |\n|---|---|\n| made in | a decoder: {kind} |\n| wrong in | {wrong.replace('; ', ', ')} |\n"
            f"| has the pattern of | {same or 'no other'} |\n| seen | [{link.removeprefix('https://github.com/')}]({link}) |\n"
        )
    return "\n".join(sections)


def pitfall_formulas(site):
    """How the formulas of mistakes are written: a section of what is written for those who add one."""
    readme = read_text(site.root / "src" / "mistakes" / "list" / "README.md", "the repository")
    text = readme.partition("## The formulas\n")[2].partition("\n## ")[0].strip()
    return text.replace("](../../../docs/formulas.md)", "](@ref formulas)")


def exhibit_rows(change, by):
    unseen = "; ".join(f"{words} {by[column]}" for column, words in (("lessons that don't", "not by lesson"), ("modules that don't", "not by")) if by[column])
    return (
        f"| changes the example by | {number_text(change, '.3g')} |\n"
        f"| noticed by | lesson {by['lessons that notice']}; {by['modules that notice']}{'; ' + unseen if unseen else ''} |\n"
    )


def pitfall_section(pitfall, more):
    forms = sum(len(form["values"]) for form in pitfall["forms"])
    return (
        f"### {pitfall['id']} {{#pitfall_{pitfall['id']}}}\n\n{pitfall['sentence']} {pitfall['why']}\n\n"
        f"| | |\n|---|---|\n| step | `{pitfall['step']}` |\n| right | `{pitfall['right']}` |\n| instead | `{pitfall['mistaken']}` |\n"
        f"| forms | {forms} |\n{more}"
        f"| seen | [{markdown(pitfall['seen'])}]({pitfall['link']}) |\n"
    )


def syllabus(site):
    """A table for each source document: what it says, and which lesson, step and test answer it."""
    sections = []
    for document, of_document in itertools.groupby(rows(site, "syllabus")[1:], key=lambda row: row[0]):
        lines = [f"### Document {document} {{#source_{document}}}", "", "| kind | what it says | lesson | step | test |", "|---|---|---|---|---|"]
        for _, kind, says, lesson, step, test in of_document:
            lines.append(f"| {kind} | {markdown(says)} | {link_to_lesson(site, lesson)} | {f'`{step}`' if step else ''} | {markdown(test)} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def link_to_lesson(site, name):
    return rf'\ref {site.lesson_called(name).label} "{int(name[:2])}"' if name else "not here"


def questions(site):
    """The questions that readers ask: each with its answer in a sentence, a number of a run, and the place on a page that has it."""
    answered = []
    for question, lesson, anchor, reference, answer in rows(site, "questions")[1:]:
        page = site.lesson_called(lesson)
        number = site.expand(page, reference, "text", False)
        if number not in section(site, page, anchor):
            raise PageError(f"docs/questions.tsv: '{question}': the section {anchor} of {lesson} does not show {{{{{reference}}}}}")
        answered.append((rf'\ref {anchor} "{quoted(question)}"', f"{markdown(answer)} {number}"))
    return tables.rows_of(("question", "in short, with a number from the run"), answered, "pages")


def section(site, page, anchor):
    """The filled text under the heading with that anchor, to the next heading of its level or above."""
    text = site.fill(page)
    heading = re.search(rf"^(#+) .*\{{#{re.escape(anchor)}\}} *$", text, re.MULTILINE)
    if heading is None:
        raise PageError(f"{page.source.relative_to(site.root)} has no heading {{#{anchor}}}")
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", text[heading.end() :], re.MULTILINE)
    return text[heading.end() : heading.end() + end.start() if end else None]


def markdown(text):
    """Plain words that mean nothing to Markdown."""
    return re.sub(r"([*_\\[\]<>#|])", r"\\\1", text)
