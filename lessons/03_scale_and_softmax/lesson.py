"""Lesson 3: why divide by the square root of d_k, in NumPy: the lines of its page in their order, and the numbers that they start from.

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
keep('row', np.array([1, 2, 3], float), given)
keep('large.scores', np.array([1000, 1001, 1002], float), given)

# ---- Queries and keys

query_variance = np.mean((queries - queries.mean()) ** 2)
key_variance = np.mean((keys - keys.mean()) ** 2)

show('query_variance', query_variance, 0.9879)
show('key_variance', key_variance, 1.0052)

# ---- Scores

d_k_64_queries, d_k_64_keys = queries[:, :64], keys[:, :64]
d_k_64_scores = d_k_64_queries @ d_k_64_keys.T
d_k_64_mean = d_k_64_scores.mean()

show('d_k.64.mean', d_k_64_mean, 0.1631)

# ---- Weights, the largest weight, the slope

def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)

def soften(scope, scores):
    keep(f"{scope}.variance", scores.var())
    weights = keep(f"{scope}.weights", softmax(scores))
    keep(f"{scope}.largest", weights.max(axis=1).mean())
    keep(f"{scope}.slope", (weights * (1 - weights)).sum(axis=1).mean())

soften("d_k.64", d_k_64_scores)

show('d_k.64.variance', d_k_64_variance, 63.3160)
show('d_k.64.largest', d_k_64_largest, 0.7804)
show('d_k.64.slope', d_k_64_slope, 0.3019)

# ---- The same, divided

def divide(scope, scores, divisor):
    soften(scope, keep(f"{scope}.scaled", scores / divisor))

divide("d_k.64.by_root", d_k_64_scores, np.sqrt(64))
divide("d_k.64.by_d_k", d_k_64_scores, 64)

show('d_k.64.by_root.variance', d_k_64_by_root_variance, 0.9893)
show('d_k.64.by_root.largest', d_k_64_by_root_largest, 0.1137)
show('d_k.64.by_root.slope', d_k_64_by_root_slope, 0.9579)
show('d_k.64.by_d_k.variance', d_k_64_by_d_k_variance, 0.0155)
show('d_k.64.by_d_k.largest', d_k_64_by_d_k_largest, 0.0209)
show('d_k.64.by_d_k.slope', d_k_64_by_d_k_slope, 0.9841)

# ---- The same, divided

for d_k in (4, 16, 256, 1024):
    at = f"d_k.{d_k}"
    q, k = keep(f"{at}.queries", queries[:, :d_k]), keep(f"{at}.keys", keys[:, :d_k])
    scores = keep(f"{at}.scores", q @ k.T)
    keep(f"{at}.mean", scores.mean())
    soften(at, scores)
    divide(f"{at}.by_root", scores, np.sqrt(d_k))
    divide(f"{at}.by_d_k", scores, d_k)

show('d_k.4.variance', d_k_4_variance, 3.7939)
show('d_k.4.largest', d_k_4_largest, 0.2788)
show('d_k.4.slope', d_k_4_slope, 0.8458)
show('d_k.4.by_root.variance', d_k_4_by_root_variance, 0.9485)
show('d_k.4.by_root.largest', d_k_4_by_root_largest, 0.1043)
show('d_k.4.by_root.slope', d_k_4_by_root_slope, 0.9598)
show('d_k.4.by_d_k.variance', d_k_4_by_d_k_variance, 0.2371)
show('d_k.4.by_d_k.largest', d_k_4_by_d_k_largest, 0.0444)
show('d_k.4.by_d_k.slope', d_k_4_by_d_k_slope, 0.9801)
show('d_k.16.variance', d_k_16_variance, 15.0775)
show('d_k.16.largest', d_k_16_largest, 0.5758)
show('d_k.16.slope', d_k_16_slope, 0.5556)
show('d_k.16.by_root.variance', d_k_16_by_root_variance, 0.9423)
show('d_k.16.by_root.largest', d_k_16_by_root_largest, 0.1010)
show('d_k.16.by_root.slope', d_k_16_by_root_slope, 0.9639)
show('d_k.16.by_d_k.variance', d_k_16_by_d_k_variance, 0.0589)
show('d_k.16.by_d_k.largest', d_k_16_by_d_k_largest, 0.0267)
show('d_k.16.by_d_k.slope', d_k_16_by_d_k_slope, 0.9835)
show('d_k.256.variance', d_k_256_variance, 245.6235)
show('d_k.256.largest', d_k_256_largest, 0.9118)
show('d_k.256.slope', d_k_256_slope, 0.1195)
show('d_k.256.by_root.variance', d_k_256_by_root_variance, 0.9595)
show('d_k.256.by_root.largest', d_k_256_by_root_largest, 0.1014)
show('d_k.256.by_root.slope', d_k_256_by_root_slope, 0.9637)
show('d_k.256.by_d_k.variance', d_k_256_by_d_k_variance, 0.0037)
show('d_k.256.by_d_k.largest', d_k_256_by_d_k_largest, 0.0180)
show('d_k.256.by_d_k.slope', d_k_256_by_d_k_slope, 0.9843)
show('d_k.1024.variance', d_k_1024_variance, 1048.8147)
show('d_k.1024.largest', d_k_1024_largest, 0.9668)
show('d_k.1024.slope', d_k_1024_slope, 0.0500)
show('d_k.1024.by_root.variance', d_k_1024_by_root_variance, 1.0242)
show('d_k.1024.by_root.largest', d_k_1024_by_root_largest, 0.1121)
show('d_k.1024.by_root.slope', d_k_1024_by_root_slope, 0.9603)
show('d_k.1024.by_d_k.variance', d_k_1024_by_d_k_variance, 0.0010)
show('d_k.1024.by_d_k.largest', d_k_1024_by_d_k_largest, 0.0168)
show('d_k.1024.by_d_k.slope', d_k_1024_by_d_k_slope, 0.9844)

# ---- The Jacobian

def jacobian(weights):
    return np.diag(weights) - np.outer(weights, weights)

times_1_scores, times_4_scores, times_16_scores = row, 4 * row, 16 * row
times_1_weights, times_4_weights, times_16_weights = map(
    softmax, (times_1_scores, times_4_scores, times_16_scores))
times_1_jacobian, times_4_jacobian, times_16_jacobian = map(
    jacobian, (times_1_weights, times_4_weights, times_16_weights))

show('times.1.scores', times_1_scores, [1, 2, 3])
show('times.4.scores', times_4_scores, [4, 8, 12])
show('times.16.scores', times_16_scores, [16, 32, 48])
show('times.1.weights', times_1_weights, [0.0900, 0.2447, 0.6652])
show('times.4.weights', times_4_weights, [0.0003, 0.0180, 0.9817])
show('times.16.weights', times_16_weights, [0.0000, 0.0000, 1.0000])
show('times.1.jacobian', times_1_jacobian, [[0.0819, -0.0220, -0.0599], [-0.0220, 0.1848, -0.1628], [-0.0599, -0.1628, 0.2227]])
show('times.4.jacobian', times_4_jacobian, [[0.0003, 0.0000, -0.0003], [0.0000, 0.0177, -0.0177], [-0.0003, -0.0177, 0.0180]])
show('times.16.jacobian', times_16_jacobian, [
    [1.266e-14, -1.425e-21, -1.266e-14],
    [-1.425e-21, 1.125e-07, -1.125e-07],
    [-1.266e-14, -1.125e-07, 1.125e-07],
])

# ---- A softmax that does not overflow

with np.errstate(over="ignore", invalid="ignore"):
    large_naive_exponentials = np.exp(large_scores)
    large_naive_weights = large_naive_exponentials / large_naive_exponentials.sum()

show('large.naive.weights', large_naive_weights, [np.nan, np.nan, np.nan])

# ---- A softmax that does not overflow

large_shifted_scores = large_scores - large_scores.max()
large_shifted_exponentials = np.exp(large_shifted_scores)
large_shifted_weights = large_shifted_exponentials / large_shifted_exponentials.sum()

show('large.shifted.scores', large_shifted_scores, [-2, -1, 0])
show('large.shifted.weights', large_shifted_weights, [0.0900, 0.2447, 0.6652])

print("all as on the page")
