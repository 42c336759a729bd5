"""All pages, and what their placeholders may name."""

import html
import importlib.util
import re
import shutil
import subprocess

from . import counts, course, curriculum, exercise, headers, lab, measurements, picture, registers, speed, tables, vectors
from .errors import PageError, read_text
from .examples import HARNESS, run_examples
from .numbers import Vocabulary, common_format, nested, number_text, tex, text_of
from .page import Page
from .scripts import Start, script_of
from .traces import LESSON_NAME, MODEL_RUNS, REFERENCE, Trace, parse_index, shape_text, take
from .writer import Doxygen, Markdown

TOKEN = re.compile(
    r"""
    (?P<fence>^(?P<mark>```+|~~~+)[^\n]*\n.*?^(?P=mark)[ \t]*$)
  | (?P<verbatim>[\\@](?P<block>code|verbatim|dot)\b.*?[\\@]end(?P=block)\b | <!--.*?-->)
  | (?P<math>\\f\$.*?\\f\$ | \\f\[.*?\\f\] | \\f\(.*?\\f\) | \\f\{.*?\\f\})
  | (?P<step>^\\snippet[ ](?P<file>\S+)[ ](?P<part>\w+)(?:\n\n(?P<numpy>```python\n.*?^```$)|\n$)?)
  | (?P<below>\\subpage[ ](?P<label>\w+)[ ]"(?P<title>[^"\n]*)")
  | (?P<contents>^\[TOC\]$)
  | \{\#(?P<heading>[\w-]+)\}[ ]*$
  | (?P<escaped>\\\{\{)
  | (?P<code>(?P<ticks>`+)(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`))
  | (?P<link>\]\((?P<target>[^()\s:\#]+\.md)(?P<anchor>\#[\w-]+)?\))
  | (?P<placeholder>\{\{(?P<inside>[^{}\n]*)\}\})
  | (?P<stray>\{\{)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
INSIDE_MATH_OR_CODE = re.compile(r"\{\{(?P<inside>[^{}\n]*)\}\}|\\(?P<escaped>\{\{)")
SECTION = re.compile(r"^## +(.+?) *\{#([\w-]+)\} *$", re.MULTILINE)


class Site:
    def __init__(self, root, build, attn=None, has_lab=False):
        self.root, self.build, self.attn, self.lab_is_built = root, build, attn, has_lab
        self.loaded = {}
        self.drawn = {}
        self.examples = {}  # of a lesson, its page's NumPy lines and what they start from
        self.referred = {}  # the steps of its own run that a lesson's page shows
        self.movers = {}  # what the reader moves, by page
        self.spoken = {}  # the models whose words a page has
        self.word_models = {path.parent.name for path in (root / "lessons").glob("*/config.json")}  # formats of ids: {{said:translator}} is their words
        lessons = sorted(path for path in (root / "lessons").glob("[0-9][0-9]_*") if path.is_dir())
        for path in lessons:
            if not (path / "lesson.md").is_file():
                raise PageError(f"lessons/{path.name} has no lesson.md")
        self.lessons = [Page(path / "lesson.md", f"lesson_{path.name}", path.name) for path in lessons]
        documents = sorted((root / "docs").glob("*.md"))
        self.main = next(Page(path, None) for path in documents if path.stem == "main_page")
        self.documents = [Page(path, path.stem) for path in documents if path.stem != "main_page"]
        self.pages = [*self.lessons, *self.documents, self.main]
        self.by_source = {page.source.resolve(): page for page in self.pages}
        self.curriculum, self.parts = curriculum.curriculum(root)
        self.documents_named = set()
        for page in self.lessons:
            page.minutes, needs = curriculum.time_and_needs(page.text)
            listed = set(self.curriculum[int(page.lesson[:2])].needs) if int(page.lesson[:2]) in self.curriculum else set()
            if needs != listed:
                raise PageError(f"lessons/{page.lesson}/lesson.md builds on {sorted(needs)}, lessons/curriculum.cpp says {sorted(listed)}")
        self.groups = headers.header_groups(root)
        # A placeholder is a verb and what it is about, or a reference to numbers of a run.
        self.verbs = {
            "table": self.table, "steps": self.steps, "output": self.output, "picture": self.picture, "graph": self.graph,
            "appendix": self.appendix, "solution": self.solution, "fold": self.fold, "moving": lambda page, text: lab.moving(self, page, text),
            "question": self.fold, "end": lambda *_: self.html("</details>"),
            "lessons": lambda _page, part: course.table_of_pages(self, course.lessons_of(self, part), "lesson", "After this lesson you can"),
            "parts": lambda *_: course.table_of_parts(self),
            "hours": lambda *_: str(round(sum(page.minutes for page in self.lessons) / 60)),
            "weekend": lambda *_: course.weekend(self),
            "pages": lambda _page, names: course.table_of_pages(self, [course.document(self, name) for name in names.split()], "page", "what it is about"),
            "vocabulary": lambda _page, model: self.html(" · ".join(f"{number} {html.escape(word)}" for number, word in enumerate(self.vocabulary(model)))),
            "numpy": self.harness,
            "on_site": lambda _page, text: text if self.writer.computes else "",
            "library": self.table_of_groups,
            "pitfalls": lambda *_: registers.pitfalls(self),
            "calls": lambda *_: registers.calls(self),
            "pitfall_formulas": lambda *_: registers.pitfall_formulas(self),
            "syllabus": lambda *_: registers.syllabus(self),
            "questions": lambda *_: registers.questions(self),
            "vectors": lambda _page, what: self.vectors().text(self, what),
            "speed_table": lambda _page, name: self.writer.table(*speed.table(self.speeds(), name), "speed"),
        }  # fmt: skip
        self.stand_alone = {"end", "numpy", "solution", "parts", "hours", "weekend", "library", "pitfalls", "calls", "pitfall_formulas", "syllabus", "questions"}

        self.write_as(Doxygen(self))

    def write_as(self, writer):
        """Pages are written so from now on."""
        self.writer, self.filled = writer, {}
        self.has_lab = self.lab_is_built and writer.computes

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

    def vocabulary(self, model):
        """The words of a model in lessons/, by the name of its folder."""
        if model not in self.loaded:
            self.loaded[model] = Vocabulary(self.root, model)
        return self.loaded[model]

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
        if trace.name == page.lesson:
            self.referred.setdefault(page.source, set()).add(step["path"])
        array, axes, place = trace[match["path"]], list(step.get("axes") or []), match["path"]
        if match["index"] is not None:
            selection = parse_index(match["index"])
            array = take(array, selection)
            whole = [slice(None)] * (len(axes) - len(selection))
            axes = [axis for axis, entry in zip(axes, selection + whole) if isinstance(entry, slice)]
            place += f"[{match['index']}]"
        specification = match["format"]
        if specification in self.word_models:
            self.spoken.setdefault(page.source, set()).add(specification)
            specification = self.vocabulary(specification)
        elif specification is not None:
            try:
                format(1.0, specification)
            except ValueError as error:
                raise PageError(f"'{specification}' is no format for a number ({error})") from None
        return trace, step, array, axes, place, specification or common_format(array)

    def expand(self, page, inside, context, alone):
        """The text that a placeholder stands for. The context is text, heading, code or math."""
        inside = inside.strip()
        verb, _, rest = inside.partition(" ")
        rest = rest.strip()
        if context == "text" and verb in self.verbs and (not rest if verb in self.stand_alone else rest or verb in ("steps", "graph", "appendix")):
            return self.verbs[verb](page, rest)
        if verb in ("count", "Count") and rest:
            counted = counts.count(page, rest)
            return counted.capitalize() if verb == "Count" else counted
        if verb == "shape" and rest:
            shape = shape_text(self.find(page, rest)[2].shape)
            live = lab.live(self, page, rest, "shape ")
            return self.writer.shape(shape, live) if context == "text" else shape
        if verb == "formula" and rest:
            formula = self.find(page, rest)[1].get("formula", "")
            return formula if context == "code" else f"`{formula}`"

        if verb in measurements.NUMBERS and rest:
            return measurements.number_called(self, verb, rest, context)

        trace, _, array, _, place, specification = self.find(page, inside)
        if array.ndim > 1 and context == "text" and alone:
            return self.table(page, inside)
        if array.size > 64:
            raise PageError(f"'{inside}' has {array.size} numbers, too many for a sentence; use {{{{table …}}}}")
        if context == "math":
            return tex(array, specification)
        text = text_of(array, specification)
        if context in ("code", "heading"):
            return text
        exact = nested(array, lambda value: number_text(value, "" if isinstance(value, bool) else ".10g"))
        kind = "from-run" if array.ndim else "from-run one"
        source = f"the small model, run “{trace.name}”" if trace.name in MODEL_RUNS else f"lesson {trace.name}"
        return self.writer.number(text, kind, lab.live(self, page, inside), f"{place} = {exact}, {source}")

    def head(self, role):
        """The layer, the number and the path of the head that script/train-model found for a role."""
        found = measurements.numbers_called(self, "report")["heads"][role]
        return found["layer"], found["head"], f"layers.{found['layer']}.self_attn.head.{found['head']}"

    def vectors(self):
        """The test vectors of vectors/cases."""
        if "vectors" not in self.loaded:
            self.loaded["vectors"] = vectors.Vectors(self.root)
        return self.loaded["vectors"]

    def speeds(self):
        """What bench/fast/fast.py measured."""
        if speed not in self.loaded:
            self.loaded[speed] = speed.Measured(self.root)
        return self.loaded[speed]

    # ------------------------------------------------------------------------------------------ tables and pictures

    def html(self, text):
        return self.writer.html(text)

    def table(self, page, reference):
        trace, step, array, axes, place, specification = self.find(page, reference)
        labels = dict.fromkeys("nm", self.words(trace.name)) if trace.name in MODEL_RUNS else {}
        return self.writer.tensors(tables.tensor_parts(step, array, axes, place, specification, labels), lab.live(self, page, reference))

    def steps(self, page, text):
        match = re.fullmatch(rf"(?:({LESSON_NAME}):)?([\w.]*)", text)
        if match is None:
            raise PageError(f"cannot read '{{{{steps {text}}}}}'; write {{{{steps}}}} or {{{{steps scope}}}}")
        return self.writer.table(*tables.step_rows(self.trace(page, match[1]), match[2]), "steps")

    def picture(self, page, name):
        """A function of docs/pictures/PAGE.py, drawn from the traces."""
        stem = page.lesson or page.source.stem
        key = f"{stem}-{name}"
        if key not in self.drawn:
            self.drawn[key] = self.draw(page, stem, name)
        return self.writer.figure(key, *self.drawn[key])

    def draw(self, page, stem, name):
        """A picture to stand in its page, the same to be a file, and what is to be seen."""
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
        if picture.rows_of_panels(drawn) and (place := re.search(r"\b(Left|Right|Middle): |\b[Oo]n the (left|right)\b", caption)):
            raise PageError(f"the caption of '{name}' says {place[0].strip()}, but a phone stacks its panels: name or number them")
        key = f"{stem}-{name}"
        whole = picture.to_svg(drawn, key)
        return picture.panels_to_svg(drawn, key, page.lesson), whole, caption

    def graph(self, page, text):
        """attn graph of a run: {{graph --to output | What is to be seen.}} or {{graph 10_encoder_layer: --depth 0 | ...}}."""
        arguments, _, caption = text.partition("|")
        match = re.fullmatch(rf"(?:({LESSON_NAME}):)?([^|]*)", arguments.strip())
        trace = self.trace(page, match[1]).name
        caption = caption.strip()
        if not caption:
            raise PageError("say what is to be seen: {{graph --to output | The steps of one query.}}")
        key = re.sub(r"\W+", "-", f"graph {trace} {match[2]}").strip("-")
        if key not in self.drawn:
            command = [self.attn, "graph", self.build / "traces" / f"{trace}.npz", "--format", "svg", "--title", caption, *match[2].split()]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise PageError(f"attn graph: {done.stderr.strip()}")
            self.drawn[key] = done.stdout
        return self.writer.figure(key, self.drawn[key], self.drawn[key], caption)

    # ------------------------------------------------------------------------------------------ parts of a page

    def fold(self, _page, title):
        """What unfolds: {{fold TITLE}} or {{question TEXT}}, and {{end}}. The title may hold numbers in backquotes only."""
        return self.html(f"<details><summary>{html.escape(title)}</summary>")

    def harness(self, page, _):
        """What comes before a page's NumPy lines, folded."""
        there = ""
        if page.lesson in self.examples:
            files = ["lesson.py", *(["lesson.npz"] if self.examples[page.lesson][1].stored else [])]
            links = " and ".join(self.writer.of_lesson(page.lesson, file) for file in files)
            there = f"{links}: all NumPy lines of this page, with the numbers that they start from. It runs as it is, and needs NumPy alone.\n\n"
        text = f"""{there}To start from a run of your own instead, save it with `lesson_{page.lesson} --quiet --trace t.npz`, and begin with these lines:

```py
{HARNESS}```

A dot in a step's name is an underscore in a variable's: `norm1.output` is `norm1_output`. To find the first step where yours
differ from the program's, give each of them to `keep`, as in `norm1_output = keep("norm1.output", …)`, save them with
`np.savez("mine.npz", **mine)`, and run `attn diff t.npz mine.npz`."""
        return f"{self.fold(page, 'To run the NumPy lines yourself')}\n\n{text}\n\n{self.html('</details>')}"

    def folded(self, title, text):
        return f"{self.fold(None, title)}\n\n{text}\n\n{self.html('</details>')}"

    def appendix(self, page, scope):
        """The program, its steps or those of a scope, and its output, each folded."""
        steps = self.folded(f"The steps of {scope}" if scope else "All steps", self.steps(page, scope))
        program = self.writer.whole_file("The whole program", self.root / "lessons" / page.lesson / "lesson.cpp")
        return f"{program}\n\n{steps}\n\n{self.writer.printed('What it prints', page.lesson)}"

    def solution(self, page, _):
        """The exercise in the page, and the solved one in C++ and in Python, each folded."""
        if page.lesson is None:
            raise PageError("only a lesson's page has an exercise")
        files = {language: self.root / "tests" / "exercises" / f"{page.lesson}.{suffix}" for language, suffix in (("C++", "cpp"), ("Python", "py"))}
        for path in files.values():
            read_text(path, "the repository")
        here = self.html(self.exercise_here(page)) + "\n\n" if self.has_lab else ""
        return here + "\n\n".join(self.writer.whole_file(f"A solution in {language}", path) for language, path in files.items())

    def exercise_here(self, page):
        """Where the page's script puts the exercise, what each of its functions is to do, and how one can write it: the last hint."""
        asked = exercise.functions(read_text(self.root / "lessons" / page.lesson / "exercise.py", "the repository"))
        said = {name: re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(exercise.unwrapped(text))) for name, text in asked.items()}
        texts = "".join(f'<p class="asked" data-function="{name}" hidden>{text}</p>' for name, text in said.items())
        solved = exercise.solutions(read_text(self.root / "tests" / "exercises" / f"{page.lesson}.py", "the repository"))
        lines = "".join(f'<pre class="solved" data-function="{name}" hidden>{html.escape(solved[name]).replace(chr(10), "&#10;")}</pre>' for name in asked)
        return f'<div class="lab-exercise" data-lesson="{page.lesson}">{texts}{lines}</div>'

    def output(self, _page, name):
        """What a command of script/docs printed."""
        if not re.fullmatch(r"\w+", name):
            raise PageError(f"'{name}' is no name of an output")
        path = self.build / "results" / f"{name}.txt"
        read_text(path, "script/docs")
        return self.writer.file(path)

    def page_called(self, label):
        for page in self.pages:
            if page.label == label:
                return page
        raise PageError(f"there is no page {label}")

    def lesson_called(self, name):
        for page in self.lessons:
            if page.lesson == name:
                return page
        raise PageError(f"there is no lesson {name}")

    def table_of_groups(self, *_):
        rows = [(self.writer.room(label, title, folder), brief) for folder, label, title, brief in self.groups]
        return self.writer.table(("part", "what it holds"), rows, "pages")

    # ------------------------------------------------------------------------------------------ one page

    def fill(self, page):
        if page.source not in self.filled:
            self.filled[page.source] = TOKEN.sub(lambda match: self.replaced(page, match), page.text)
        return self.filled[page.source]

    def replaced(self, page, match):
        if match["fence"]:
            return self.writer.code(match[0])
        if match["verbatim"]:
            return match[0]
        if match["escaped"]:
            return "{{"
        if match["math"]:
            return self.writer.formula(self.within(page, match, "math"))
        if match["code"]:
            return self.within(page, match, "code")
        if match["step"]:
            cpp = self.writer.snippet(match["file"], match["part"])
            return self.writer.both(cpp, match["numpy"]) if match["numpy"] else self.writer.only_cpp(cpp)
        if match["below"]:
            return self.writer.link(match["title"], self.page_called(match["label"]), below=True)
        if match["contents"]:
            filled = [(INSIDE_MATH_OR_CODE.sub(lambda part: self.expand(page, part["inside"], "heading", False), title), anchor) for title, anchor in SECTION.findall(page.text)]
            return self.writer.contents([self.writer.link(title, page, anchor) for title, anchor in filled])
        if match["heading"]:
            return self.writer.anchor(match["heading"])
        if match["link"]:
            target = (page.source.parent / match["target"]).resolve()
            if target not in self.by_source:
                raise PageError(f"{self.where(page, match.start())}: the link goes to {match['target']}, which is no page of the site")
            return f"]({self.writer.target(self.by_source[target], (match['anchor'] or '')[1:])})"
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
            reference = lab.live_reference(self, page, part["inside"]) if live else ""
            if reference:
                is_live = True
                return f"⟦{reference}⟧"
            return self.located(page, match.start() + part.start(), part["inside"], context, False)

        text = INSIDE_MATH_OR_CODE.sub(lambda part: replace(part, live=False), match[0])
        template = INSIDE_MATH_OR_CODE.sub(lambda part: replace(part, live=True), match[0])
        if not is_live:
            return text
        inner = re.sub(r"^(?:\\f.|`+)\s*|\s*(?:\\f.|`+)$", "", template)
        return rf'\htmlonly<i class="live-{context}" data-template="{html.escape(" ".join(inner.split()))}"></i>\endhtmlonly{text}'

    def located(self, page, position, inside, context, alone):
        try:
            return self.expand(page, inside, context, alone)
        except PageError as error:
            raise PageError(f"{self.where(page, position)}: {{{{{inside}}}}}: {error}") from None

    def where(self, page, position):
        line = page.text.count("\n", 0, position) + 1
        return f"{page.source.relative_to(self.root)}:{line}"

    def text_of_page(self, page):
        """A page in the writer's words; a lesson's stands between links to its neighbours."""
        if not page.lesson:
            return self.writer.page(page, self.fill(page))
        pager = course.pager(self, page)
        return self.writer.page(page, self.fill(page), f"{pager}{lab.bar(self, page)}", pager)

    def write(self):
        """What Doxygen reads, and what is committed for those who read the repository."""
        for page in self.lessons:
            if "```python\n" in page.text:
                blocks, start = run_examples(page.text, self.trace(page), lambda position, message, page=page: PageError(f"{self.where(page, position)}: {message}"))
                self.examples[page.lesson] = blocks, Start(self, page, start)
        pages = self.build / "pages"
        shutil.rmtree(pages, ignore_errors=True)
        for page in self.pages:
            write_text(pages / (f"{page.lesson}.md" if page.lesson else page.source.name), self.text_of_page(page))
        for part in self.parts:
            write_text(pages / f"part_{part}.md", course.part_page(self, part))
        forgotten = {page.source.stem for page in self.documents} - self.documents_named - {"tools"}
        if forgotten and self.documents_named:
            raise PageError(f"docs/tools.md does not name {', '.join(sorted(forgotten))}")
        (self.build / "menu.html").write_text(course.menu(self), encoding="utf-8")
        headers.write_headers(self.groups, self.root / "include", self.build / "include")
        write_text(pages / "library.dox", headers.library_page(self.groups))
        self.write_for_repository(self.build / "repository")

    def write_for_repository(self, folder):
        """The files that script/docs --pages puts into the repository, as they stand there."""
        shutil.rmtree(folder, ignore_errors=True)
        writer = Markdown(self)
        self.write_as(writer)
        pages = folder / writer.folder
        for page in self.pages:
            write_text(pages / page.file, self.text_of_page(page))
        for part in self.parts:
            write_text(pages / f"part_{part}.md", self.writer.page(course.Part(part), course.part_page(self, part)))
        for name, svg in writer.pictures.items():
            write_text(pages / name, svg)
        for lesson, (blocks, start) in self.examples.items():
            write_text(folder / "lessons" / lesson / "lesson.py", script_of(self, self.lesson_called(lesson), blocks, start))
            if start.stored:
                (folder / "lessons" / lesson / "lesson.npz").write_bytes(start.npz())


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
