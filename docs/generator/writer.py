"""How a page is written: for Doxygen, which makes the site, or as Markdown, for those who read it on the repository's page.

The placeholders are expanded once, in site.py. What a link, a formula, a table or a picture looks like is said here, for each.
"""

import html
import os
import re
import textwrap

from . import lab, tables
from .errors import PageError, read_text
from .picture import figure_html, svg_file
from .tables import quoted


class Doxygen:
    """Markdown with Doxygen's commands and the theme's HTML. The pages compute, where the lab is built."""

    computes = True

    def __init__(self, site):
        self.site = site

    def html(self, text):
        """A line of HTML that is left as it is."""
        return rf"\htmlonly[block]{text}\endhtmlonly"

    def target(self, page, anchor=""):
        """What a link to a page, or to a section of it, has in its parentheses."""
        return f"@ref {anchor or page.label}"

    def link(self, title, page, anchor="", below=False):
        """A link in a table or a list; below: in the list of pages, that page hangs under this one."""
        return rf'\{"subpage" if below else "ref"} {anchor or page.label} "{quoted(title)}"'

    def room(self, label, title, _folder):
        """A link to a part of the library."""
        return rf'\ref {label} "{title}"'

    def of_lesson(self, lesson, file):
        """A link to a file that script/docs puts beside the pages."""
        return f'<a href="numpy/{lesson}/{file}" download>{file}</a>'

    def anchor(self, label):
        """The end of a heading that links lead to."""
        return f"{{#{label}}}"

    def contents(self, links):
        return f'<div class="contents-of-page"><ul>{"".join(f"<li>{link}</li>" for link in links)}</ul></div>'

    def formula(self, written):
        return written

    def number(self, text, kind, attributes, title):
        """A number in a sentence, which says where it comes from."""
        return f'<span class="{kind}"{attributes} title="{title}">{html.escape(text)}</span>'

    def shape(self, text, attributes):
        return f"<span{attributes}>{text}</span>" if attributes else text

    def table(self, header, rows, kind):
        return tables.rows_of(header, rows, kind)

    def tensors(self, parts, attributes):
        text = "".join(map(tables.tensor_html, parts))
        return f"<div{attributes}>{text}</div>" if attributes else text

    def powers(self, name, columns, rows):
        """A folded table of small numbers: rows of a name and pairs of a number and whether it counts."""
        head = "".join(f'<th title="{title}">{number}</th>' for number, title in enumerate(columns, 1))
        marks = {True: ' class="seen"', False: ""}
        body = "".join(f"<tr><th>{html.escape(row)}</th>{''.join(f'<td{marks[counts]}>{text}</td>' for text, counts in cells)}</tr>" for row, cells in rows)
        return self.html(f'<details><summary>{name}</summary><div class="kills"><table><tr><th></th>{head}</tr>{body}</table></div></details>')

    def figure(self, key, in_page, _in_file, caption):
        (self.site.build / "results").mkdir(exist_ok=True)
        (self.site.build / "results" / f"{key}.html").write_text(figure_html(in_page, caption, key), encoding="utf-8")
        return rf"\htmlinclude[block] {key}.html"

    def file(self, path):
        name = f"{path.parent.name}/{path.name}" if path.name == "lesson.cpp" else path.name
        include = rf"\{'verbinclude' if path.suffix == '.txt' else 'include'} {name}"
        return self.in_python(include) if path.suffix == ".py" else include

    def whole_file(self, title, path):
        """A file to look at, folded."""
        return self.site.folded(title, self.file(path))

    def printed(self, title, lesson):
        """What a lesson's program prints, folded."""
        return self.site.folded(title, self.file(self.site.build / "results" / f"{lesson}.txt"))

    def snippet(self, file, name):
        return rf"\snippet {file} {name}"

    def code(self, fence):
        return self.in_python(fence) if re.match("```py(thon)?\n", fence) else fence

    def in_python(self, lines):
        """Before lines of Python stands a mark, by which script/docs takes the links to C++ out of them."""
        return "\n".join([self.html('<i class="python"></i>'), lines])

    def both(self, cpp, numpy):
        """A step in C++ and the same in NumPy, with a mark between them."""
        mark = self.html('<i class="either"></i>')
        return f"{cpp}\n{mark}\n{numpy}"

    def only_cpp(self, cpp):
        """A step that has no NumPy lines beside it, marked on the empty line after it."""
        mark = self.html('<i class="alone"></i>')
        return f"{cpp}\n{mark}"

    def pager(self, before, view, after):
        links = [f'<span class="before">{before}</span>' if before else "", view, f'<span class="after">{after}</span>' if after else ""]
        return f'<div class="pager">{" ".join(filter(None, links))}</div>' if any(links) else ""

    def page(self, page, text, before="", after=""):
        """A page, with what is before and after what it says."""
        end = re.match(r"#.*\n?", text).end()  # on the heading's line, so that every line keeps its number
        return f"{text[:end]}{before}{text[end:].rstrip()}\n{after}{lab.scripts(self.site, page)}"


