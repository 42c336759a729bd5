"""Pictures of lesson 21."""

import numpy as np

from generator.picture import figure, heatmap, picture

LESSON = "21_recurrence"


@picture
def gates(site):
    """Gates and state of a GRU over the words of a sentence."""
    trace, words = site.trace_called(LESSON), site.words()
    rows = [f"{name} {feature}" for name in ("reset", "update", "state") for feature in ("name", "colour")]
    names = ("reset", "update", "hidden")
    values = np.array([[trace[f"sentence.step.{i}.{name}"][feature] for i in range(len(words))] for name in names for feature in (0, 1)])
    drawn, axes = figure(6, 4)
    heatmap(axes, values, rows, words)
    name, colour = values[4, -1], values[5, -1]
    return drawn, (
        f"Gates and state of a GRU after each word. A name opens the update gate of the feature 'name' ({values[2, 0]:.2f}); later words "
        f"leave it almost closed ({values[2, 1]:.2f}), so that at '{words[-1]}' the state still has {name:.2f}. The full stop opens the "
        f"update gate of 'colour' and closes its reset gate: {values[5, 4]:.2f} before it becomes {colour:.2f}."
    )


@picture
def moved(site):
    """How far each token's output moves when the first token changes."""
    trace = site.trace_called(LESSON)
    names = {"GRU": "recurrence"} | {f"convolution, layer {i}": f"convolution.layer.{i}" for i in (1, 2, 3)} | {"attention": "attention"}
    values = np.array([trace[f"{scope}.moved"] for scope in names.values()])
    drawn, axes = figure(5, 3.2)
    heatmap(axes, values, list(names), [f"token {i}" for i in range(values.shape[1])])
    axes.set_xticklabels(axes.get_xticklabels(), rotation=0)
    return drawn, (
        f"How far each output moves when token 0 changes. The last output moves by {values[0, -1]:.4f} with a GRU, by {values[1, -1]:g} "
        f"after one layer of convolution, by {values[3, -1]:.4f} after three, and by {values[4, -1]:.4f} with attention."
    )


@picture
def cost(site):
    """Multiplications of one layer, by the length of the sequence."""
    trace = site.trace_called(LESSON)
    drawn, axes = figure(5.5, 3.2)
    tokens = trace["cost.n"]
    for name, path in (("GRU", "gru"), ("LSTM", "lstm"), ("convolution of width 3", "convolution"), ("self-attention", "attention")):
        axes.loglog(tokens, trace[f"cost.{path}"], marker="o", markersize=3, label=name)
    axes.set(xlabel="tokens n", ylabel="multiplications")
    axes.set_xticks(tokens, [str(n) for n in tokens])
    axes.minorticks_off()
    axes.legend()
    share = trace["cost.attention"] / trace["cost.gru"]
    return drawn, (
        f"Multiplications of one layer with {trace['cost.d']} features. At {tokens[0]} tokens self-attention needs {share[0]:.2f} times as "
        f"many as a GRU, at {tokens[-1]} tokens {share[-1]:.2f} times as many: its cost grows with n², the others' with n."
    )
