"""Tensors and lists of steps as tables. Those of HTML stay on one line, so that Doxygen's complaints name the right one."""

import itertools
from typing import NamedTuple

import numpy as np

from .errors import PageError
from .numbers import is_whole, number_text
from .traces import shape_text

LARGEST_TABLE = 1024


def rows_of(header, rows, kind):
    """A table inside a box that scrolls."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="markdownTable {kind}"><tr class="markdownTableHead">{head}</tr>{body}</table></div>'


def quoted(title):
    """A title that stands between the double quotes of a reference."""
    return title.replace('"', "'")


class Part(NamedTuple):
    """A matrix, a row or a number of a tensor, as it is shown."""

    place: str
    formula: str
    corner: str  # what the columns are, where that is too long for their names
    columns: list  # their names
    rows: list  # a name, or None where there is one row, and cells: a text, and what it is to the style sheet


def tensor_parts(step, array, axes, place, specification, labels):
    """A tensor by its last two axes: rows and columns are named, every cell comes from the trace."""
    if array.size > LARGEST_TABLE:
        raise PageError(f"'{place}' has {array.size} numbers, more than a table of {LARGEST_TABLE}; take a part")
    if array.ndim <= 2:
        return [tensor_part(step, array, axes, place, specification, labels)]
    return [
        tensor_part(step, array[lead], axes[len(lead) :], f"{place}[{', '.join(map(str, lead))}]", specification, labels)
        for lead in itertools.product(*map(range, array.shape[:-2]))
    ]


def tensor_part(step, array, axes, place, specification, labels):
    rows = np.atleast_2d(array)
    numbers = array.astype(float)
    fractional = array.dtype.kind == "f" and bool(np.all((0 <= numbers) & (numbers <= 1))) and not is_whole(numbers)

    def cell(value):
        text = number_text(value, specification)
        if fractional:
            return text, f"share-{round(10 * value)}"
        return text, "nothing" if text in ("-inf", "false") or value == 0 else ""

    last = axes[-1] if axes else ""
    is_crowded = last not in labels and (rows.shape[1] > 4 or len(last) > 4)
    in_corner = is_crowded and array.ndim == 2 and last != ""

    def label(axis, i):
        name = axes[axis] if axes else ""
        if name in labels and i < len(labels[name]):
            return labels[name][i]
        is_short = axis == -1 and is_crowded and (in_corner or i > 0)
        return f"{name} = {i}" if name and not is_short else str(i)

    return Part(
        place,
        step["formula"] if step.get("formula") and place == step["path"] else "",
        f"{last} =" if in_corner else "",
        [label(-1, column) for column in range(rows.shape[1])] if array.ndim else [],
        [(label(0, i) if array.ndim == 2 else None, list(map(cell, row.tolist()))) for i, row in enumerate(rows)],
    )


def tensor_html(part):
    """A part of a tensor as a table of HTML, on one line."""

    def cell(text, kind):
        return f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>"

    is_matrix = part.rows[0][0] is not None
    head = "".join(f"<th>{name}</th>" for name in part.columns)
    lines = [f"<tr>{f'<th>{name}</th>' if is_matrix else ''}{''.join(cell(*one) for one in cells)}</tr>" for name, cells in part.rows]
    formula = f" = `{part.formula}`" if part.formula else ""
    heading = f"<tr>{f'<th>{part.corner}</th>' if is_matrix else ''}{head}</tr>" if head else ""
    return (
        f'<div class="tensor"><div class="tensor-name">`{part.place}`{formula}</div>'
        f'<table class="tensor-values">{heading}{"".join(lines)}</table></div>'
    )


def step_rows(trace, scope):
    """The steps of a lesson, or of one of its scopes, in order, with the header of their table."""
    steps = [step for step in trace.steps if not scope or step["path"] == scope or step["path"].startswith(scope + ".")]
    if not steps:
        raise PageError(f"{trace.name} has no steps in the scope '{scope}'")

    def size(step):
        axes, shape = step.get("axes") or [], step["shape"]
        if not shape:
            return "a number"
        return f"`({', '.join(f'{axis}={extent}' for axis, extent in zip(axes, shape))})`" if axes else f"`{shape_text(shape)}`"

    rows = [(f"`{step['path']}`", size(step), f"`{step['formula']}`" if step.get("formula") else "given") for step in steps]
    return ("step", "shape", "how it follows"), rows
