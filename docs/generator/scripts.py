"""Writes a lesson's NumPy lines as a program of their own, lessons/NN_topic/lesson.py, which runs with NumPy alone.

What the lines start from stands in the program: as numbers where they are few, as the place in the sequence of random numbers where
they were drawn, else in lesson.npz beside it. After each block the program prints what the page shows of it, and stops where a number
is another.
"""

import io
import itertools
import re

import numpy as np

from .examples import KEEP
from .numbers import common_format, nested, number_text

FEW, MANY = 24, 900  # numbers of an array that always stand in the program; of all arrays together, so that all do
SEED = re.compile(r"\bRandomNumbers(?: \w+)?\((\d+)\)")

SHOW = '''def show(name, array, expected):
    """Prints a step, which has to be what the lesson's page shows."""
    array = np.asarray(array)
    print(f"{name}: {np.array2string(array, precision=4, suppress_small=True, separator=', ')}")
    assert array.shape == np.shape(expected), f"{name} has the shape {array.shape}, the page shows {np.shape(expected)}"
    assert np.allclose(array, expected, rtol=6e-4, atol=6e-5, equal_nan=True), f"{name} is not what the page shows: {expected}"
'''

DRAWN = '''def drawn(seed, first, shape, scale):
    """Numbers of the sequence of that seed, from number `first` on: uniform between -scale and scale, by SplitMix64."""
    z = np.uint64(seed) + np.arange(first + 1, first + 1 + np.prod(shape), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return scale * (((z ^ (z >> np.uint64(31))) >> np.uint64(40)) * 2.0**-23 - 1).reshape(shape)
'''

LOAD = '''stored = np.load(Path(__file__).with_name("lesson.npz"))
for path in stored.files:
    array = stored[path]
    keep(path, array.astype(float) if array.dtype == np.float32 else array, given)
'''


class Start:
    """What a page's lines start from: lines of a program that keep it, and the arrays that stand beside the program."""

    def __init__(self, site, page, start):
        places = drawn_places(site, page, start)
        few = sum(array.size for path, array in start.items() if path not in places) <= MANY
        self.lines, self.stored, self.has_drawn = [], {}, bool(places)
        before = {}
        for path, array in start.items():
            again = next((other for other, one in before.items() if array.size > 1 and one.dtype == array.dtype and np.array_equal(one, array)), None)
            before[path] = array
            if array.size > 1 and np.all(array == array.flat[0]):
                text = f"np.full({array.shape}, {literal(array.flat[0])}{kind_of(array)})"
            elif again:
                text = f"given[{again!r}]"
            elif path in places:
                seed, first, scale = places[path]
                text = f"drawn({seed}, {first}, {array.shape}, {scale!r})"
            elif array.size <= FEW or few:
                text = f"np.array({rows(array, literal)}{kind_of(array)})"
            else:
                self.stored[path] = array.astype(np.float32) if array.dtype == float and np.array_equal(array.astype(np.float32), array) else array
                continue
            self.lines.append(f"keep({path!r}, {text}, given)")

    def npz(self):
        file = io.BytesIO()
        np.savez_compressed(file, **self.stored)
        return file.getvalue()


def kind_of(array):
    return ", float" if array.dtype.kind == "f" else ""


def script_of(site, page, blocks, start):
    """The program of a page whose blocks were run, from that start."""
    uses_trace = any("trace[" in block.lines for block in blocks)
    parts = [
        f'"""{page.title}, in NumPy: the lines of its page in their order, and the numbers that they start from.\n\n'
        f'It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.\n"""\n',
        ("from pathlib import Path\n\n" if start.stored else "") + "import numpy as np\n",
        KEEP, SHOW, *([DRAWN] if start.has_drawn else []),
        "# ---- what is given\n\n" + (LOAD if start.stored else "") + "\n".join(start.lines) + ("\ntrace = given" if uses_trace else "") + "\n",
    ]  # fmt: skip
    for block in blocks:
        shown = shown_of(site, page, block)
        parts.append(f"# ---- {heading_of(page, block.position)}\n\n{block.lines}" + ("\n" + "\n".join(shown) + "\n" if shown else ""))
    parts.append('print("all as on the page")\n')
    return "\n".join(parts)


