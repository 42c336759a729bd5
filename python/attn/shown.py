"""What a notebook shows of a verdict: on a light page and on a dark one."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]

# Colours that read on white and on black alike, since they let what is behind them through.
STYLE = """
.attn{font-family:system-ui,sans-serif;font-size:13px;line-height:1.45}
.attn b.attn-ok{color:#2e9e5b}.attn b.attn-wrong{color:#e0564a}
.attn pre{font-size:12px;line-height:1.4;white-space:pre-wrap;background:none;color:inherit;margin:.6em 0}
.attn .attn-maps{display:flex;flex-wrap:wrap;gap:1.5em;margin:.6em 0}
.attn table.attn-map{border-collapse:collapse;border:0;margin:0}
.attn table.attn-map td,.attn table.attn-map th{min-width:1.6em;padding:2px 4px;text-align:right;border:1px solid rgba(128,128,128,.25);
font:11px ui-monospace,monospace;color:inherit;background:none}
.attn table.attn-map th{opacity:.6;font-weight:normal;border:0}
.attn table.attn-map td.attn-off{outline:1px solid #e0564a;outline-offset:-1px}
.attn table.attn-map td.attn-worst{outline-width:3px}
.attn summary{cursor:pointer;opacity:.75}
.attn a{color:#4084f4}
.attn .attn-caption{opacity:.75;margin-bottom:2px}
"""


def page_of(is_ok: bool, text: str, *parts: str) -> str:
    """A heading from the last line, which has the verdict, then pictures and words, then all that the program says, folded."""
    heading = text.strip().split("\n")[-1]
    return (f'<div class="attn"><style>{STYLE}</style><b class="attn-{"ok" if is_ok else "wrong"}">{html.escape(heading)}</b>'
            + "".join(parts) + f"<details><summary>all that attn diff says</summary><pre>{html.escape(text)}</pre></details></div>")


def paragraph(*lines: str) -> str:
    """Lines of HTML."""
    return "<div>" + "<br>".join(lines) + "</div>"


def shade_of(value: float, largest: float) -> str:
    """Blue for what is above zero, orange for what is below, the stronger the larger."""
    if not math.isfinite(value):
        return "background:rgba(128,128,128,.35)"
    part = 0.0 if largest == 0 else min(1.0, abs(value) / largest)
    colour = "64,132,244" if value >= 0 else "240,140,40"
    return f"background:rgba({colour},{0.75 * part:.3f})"


def heatmap(caption: str, rows: Rows, begin: Sequence[int], others: Rows, largest: float, worst: float) -> str:
    """A table of numbers.

    begin    the indices of the first row and column
    others   what they are compared with
    largest  number of both, which has the strongest colour
    worst    by how much that number is off which is furthest off
    """
    head = "".join(f"<th>{begin[1] + j}</th>" for j in range(len(rows[0])))
    body = []
    for i, (row, other) in enumerate(zip(rows, others)):
        cells = "".join(f'<td class="{frame_of(off(value, right), worst)}" style="{shade_of(value, largest)}" '
                        f'title="{value!r}, the other {right!r}">{short(value)}</td>' for value, right in zip(row, other))
        body.append(f"<tr><th>{begin[0] + i}</th>{cells}</tr>")
    return (f'<div><div class="attn-caption">{html.escape(caption)}</div><table class="attn-map"><tr><th></th>{head}</tr>'
            + "".join(body) + "</table></div>")


def frame_of(error: float, worst: float) -> str:
    """Roundings have no frame: they are far smaller than the error of the worst number."""
    return "attn-off attn-worst" if error == worst else "attn-off" if error >= worst / 100 else ""


def off(value: float, other: float) -> float:
    if math.isfinite(value) and math.isfinite(other):
        return abs(value - other)
    return 0.0 if value == other or (math.isnan(value) and math.isnan(other)) else math.inf


def short(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.3g}".replace("-", "−")


def side_by_side(expected: Rows, found: Rows, begin: Sequence[int]) -> str:
    """What the reference has, and what was found instead."""
    finite = [abs(value) for rows in (expected, found) for row in rows for value in row if math.isfinite(value)]
    largest = max(finite, default=0.0)
    worst = max(off(value, other) for row, others in zip(expected, found) for value, other in zip(row, others))
    return ('<div class="attn-maps">' + heatmap("expected", expected, begin, found, largest, worst)
            + heatmap("found", found, begin, expected, largest, worst) + "</div>")


def growth_plot(layers: Sequence[tuple[str, float]]) -> str:
    """How the difference grows from layer to layer, on a logarithmic scale, as a drawing."""
    sizes = [size for _, size in layers if math.isfinite(size) and size > 0]
    if len(layers) < 2 or not sizes:
        return ""
    low, high = math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes)) + 1e-9)
    high = max(high, low + 1)
    width, height, left, bottom = 460, 150, 52, 22

    def x(i: int) -> float:
        return left + (width - left - 12) * i / (len(layers) - 1)

    def y(size: float) -> float:
        if not math.isfinite(size):
            return 8.0
        part = 0.0 if size <= 0 else (math.log10(size) - low) / (high - low)
        return height - bottom - (height - bottom - 8) * part

    step = max(1, (high - low) // 4)
    lines = "".join(f'<line x1="{left}" x2="{width - 12}" y1="{y(10.0 ** power):.1f}" y2="{y(10.0 ** power):.1f}" stroke="currentColor" '
                    f'stroke-opacity=".2"/><text x="{left - 6}" y="{y(10.0 ** power) + 4:.1f}" text-anchor="end">1e{power}</text>'
                    for power in range(low, high + 1, step))
    points = " ".join(f"{x(i):.1f},{y(size):.1f}" for i, (_, size) in enumerate(layers))
    dots = "".join(f'<circle cx="{x(i):.1f}" cy="{y(size):.1f}" r="3" fill="#4084f4"><title>{html.escape(layer)}: {size:.2g}</title></circle>'
                   for i, (layer, size) in enumerate(layers))
    every = max(1, len(layers) // 12)
    names = "".join(f'<text x="{x(i):.1f}" y="{height - 6}" text-anchor="middle">{html.escape(layer.rsplit(".", 1)[-1])}</text>'
                    for i, (layer, _) in enumerate(layers) if i % every == 0)
    return (f'<div class="attn-caption">largest difference in each layer, over the numbers\' size</div>'
            f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" style="max-width:100%" font-size="11" '
            f'fill="currentColor" role="img" aria-label="the difference by layer">{lines}'
            f'<polyline points="{points}" fill="none" stroke="#4084f4" stroke-width="1.5"/>{dots}{names}</svg>')
