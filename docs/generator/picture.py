"""Draws pictures of runs that suit light and dark pages.

A picture is a function in docs/pictures/PAGE.py, marked with @picture, that takes the traces and gives a figure and the
sentence that says what is to be seen. {{picture NAME}} on that page shows it. Colours are the page's: the constants here
stand for the style sheet's variables, so that a picture follows the reader's choice of light or dark.
"""

import hashlib
import html
import io
import re
from collections import Counter
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.patches import PathPatch  # noqa: E402
from matplotlib.path import Path as MplPath  # noqa: E402
from matplotlib.transforms import Bbox  # noqa: E402

from .errors import PageError, read_text  # noqa: E402
from .numbers import Labels  # noqa: E402

THEME = Path(__file__).resolve().parents[1] / "theme" / "attn.css"

# Each colour stands for a variable of docs/theme/attn.css.
INK, QUIET, FAINT, PAPER = "#010203", "#010204", "#010205", "#010206"
BLUE, ORANGE, GREEN, RED, PURPLE = "#010207", "#010208", "#010209", "#01020a", "#01020b"
STRONG_INK = "#01020c"
VARIABLES = {
    INK: "--attn-ink", QUIET: "--attn-quiet", FAINT: "--attn-line", PAPER: "--attn-paper", BLUE: "--attn-blue",
    ORANGE: "--attn-orange", GREEN: "--attn-green", RED: "--attn-red", PURPLE: "--attn-purple",
    STRONG_INK: "--attn-strong-ink",
}  # fmt: skip
LEAST = 1.25 * 0.64  # on a phone a picture shrinks so far, in pixels per point; then it scrolls, since its words can't be read
PHONE, LEAST_LETTERS = 358, 9.1  # the room on a phone, and how large letters are there at least, in pixels
CYCLE = [BLUE, ORANGE, GREEN, PURPLE, RED]

plt.rcParams.update({
    "svg.fonttype": "none", "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 10, "text.color": INK, "axes.labelcolor": INK,
    "axes.edgecolor": QUIET, "xtick.color": INK, "ytick.color": INK, "axes.facecolor": "none", "figure.facecolor": "none",
    "savefig.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10,
    "axes.prop_cycle": matplotlib.cycler(color=CYCLE), "grid.color": FAINT, "legend.frameon": False, "lines.linewidth": 1.8,
})  # fmt: skip


def picture(function):
    """Marks a function (traces) -> (figure, what is to be seen) as a picture of its page."""
    function.is_picture = True
    return function


def figure(width=7.0, height=3.0, rows=1, columns=1, **options):
    """A figure of so many inches, and its axes: at most 6.1 wide, which a phone shows whole; 7, a page's width, where its panels stack there."""
    drawn, axes = plt.subplots(rows, columns, figsize=(width, height), layout="constrained", **options)
    if rows > 1:
        drawn.get_layout_engine().set(h_pad=0.08)  # a title belongs to what is below it
    return drawn, axes


def ink_on(colour, alpha):
    """The colour of text on a colour that covers the paper by alpha: on a dark page, strong colours are light."""
    return STRONG_INK if colour in CYCLE and alpha > (0.66 if colour == BLUE else 0.57) else INK


def live_id(step, index, *drawn):
    """The id of an element that shows one number of a run, which the page's script draws anew for the reader's own; none where it is
    no number of a run."""
    if getattr(step, "run", None) is None:
        return None
    place = ",".join(map(str, (*step.index, *index)[: len(step.index) + step.ndim]))
    return "|".join(map(str, ("live", step.run, f"{step.path}[{place}]", *drawn)))


def heatmap(axes, values, rows=(), columns=(), colour=BLUE, numbers=None, title="", decimals=2, largest=None, turned=False):
    """A matrix of at most 900 cells: the larger a number is, the stronger its cell. Negative numbers are orange.

    rows and columns are labels, which follow a run where they are words of a Vocabulary; numbers: whether cells show them (default: where there are at most 100).
    A vector is a row; turned, it is a column, and a matrix is its transpose."""
    step, values = values, np.atleast_2d(np.asarray(values, dtype=float))
    values = values.T if turned else values
    if values.size > 900:
        raise ValueError(f"a heatmap of {values.size} cells is too large a file: use image()")
    largest = largest or np.max(np.abs(values[np.isfinite(values)]), initial=0) or 1
    numbers = values.size <= 100 if numbers is None else numbers
    for (i, j), value in np.ndenumerate(values):
        index = ((j, i) if turned else (i, j))[-step.ndim :]
        strength = 0 if not np.isfinite(value) else min(1, abs(value) / largest)
        paint, alpha = colour if value >= 0 else ORANGE, 0.85 * strength
        cell = axes.add_patch(plt.Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=paint, alpha=alpha, linewidth=0))
        cell.set_gid(live_id(step, index, "cell", VARIABLES[colour], largest))
        if numbers:
            text = "" if np.isnan(value) else "−∞" if value == -np.inf else f"{value:.{decimals}f}"
            written = axes.text(j, i, text, ha="center", va="center", fontsize=8, color=ink_on(paint, alpha))
            written.set_gid(live_id(step, index, "number", decimals))
    axes.set(xlim=(-0.5, values.shape[1] - 0.5), ylim=(values.shape[0] - 0.5, -0.5), aspect="equal", title=title)
    draw_grid(axes, *values.shape)
    axes.set_xticks(range(values.shape[1]) if len(columns) else [], columns if len(columns) else [], rotation=60 if max(map(len, columns), default=0) > 2 else 0, ha="center")
    axes.set_yticks(range(values.shape[0]) if len(rows) else [], rows if len(rows) else [])
    for labels, ticks in ((rows, axes.get_yticklabels()), (columns, axes.get_xticklabels())):
        for i, label in enumerate(ticks if isinstance(labels, Labels) else ()):
            label.set_gid(live_id(labels.ids, (i,), "word", labels.vocabulary))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return axes