class Markdown:
    """Plain Markdown as GitHub and GitLab show it, all pages in one folder; the pictures are files."""

    computes = False
    folder = "docs/pages"

    def __init__(self, site):
        self.site = site
        self.pictures = {}

    def html(self, text):
        return f"\n\n{text}\n\n"

    def target(self, page, anchor=""):
        return page.file + (f"#{anchor}" if anchor else "")

    def link(self, title, page, anchor="", below=False):
        return f"[{title}]({self.target(page, anchor)})"

    def room(self, _label, title, folder):
        return f"[{title}]({self.of_repository(f'include/attn/{folder}')})"

    def of_repository(self, path):
        """A file or folder of the repository, from a page."""
        return os.path.relpath(path, self.folder)

    def of_lesson(self, lesson, file):
        return f"[{file}]({self.of_repository(f'lessons/{lesson}/{file}')})"

    def anchor(self, label):
        return f'<a id="{label}"></a>'

    def contents(self, links):
        return " · ".join(links)

    def formula(self, written):
        inner = " ".join(written[3:-3].split())
        return f"\n\n```math\n{inner}\n```\n\n" if written.startswith(r"\f[") else f"$`{inner}`$"

    def number(self, text, _kind, _attributes, _title):
        return html.escape(text, quote=False)

    def shape(self, text, _attributes):
        return text

    def table(self, header, rows, _kind):
        return table_of(header, rows)

    def tensors(self, parts, _attributes):
        return "\n\n".join(map(tensor_table, parts)).join(("\n\n", "\n\n"))

    def powers(self, name, columns, rows):
        header = ("", *(str(number) for number, _ in enumerate(columns, 1)))
        found = [(f"`{row}`", *(f"**{text}**" if counts else text for text, counts in cells)) for row, cells in rows]
        cases = "The columns: " + ", ".join(f"{number} `{title}`" for number, title in enumerate(columns, 1)) + "."
        return self.site.folded(name, f"{cases}\n\n{table_of(header, found)}")

    def figure(self, key, _in_page, in_file, caption):
        self.pictures[f"images/{key}.svg"] = svg_file(in_file)
        about = re.sub(r"([*_`])", r"\\\1", html.escape(caption, quote=False))
        return f"\n\n![{key.replace('_', ' ').replace('-', ', ', 1)}](images/{key}.svg)\n\n<sub>{about}</sub>\n\n"

    def file(self, path):
        return fenced("text", read_text(path, "script/docs"))

    def whole_file(self, title, path):
        path = path.relative_to(self.site.root)
        return f"{title}: [{path}]({self.of_repository(path)})"

    def printed(self, title, lesson):
        """How it is printed: times, for instance, are others on every machine."""
        return f"{title}: `script/lessons {int(lesson[:2])}` shows it."

    def snippet(self, file, name):
        text = read_text(self.site.root / "lessons" / file, "the repository")
        parts = re.split(rf"^ *//! \[{name}\]\n", text, flags=re.MULTILINE)
        if len(parts) != 3:
            raise PageError(f"lessons/{file} has no lines between two marks //! [{name}]")
        return fenced("cpp", textwrap.dedent(parts[1]))

    def code(self, fence):
        return fence

    def both(self, cpp, numpy):
        return f"{numpy}\n\n{self.only_cpp(cpp)}"

    def only_cpp(self, cpp):
        return self.site.folded("C++", cpp)

    def pager(self, before, _view, after):
        return " · ".join(filter(None, (before, after)))

    def page(self, page, text, before="", after=""):
        heading, rest = text.split("\n", 1)
        rest = re.sub(r'^<div class="[\w-]+">(.*)</div>$', r"**\1**", rest, flags=re.MULTILINE)  # no link is read inside HTML
        where = f"On the site this is `build/docs/html/{page.label}.html`"
        if page.lesson and page.lesson not in lab.NOT_IN_PAGE:
            where += ", where you change a number, and all that follows from it changes"
        made = "" if page.label == "lab" else f" ([how it is made]({self.target(self.site.page_called('lab'))}))"
        written = f"{heading}\n\n> {where}{made}.\n\n{before}\n\n{rest}\n\n{after}\n"
        return re.sub(r"(^```.*?^```$)|\n{3,}", lambda match: match[1] or "\n\n", written, flags=re.DOTALL | re.MULTILINE).rstrip("\n") + "\n"


def fenced(language, text):
    return f"```{language}\n{text.rstrip()}\n```"


def table_of(header, rows, sign="---"):
    """A table of Markdown, with an empty line before and after it."""
    first = sign if header[0] else ":--"  # names of rows
    lines = [header, (first, *(sign for _ in header[1:])), *rows]
    return "\n\n" + "\n".join("| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", str(cell)) for cell in line) + " |" for line in lines) + "\n\n"


def tensor_table(part):
    """A part of a tensor: its name and formula, then its numbers."""
    name = f"`{part.place}`" + (f" = `{part.formula}`" if part.formula else "")
    rows = [(*([] if label is None else [label]), *(text for text, _ in cells)) for label, cells in part.rows]
    if not part.columns:
        return f"{name} = {rows[0][0]}"
    header = (*([] if part.rows[0][0] is None else [part.corner]), *part.columns)
    return f"{name}\n\n{table_of(header, rows, '--:').strip()}"
