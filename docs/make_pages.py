#!/usr/bin/env python3
"""Makes the Markdown pages that Doxygen reads: every number in their prose comes from a run.

    docs/make_pages.py --root REPOSITORY --build BUILD/docs

reads lessons/NN_topic/lesson.md, docs/*.md, include/attn and BUILD/docs/traces/NN_topic.npz, and writes
BUILD/docs/pages and BUILD/docs/include. A lesson links to BUILD/docs/view/NN_topic.html where that is. A line of a page stays on its line, so that Doxygen's complaints point to the
right one. Placeholders:

    {{weights[0,1]}}  {{weights[0,1]:.2f}}  {{weights}}  {{03_scale_and_softmax:weights[0]}}
    {{table weights}}  {{shape weights}}  {{formula weights}}  {{steps}}  {{steps head.0}}
    {{program}}  {{result}}  {{output diff_wrong}}  {{lessons}}  {{pages}}  {{library}}
    {{program}}  {{result}}  {{lessons}}  {{pages}}  {{library}}  {{pitfalls}}  {{syllabus}}

They are filled in prose, in code spans and in formulas, not in fenced blocks; write \\{{ for two braces. A link to
another page is written as GitHub wants it, [notation](../../docs/notation.md).

An unknown name, a bad index or a missing trace is an error: exit code 2, and a line with the file and the line.
Standard library only.
"""

import argparse
import ast
import itertools
import json
import math
import re
import shutil
import struct
import sys
import zipfile
from pathlib import Path

# ---------------------------------------------------------------------------------------------------- traces


class PageError(Exception):
    """What the writer of a page can mend."""


class Tensor:
    """An array of a trace: shape and row-major values, Python numbers."""

    def __init__(self, shape, values):
        self.shape = tuple(shape)
        self.values = values

    @classmethod
    def from_npy(cls, data, name):
        if data[:6] != b"\x93NUMPY":
            raise PageError(f"{name} is not an .npy array")
        wide = data[6] > 1
        start = 12 if wide else 10
        (length,) = struct.unpack_from("<I" if wide else "<H", data, 8)
        header = ast.literal_eval(data[start : start + length].decode("latin-1"))
        formats = {"<f8": "d", "<f4": "f", "|b1": "?", "<i8": "q"}
        if header["descr"] not in formats or header["fortran_order"]:
            raise PageError(f"{name} has elements {header['descr']!r}; expected row-major {', '.join(formats)}")
        shape = header["shape"]
        values = struct.unpack_from(f"<{math.prod(shape)}{formats[header['descr']]}", data, start + length)
        return cls(shape, list(values))

    def take(self, selection):
        """The part that an index selects: a list of integers and slices, an entry an axis from the first on."""
        if len(selection) > len(self.shape):
            raise PageError(f"the index has {len(selection)} entries, the tensor is {shape_text(self.shape)}")
        kept, choices = [], []
        for axis, size in enumerate(self.shape):
            entry = selection[axis] if axis < len(selection) else slice(None)
            if isinstance(entry, slice):
                positions = list(range(size))[entry]
                kept.append(len(positions))
            else:
                if not -size <= entry < size:
                    raise PageError(f"index {entry} is outside axis {axis} of a tensor {shape_text(self.shape)}")
                positions = [entry % size]
            choices.append(positions)
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        values = [
            self.values[sum(position * stride for position, stride in zip(positions, strides))]
            for positions in itertools.product(*choices)
        ]
        return Tensor(kept, values)


class Trace:
    """A trace file: arrays by path, and the ordered steps."""

    def __init__(self, path):
        if not path.is_file():
            raise PageError(f"there is no trace {path.name} in {path.parent}: run the lesson (script/docs does)")
        self.name = path.stem
        with zipfile.ZipFile(path) as archive:
            members = {member: archive.read(member) for member in archive.namelist()}
        if "steps.json" not in members:
            raise PageError(f"{path.name} has no member steps.json")
        document = json.loads(members["steps.json"])
        self.steps = document if isinstance(document, list) else document["steps"]
        self.by_path = {step["path"]: step for step in self.steps}
        aliases = [] if isinstance(document, list) else document.get("aliases", [])
        self.by_path.update({alias["path"]: self.by_path[alias["target"]] for alias in aliases})
        self.members = members

    def step(self, path):
        if path not in self.by_path:
            last = path.rsplit(".", 1)[-1]
            near = [other for other in self.by_path if last in other] or list(self.by_path)
            raise PageError(f"{self.name} has no step '{path}'; it has {', '.join(near[:8])}")
        return self.by_path[path]

    def tensor(self, path):
        return Tensor.from_npy(self.members[f"{self.step(path)['path']}.npy"], path)