def draw_grid(axes, rows, columns):
    """The lines between cells, in one path."""
    ends = [((-0.5, i - 0.5), (columns - 0.5, i - 0.5)) for i in range(rows + 1)] + [((j - 0.5, -0.5), (j - 0.5, rows - 0.5)) for j in range(columns + 1)]
    path = MplPath([point for both in ends for point in both], [MplPath.MOVETO, MplPath.LINETO] * len(ends))
    axes.add_patch(PathPatch(path, fill=False, edgecolor=FAINT, linewidth=0.6))


def grids(width, *lines):
    """Lines of matrices with signs between them, all cells of one size: ("Q", trace["query"]), "times", ("K", trace["keys"], "turned").
    A number in a cell has no decimals where all are whole, else two."""

    def cells(part):
        """Rows and columns of a part; a sign takes the room of a wide cell."""
        if isinstance(part, str):
            return 1, 1.6
        shape = np.atleast_2d(part[1]).shape
        return shape[::-1] if "turned" in part[2:] else shape

    heights = [max(cells(part)[0] for part in line) + 1 for line in lines]  # one for the titles
    total, all_rows = max(sum(cells(part)[1] for part in line) for line in lines), sum(heights)
    drawn = plt.figure(figsize=(width, width / total * all_rows))
    for number, line in enumerate(lines):
        x, middle = 0.0, all_rows - sum(heights[: number + 1]) + (heights[number] - 1) / 2
        for part in line:
            rows, columns = cells(part)
            axes = drawn.add_axes((x / total, (middle - rows / 2) / all_rows, columns / total, rows / all_rows))
            x += columns
            if isinstance(part, str):
                axes.text(0.5, 0.5, part, ha="center", va="center", color=QUIET, fontsize=9)
                axes.set_axis_off()
                continue
            numbers = np.asarray(part[1], dtype=float)
            heatmap(axes, part[1], title=part[0], decimals=0 if np.all(numbers == np.trunc(numbers)) else 2, turned="turned" in part[2:])
    return drawn


def image(axes, values, title=""):
    """A large matrix of numbers in -1 to 1 as pixels: blue where positive, orange where negative, clear at 0."""
    values = np.asarray(values, dtype=float)
    pixels = np.zeros((*values.shape, 4))
    pixels[..., :3] = np.where(values[..., None] >= 0, [0.12, 0.47, 0.84], [0.88, 0.46, 0.10])
    pixels[..., 3] = np.clip(np.abs(values), 0, 1)
    axes.imshow(pixels, aspect="auto", interpolation="nearest")
    axes.set_title(title)
    return axes


def to_svg(drawn, name, run=None):
    """The figure as an <svg> element in the page's colours, without the ids that other pictures have, too."""
    svg = part_to_svg(drawn, name, run, "tight")
    plt.close(drawn)
    return svg


def part_to_svg(drawn, name, run, box):
    with matplotlib.rc_context({"svg.hashsalt": name}):
        buffer = io.StringIO()
        drawn.savefig(buffer, format="svg", bbox_inches=box, pad_inches=0.05, metadata={"Date": None, "Creator": None})
    return page_svg(buffer.getvalue(), name, run)


def rows_of_panels(drawn):
    """The panels of a figure, row by row; none where something connects them, or a row has more than five."""
    if any((drawn.artists, drawn.texts, drawn.lines, drawn.legends, drawn.images)):
        return []
    rows = {}
    for axes in drawn.axes:
        rows.setdefault(round(axes.get_position().y1 + axes.get_position().y0, 3), []).append(axes)  # by its middle
    return list(rows.values()) if max(map(len, rows.values()), default=0) <= 5 else []  # many small ones are read together


