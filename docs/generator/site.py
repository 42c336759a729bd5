"""All pages, and what their placeholders may name."""

import importlib.util
import json
import re
import shutil
import subprocess

from . import curriculum, headers, mpi_cost, mpi_cost_tables, picture, registers, speed, tables
from .errors import PageError, read_text
from .examples import run_examples
from .numbers import common_format, nested, number_text, tex
from .tables import quoted
from .traces import LESSON_NAME, MODEL_RUNS, REFERENCE, Trace, parse_index, shape_text, take

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
BOTH_LANGUAGES = re.compile(r"(^\\snippet \S+/lesson\.cpp \w+\n)(\n```python\n)", re.MULTILINE)
HEADING = re.compile(r"^# +(?P<title>.*?)(?: *\{#(?P<label>[\w-]+)\})? *$", re.MULTILINE)
# What {{report PATH}}, {{cost PATH}} and {{speed PATH}} read, and what made it.
NUMBERS = {
    "report": ("lessons/small_model/report.json", "script/train-model"),
    "cost": ("docs/mpi_cost.json", "bench/mpi_cost.py and the model"),
    "speed": ("docs/speed.json", "script/bench"),
}
# What the lessons in the browser can't compute, and why: as docs/lab/CMakeLists.txt leaves them out.
NOT_IN_PAGE = {
    "11_encoder_stack": "This lesson is not computed in the page: its stack has the paper's size, 13 million weights, and its run takes 100 MiB.",
    "13_transformer": "This lesson is not computed in the page: its model has the paper's size, and its run takes 360 MiB.",
    "15_training": "This lesson is not computed in the page: it trains models for minutes.",
    "19_across_machines": "This lesson is not computed in the page: it starts several processes.",
}


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
        for paragraph in re.split(r"\n\s*\n", re.sub(r"^```.*?^```$", "", body, flags=re.DOTALL | re.MULTILINE)):
            paragraph = " ".join(paragraph.split())
            if paragraph and not re.match(r"[#\\@|<]|\[TOC\]|- |\d+\. ", paragraph):
                return re.split(r"(?<=[.?!])\s", paragraph, maxsplit=1)[0].rstrip(":")
        return ""


