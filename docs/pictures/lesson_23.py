"""Pictures of lesson 23: every mistake, right beside wrong."""

import matplotlib.colors as colours
import numpy as np

from generator.picture import BLUE, FAINT, ORANGE, RED, figure, ink_on, picture

PER_ROW = 2  # mistakes; each has two heatmaps


def cells(axes, values, title, others=None, largest=1.0):
    """A small matrix with its numbers, one shape per cell; cells that differ from the others have a red frame."""
    values = np.atleast_2d(np.asarray(values, float))
    others = values if others is None else np.atleast_2d(np.asarray(others, float))
    for (i, j), value in np.ndenumerate(values):
        strength = 0.8 * min(1.0, abs(value) / largest) if np.isfinite(value) else 0
        differs = values.shape != others.shape or not (value == others[i, j] or abs(value - others[i, j]) <= 1e-12)
        inset = 0.47 if differs else 0.5
        colour = BLUE if value >= 0 else ORANGE
        axes.fill([j - inset, j + inset, j + inset, j - inset], [i - inset, i - inset, i + inset, i + inset],
                  facecolor=colours.to_rgba(colour, strength), edgecolor=RED if differs else FAINT, linewidth=0.9)  # fmt: skip
        text = "−∞" if value == -np.inf else f"{value:.0e}".replace("e+0", "e") if abs(value) >= 1000 else f"{value:.2f}"
        axes.text(j, i, text, ha="center", va="center", fontsize=6.5, color=ink_on(colour, strength))
    axes.set(xlim=(-0.5, values.shape[1] - 0.5), ylim=(values.shape[0] - 0.5, -0.5))
    axes.set_title(title, fontsize=8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def grid(site, mistakes):
    """Right beside wrong for each mistake, and the sentence that says which one changes its result the most."""
    trace = site.trace_called("23_pitfalls")
    right = {path.split(".")[-2]: path[: -len(".right")] for path in trace.by_path if path.endswith(".right")}
    rows = -(-len(mistakes) // PER_ROW)
    drawn, places = figure(7, 1.35 * rows, rows=rows, columns=2 * PER_ROW, squeeze=False)
    for axes in places.flat:
        axes.set_axis_off()
    for number, mistake in enumerate(mistakes):
        pair = places[number // PER_ROW, 2 * (number % PER_ROW) :]
        values, wrong = (trace[f"{right[mistake]}.{which}"].astype(float) for which in ("right", "mistaken"))
        largest = max(np.max(np.abs(values[np.isfinite(values)]), initial=0), 1e-9)
        for axes in pair[:2]:
            axes.set_axis_on()
        cells(pair[0], values, "right", largest=largest)
        cells(pair[1], wrong, mistake, values, largest)
    changes = {mistake: trace[f"changes.{mistake}"].item() for mistake in mistakes}
    most, least = max(changes, key=changes.get), min(changes, key=changes.get)
    return drawn, (
        f"Each mistake beside the right step; numbers that differ have a red frame. The result changes most by {most} "
        f"({changes[most]:.3g}) and least by {least} ({changes[least]:.3g})."
    )


@picture
def positions(site):
    """Mistakes in positions."""
    return grid(site, ["positions_exponent", "positions_from_one", "positions_cos_first", "positions_halves", "rotary_layout", "rotary_sign", "alibi_sign"])


@picture
def projections(site):
    """Mistakes in projections and heads."""
    return grid(site, ["qkv_swapped", "weight_transposed", "heads_unpermuted_split", "heads_interleaved", "heads_unpermuted_merge", "output_map_missing"])


@picture
def scale(site):
    """Mistakes in the scale of scores."""
    return grid(site, ["no_scale", "scale_d_model", "scale_d_k", "scale_inverse"])


@picture
def masks(site):
    """Mistakes in masks."""
    return grid(site, ["causal_strict", "causal_next", "causal_top_left", "mask_inverted", "mask_zero", "mask_finite", "mask_added", "mask_transposed", "mask_after_softmax"])  # fmt: skip


@picture
def softmax(site):
    """Mistakes in softmax and the weighted average."""
    return grid(site, ["softmax_axis", "softmax_all", "softmax_missing", "softmax_twice", "weights_transposed"])


@picture
def layer(site):
    """Mistakes in residuals, norm and feed-forward."""
    return grid(site, ["residual_missing", "residual_after_norm", "norm_skipped", "norm_all_tokens", "norm_bessel", "norm_epsilon_outside",
                       "norm_epsilon_value", "norm_no_affine", "relu_missing", "gelu_for_relu", "gelu_tanh"])  # fmt: skip
