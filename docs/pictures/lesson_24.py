"""Pictures of lesson 24."""

from generator.picture import BLUE, GREEN, QUIET, figure, picture

MODELS = ("Llama 2 7B", "Llama 3 8B", "Qwen2.5 7B", "Falcon 7B", "DeepSeek-V2-Lite", "DeepSeek-V3")


@picture
def published(site):
    """What six published models keep of a token, beside what keys and values of every head would take."""
    trace = site.trace_called("24_smaller_caches")
    kept, own = 2 * trace["published.numbers"] / 1024, 2 * trace["published.own"] / 1024
    drawn, axes = figure(4.9, 2.8)
    rows = range(len(MODELS))
    axes.barh(rows, own, height=0.7, color=QUIET, alpha=0.25)
    for row in rows:
        axes.barh(row, kept[row], height=0.7, color=GREEN if trace["published.d_c"][row] else BLUE)
        axes.text(own[row] * 1.1, row, f"{kept[row]:.0f} of {own[row]:,.0f} KiB", va="center", fontsize=9)
    axes.set(xscale="log", xlim=(4, 400000), ylim=(5.5, -0.5), xlabel="KiB for each token")
    axes.set_yticks(rows, MODELS)
    axes.tick_params(axis="y", length=0)
    return drawn, (
        "What the cache keeps of each token in two bytes per number; blue: keys and values, shared by groups of heads; green: a latent and a rotary key. "
        f"Behind it in grey what keys and values of every head would take: of DeepSeek-V3\u2019s {own[5]:,.0f} KiB it keeps {kept[5]:.0f}."
    )
