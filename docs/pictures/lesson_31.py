"""Pictures of lesson 31."""

import numpy as np

from generator.measurements import numbers_called
from generator.picture import BLUE, GREEN, INK, ORANGE, QUIET, figure, heatmap, picture


def float8(digits, smallest, largest):
    """All numbers of a type that are not negative."""
    subnormal = [mantissa * 2.0 ** (smallest - digits + 1) for mantissa in range(2 ** (digits - 1))]
    return np.array(subnormal + [m * 2.0 ** (e - digits + 1) for e in range(smallest, 20) for m in range(2 ** (digits - 1), 2**digits) if m * 2.0 ** (e - digits + 1) <= largest])


@picture
def grids(site):
    """The numbers that four types have, up to a largest number of 8."""
    grids = {
        "int4, scale 8 / 7": np.arange(8) * 8 / 7, "int8, scale 8 / 127": np.arange(128) * 8 / 127,
        "float8 e4m3": float8(4, -6, 448), "float8 e5m2": float8(3, -14, 57344),
    }  # fmt: skip
    drawn, axes = figure(6.1, 1.9)
    for row, ((name, numbers), colour) in enumerate(zip(grids.items(), (ORANGE, ORANGE, BLUE, BLUE))):
        axes.vlines(numbers[numbers <= 8], -row - 0.32, -row + 0.32, color=colour, lw=0.8)
    axes.set_yticks([-row for row in range(len(grids))], list(grids))
    axes.set(xlim=(-0.05, 8.05), xlabel="a number that can be stored")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    return drawn, "Each line is a number that the type has, from 0 to 8. Whole numbers times a scale are equally far apart; those of float8 are closer where they are smaller."


@picture
def channels(site):
    """Keys as they are, with one large channel, and rotated."""
    trace = site.trace_called("31_fewer_bits")
    words = site.vocabulary("small_model").of(trace["ids"])
    drawn, axes = figure(7, 3.4, columns=3)
    for ax, (form, title) in zip(axes, (("plain", "as they are"), ("raised", f"channel {int(trace['channel'][0])} times {trace['factor'][0]:.0f}"), ("rotated", "and then rotated"))):
        keys = trace[f"{form}.keys"]
        heatmap(ax, keys, words if ax is axes[0] else (), [str(channel) for channel in range(keys.shape[1])], numbers=False, title=title, largest=np.abs(keys).max())
        ax.tick_params(labelsize=7)
    largest = {form: np.abs(trace[f"{form}.keys"]).max() for form in ("plain", "raised", "rotated")}
    return drawn, (
        f"The keys of layer 1, head 0, a row per word, a column per channel; colours by the largest number, {largest['plain']:.1f}, {largest['raised']:.1f} and "
        f"{largest['rotated']:.1f}. All three give the same scores with their queries."
    )


@picture
def losses(site):
    """The small model's loss with each cache, for the model as it is, with a large channel, and with it rotated."""
    report = numbers_called(site, "fewer")["cache"]
    formats = ("float8_e4m3", "int8_token", "int4_token", "int4_block8", "int4_channel4_int4_token", "uint2_token", "uint2_block4_uint2_token", "uint2_channel4_uint2_token")
    names = ("float8 e4m3", "int8 by token", "int4 by token", "int4 by head", "int4, keys by channel", "2 bits by token", "2 bits, keys by 4 features", "2 bits, keys by channel")
    drawn, axes = figure(6.1, 3.2)
    for offset, (variant, label, colour) in enumerate((("own", "as trained", BLUE), ("raised", "one large channel", ORANGE), ("rotated", "and rotated", GREEN))):
        axes.barh([row + 0.27 * (offset - 1) for row in range(len(formats))], [report[variant][text]["loss"] for text in formats], 0.25, color=colour, label=label)
    exact = report["own"]["none"]["loss"]
    axes.axvline(exact, color=INK, lw=0.8)
    axes.set_yticks(range(len(formats)), names)
    axes.invert_yaxis()
    axes.set(xlim=(0, 3.4), xlabel="expected loss, nats per word")
    axes.legend(loc="upper right", frameon=False)
    return drawn, f"The line is the loss with an exact cache, {exact:.3f}. One large channel in each head breaks scales by token; scales by channel don't notice it."


@picture
def kept(site):
    """The cache of Llama 3.1 8B in each type."""
    trace = site.trace_called("31_fewer_bits")
    names = ("bfloat16", "float8", "int8 by token", "int4 by token", "int4, blocks of 32", "2 bits (KIVI)")
    drawn, axes = figure(5, 2.1)
    sizes = trace["bytes.gib"]
    axes.barh(range(len(names)), sizes, 0.6, color=[QUIET, *[BLUE] * 5])
    for row, size in enumerate(sizes):
        axes.text(size + 0.2, row, f"{size:.2f}", va="center", color=INK)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlim=(0, 18), xlabel="GiB for 131,072 tokens")
    return drawn, "Llama 3.1 8B at 131,072 tokens, with scales of 16 bits."