def panels_to_svg(drawn, name, run=None):
    """The same, with an <svg> for each of its panels, so that a phone stacks them; each has the numbers of an axis that they share."""
    rows = rows_of_panels(drawn)
    if max(map(len, rows), default=0) < 2:
        return to_svg(drawn, name, run)
    for panel in drawn.axes:
        if len(panel.get_shared_y_axes().get_siblings(panel)) > 1:
            panel.tick_params(labelleft=True)
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    boxes = {panel: panel.get_tightbbox().transformed(drawn.dpi_scale_trans.inverted()) for panel in drawn.axes}
    text = ""
    for i, row in enumerate(rows):
        bottom, top = min(boxes[panel].y0 for panel in row), max(boxes[panel].y1 for panel in row)
        text += "<div>"
        for j, shown in enumerate(row):
            for panel in drawn.axes:
                panel.set_visible(panel is shown)
            text += part_to_svg(drawn, f"{name}-{i}-{j}", run, Bbox([[boxes[shown].x0 - 0.05, bottom - 0.05], [boxes[shown].x1 + 0.05, top + 0.05]]))
        text += "</div>"
    plt.close(drawn)
    return f'<div class="panels">{text}</div>'


def page_svg(text, name, run=None):
    """An SVG file's <svg> element, to stand in a page about a run."""
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(rf'id="live\|{run}\|([^|"]*)\|cell\|([^|"]*)\|([^|"]*)"', r'data-live="\1" data-cell-colour="\2" data-largest="\3"', svg)
    svg = re.sub(rf'id="live\|{run}\|([^|"]*)\|number\|(\d+)"', r'data-live="\1" data-decimals="\2"', svg)
    svg = re.sub(rf'id="live\|{run}\|([^|"]*)\|word\|(\w+)"', r'data-live="\1" data-words="\2"', svg)
    svg = re.sub(r' id="live\|[^"]*"', "", svg)
    used = set(re.findall(r'(?:url\(#|href="#)([\w-]+)', svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)(?=[\w-])', rf"\g<1>{name}-", svg)
    svg = re.sub(r' (?:x|y)="[^"]*"', lambda place: re.sub(r"(\.\d\d)\d+", r"\1", place[0]), svg)  # a hundredth of a point is enough
    svg = re.sub(r"(font: (?:[a-z]+ )*)(\d[\d.]*px) ", r"\1max(\2, var(--least, 0px)) ", svg)
    width = float(re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+)', svg)[1])
    letters = LEAST_LETTERS / min(1.25, PHONE / width)  # on a phone, in points of the picture
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', rf'\1 style="width: {width * 1.25:.0f}px; min-width: {width * LEAST:.0f}px; --on-phone: {letters:.2f}px"', svg, count=1)
    return compact(re.sub(r"\n\s*", "\n", svg).strip(), name)


def compact(svg, name):
    """The same picture in a third of the letters: what many elements have in common is said once, and groups that say nothing are left out."""
    svg = re.sub(r'<path [^>]*style="fill: none"/>', "", svg)
    svg = re.sub(r"<g( data-live=[^>]*)>\s*<(path|text) ([^>]*>(?:[^<]*</text>)?)\s*</g>", r"<\2\1 \3", svg)
    svg = re.sub(r'(<path data-live=[^>]*) clip-path="[^"]*"', r"\1", svg)  # a cell is within its axes
    drawn = Counter(re.findall(r' data-cell-colour="[^"]*" data-largest="[^"]*"', svg))
    for same in drawn if len(drawn) == 1 else ():
        svg = re.sub("<svg", f"<svg{same}", svg.replace(same, ""), count=1)
    svg = re.sub(r'(?<= d=")[^"]*(?=")', shorter, svg)
    mark, ids = "p" + digest(name), {}
    svg = re.sub(rf'( id="|url\(#|href="#)({re.escape(name)}-[\w-]+)', lambda m: m[1] + ids.setdefault(m[2], f"{mark}{len(ids)}"), svg)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", svg)
    svg = re.sub(r' style="(?!width)([^"]*)"', lambda m: with_attributes(m[1]), svg)
    styles = Counter(re.findall(r' style="(?!width)([^"]*)"', svg))
    classes = {text: f"s{digest(text)}" for text, count in styles.items() if count > 2}
    svg = re.sub(r' style="([^"]*)"', lambda m: f' class="{classes[m[1]]}"' if m[1] in classes else m[0], svg)
    svg = svg.replace("<g/>", "")
    while True:
        svg, count = re.subn(r"<g>\s*((?:<(?:path|use|text)\b[^>]*(?:/>|>[^<]*</text>)\s*)?)</g>", r"\1", svg)
        if count == 0:
            break
    style = "".join(f".{known}{{{text.replace(': ', ':').replace('; ', ';')}}}" for text, known in classes.items())
    svg = re.sub(r"(<svg\b[^>]*>)", lambda m: f"{m[1]}<style>{style}</style>" if style else m[1], svg, count=1)
    return re.sub(r"\n+", "\n", svg)


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def with_attributes(style):
    """A style whose opacity stands beside it, so that cells that differ in nothing else have one style."""
    alone = re.findall(r"(?:^|; )((?:fill-)?opacity): ([\d.]+)", style)
    rest = re.sub(r"(?:^|; )(?:fill-)?opacity: [\d.]+", "", style).removeprefix("; ")
    return f' style="{rest}"' + "".join(f' {name}="{float(value):.3g}"' for name, value in alone)


def figure_html(svg, caption, name):
    """The picture with the sentence that says what is to be seen, which is its text where it has none of its own."""
    svg = re.sub(r' (?:xmlns(?::xlink)?|version)="[^"]*"|<defs>\s*<style type="text/css">\*{[^}]*}</style>\s*</defs>', "", svg)  # as attn.css has it
    if "<desc>" not in svg:
        svg = re.sub("<(svg|div)", rf'<\1 role="img" aria-labelledby="picture-{name}"', svg, count=1)
    return f'<figure class="picture">{svg}<figcaption id="picture-{name}">{html.escape(caption)}</figcaption></figure>\n'


def shorter(path):
    """A path to a hundredth of a point; a level or upright line with one number, and none where a closed path ends as it began."""
    text = re.sub(r"-?\d*\.\d+", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), " ".join(path[0].split()))
    if set(re.findall("[A-Za-z]", text)) - set("MLz"):
        return text
    written, at = [], None
    for letter, *numbers in re.findall(r"([MLz])(?: ([^\sMLz]+) ([^\sMLz]+))?", text):
        if letter == "M":
            first = numbers
        if letter == "z" and written and at == first and written[-1][0] in "LHV":
            written.pop()
        if letter == "L" and numbers[0] == at[0]:
            written.append(f"V{numbers[1]}")
        elif letter == "L" and numbers[1] == at[1]:
            written.append(f"H{numbers[0]}")
        else:
            written.append(letter + " ".join(numbers).rstrip())
        at = numbers
    return "".join(written)


