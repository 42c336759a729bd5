"""Lesson 5: which keys a query can attend to, in NumPy: the lines of its page in their order, and the numbers that they start from.

It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.
"""

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

keep('tokens', np.array([[[1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 1, 1]], [[2, 0, 1], [1, 2, 0], [3, 3, 3], [3, 3, 3]]], float), given)
keep('lengths', np.array([4, 2]), given)
keep('finite.scores', np.array([-100001, -100002, -100003], float), given)
keep('float32.scores', np.array([1, 2, 3], float), given)
keep('nothing.masked', np.full((3,), -np.inf, float), given)

# ---- Two sentences in one batch

scores = tokens @ tokens.transpose(0, 2, 1)
scaled = scores / np.sqrt(tokens.shape[2])

show('scaled[0]', scaled[0], [
    [2.8868, 1.1547, 1.1547, 1.7321],
    [1.1547, 2.8868, 1.1547, 1.7321],
    [1.1547, 1.1547, 2.8868, 1.7321],
    [1.7321, 1.7321, 1.7321, 1.7321],
])

# ---- The padding mask

padding = np.arange(4) < lengths[:, None]
mask = np.repeat(padding[:, None, :], 4, axis=1)

show('padding', padding, [[True, True, True, True], [True, True, False, False]])
show('mask[0]', mask[0], [
    [True, True, True, True],
    [True, True, True, True],
    [True, True, True, True],
    [True, True, True, True],
])

# ---- Minus infinity, then softmax

def softmax_or_zeros(scores):
    largest = scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    sums = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(sums > 0, sums, 1)

masked = np.where(mask, scaled, -np.inf)
weights = softmax_or_zeros(masked)
context = weights @ tokens

show('masked[0]', masked[0], [
    [2.8868, 1.1547, 1.1547, 1.7321],
    [1.1547, 2.8868, 1.1547, 1.7321],
    [1.1547, 1.1547, 2.8868, 1.7321],
    [1.7321, 1.7321, 1.7321, 1.7321],
])
show('weights[0]', weights[0], [
    [0.5992, 0.1060, 0.1060, 0.1888],
    [0.1060, 0.5992, 0.1060, 0.1888],
    [0.1060, 0.1060, 0.5992, 0.1888],
    [0.2500, 0.2500, 0.2500, 0.2500],
])
show('context', context, [
    [
        [1.0000, 0.5068, 1.4932],
        [0.5068, 1.4932, 1.0000],
        [1.4932, 1.0000, 0.5068],
        [1.0000, 1.0000, 1.0000],
    ],
    [
        [1.8497, 0.3007, 0.8497],
        [1.1503, 1.6993, 0.1503],
        [1.5000, 1.0000, 0.5000],
        [1.5000, 1.0000, 0.5000],
    ],
])

# ---- The rows of padded queries

queries_context = context * padding[:, :, None]

show('queries.context', queries_context, [
    [
        [1.0000, 0.5068, 1.4932],
        [0.5068, 1.4932, 1.0000],
        [1.4932, 1.0000, 0.5068],
        [1.0000, 1.0000, 1.0000],
    ],
    [
        [1.8497, 0.3007, 0.8497],
        [1.1503, 1.6993, 0.1503],
        [0.0000, 0.0000, 0.0000],
        [0.0000, 0.0000, 0.0000],
    ],
])

# ---- The causal mask

causal_only_tokens = tokens[0]
causal_only_causal = np.arange(4) <= np.arange(4)[:, None]
causal_only_scaled = causal_only_tokens @ causal_only_tokens.T / np.sqrt(3)
causal_only_masked = np.where(causal_only_causal, causal_only_scaled, -np.inf)
causal_only_weights = softmax_or_zeros(causal_only_masked)

show('causal_only.masked', causal_only_masked, [
    [2.8868, -np.inf, -np.inf, -np.inf],
    [1.1547, 2.8868, -np.inf, -np.inf],
    [1.1547, 1.1547, 2.8868, -np.inf],
    [1.7321, 1.7321, 1.7321, 1.7321],
])
show('causal_only.weights', causal_only_weights, [
    [1.0000, 0.0000, 0.0000, 0.0000],
    [0.1503, 0.8497, 0.0000, 0.0000],
    [0.1307, 0.1307, 0.7386, 0.0000],
    [0.2500, 0.2500, 0.2500, 0.2500],
])