def heading_of(page, position):
    return re.findall(r"^#+ +(.+?) *\{#", page.text[:position], re.MULTILINE)[-1]


def shown_of(site, page, block):
    """Lines that show what the page shows of a block's steps, or its last one where it shows none."""
    on_page = [step for step in block.computed if step[1] in site.referred.get(page.source, ())]
    return [shown(*step) for step in on_page or block.computed[-1:]]


def shown(name, path, value):
    """A step, or the first row of what has too many numbers for a line."""
    array = np.asarray(value)
    index = ""
    while array.size > FEW and array.ndim > 1:
        array, index = array[0], f"{index}[0]"
    if array.size > FEW:
        array, index = array[:FEW], f"{index}[:{FEW}]"
    specification = common_format(array)
    source = name if name.isidentifier() else f"mine[{path!r}]"
    return f"show({path + index!r}, {source}{index}, {rows(array, lambda number: literal(number, specification))})"


def literal(number, specification=None):
    """A number as Python reads it: exactly, or as a page shows it."""
    if isinstance(number, (bool, np.bool_)):
        return str(bool(number))
    if not np.isfinite(number):
        return {"NaN": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}[number_text(number, "")]
    if specification:
        return number_text(number, specification)
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(float(number))


def rows(array, write):
    """An array as Python reads it; where a line is too long, one for each row."""
    text = nested(array, write)
    if len(text) <= 100 or array.ndim == 0:
        return text
    if array.ndim == 1:
        numbers, lines = [write(number) for number in array.tolist()], [""]
        for number in numbers:
            if len(lines[-1]) + len(number) > 100:
                lines.append("")
            lines[-1] += number + ", "
        return "[\n    " + "\n    ".join(line.rstrip() for line in lines) + "\n]"
    return "[\n" + "".join("    " + rows(part, write).replace("\n", "\n    ") + ",\n" for part in array) + "]"


def drawn_places(site, page, start):
    """Where in a lesson's sequences of random numbers arrays are: {path: (seed, number of the first, scale)}."""
    places = {}
    large = {path: array.reshape(-1) for path, array in start.items() if array.size >= 4 and array.dtype == float and array.flat[0] % 1}
    seeds = {int(seed) for path in (site.root / "lessons" / page.lesson).glob("*.[ch]pp") for seed in SEED.findall(path.read_text(encoding="utf-8"))}
    for seed in sorted(seeds) if large else ():
        numbers = splitmix(seed, sum(int(np.prod(step["shape"])) for step in site.trace(page).steps if not step.get("formula")))
        ratios = numbers[1:] / numbers[:-1]  # the same whatever the scale is; no number is 0
        after = 0  # most are drawn one after the other
        for path, flat in large.items():
            ratio = flat[1] / flat[0]
            for first in itertools.chain([after], (i for i in np.flatnonzero(np.abs(ratios - ratio) < 1e-9 * abs(ratio)).tolist())):
                scale = scale_of(numbers[first : first + flat.size], flat)
                if scale is not None:
                    places[path], after = (seed, first, scale), first + flat.size
                    break
    return places


def scale_of(numbers, flat):
    """By what those numbers were multiplied; None where they weren't."""
    if numbers.size != flat.size:
        return None
    at = int(np.argmax(np.abs(numbers)))
    guess = float(flat[at] / numbers[at])
    return next((scale for scale in (guess, np.nextafter(guess, 0).item(), np.nextafter(guess, np.inf).item()) if np.array_equal(scale * numbers, flat)), None)


def splitmix(seed, count):
    """The function of the programs, so that what is searched is what they draw."""
    names = {"np": np}
    exec(DRAWN, names)  # noqa: S102 (it stands above)
    return names["drawn"](seed, 0, (count,), 1)