# ---------------------------------------------------------------------------------------------------- numbers


def shape_text(shape):
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"


def is_whole(value):
    return math.isfinite(value) and value == int(value) and abs(value) < 1e9


def common_format(values):
    """One way to write all these values: whole numbers, four decimals, or powers of ten."""
    finite = [value for value in values if math.isfinite(value)]
    largest = max(map(abs, finite), default=0)
    if all(map(is_whole, finite)):
        return ".0f"
    return ".4f" if 1e-3 <= largest < 1e6 else ".3e"


def number_text(value, specification):
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = format(value, specification)
    return text.replace("-", "", 1) if re.fullmatch(r"-0(\.0*)?", text) else text


def number_tex(value, specification):
    text = number_text(value, specification)
    named = {"NaN": r"\mathrm{NaN}", "inf": r"\infty", "-inf": r"-\infty", "true": r"\mathrm{true}", "false": r"\mathrm{false}"}
    if text in named:
        return named[text]
    return re.sub(r"e([+-])0*(\d+)$", lambda m: r" \cdot 10^{" + m[1].replace("+", "") + m[2] + "}", text)


def nested(tensor, write, opening="[", closing="]"):
    """The values as nested lists."""
    if not tensor.shape:
        return write(tensor.values[0])
    parts = (nested(tensor.take([i]), write, opening, closing) for i in range(tensor.shape[0]))
    return opening + ", ".join(parts) + closing


# ---------------------------------------------------------------------------------------------------- pages

