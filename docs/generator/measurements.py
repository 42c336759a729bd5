"""Numbers that no run of this build gives: what was measured while a model was trained, and by script/bench."""

import json

from . import speed
from .errors import PageError, read_text
from .numbers import number_text

# What {{report PATH}}, {{speed PATH}} and so on read, and what made it.
NUMBERS = {
    "report": ("lessons/small_model/report.json", "script/train-model"),
    "translator": ("lessons/translator/report.json", "script/train-model translator"),
    "relatives": ("lessons/small_model/relatives.json", "lessons/small_model/relatives.py"),
    "echo": ("lessons/echo/report.json", "script/train-model echo"),
    "mixture": ("lessons/mixture/report.json", "script/train-model mixture"),
    "choosing": ("lessons/30_choosing/measured.json", "its measured.py"),
    "recall": ("lessons/27_state/recall.json", "its recall.py"),
    "windows": ("lessons/25_windows_and_sinks/measured.json", "its measured.py"),
    "fewer": ("lessons/31_fewer_bits/measured.json", "its measured.py"),
    "flash": ("lessons/18_flash_attention/measured.json", "its measured.py"),
    "speed": ("docs/speed.json", "script/bench"),
}


def numbers_called(site, verb):
    """All that a verb of NUMBERS can name."""
    if verb == "speed":
        return speed.numbers(site.speeds())
    file, source = NUMBERS[verb]
    return json.loads(read_text(site.root / file, source))


def number_called(site, verb, text, context):
    """A number of the report, heads.colour_of_thing.average_weight:.2f, or of the speeds."""
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
    return site.writer.number(number, "from-run one", "", f"{path} = {value}, {source}") if context == "text" else number
