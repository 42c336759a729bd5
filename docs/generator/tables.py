"""Tensors and lists of steps as HTML tables. Each stays on one line, so that Doxygen's complaints name the right one."""

import itertools

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


def tensor_tables(step, array, axes, place, specification, labels, live=""):
    """A tensor as tables of its last two axes: rows and columns are named, every cell comes from the trace."""
    if array.size > LARGEST_TABLE:
        raise PageError(f"'{place}' has {array.size} numbers, more than a table of {LARGEST_TABLE}; take a part")
    if array.ndim <= 2:
        tensors = tensor_table(step, array, axes, place, specification, labels)
    else:
        tensors = "".join(
            tensor_table(step, array[lead], axes[len(lead) :], f"{place}[{', '.join(map(str, lead))}]", specification, labels)
            for lead in itertools.product(*map(range, array.shape[:-2]))
        )
    return f"<div{live}>{tensors}</div>" if live else tensors


def tensor_table(step, array, axes, place, specification, labels):
    rows = np.atleast_2d(array)
    numbers = array.astype(float)
    fractional = array.dtype.kind == "f" and bool(np.all((0 <= numbers) & (numbers <= 1))) and not is_whole(numbers)

    def cell(value):
        text = number_text(value, specification)
        if fractional:
            return f'<td class="share-{round(10 * value)}">{text}</td>'
        return f'<td class="nothing">{text}</td>' if text in ("-inf", "false") or value == 0 else f"<td>{text}</td>"

    def label(axis, i):
        name = axes[axis] if axes else ""
        if name in labels and i < len(labels[name]):
            return labels[name][i]
        crowded = axis == -1 and i > 0 and rows.shape[1] > 4
        return f"{name} = {i}" if name and not crowded else str(i)

    is_matrix = array.ndim == 2
    head = "".join(f"<th>{label(-1, column)}</th>" for column in range(rows.shape[1])) if array.ndim else ""
    lines = [
        f"<tr>{f'<th>{label(0, i)}</th>' if is_matrix else ''}{''.join(map(cell, row.tolist()))}</tr>" for i, row in enumerate(rows)
    ]
    formula = f" = `{step['formula']}`" if step.get("formula") and place == step["path"] else ""
    heading = f"<tr>{'<th></th>' if is_matrix else ''}{head}</tr>" if head else ""
    return (
        f'<div class="tensor"><div class="tensor-name">`{place}`{formula}</div>'
        f'<table class="tensor-values">{heading}{"".join(lines)}</table></div>'
    )


def step_table(trace, scope):
    """The steps of a lesson, or of one of its scopes, in order."""
    steps = [step for step in trace.steps if not scope or step["path"] == scope or step["path"].startswith(scope + ".")]
    if not steps:
        raise PageError(f"{trace.name} has no steps in the scope '{scope}'")

    def size(step):
        axes, shape = step.get("axes") or [], step["shape"]
        if not shape:
            return "a number"
        return f"`({', '.join(f'{axis}={extent}' for axis, extent in zip(axes, shape))})`" if axes else f"`{shape_text(shape)}`"

    rows = [(f"`{step['path']}`", size(step), f"`{step['formula']}`" if step.get("formula") else "given") for step in steps]
    return rows_of(("step", "shape", "how it follows"), rows, "steps")