LESSON_NAME = r"\d\d_[a-z0-9_]+"
REFERENCE = re.compile(
    rf"(?:(?P<lesson>{LESSON_NAME}):)?(?P<path>[A-Za-z_][\w]*(?:\.\w+)*)(?:\[(?P<index>[-\d:, ]*)\])?(?::(?P<format>[^\s]+))?"
)
TOKEN = re.compile(
    r"""
    (?P<fence>^(?P<mark>```+|~~~+)[^\n]*\n.*?^(?P=mark)[ \t]*$)
  | (?P<verbatim>[\\@](?P<block>code|verbatim|dot)\b.*?[\\@]end(?P=block)\b | <!--.*?-->)
  | (?P<math>\\f\$.*?\\f\$ | \\f\[.*?\\f\] | \\f\(.*?\\f\) | \\f\{.*?\\f\})
  | (?P<escaped>\\\{\{)
  | (?P<code>(?P<ticks>`+)(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`))
  | (?P<link>\]\((?P<target>[^()\s:\#]+\.md)(?P<anchor>\#[\w-]+)?\))
  | (?P<placeholder>\{\{(?P<inside>[^{}\n]*)\}\})
  | (?P<stray>\{\{)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
INSIDE_MATH_OR_CODE = re.compile(r"\{\{(?P<inside>[^{}\n]*)\}\}|\\(?P<escaped>\{\{)")
HEADING = re.compile(r"^# +(?P<title>.*?)(?: *\{#(?P<label>[\w-]+)\})? *$", re.MULTILINE)

LARGEST_TABLE = 1024


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
        if heading["label"] is None and label is not None:
            self.text = f"{self.text[: heading.end('title')]} {{#{label}}}{self.text[heading.end():]}"

    def summary(self, text):
        """The first sentence of the first paragraph, for tables of pages."""
        body = text[HEADING.search(text).end() :]
        for paragraph in re.split(r"\n\s*\n", body):
            paragraph = " ".join(paragraph.split())
            if paragraph and not re.match(r"[#\\@|<`]|\[TOC\]|- |\d+\. ", paragraph):
                return re.split(r"(?<=[.?!])\s", paragraph, maxsplit=1)[0].rstrip(":")
        return ""


class Site:
    """All pages, and what their placeholders may name."""

    def __init__(self, root, build):
        self.root, self.build = root, build
        self.traces = {}
        lessons = sorted(path for path in (root / "lessons").glob("[0-9][0-9]_*") if path.is_dir())
        for path in lessons:
            if not (path / "lesson.md").is_file():
                raise PageError(f"lessons/{path.name} has no lesson.md")
        self.lessons = [Page(path / "lesson.md", f"lesson_{path.name}", path.name) for path in lessons]
        order = ["notation", "formulas", "explain", "diff", "view", "graph", "trace_format", "your_weights", "pitfalls", "xtensor_pitfalls"]
        documents = sorted(
            (root / "docs").glob("*.md"), key=lambda path: (order.index(path.stem) if path.stem in order else 99, path.stem)
        )
        self.main = next(Page(path, None) for path in documents if path.stem == "main_page")
        self.documents = [Page(path, path.stem) for path in documents if path.stem != "main_page"]
        self.labels = {page.source.resolve(): page.label for page in [*self.lessons, *self.documents, self.main]}
        self.groups = header_groups(root / "include" / "attn")
        self.filled = {}
        self.verbs = {
            "program": self.program,
            "result": self.result,
            "lessons": lambda _: self.table_of_pages(self.lessons, "lesson"),
            "pages": lambda _: self.table_of_pages(self.documents, "page"),
            "library": self.table_of_groups,
            "pitfalls": self.pitfalls,
            "syllabus": self.syllabus,
        }

    # ------------------------------------------------------------------------------------------ one placeholder

    def trace(self, page, lesson):
        name = lesson or page.lesson
        if name is None:
            raise PageError("only a lesson's page has a trace of its own; name one: {{01_single_query:weights[0]}}")
        if name not in self.traces:
            self.traces[name] = Trace(self.build / "traces" / f"{name}.npz")
        return self.traces[name]

    def find(self, page, text):
        """What a reference such as 03_scale_and_softmax:d_k.64.scores[0,:]:.2f names."""
        match = REFERENCE.fullmatch(text)
        if match is None:
            raise PageError(f"cannot read '{text}'; write a step, an index, a format: weights[0,1]:.2f")
        trace = self.trace(page, match["lesson"])
        step = trace.step(match["path"])
        tensor, axes, place = trace.tensor(match["path"]), list(step.get("axes") or []), match["path"]
        if match["index"] is not None:
            selection = parse_index(match["index"])
            tensor = tensor.take(selection)
            whole = [slice(None)] * (len(axes) - len(selection))
            axes = [axis for axis, entry in zip(axes, selection + whole) if isinstance(entry, slice)]
            place += f"[{match['index']}]"
        specification = match["format"]
        if specification is not None:
            try:
                format(1.0, specification)
            except ValueError as error:
                raise PageError(f"'{specification}' is no format for a number ({error})") from None
        return trace, step, tensor, axes, place, specification or common_format(tensor.values)

    def expand(self, page, inside, context, alone):
        """The text that a placeholder stands for. The context is text, heading, code or math."""
        verb, _, rest = inside.strip().partition(" ")
        rest = rest.strip()
        if context == "text":
            if verb == "table" and rest:
                return self.table(page, rest)
            if verb == "steps":
                return self.steps(page, rest)
            if verb == "output" and re.fullmatch(r"\w+", rest):
                return self.output(rest)
            if verb in self.verbs and not rest:
                return self.verbs[verb](page)
        if verb == "shape" and rest:
            _, _, tensor, _, _, _ = self.find(page, rest)
            return shape_text(tensor.shape)
        if verb == "formula" and rest:
            _, step, _, _, _, _ = self.find(page, rest)
            return step.get("formula", "") if context == "code" else f"`{step.get('formula', '')}`"

        trace, _, tensor, _, place, specification = self.find(page, inside.strip())
        if len(tensor.shape) > 1 and context == "text" and alone:
            return self.table(page, inside.strip())
        if len(tensor.values) > 64:
            raise PageError(f"'{inside.strip()}' has {len(tensor.values)} numbers, too many for a sentence; use {{{{table …}}}}")
        if context == "math":
            return tex(tensor, specification)
        text = nested(tensor, lambda value: number_text(value, specification))
        if context in ("code", "heading"):
            return text
        exact = nested(tensor, lambda value: number_text(value, "" if isinstance(value, bool) else ".10g"))
        kind = "from-run" if tensor.shape else "from-run one"
        return f'<span class="{kind}" title="{place} = {exact}, lesson {trace.name}">{text}</span>'

    # ------------------------------------------------------------------------------------------ tables

    def table(self, page, reference):
        """A tensor as a table: rows and columns are numbered, every cell comes from the trace."""
        trace, step, tensor, axes, place, specification = self.find(page, reference)
        if len(tensor.values) > LARGEST_TABLE:
            raise PageError(f"'{reference}' has {len(tensor.values)} numbers, more than a table of {LARGEST_TABLE}; take a part")
        if len(tensor.shape) > 2:
            return "".join(
                self.one_table(trace, step, tensor.take(list(lead)), axes[len(lead) :], f"{place}[{', '.join(map(str, lead))}]", specification)
                for lead in itertools.product(*map(range, tensor.shape[:-2]))
            )
        return self.one_table(trace, step, tensor, axes, place, specification)

    def one_table(self, trace, step, tensor, axes, place, specification):
        rows, columns = (1,) * (2 - len(tensor.shape)) + tensor.shape
        is_matrix = len(tensor.shape) == 2
        proportions = all(not isinstance(value, (bool, int)) and 0 <= value <= 1 for value in tensor.values)
        fractional = proportions and not all(map(is_whole, tensor.values))

        def cell(value):
            text = number_text(value, specification)
            shade = f' class="share-{round(10 * value)}"' if fractional else ""
            if not fractional and (text in ("-inf", "false", "0") or value == 0):
                shade = ' class="nothing"'
            return f"<td{shade}>{text}</td>"

        def label(axis, i):
            crowded = axis == -1 and i > 0 and columns > 4
            return f"{axes[axis]} = {i}" if axes and not crowded else str(i)

        head = "".join(f"<th>{label(-1, column)}</th>" for column in range(columns)) if tensor.shape else ""
        lines = []
        for row in range(rows):
            header = f"<th>{label(0, row)}</th>" if is_matrix else ""
            lines.append(f"<tr>{header}{''.join(map(cell, tensor.values[row * columns : (row + 1) * columns]))}</tr>")
        corner = "<th></th>" if is_matrix else ""
        formula = f" = `{step['formula']}`" if step.get("formula") and place == step["path"] else ""
        heading = f"<tr>{corner}{head}</tr>" if head else ""
        return (
            f'<div class="tensor"><div class="tensor-name">`{place}`{formula}</div>'
            f'<table class="tensor-values">{heading}{"".join(lines)}</table></div>'
        )

    def steps(self, page, prefix):
        """The steps of a lesson, or of one of its scopes, in order."""
        match = re.fullmatch(rf"(?:({LESSON_NAME}):)?([\w.]*)", prefix)
        if match is None:
            raise PageError(f"cannot read '{{{{steps {prefix}}}}}'; write {{{{steps}}}} or {{{{steps scope}}}}")
        trace = self.trace(page, match[1])
        scope = match[2]
        steps = [step for step in trace.steps if not scope or step["path"] == scope or step["path"].startswith(scope + ".")]
        if not steps:
            raise PageError(f"{trace.name} has no steps in the scope '{scope}'")
        rows = []
        for step in steps:
            axes, shape = step.get("axes") or [], step["shape"]
            if not shape:
                size = "a number"
            elif axes:
                size = f"`({', '.join(f'{axis}={extent}' for axis, extent in zip(axes, shape))})`"
            else:
                size = f"`{shape_text(shape)}`"
            formula = f"`{step['formula']}`" if step.get("formula") else "given"
            rows.append(f"<tr><td>`{step['path']}`</td><td>{size}</td><td>{formula}</td></tr>")
        return (
            '<div class="scroll"><table class="markdownTable steps"><tr class="markdownTableHead"><th>step</th><th>shape</th><th>how it follows</th></tr>'
            + "".join(rows)
            + "</table></div>"
        )

    # ------------------------------------------------------------------------------------------ parts of the site

    def program(self, page):
        self.trace(page, None)
        return rf"\include {page.lesson}/lesson.cpp"

    def result(self, page):
        self.trace(page, None)
        return rf"{self.view(page)}\verbinclude {page.lesson}.txt"

    def view(self, page):
        """A link to the lesson's page of attn view, where script/docs made one."""
        if not (self.build / "view" / f"{page.lesson}.html").is_file():
            return ""
        return f'<p><a href="view/{page.lesson}.html">This run as a page</a>: every tensor, and the arithmetic of every number.</p> '

    def output(self, name):
        """What a command of script/docs printed."""
        read_text(self.build / "results" / f"{name}.txt", "script/docs")
        return rf"\verbinclude {name}.txt"

    def table_of_pages(self, pages, header):
        rows = [
            rf'<tr><td>\subpage {page.label} "{quoted(page.title)}"</td><td>{page.summary(self.fill(page))}</td></tr>' for page in pages
        ]
        return f'<div class="scroll"><table class="markdownTable pages"><tr class="markdownTableHead"><th>{header}</th><th>what it is about</th></tr>{"".join(rows)}</table></div>'

    def table_of_groups(self, _page):
        rows = [rf'<tr><td>\ref {label} "{title}"</td><td>{brief}</td></tr>' for _, label, title, brief in self.groups]
        return f'<div class="scroll"><table class="markdownTable pages"><tr><th>part</th><th>what it holds</th></tr>{"".join(rows)}</table></div>'

    def pager(self, page):
        """Links to the lessons before and after."""
        i = self.lessons.index(page)
        links = []
        if i > 0:
            links.append(rf'<span class="before">\ref {self.lessons[i - 1].label} "← {quoted(self.lessons[i - 1].title)}"</span>')
        if i + 1 < len(self.lessons):
            links.append(rf'<span class="after">\ref {self.lessons[i + 1].label} "{quoted(self.lessons[i + 1].title)} →"</span>')
        return f'\n\n<div class="pager">{" ".join(links)}</div>\n' if links else "\n"

    # ------------------------------------------------------------------------------------------ pitfalls

    def pitfalls(self, page):
        """A section a pitfall: the registry, the numbers of lesson 23, and who notices."""
        registry = json.loads(read_text(self.build / "pitfalls.json", "attn pitfalls --json"))
        rows = [line.split("\t") for line in read_text(self.root / "docs" / "kill_table.tsv", "the pitfalls' test").splitlines()]
        noticed = {row[0]: dict(zip(rows[0][1:], row[1:])) for row in rows[1:]}
        trace = self.trace(page, "23_pitfalls")
        sections = []
        for pitfall in registry:
            change = trace.tensor(f"changes.{pitfall['id']}").values[0]
            by = noticed[pitfall["id"]]
            unseen = "; ".join(f"{words} {by[column]}" for column, words in (("lessons that don't", "not by lesson"), ("modules that don't", "not by")) if by[column])
            sections.append(
                f"### {pitfall['id']} {{#pitfall_{pitfall['id']}}}\n\n{pitfall['sentence']} {pitfall['shows']}\n\n"
                f"| | |\n|---|---|\n| step | `{pitfall['step']}` |\n| right | `{pitfall['right']}` |\n| instead | `{pitfall['mistaken']}` |\n"
                f"| changes the example by | {number_text(change, '.3g')} |\n"
                f"| noticed by | lesson {by['lessons that notice']}; {by['modules that notice']}{'; ' + unseen if unseen else ''} |\n"
                f"| seen | [{markdown(pitfall['seen'])}]({pitfall['link']}) |\n"
            )
        return "\n".join(sections)

    # ------------------------------------------------------------------------------------------ sources

    def syllabus(self, _page):
        """A table a source document: what it says, and which lesson, step and test answer it."""
        table = read_text(self.root / "docs" / "syllabus.tsv", "the list of what the sources say")
        header, *rows = [line.split("\t") for line in table.splitlines()]
        if any(len(row) != len(header) for row in rows):
            raise PageError(f"docs/syllabus.tsv has a row that is not of {len(header)} columns")
        sections = []
        for document, of_document in itertools.groupby(rows, key=lambda row: row[0]):
            lines = [f"### {document} {{#source_{document}}}", "", "| kind | what it says | lesson | step | test |", "|---|---|---|---|---|"]
            for _, kind, says, lesson, step, test in of_document:
                lines.append(f"| {kind} | {markdown(says)} | {self.link_to_lesson(lesson)} | {code(step)} | {markdown(test)} |")
            sections.append("\n".join(lines))
        return "\n\n".join(sections)

    def link_to_lesson(self, name):
        if not name:
            return "not here"
        for page in self.lessons:
            if page.lesson == name:
                return rf'\ref {page.label} "{int(name[:2])}"'
        raise PageError(f"docs/syllabus.tsv names the lesson {name}, which does not exist")

    # ------------------------------------------------------------------------------------------ one page

    def fill(self, page):
        if page.source in self.filled:
            return self.filled[page.source]

        def located(position, inside, context, alone):
            try:
                return self.expand(page, inside, context, alone)
            except PageError as error:
                raise PageError(f"{self.where(page, position)}: {{{{{inside}}}}}: {error}") from None

        def within(match, context):
            def replace(part):
                if part["escaped"]:
                    return "{{"
                return located(match.start() + part.start(), part["inside"], context, False)

            return INSIDE_MATH_OR_CODE.sub(replace, match[0])

        def replace(match):
            if match["fence"] or match["verbatim"]:
                return match[0]
            if match["escaped"]:
                return "{{"
            if match["math"]:
                return within(match, "math")
            if match["code"]:
                return within(match, "code")
            if match["link"]:
                target = (page.source.parent / match["target"]).resolve()
                if target not in self.labels:
                    raise PageError(f"{self.where(page, match.start())}: the link goes to {match['target']}, which is no page of the site")
                label = match["anchor"][1:] if match["anchor"] else self.labels[target]
                return f"](@ref {label})"
            if match["stray"]:
                raise PageError(f"{self.where(page, match.start())}: {{{{ without }}}} on its line; write \\{{{{ for two braces")
            start = page.text.rfind("\n", 0, match.start()) + 1
            end = page.text.find("\n", match.end())
            line = page.text[start : end if end >= 0 else None]
            context = "heading" if line.startswith("#") else "text"
            return located(match.start(), match["inside"], context, line.strip() == match[0])

        self.filled[page.source] = TOKEN.sub(replace, page.text)
        return self.filled[page.source]

    def where(self, page, position):
        line = page.text.count("\n", 0, position) + 1
        return f"{page.source.relative_to(self.root)}:{line}"

    def write(self):
        pages = self.build / "pages"
        shutil.rmtree(pages, ignore_errors=True)
        pages.mkdir(parents=True)
        for page in self.lessons:
            (pages / f"{page.lesson}.md").write_text(self.fill(page).rstrip("\n") + self.pager(page), encoding="utf-8")
        for page in [*self.documents, self.main]:
            (pages / page.source.name).write_text(self.fill(page), encoding="utf-8")
        write_headers(self.groups, self.root / "include", self.build / "include")
        (pages / "library.dox").write_text(library_page(self.groups), encoding="utf-8")


def parse_index(text):
    """'0, 1:, :' as [0, slice(1, None), slice(None)]."""
    selection = []
    for entry in text.split(","):
        bounds = entry.strip().split(":")
        if not all(re.fullmatch(r"-?\d*", bound.strip()) for bound in bounds) or len(bounds) > 2 or bounds == [""]:
            raise PageError(f"cannot read the index [{text}]; write [0,1] or [0,:]")
        numbers = [int(bound) if bound.strip() else None for bound in bounds]
        selection.append(numbers[0] if len(bounds) == 1 else slice(*numbers))
    return selection


def tex(tensor, specification):
    """A tensor inside a formula: a number, or a matrix in square brackets."""
    if not tensor.shape:
        return number_tex(tensor.values[0], specification)
    if len(tensor.shape) > 2:
        raise PageError(f"a tensor {shape_text(tensor.shape)} does not fit into a formula; take a matrix of it")
    columns = tensor.shape[-1]
    rows = [tensor.values[start : start + columns] for start in range(0, len(tensor.values), columns)]
    body = r" \\ ".join(" & ".join(number_tex(value, specification) for value in row) for row in rows)
    return rf"\begin{{bmatrix}} {body} \end{{bmatrix}}"


def read_text(path, source):
    if not path.is_file():
        raise PageError(f"there is no {path.name} in {path.parent}: {source} makes it")
    return path.read_text(encoding="utf-8")


def markdown(text):
    """Plain words that mean nothing to Markdown."""
    return re.sub(r"([*_\\[\]<>#|])", r"\\\1", text)


def code(text):
    return f"`{text}`" if text else ""


def quoted(title):
    return title.replace('"', "'")


# ---------------------------------------------------------------------------------------------------- headers

FOLDERS = {
    "": ("Tensors and traces", "The containers, their shapes, errors, and the trace that names every step."),
    "ops": ("Operations", "Matrix products, reductions, softmax and activations: concrete tensors in, concrete tensors out."),
    "attention": ("Attention", "Scores, masks, scaled dot-product and additive attention, heads."),
    "layers": ("Layers", "What Transformers are made of: linear maps, layer norm, feed-forward, positions, encoder and decoder."),
    "trace_io": ("Trace files and listeners", "Writing, reading, printing and recording traces; weights from files."),
    "formula": ("Formulas", "Parses a step's formula, computes it a second time, and explains one number of it."),
    "tools": ("Tools", "Modules by name, well-known mistakes, and the comparison of two traces."),
    "fast": ("Fast kernels", "The same meaning in float32, for speed."),
}


def header_groups(include):
    """(folder, group label, title, brief) for every folder of headers, in the order in which they build on each other."""
    folders = {"/".join(path.relative_to(include).parts[:-1][:1]) for path in include.rglob("*.hpp")}
    known = [folder for folder in FOLDERS if folder in folders]
    groups = []
    for folder in [*known, *sorted(folders - set(known))]:
        title, brief = FOLDERS.get(folder, (folder.replace("_", " ").capitalize(), f"Headers in attn/{folder}."))
        groups.append((folder, f"library_{folder or 'core'}", title, brief))
    return groups


def write_headers(groups, include, target):
    """Copies the headers, each namespace's contents put in the group of its folder, line for line."""
    shutil.rmtree(target, ignore_errors=True)
    labels = {folder: label for folder, label, _, _ in groups}
    for source in sorted((include / "attn").rglob("*.hpp")):
        relative = source.relative_to(include)
        label = labels[relative.parts[1] if len(relative.parts) > 2 else ""]
        text = source.read_text(encoding="utf-8")
        opened = re.sub(r"^(namespace attn[\w:]* \{)$", rf"\1 /** @addtogroup {label} */ /** @{{ */", text, flags=re.MULTILINE)
        closed = re.sub(r"^(\} +// namespace attn[\w:]*)$", r"/** @} */ \1", opened, flags=re.MULTILINE)
        if opened.count("@addtogroup") != closed.count("/** @} */ }"):
            raise PageError(f"include/{relative}:1: 'namespace attn… {{' and '}} // namespace attn…' must pair up, each on a line of its own")
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        (target / relative).write_text(readable_comments(closed), encoding="utf-8")


STEP_TABLE = re.compile(r"^(?P<lead> *///\s+@param +\S+ +)\|[^\n]*\n *///\s+\|[-| :]+\|\n(?: *///\s+\|[^\n]*\n)+", re.MULTILINE)


def readable_comments(text):
    """Comments that read well in the header, in the form that Doxygen asks for; line for line."""

    def cells(line):
        return [cell.strip() for cell in line[line.index("|") :].strip().strip("|").split("|")]

    def step_table(match):
        lines = match[0].rstrip("\n").split("\n")
        heads = cells(lines[0])
        comment = lines[1][: lines[1].index("///") + 3] + " "
        rows = [match["lead"] + '<div class="scroll"><table class="markdownTable steps">']
        rows.append(f'{comment}<tr class="markdownTableHead">{"".join(f"<th>{head}</th>" for head in heads)}</tr>')
        for line in lines[2:]:
            written = []
            for head, cell in zip(heads, cells(line)):
                code = head in ("step", "shape", "formula") and cell and "`" not in cell
                written.append(f"<td>`{cell}`</td>" if code else f"<td>{cell or ('given' if head == 'formula' else '')}</td>")
            rows.append(f"{comment}<tr>{''.join(written)}</tr>")
        return "\n".join(rows) + "</table></div>\n"

    text = STEP_TABLE.sub(step_table, text)
    # A dot product written "w . x" is no end of a sentence.
    return re.sub(r"^ *///.*$", lambda line: line[0].replace(" . ", " · "), text, flags=re.MULTILINE)


def library_page(groups):
    parts = ["/** @namespace attn\n    @brief Attention and the Transformer, step by step. */"]
    parts += [f"/** @defgroup {label} {title}\n    @brief {brief} */" for _, label, title, brief in groups]
    return "\n".join(parts) + "\n"


# ---------------------------------------------------------------------------------------------------- program


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", type=Path, required=True, help="the repository")
    parser.add_argument("--build", type=Path, required=True, help="the folder with traces/ and results/; pages/ goes there")
    arguments = parser.parse_args()
    try:
        Site(arguments.root.resolve(), arguments.build.resolve()).write()
    except PageError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