def theme_colours():
    """The colours of docs/theme/attn.css by name, light and dark."""
    text = re.sub(r"/\*.*?\*/", "", read_text(THEME, "the repository"), flags=re.DOTALL)
    light, dark = {}, {}
    for selector, declared in re.findall(r"([^{}]*)\{([^{}]*)\}", text):
        found = re.findall(r"(--attn-[\w-]+):\s*([^;]+)", declared)
        if re.search(r"^\s*(:root|html)\b[^\s]*\s*$", selector.split(",")[-1]):
            (dark if "dark" in selector else light).update(found)
    missing = [name for name in VARIABLES.values() if name not in light]
    if missing:
        raise PageError(f"{THEME.name} does not say what {', '.join(missing)} is")
    return light, {**light, **dark}


def svg_file(svg):
    """A picture as a file of its own, which is light or dark as the reader's system prefers, on paper of its own."""

    def declared(colours):
        return "".join(f"{name}:{colours[name].strip()};" for name in VARIABLES.values())

    light, dark = theme_colours()
    classes, ids = {}, {}
    svg = re.sub(r'<path [^>]* opacity="0"/>', "", svg)
    svg = re.sub(r'( id="|url\(#|href="#)([\w-]+)', lambda m: m[1] + ids.setdefault(m[2], f"p{len(ids)}"), svg)
    svg = re.sub(r' style="(?!width)([^"]*)"', lambda m: f' class="{classes.setdefault(m[1], f"s{len(classes)}")}"', svg)
    while True:
        svg, count = re.subn(r"<g>\s*((?:<(?:path|use|text)\b[^>]*(?:/>|>[^<]*</text>)\s*)?)</g>", r"\1", svg)
        if count == 0:
            break
    size = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"', svg)
    if size and "style=" in svg[: size.end()]:
        svg = re.sub(r'style="width: \d+px[^"]*"', f'width="{float(size[1]) * 1.25:.0f}" height="{float(size[2]) * 1.25:.0f}"', svg, count=1)
    style = f"svg{{{declared(light)}--attn-graph-ink:var(--attn-ink)}}@media(prefers-color-scheme:dark){{svg{{{declared(dark)}}}}}"
    style += "".join(f".{name}{{{text.replace(': ', ':').replace('; ', ';')}}}" for text, name in classes.items())
    paper = f'<style>{style}</style><rect width="100%" height="100%" fill="var(--attn-paper)"/>'
    return re.sub(r"\n+", "\n", re.sub(r"(<svg\b[^>]*>)", lambda m: m[1] + paper, svg, count=1)) + "\n"