class Site:
    def __init__(self, root, build, attn=None, has_lab=False):
        self.root, self.build, self.attn, self.has_lab = root, build, attn, has_lab
        self.loaded = {}
        self.filled = {}
        self.movers = {}  # what the reader moves, by page
        lessons = sorted(path for path in (root / "lessons").glob("[0-9][0-9]_*") if path.is_dir())
        for path in lessons:
            if not (path / "lesson.md").is_file():
                raise PageError(f"lessons/{path.name} has no lesson.md")
        self.lessons = [Page(path / "lesson.md", f"lesson_{path.name}", path.name) for path in lessons]
        documents = sorted((root / "docs").glob("*.md"))
        self.main = next(Page(path, None) for path in documents if path.stem == "main_page")
        self.documents = [Page(path, path.stem) for path in documents if path.stem != "main_page"]
        self.pages = [*self.lessons, *self.documents, self.main]
        self.labels = {page.source.resolve(): page.label for page in self.pages}
        self.curriculum, self.parts = curriculum.curriculum(root)
        self.documents_named = set()
        for page in self.lessons:
            page.minutes, needs = curriculum.time_and_needs(page.text)
            listed = set(self.curriculum[int(page.lesson[:2])].needs) if int(page.lesson[:2]) in self.curriculum else set()
            if needs != listed:
                raise PageError(f"lessons/{page.lesson}/lesson.md builds on {sorted(needs)}, lessons/curriculum.cpp says {sorted(listed)}")
        self.groups = headers.header_groups(root / "include" / "attn")
        # A placeholder is a verb and what it is about, or a reference to numbers of a run.
        self.verbs = {
            "table": self.table, "steps": self.steps, "output": self.output, "picture": self.picture, "graph": self.graph,
            "program": self.program, "result": self.result, "appendix": self.appendix, "solution": self.solution, "fold": self.fold, "moving": self.moving,
            "question": self.fold, "end": lambda *_: self.html("</details>"),
            "lessons": lambda _page, part: self.table_of_pages(self.lessons_of(part), "lesson", "After this lesson you can"),
            "parts": lambda *_: self.table_of_parts(),
            "hours": lambda *_: str(round(sum(page.minutes for page in self.lessons) / 60)),
            "weekend": lambda *_: self.weekend(),
            "pages": lambda _page, names: self.table_of_pages([self.document(name) for name in names.split()], "page", "what it is about"),
            "library": self.table_of_groups,
            "pitfalls": lambda *_: registers.pitfalls(self),
            "pitfall_formulas": lambda *_: registers.pitfall_formulas(self),
            "syllabus": lambda *_: registers.syllabus(self),
            "questions": lambda *_: registers.questions(self),
            "cost_table": lambda _page, name: self.html(mpi_cost_tables.table(self.measured(mpi_cost), name)),
            "speed_table": lambda _page, name: self.html(speed.table(self.measured(speed), name)),
        }  # fmt: skip
        self.stand_alone = {"end", "program", "result", "appendix", "solution", "parts", "hours", "weekend", "library", "pitfalls", "pitfall_formulas", "syllabus", "questions"}

    # ------------------------------------------------------------------------------------------ numbers of a run

    def trace(self, page, lesson=None):
        name = lesson or page.lesson
        if name is None:
            raise PageError("only a lesson's page has a trace of its own; name one: {{01_single_query:weights[0]}}")
        return self.trace_called(name)

    def trace_called(self, name):
        if name not in self.loaded:
            self.loaded[name] = Trace(self.build / "traces" / f"{name}.npz")
        return self.loaded[name]

    def words(self, run="sentence"):
        """The words that a run of the small model is about."""
        return read_text(self.build / "traces" / f"{run}.txt", "script/docs").split()

    def find(self, page, text):
        """What a reference such as 03_scale_and_softmax:d_k.64.scores[0,:]:.2f names."""
        match = REFERENCE.fullmatch(text)
        if match is None:
            raise PageError(f"cannot read '{text}'; write a step, an index, a format: weights[0,1]:.2f")
        trace = self.trace(page, match["lesson"])
        step = trace.step(match["path"])
        array, axes, place = trace[match["path"]], list(step.get("axes") or []), match["path"]
        if match["index"] is not None:
            selection = parse_index(match["index"])
            array = take(array, selection)
            whole = [slice(None)] * (len(axes) - len(selection))
            axes = [axis for axis, entry in zip(axes, selection + whole) if isinstance(entry, slice)]
            place += f"[{match['index']}]"
        specification = match["format"]
        if specification is not None:
            try:
                format(1.0, specification)
            except ValueError as error:
                raise PageError(f"'{specification}' is no format for a number ({error})") from None
        return trace, step, array, axes, place, specification or common_format(array)

    def live_reference(self, page, reference):
        """What follows the reader's own numbers, as the page's script reads it; nothing where it's another run's, or no page computes."""
        lesson = re.match(rf"({LESSON_NAME}):", reference)
        if not self.has_lab or page.lesson is None or (lesson and lesson[1] != page.lesson) or not REFERENCE.fullmatch(reference):
            return ""
        return reference[lesson.end() :] if lesson else reference

    def live(self, page, reference, about=""):
        """The attribute by which the page's script finds it."""
        found = self.live_reference(page, reference)
        return f' data-live="{about}{found}"' if found else ""

    def expand(self, page, inside, context, alone):
        """The text that a placeholder stands for. The context is text, heading, code or math."""
        inside = inside.strip()
        verb, _, rest = inside.partition(" ")
        rest = rest.strip()
        if context == "text" and verb in self.verbs and (not rest if verb in self.stand_alone else rest or verb in ("steps", "graph")):
            return self.verbs[verb](page, rest)
        if verb == "shape" and rest:
            shape = shape_text(self.find(page, rest)[2].shape)
            live = self.live(page, rest, "shape ")
            return f"<span{live}>{shape}</span>" if live and context == "text" else shape
        if verb == "formula" and rest:
            formula = self.find(page, rest)[1].get("formula", "")
            return formula if context == "code" else f"`{formula}`"

        if verb in NUMBERS and rest:
            return self.number_called(verb, rest, context)

        trace, _, array, _, place, specification = self.find(page, inside)
        if array.ndim > 1 and context == "text" and alone:
            return self.table(page, inside)
        if array.size > 64:
            raise PageError(f"'{inside}' has {array.size} numbers, too many for a sentence; use {{{{table …}}}}")
        if context == "math":
            return tex(array, specification)
        text = nested(array, lambda value: number_text(value, specification))
        if context in ("code", "heading"):
            return text
        exact = nested(array, lambda value: number_text(value, "" if isinstance(value, bool) else ".10g"))
        kind = "from-run" if array.ndim else "from-run one"
        return f'<span class="{kind}"{self.live(page, inside)} title="{place} = {exact}, lesson {trace.name}">{text}</span>'

    def report(self):
        """What script/train-model measured."""
        return json.loads(read_text(self.root / "lessons" / "small_model" / "report.json", "script/train-model"))

    def head(self, role):
        """The layer, the number and the path of the head that script/train-model found for a role."""
        found = self.report()["heads"][role]
        return found["layer"], found["head"], f"layers.{found['layer']}.self_attn.head.{found['head']}"

    def measured(self, module):
        """What a program of bench/ measured, as the module reads it: mpi_cost or speed."""
        if module not in self.loaded:
            self.loaded[module] = module.Measured(self.root)
        return self.loaded[module]

    def numbers_called(self, verb):
        """All that {{report PATH}}, {{cost PATH}} or {{speed PATH}} can name."""
        if verb == "report":
            return self.report()
        return mpi_cost_tables.numbers(self.measured(mpi_cost)) if verb == "cost" else speed.numbers(self.measured(speed))

    def number_called(self, verb, text, context):
        """A number of the report, heads.colour_of_thing.average_weight:.2f, of the costs, hide.far:.0f, or of the speeds."""
        file, source = NUMBERS[verb]
        path, _, specification = text.partition(":")
        value = self.numbers_called(verb)
        for key in path.split("."):
            try:
                value = value[int(key)] if isinstance(value, list) else value[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise PageError(f"{file} has no {path}") from None
        if not isinstance(value, (int, float)):
            raise PageError(f"{path} of {file} is no number")
        number = number_text(value, specification or (".0f" if isinstance(value, int) else ".4f"))
        return f'<span class="from-run one" title="{path} = {value}, {source}">{number}</span>' if context == "text" else number

    # ------------------------------------------------------------------------------------------ tables and pictures

    def html(self, text):
        """A line of HTML that Doxygen leaves as it is."""
        return rf"\htmlonly[block]{text}\endhtmlonly"

    def table(self, page, reference):
        trace, step, array, axes, place, specification = self.find(page, reference)
        labels = dict.fromkeys("nm", self.words(trace.name)) if trace.name in MODEL_RUNS else {}
        return tables.tensor_tables(step, array, axes, place, specification, labels, self.live(page, reference))

    def steps(self, page, text):
        match = re.fullmatch(rf"(?:({LESSON_NAME}):)?([\w.]*)", text)
        if match is None:
            raise PageError(f"cannot read '{{{{steps {text}}}}}'; write {{{{steps}}}} or {{{{steps scope}}}}")
        return tables.step_table(self.trace(page, match[1]), match[2])

    def picture(self, page, name):
        """A function of docs/pictures/PAGE.py, drawn from the traces."""
        stem = page.lesson or page.source.stem
        source = self.root / "docs" / "pictures" / f"{'lesson_' + stem[:2] if page.lesson else stem}.py"
        if not source.is_file():
            raise PageError(f"there is no {source.relative_to(self.root)}, which would draw '{name}'")
        specification = importlib.util.spec_from_file_location(source.stem, source)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        draw = getattr(module, name, None)
        if not getattr(draw, "is_picture", False):
            known = ", ".join(key for key, value in vars(module).items() if getattr(value, "is_picture", False))
            raise PageError(f"{source.relative_to(self.root)} has no picture '{name}'; it has {known}")
        drawn, caption = draw(self)
        key = f"{stem}-{name}"
        return self.include(key, picture.figure_html(picture.to_svg(drawn, key, page.lesson), caption, key))

    def graph(self, page, text):
        """attn graph of a run: {{graph --to output | What is to be seen.}} or {{graph 10_encoder_layer: --depth 0 | ...}}."""
        arguments, _, caption = text.partition("|")
        match = re.fullmatch(rf"(?:({LESSON_NAME}):)?([^|]*)", arguments.strip())
        trace = self.trace(page, match[1]).name
        caption = caption.strip()
        if not caption:
            raise PageError("say what is to be seen: {{graph --to output | The steps of one query.}}")
        command = [self.attn, "graph", self.build / "traces" / f"{trace}.npz", "--format", "svg", "--title", caption, *match[2].split()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PageError(f"attn graph: {done.stderr.strip()}")
        key = re.sub(r"\W+", "-", f"graph {trace} {match[2]}").strip("-")
        return self.include(key, picture.figure_html(done.stdout, caption, key))

    def include(self, key, text):
        (self.build / "results").mkdir(exist_ok=True)
        (self.build / "results" / f"{key}.html").write_text(text, encoding="utf-8")
        return rf"\htmlinclude[block] {key}.html"

    # ------------------------------------------------------------------------------------------ parts of a page

    def fold(self, _page, title):
        """What unfolds: {{fold TITLE}} or {{question TEXT}}, and {{end}}. The title may hold numbers in backquotes only."""
        return self.html(f"<details><summary>{picture.html.escape(title)}</summary>")

    def moving(self, page, text):
        """A picture that the reader moves, by a script of docs/lab/page: {{moving plane | What is to be done.}}; else nothing."""
        call, _, caption = (part.strip() for part in text.partition("|"))
        name, *options = call.split()
        data = "".join(f' data-{key}="{value}"' for key, _, value in (option.partition("=") for option in options))
        if not (self.root / "docs" / "lab" / "page" / f"{name}.js").is_file() or not caption:
            raise PageError("write {{moving NAME [KEY=VALUE] | What is to be done.}}, with a script docs/lab/page/NAME.js")
        if not self.has_lab:
            return ""
        self.movers.setdefault(page.source, []).append(name)
        return self.html(f'<div class="moving" data-moving="{name}"{data} hidden><div class="stage"></div><p>{picture.html.escape(caption)}</p></div>')

    def program(self, page, _=""):
        self.trace(page)
        return rf"\include {page.lesson}/lesson.cpp"

    def result(self, page, _=""):
        self.trace(page)
        return rf"\verbinclude {page.lesson}.txt"

    def folded(self, page, parts):
        return "\n\n".join(f"{self.fold(page, title)}\n\n{part}\n\n{self.html('</details>')}" for title, part in parts)

    def appendix(self, page, _):
        """The program, its steps and its output, each folded."""
        return self.folded(page, (("The whole program", self.program(page)), ("All steps", self.steps(page, "")), ("What it prints", self.result(page))))

    def solution(self, page, _):
        """The exercise in the page, and the solved one in C++ and in Python, each folded."""
        if page.lesson is None:
            raise PageError("only a lesson's page has an exercise")
        for suffix in ("cpp", "py"):
            read_text(self.root / "tests" / "exercises" / f"{page.lesson}.{suffix}", "the repository")
        here = self.html(f'<div class="lab-exercise" data-lesson="{page.lesson}"></div>') + "\n\n" if self.has_lab else ""
        return here + self.folded(page, ((f"A solution in {language}", rf"\include {page.lesson}.{suffix}") for language, suffix in (("C++", "cpp"), ("Python", "py"))))

    def view(self, page):
        """A link to the lesson's page of attn view, where script/docs made one."""
        if not (self.build / "view" / f"{page.lesson}.html").is_file():
            return ""
        computed = [step for step in self.trace(page).steps if step.get("formula") and step["shape"]]
        main = next((step for step in computed if step["path"].split(".")[-1] == "weights"), computed[0] if computed else None)
        place = f"#{main['path']}[{','.join('0' * len(main['shape']))}]" if main else ""  # it opens with one number explained
        return f'<span class="view"><a href="view/{page.lesson}.html{place}">Explore every number</a></span>'

    def output(self, _page, name):
        """What a command of script/docs printed."""
        if not re.fullmatch(r"\w+", name):
            raise PageError(f"'{name}' is no name of an output")
        read_text(self.build / "results" / f"{name}.txt", "script/docs")
        return rf"\verbinclude {name}.txt"

    def table_of_pages(self, pages, header, about):
        """A page and its summary per row. Words that begin the summaries are the column's head, and said once."""
        rows = [(rf'\subpage {page.label} "{quoted(page.title)}"', page.summary(self.fill(page)).removeprefix(f"{about} ")) for page in pages]
        return tables.rows_of((header, about[0].lower() + about[1:]), rows, "pages")

    def lessons_of(self, part):
        if part not in self.parts:
            raise PageError(f"there is no part {part} in lessons/curriculum.cpp; it has {', '.join(self.parts)}")
        return [page for page in self.lessons if self.curriculum[int(page.lesson[:2])].part == part]

    def table_of_parts(self):
        """A row for each part of the course: its page, its lessons, and how long they take."""
        rows = []
        for part, title in self.parts.items():
            lessons = self.lessons_of(part)
            links = " · ".join(rf'\ref {page.label} "{int(page.lesson[:2])}. {quoted(self.curriculum[int(page.lesson[:2])].title)}"' for page in lessons)
            rows.append((rf'\subpage part_{part} "{title}"', links, f"{sum(page.minutes for page in lessons) / 60:.2g}"))
        return tables.rows_of(("part", "lessons", "hours"), rows, "pages")

    def weekend(self):
        """The shortest way to a whole encoder layer."""
        path = [1, 2, 3, *range(5, 11)]
        minutes = sum(page.minutes for page in self.lessons if int(page.lesson[:2]) in path)
        return f"1, 2, 3 and 5 to 10 are a weekend: {minutes // 60}{['', '¼', '½', '¾'][minutes % 60 // 15]} hours, to a whole encoder layer"

    def part_page(self, part):
        """The page of a part of the course."""
        return f"# {self.parts[part]} {{#part_{part}}}\n\n{self.table_of_pages(self.lessons_of(part), 'lesson', 'After this lesson you can')}\n"

    def document(self, name):
        self.documents_named.add(name)
        for page in self.documents:
            if page.source.stem == name:
                return page
        raise PageError(f"there is no docs/{name}.md")

    def lesson_called(self, name):
        for page in self.lessons:
            if page.lesson == name:
                return page
        raise PageError(f"there is no lesson {name}")

    def table_of_groups(self, *_):
        return tables.rows_of(("part", "what it holds"), [(rf'\ref {label} "{title}"', brief) for _, label, title, brief in self.groups], "pages")

    def pager(self, page):
        """Links to the lessons before and after, and to the run as a page."""
        i = self.lessons.index(page)
        links = []
        if i > 0:
            links.append(rf'<span class="before">\ref {self.lessons[i - 1].label} "← {quoted(self.lessons[i - 1].title)}"</span>')
        links.append(self.view(page))
        if i + 1 < len(self.lessons):
            links.append(rf'<span class="after">\ref {self.lessons[i + 1].label} "{quoted(self.lessons[i + 1].title)} →"</span>')
        links = list(filter(None, links))
        return f'<div class="pager">{" ".join(links)}</div>' if links else ""

    # ------------------------------------------------------------------------------------------ one page

    def fill(self, page):
        if page.source not in self.filled:
            self.filled[page.source] = TOKEN.sub(lambda match: self.replaced(page, match), page.text)
        return self.filled[page.source]

    def replaced(self, page, match):
        if match["fence"] or match["verbatim"]:
            return match[0]
        if match["escaped"]:
            return "{{"
        if match["math"] or match["code"]:
            return self.within(page, match, "math" if match["math"] else "code")
        if match["link"]:
            target = (page.source.parent / match["target"]).resolve()
            if target not in self.labels:
                raise PageError(f"{self.where(page, match.start())}: the link goes to {match['target']}, which is no page of the site")
            return f"](@ref {match['anchor'][1:] if match['anchor'] else self.labels[target]})"
        if match["stray"]:
            raise PageError(f"{self.where(page, match.start())}: {{{{ without }}}} on its line; write \\{{{{ for two braces")
        start = page.text.rfind("\n", 0, match.start()) + 1
        end = page.text.find("\n", match.end())
        line = page.text[start : end if end >= 0 else None]
        return self.located(page, match.start(), match["inside"], "heading" if line.startswith("#") else "text", line.strip() == match[0])

    def within(self, page, match, context):
        """A formula or code with its numbers; before it a mark from which the page's script makes it again for the reader's own."""
        is_live = False

        def replace(part, live):
            nonlocal is_live
            if part["escaped"]:
                return "{{"
            reference = self.live_reference(page, part["inside"]) if live else ""
            if reference:
                is_live = True
                return f"⟦{reference}⟧"
            return self.located(page, match.start() + part.start(), part["inside"], context, False)

        text = INSIDE_MATH_OR_CODE.sub(lambda part: replace(part, live=False), match[0])
        template = INSIDE_MATH_OR_CODE.sub(lambda part: replace(part, live=True), match[0])
        if not is_live:
            return text
        inner = re.sub(r"^(?:\\f.|`+)\s*|\s*(?:\\f.|`+)$", "", template)
        return rf'\htmlonly<i class="live-{context}" data-template="{picture.html.escape(" ".join(inner.split()))}"></i>\endhtmlonly{text}'

    def located(self, page, position, inside, context, alone):
        try:
            return self.expand(page, inside, context, alone)
        except PageError as error:
            raise PageError(f"{self.where(page, position)}: {{{{{inside}}}}}: {error}") from None

    def where(self, page, position):
        line = page.text.count("\n", 0, position) + 1
        return f"{page.source.relative_to(self.root)}:{line}"

    def lesson_text(self, page):
        """A lesson's page, between links to its neighbours. Its NumPy lines have computed what the run has."""
        mark = self.html('<i class="either"></i>')
        filled = BOTH_LANGUAGES.sub(lambda match: match[1] + mark + match[2], with_contents(self.fill(page)))
        if "```python\n" in page.text:
            run_examples(page.text, self.trace(page), lambda position, message: PageError(f"{self.where(page, position)}: {message}"))
        heading = HEADING.search(filled)
        # On the heading's line, so that every line keeps its number.
        after = filled[heading.end() :].removeprefix("\n")
        pager = self.pager(page)
        return f"{filled[: heading.end()]}\n{pager}{self.lab(page)}{after.rstrip()}\n\n{pager}\n{self.lab_scripts(page)}"

    def lab(self, page):
        """Where the page's script puts what computes the lesson in the browser, or why nothing does."""
        if not self.has_lab:
            return ""
        if page.lesson in NOT_IN_PAGE:
            return f'<div class="lab">{NOT_IN_PAGE[page.lesson]}</div>'
        return f'<div class="lab" data-lesson="{page.lesson}"></div>'

    def lab_scripts(self, page):
        """The scripts of docs/lab/page that a page needs."""
        if not self.has_lab or not (page.lesson or page.source in self.movers):
            return ""
        names = ["machine", "numbers", "moving", *(("read", "live", "bar", "exercise") if page.lesson else ()), *self.movers.get(page.source, ())]
        return "\n" + "".join(self.html(f'<script src="lab/{name}.js"></script>') + "\n" for name in names)

    def write(self):
        pages = self.build / "pages"
        shutil.rmtree(pages, ignore_errors=True)
        pages.mkdir(parents=True)
        for page in self.lessons:
            (pages / f"{page.lesson}.md").write_text(self.lesson_text(page), encoding="utf-8")
        for page in [*self.documents, self.main]:
            (pages / page.source.name).write_text(with_contents(self.fill(page)) + self.lab_scripts(page), encoding="utf-8")
        for part in self.parts:
            (pages / f"part_{part}.md").write_text(self.part_page(part), encoding="utf-8")
        forgotten = {page.source.stem for page in self.documents} - self.documents_named - {"tools"}
        if forgotten and self.documents_named:
            raise PageError(f"docs/tools.md does not name {', '.join(sorted(forgotten))}")
        headers.write_headers(self.groups, self.root / "include", self.build / "include")
        (pages / "library.dox").write_text(headers.library_page(self.groups), encoding="utf-8")


def with_contents(text):
    """The page with links to its sections where it says [TOC], on one line."""
    sections = re.findall(r"^## +(.+?) *\{#([\w-]+)\} *$", text, re.MULTILINE)
    links = "".join(rf'<li>\ref {anchor} "{quoted(title)}"</li>' for title, anchor in sections)
    return re.sub(r"^\[TOC\]$", lambda _: f'<div class="contents-of-page"><ul>{links}</ul></div>', text, flags=re.MULTILINE)
