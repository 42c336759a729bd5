"""Writes numbers and tensors as text and as TeX."""

import json
import re

import numpy as np

from .errors import PageError
from .traces import shape_text


class Vocabulary(list):
    """The words of a model in lessons/NAME, by id: {{said:translator}} is the words of said."""

    def __init__(self, root, name):
        super().__init__(json.loads((root / "lessons" / name / "config.json").read_text(encoding="utf-8"))["vocabulary"])
        self.name = name

    def of(self, ids):
        """The words of a step of ids, as labels of a heatmap."""
        labels = Labels(self[int(number)] for number in ids)
        labels.ids, labels.vocabulary = ids, self.name
        return labels


class Labels(list):
    """Words that know which ids of a run they are."""

    ids, vocabulary = None, ""


def is_whole(array):
    """Whether every finite number is a whole one, and not too large to be written as one."""
    finite = array[np.isfinite(array)]
    return bool(np.all((finite == np.trunc(finite)) & (np.abs(finite) < 1e9)))


def common_format(array):
    """One way to write all these numbers: whole numbers, four decimals, or powers of ten."""
    array = np.asarray(array, dtype=float)
    if is_whole(array):
        return ".0f"
    largest = np.max(np.abs(array[np.isfinite(array)]), initial=0)
    return ".4f" if 1e-3 <= largest < 1e6 else ".3e"


def number_text(value, specification):
    """@param specification  a format of Python's, or a Vocabulary, which makes a word of an id"""
    if isinstance(specification, Vocabulary):
        return specification[int(value)]
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = format(value, specification)
    return text.replace("-", "", 1) if re.fullmatch(r"-0(\.0*)?", text) else text


def text_of(array, specification):
    """The numbers as nested lists; ids as words, with spaces between them."""
    if isinstance(specification, Vocabulary):
        return " ".join(specification[int(number)] for number in array.reshape(-1))
    return nested(array, lambda value: number_text(value, specification))


def nested(array, write):
    """The numbers as nested lists."""
    if array.ndim == 0:
        return write(array.item())
    return "[" + ", ".join(nested(part, write) for part in array) + "]"


def number_tex(value, specification):
    text = number_text(value, specification)
    named = {"NaN": r"\mathrm{NaN}", "inf": r"\infty", "-inf": r"-\infty", "true": r"\mathrm{true}", "false": r"\mathrm{false}"}
    if text in named:
        return named[text]
    return re.sub(r"e([+-])0*(\d+)$", lambda m: r" \cdot 10^{" + m[1].replace("+", "") + m[2] + "}", text)


def tex(array, specification):
    """A tensor inside a formula: a number, or a matrix in square brackets."""
    if array.ndim == 0:
        return number_tex(array.item(), specification)
    if array.ndim > 2:
        raise PageError(f"a tensor {shape_text(array.shape)} does not fit into a formula; take a matrix of it")
    rows = (" & ".join(number_tex(value, specification) for value in row) for row in np.atleast_2d(array).tolist())
    body = r" \\ ".join(rows)
    return rf"\begin{{bmatrix}} {body} \end{{bmatrix}}"
