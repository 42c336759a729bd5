"""Numbers that no run of this build gives: what was measured while a model was trained, and by programs of bench/."""

import json

from . import mpi_cost, mpi_cost_tables, speed
from .errors import PageError, read_text
from .numbers import number_text

# What {{report PATH}}, {{cost PATH}} and so on read, and what made it.
NUMBERS = {
    "report": ("lessons/small_model/report.json", "script/train-model"),
    "translator": ("lessons/translator/report.json", "script/train-model translator"),
    "relatives": ("lessons/small_model/relatives.json", "lessons/small_model/relatives.py"),
    "echo": ("lessons/echo/report.json", "script/train-model echo"),
    "mixture": ("lessons/mixture/report.json", "script/train-model mixture"),
    "recall": ("lessons/27_state/recall.json", "its recall.py"),
    "windows": ("lessons/25_windows_and_sinks/measured.json", "its measured.py"),
    "cost": ("docs/mpi_cost.json", "bench/mpi_cost.py and the model"),
    "speed": ("docs/speed.json", "script/bench"),
}


def numbers_called(site, verb):
    """All that a verb of NUMBERS can name."""
    if verb == "cost":
        return mpi_cost_tables.numbers(site.measured(mpi_cost))
    if verb == "speed":
        return speed.numbers(site.measured(speed))
    file, source = NUMBERS[verb]
    return json.loads(read_text(site.root / file, source))


def number_called(site, verb, text, context):
    """A number of the report, heads.colour_of_thing.average_weight:.2f, of the costs, hide.far:.0f, or of the speeds."""
    file, source = NUMBERS[verb]
    path, _, specification = text.partition(":")
    value = numbers_called(site, verb)
    for key in path.split("."):
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise PageError(f"{file} has no {path}") from None
    if not isinstance(value, (int, float)):
        raise PageError(f"{path} of {file} is no number")
    number = number_text(value, specification or (".0f" if isinstance(value, int) else ".4f"))
    return f'<span class="from-run one" title="{path} = {value}, {source}">{number}</span>' if context == "text" else number