# ---- Fewer queries than keys

n, m = 2, 4
bottom_right_causal = np.arange(m) <= np.arange(n)[:, None] + (m - n)
top_left_causal = np.arange(m) <= np.arange(n)[:, None]

show('top_left.causal', top_left_causal, [[True, False, False, False], [True, True, False, False]])

# ---- Both masks

both_causal = np.arange(4) <= np.arange(4)[:, None]
both_padding = np.arange(4) < lengths[:, None]
both_mask = both_causal & both_padding[:, None, :]
both_weights = softmax_or_zeros(np.where(both_mask, scaled, -np.inf))

show('both.weights[0]', both_weights[0], [
    [1.0000, 0.0000, 0.0000, 0.0000],
    [0.1503, 0.8497, 0.0000, 0.0000],
    [0.1307, 0.1307, 0.7386, 0.0000],
    [0.2500, 0.2500, 0.2500, 0.2500],
])

# ---- Masking after softmax

after_unmasked = softmax_or_zeros(scaled)
after_weights = np.where(mask, after_unmasked, 0)
after_row_sums = after_weights.sum(axis=-1)

show('after.unmasked[0]', after_unmasked[0], [
    [0.5992, 0.1060, 0.1060, 0.1888],
    [0.1060, 0.5992, 0.1060, 0.1888],
    [0.1060, 0.1060, 0.5992, 0.1888],
    [0.2500, 0.2500, 0.2500, 0.2500],
])
show('after.weights[0]', after_weights[0], [
    [0.5992, 0.1060, 0.1060, 0.1888],
    [0.1060, 0.5992, 0.1060, 0.1888],
    [0.1060, 0.1060, 0.5992, 0.1888],
    [0.2500, 0.2500, 0.2500, 0.2500],
])
show('after.row_sums', after_row_sums, [[1.0000, 1.0000, 1.0000, 1.0000], [0.0552, 0.0552, 0.0000, 0.0000]])

# ---- Zero instead of minus infinity

zeroed_scores = np.where(mask, scaled, 0)
zeroed_weights = softmax_or_zeros(zeroed_scores)

show('zeroed.weights[0]', zeroed_weights[0], [
    [0.5992, 0.1060, 0.1060, 0.1888],
    [0.1060, 0.5992, 0.1060, 0.1888],
    [0.1060, 0.1060, 0.5992, 0.1888],
    [0.2500, 0.2500, 0.2500, 0.2500],
])

# ---- A number that is not large enough

large_masked = np.where(mask, scaled, scaled - 1e12)
large_weights = softmax_or_zeros(large_masked)

show('large.weights[0]', large_weights[0], [
    [0.5992, 0.1060, 0.1060, 0.1888],
    [0.1060, 0.5992, 0.1060, 0.1888],
    [0.1060, 0.1060, 0.5992, 0.1888],
    [0.2500, 0.2500, 0.2500, 0.2500],
])

# ---- A number that is not large enough

finite_masked = np.array([finite_scores[0], finite_scores[1], -1e5])
finite_weights = softmax_or_zeros(finite_masked)

show('finite.weights', finite_weights, [0.2447, 0.0900, 0.6652])

# ---- A number that is not large enough

float32_moved = (float32_scores.astype(np.float32) + np.float32(1e10)).astype(float)
float32_weights = softmax_or_zeros(float32_moved)

show('float32.moved', float32_moved, [1.000e+10, 1.000e+10, 1.000e+10])
show('float32.weights', float32_weights, [0.3333, 0.3333, 0.3333])

# ---- A query that can attend to nothing

with np.errstate(invalid="ignore"):
    nothing_naive = np.exp(nothing_masked) / np.exp(nothing_masked).sum()

nothing_weights = softmax_or_zeros(nothing_masked)

show('nothing.naive', nothing_naive, [np.nan, np.nan, np.nan])
show('nothing.weights', nothing_weights, [0, 0, 0])

print("all as on the page")
