"""Lesson 20: attention to neighbours only, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('tokens', np.array([[1, 0, 1], [0, 2, 0], [1, 1, 1], [2, 0, 0], [0, 1, 2], [1, 2, 0], [0, 0, 1], [2, 1, 1]], float), given)
keep('cost.n', np.array([256, 1024, 4096, 16384]), given)
keep('cost.d', np.array(64), given)
keep('cost.r', np.array(64), given)

# ---- 1. The neighbours of each token

distances = np.arange(3) - 1
places = np.arange(8)[:, None] + distances

show('places', places, [[-1, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7], [6, 7, 8]])

# ---- 1. The neighbours of each token

mask = (places >= 0) & (places < 8)
neighbours = np.where(mask, places, 0)

show('neighbours', neighbours, [[0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7], [6, 7, 0]])

# ---- 2. Scores along the band

scores = np.where(mask, np.sum(tokens[:, None, :] * tokens[neighbours], axis=2), 0)
scaled = scores / np.sqrt(tokens.shape[-1])

show('scaled', scaled, [
    [0.0000, 1.1547, 0.0000],
    [0.0000, 2.3094, 1.1547],
    [1.1547, 1.7321, 1.1547],
    [1.1547, 2.3094, 0.0000],
    [0.0000, 2.8868, 1.1547],
    [1.1547, 2.8868, 0.0000],
    [0.0000, 0.5774, 0.5774],
    [0.5774, 3.4641, 0.0000],
])

# ---- 3. Softmax and average

def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)

masked = np.where(mask, scaled, -np.inf)
weights = softmax(masked)
context = np.sum(weights[:, :, None] * tokens[neighbours], axis=1)

show('weights', weights, [
    [0.0000, 0.7604, 0.2396],
    [0.0702, 0.7070, 0.2228],
    [0.2645, 0.4711, 0.2645],
    [0.2228, 0.7070, 0.0702],
    [0.0452, 0.8112, 0.1435],
    [0.1435, 0.8112, 0.0452],
    [0.2192, 0.3904, 0.3904],
    [0.0528, 0.9472, 0.0000],
])

# ---- 4. The same with a full mask

position = np.arange(8)
full_mask = np.abs(position[:, None] - position) <= 1
full_scores = tokens @ tokens.T
full_scaled = full_scores / np.sqrt(3)
full_masked = np.where(full_mask, full_scaled, -np.inf)
full_weights = softmax(full_masked)
full_context = full_weights @ tokens
full_wasted = np.mean(full_weights == 0)

show('full.weights[0]', full_weights[0], [0.7604, 0.2396, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000])
show('full.wasted', full_wasted, 0.6562)

# ---- 5. Strides, and both together

def restricted(queries, distances):
    n, d = tokens.shape
    places = np.arange(n)[:, None] + distances
    mask = (places >= 0) & (places < n)
    neighbours = np.where(mask, places, 0)
    scores = np.where(mask, np.sum(queries[:, None, :] * tokens[neighbours], axis=2), 0)
    scaled = scores / np.sqrt(d)
    masked = np.where(mask, scaled, -np.inf)
    weights = softmax(masked)
    context = np.sum(weights[:, :, None] * tokens[neighbours], axis=1)
    return places, mask, neighbours, scores, scaled, masked, weights, context

strided_distances = 3 * (np.arange(5) - 2)
(strided_places, strided_mask, strided_neighbours, strided_scores, strided_scaled,
 strided_masked, strided_weights, strided_context) = restricted(tokens, strided_distances)
both_distances = np.union1d(strided_distances, distances)
(both_places, both_mask, both_neighbours, both_scores, both_scaled,
 both_masked, both_weights, both_context) = restricted(tokens, both_distances)

show('strided.distances', strided_distances, [-6, -3, 0, 3, 6])
show('strided.weights[0]', strided_weights[0], [0.0000, 0.0000, 0.3904, 0.3904, 0.2192])
show('both.distances', both_distances, [-6, -3, -1, 0, 1, 3, 6])
show('both.weights[0]', both_weights[0], [0.0000, 0.0000, 0.0000, 0.3476, 0.1096, 0.3476, 0.1952])

# ---- 6. A convolution's window

even_queries = 0 * tokens
even_distances = distances
(even_places, even_mask, even_neighbours, even_scores, even_scaled,
 even_masked, even_weights, even_context) = restricted(even_queries, even_distances)
even_convolution = (tokens[:-2] + tokens[1:-1] + tokens[2:]) / 3
assert np.allclose(even_context[1:-1], even_convolution)

show('even.weights', even_weights, [
    [0.0000, 0.5000, 0.5000],
    [0.3333, 0.3333, 0.3333],
    [0.3333, 0.3333, 0.3333],
    [0.3333, 0.3333, 0.3333],
    [0.3333, 0.3333, 0.3333],
    [0.3333, 0.3333, 0.3333],
    [0.3333, 0.3333, 0.3333],
    [0.5000, 0.5000, 0.0000],
])

# ---- What goes wrong: distant tokens

reach_changed = tokens + np.where(np.arange(8) == 0, 1, 0)[:, None]
apart = np.abs(position[:, None] - position)
reach_local_mask, reach_strided_mask = apart <= 1, apart % 3 == 0
reach_both_mask = reach_local_mask | reach_strided_mask

def layer(x, mask):
    return softmax(np.where(mask, x @ x.T / np.sqrt(3), -np.inf)) @ x

def reached(before, after):
    return np.sum(np.max(np.abs(after - before), axis=1) > 0)

def three_layers(mask):
    before, after, found = tokens, reach_changed, []
    for _ in range(3):
        before, after = layer(before, mask), layer(after, mask)
        found += [before, after, reached(before, after)]
    return found

(reach_local_layer_1_before, reach_local_layer_1_after, reach_local_layer_1_reached,
 reach_local_layer_2_before, reach_local_layer_2_after, reach_local_layer_2_reached,
 reach_local_layer_3_before, reach_local_layer_3_after, reach_local_layer_3_reached
) = three_layers(reach_local_mask)
(reach_strided_layer_1_before, reach_strided_layer_1_after, reach_strided_layer_1_reached,
 reach_strided_layer_2_before, reach_strided_layer_2_after, reach_strided_layer_2_reached,
 reach_strided_layer_3_before, reach_strided_layer_3_after, reach_strided_layer_3_reached
) = three_layers(reach_strided_mask)
(reach_both_layer_1_before, reach_both_layer_1_after, reach_both_layer_1_reached,
 reach_both_layer_2_before, reach_both_layer_2_after, reach_both_layer_2_reached,
 reach_both_layer_3_before, reach_both_layer_3_after, reach_both_layer_3_reached
) = three_layers(reach_both_mask)

show('reach.local.layer.1.reached', reach_local_layer_1_reached, 2)
show('reach.local.layer.2.reached', reach_local_layer_2_reached, 3)
show('reach.local.layer.3.reached', reach_local_layer_3_reached, 4)
show('reach.strided.layer.1.reached', reach_strided_layer_1_reached, 3)
show('reach.strided.layer.2.reached', reach_strided_layer_2_reached, 3)
show('reach.strided.layer.3.reached', reach_strided_layer_3_reached, 3)
show('reach.both.layer.1.reached', reach_both_layer_1_reached, 4)
show('reach.both.layer.2.reached', reach_both_layer_2_reached, 8)
show('reach.both.layer.3.reached', reach_both_layer_3_reached, 8)

# ---- What attention costs in n, and what restricting it saves

n, d, r = cost_n.astype(float), cost_d, cost_r
cost_full = n**2 * (2 * d + 2)
cost_local = (n * (2 * r + 1) - r * (r + 1)) * 2 * d + 2 * n * (2 * r + 1)
cost_strided = n**1.5 * 2 * d + 2 * n * (2 * np.sqrt(n) - 1)
cost_full_exponent = np.log(cost_full[-1] / cost_full[0]) / np.log(n[-1] / n[0])
cost_local_exponent = np.log(cost_local[-1] / cost_local[0]) / np.log(n[-1] / n[0])
cost_strided_exponent = np.log(cost_strided[-1] / cost_strided[0]) / np.log(n[-1] / n[0])
cost_full_mib = 8 * n**2 / 2**20
cost_local_mib = 8 * n * (2 * r + 1) / 2**20

show('cost.full', cost_full, [8.520e+06, 1.363e+08, 2.181e+09, 3.490e+10])
show('cost.local', cost_local, [3760640, 16640000, 68157440, 274227200])
show('cost.full_exponent', cost_full_exponent, 2)
show('cost.local_exponent', cost_local_exponent, 1.0314)
show('cost.strided_exponent', cost_strided_exponent, 1.5002)
show('cost.full_mib', cost_full_mib, [0.5000, 8.0000, 128.0000, 2048.0000])
show('cost.local_mib', cost_local_mib, [0.2520, 1.0078, 4.0312, 16.1250])

print("all as on the page")
