"""Lesson 26: experts, in NumPy: the lines of its page in their order, and the numbers that they start from.

It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.
"""

from pathlib import Path

import numpy as np

given, mine = {}, {}   # steps by name: those given, and those computed here

def keep(path, array, among=mine):
    # norm1.output is also the variable norm1_output
    among[path] = globals()[path.replace(".", "_")] = array
    return array

def show(name, array, expected):
    """Prints a step, which has to be what the lesson's page shows."""
    array = np.asarray(array)
    print(f"{name}: {np.array2string(array, precision=4, suppress_small=True, separator=', ')}")
    assert array.shape == np.shape(expected), f"{name} has the shape {array.shape}, the page shows {np.shape(expected)}"
    assert np.allclose(array, expected, rtol=6e-4, atol=6e-5, equal_nan=True), f"{name} is not what the page shows: {expected}"

# ---- what is given

stored = np.load(Path(__file__).with_name("lesson.npz"))
for path in stored.files:
    array = stored[path]
    keep(path, array.astype(float) if array.dtype == np.float32 else array, given)
keep('top', np.array([2]), given)
keep('temperature', np.array([1], float), given)
keep('off', np.array([2]), given)
trace = given

# ---- 1. The router's choice

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def choose(scores, k):
    order = np.argsort(-scores, axis=-1, kind="stable")
    chosen = np.zeros(scores.shape, bool)
    np.put_along_axis(chosen, order[:, :k], True, axis=-1)
    return chosen

x = trace["balanced.layers.0.norm2.output"]
logits = x @ given["balanced.layers.0.feed_forward.router_weights"]
keep("balanced.layers.0.feed_forward.router_logits", logits)
hand_open = np.where(np.arange(8) == off, -np.inf, logits / temperature)
hand_scores = softmax(hand_open)
hand_chosen = choose(hand_scores, top[0])
hand_chosen_scores = np.where(hand_chosen, hand_scores, 0)
hand_weights = hand_chosen_scores / hand_chosen_scores.sum(axis=1, keepdims=True)

show('balanced.layers.0.feed_forward.router_logits[0]', balanced_layers_0_feed_forward_router_logits[0], [-0.4347, -1.7138, -1.7534, 2.1725, 0.5185, -0.6115, -0.0356, -0.1883])
show('hand.scores[0]', hand_scores[0], [0.0475, 0.0132, 0.0000, 0.6445, 0.1233, 0.0398, 0.0708, 0.0608])
show('hand.weights[0]', hand_weights[0], [0.0000, 0.0000, 0.0000, 0.8394, 0.1606, 0.0000, 0.0000, 0.0000])

# ---- 2. The mixture

def expert(scope, x):
    gate, up, down = (given[f"{scope}.{name}_weights"] for name in ("gate", "up", "down"))
    activated = x @ gate
    return (activated / (1 + np.exp(-activated)) * (x @ up)) @ down

hand_mixed = 0
for e in range(8):
    output = expert(f"balanced.layers.0.feed_forward.expert.{e}", x)
    hand_mixed = hand_mixed + hand_weights[:, e:e + 1] * output

show('hand.mixed[0][:24]', hand_mixed[0][:24], [
    -0.3393, -0.0940, -0.0258, 0.4366, 0.4368, -0.3753, -0.3441, -0.0269, -0.4061, 0.0155, 0.2561,
    0.2566, -0.1064, 0.2278, -0.5639, 0.4889, 0.2323, 0.1133, -0.1223, -0.1737, -0.4037, -0.8485, 0.4252,
    -0.1731,
])

# ---- 4. The balance

for run in ("balanced", "unbalanced"):
    for layer in range(2):
        mixture = f"{run}.layers.{layer}.feed_forward"
        share = trace[f"{mixture}.chosen"].mean(axis=0) / 2
        score = trace[f"{mixture}.scores"].mean(axis=0)
        keep(f"balance.{run}.layer.{layer}.share", share)
        keep(f"balance.{run}.layer.{layer}.score", score)
        keep(f"balance.{run}.layer.{layer}.imbalance", 8 * np.sum(share * score))

show('balance.balanced.layer.0.share', balance_balanced_layer_0_share, [0.1071, 0.1786, 0.0357, 0.1429, 0.1786, 0.1071, 0.1071, 0.1429])
show('balance.balanced.layer.0.imbalance', balance_balanced_layer_0_imbalance, 1.0451)
show('balance.balanced.layer.1.share', balance_balanced_layer_1_share, [0.1071, 0.2500, 0.1429, 0.0357, 0.0714, 0.0714, 0.1429, 0.1786])
show('balance.balanced.layer.1.imbalance', balance_balanced_layer_1_imbalance, 1.1183)
show('balance.unbalanced.layer.0.share', balance_unbalanced_layer_0_share, [0.2500, 0.1071, 0.0714, 0.0357, 0.1429, 0.1071, 0.1786, 0.1071])
show('balance.unbalanced.layer.0.imbalance', balance_unbalanced_layer_0_imbalance, 1.1874)
show('balance.unbalanced.layer.1.share', balance_unbalanced_layer_1_share, [0.0714, 0.0714, 0.1429, 0.1071, 0.0714, 0.1071, 0.1429, 0.2857])
show('balance.unbalanced.layer.1.imbalance', balance_unbalanced_layer_1_imbalance, 1.2603)

print("all as on the page")
