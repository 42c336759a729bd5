"""Lists of lessons and pages: parts of the course, ways through it, and links from page to page."""

import html

from .errors import PageError


def table_of_pages(site, pages, header, about):
    """A page and its summary per row. Words that begin the summaries are the column's head, and said once."""
    rows = [(site.writer.link(page.title, page, below=True), page.summary(site.fill(page)).removeprefix(f"{about} ")) for page in pages]
    return site.writer.table((header, about[0].lower() + about[1:]), rows, "pages")


class Part:
    """The page of a part of the course."""

    lesson = None

    def __init__(self, name):
        self.label, self.file = f"part_{name}", f"part_{name}.md"


def lessons_of(site, part):
    if part not in site.parts:
        raise PageError(f"there is no part {part} in lessons/curriculum.cpp; it has {', '.join(site.parts)}")
    return [page for page in site.lessons if site.curriculum[int(page.lesson[:2])].part == part]


def table_of_parts(site):
    """A row for each part of the course: its page, its lessons, and how long they take."""
    rows = []
    for part, title in site.parts.items():
        lessons = lessons_of(site, part)
        links = " · ".join(site.writer.link(f"{int(page.lesson[:2])}. {site.curriculum[int(page.lesson[:2])].title}", page) for page in lessons)
        rows.append((site.writer.link(title, Part(part), below=True), links, f"{sum(page.minutes for page in lessons) / 60:.2g}"))
    return site.writer.table(("part", "lessons", "hours"), rows, "pages")


def weekend(site):
    """The shortest way to a whole encoder layer."""
    path = [1, 2, 3, *range(5, 11)]
    minutes = sum(page.minutes for page in site.lessons if int(page.lesson[:2]) in path)
    return f"1, 2, 3 and 5 to 10 are a weekend: {minutes // 60}{['', '¼', '½', '¾'][minutes % 60 // 15]} hours, to a whole encoder layer"


def part_page(site, part):
    """The page of a part of the course."""
    return f"# {site.parts[part]} {site.writer.anchor(f'part_{part}')}\n\n{table_of_pages(site, lessons_of(site, part), 'lesson', 'After this lesson you can')}\n"


BESIDE_THE_LESSONS = (("questions", "Questions and answers"), ("check", "Check your own attention"), ("notation", "Notation"), ("tools", "Tools and reference"), ("library", "The library"))


def menu(site):
    """The menu of every page: the lessons by part, in order, and where the rest begins."""

    def item(label, text, attributes=""):
        return f'<li{attributes}><a href="$relpath^{label}.html">{text}</a></li>'

    def section(title, items):
        return f"<section><h2>{html.escape(title)}</h2><ul>{''.join(items)}</ul></section>\n"

    def lesson(page):
        number = int(page.lesson[:2])
        text = f'<span class="number">{number}</span> {html.escape(site.curriculum[number].title)}'
        return item(page.label, text, f' data-lesson="{page.lesson[:2]}"')

    parts = (section(title, map(lesson, lessons_of(site, part))) for part, title in site.parts.items())
    return "".join(parts) + section("Beside the lessons", (item(label, title) for label, title in BESIDE_THE_LESSONS))


def document(site, name):
    site.documents_named.add(name)
    for page in site.documents:
        if page.source.stem == name:
            return page
    raise PageError(f"there is no docs/{name}.md")


def view(site, page):
    """A link to the lesson's page of attn view, where script/docs made one."""
    if not (site.build / "view" / f"{page.lesson}.html").is_file():
        return ""
    computed = [step for step in site.trace(page).steps if step.get("formula") and step["shape"]]
    main = next((step for step in computed if step["path"].split(".")[-1] == "weights"), computed[0] if computed else None)
    place = f"#{main['path']}[{','.join('0' * len(main['shape']))}]" if main else ""  # it opens with one number explained
    return f'<span class="view"><a href="view/{page.lesson}.html{place}">Explore every number</a></span>'


def pager(site, page):
    """Links to the lessons before and after, and to the run as a page."""
    i = site.lessons.index(page)
    before, after = (site.lessons[i - 1] if i > 0 else None), (site.lessons[i + 1] if i + 1 < len(site.lessons) else None)
    return site.writer.pager(before and site.writer.link(f"← {before.title}", before), view(site, page), after and site.writer.link(f"{after.title} →", after))
