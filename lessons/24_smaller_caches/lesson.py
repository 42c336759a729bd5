"""Lesson 24: smaller caches, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('inputs', np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], float), given)
keep('query_weights', np.array([[1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [0, 1, 1, 0]], float), given)
keep('key_weights', np.array([[0, 1, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 0, 1]], float), given)
keep('value_weights', np.array([[0, 2, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 2]], float), given)
keep('output_weights', np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], float), given)
keep('latent_query_weights', np.array([
    [1, 0, 0, 1, 0, 1, 1, 0],
    [0, 1, 1, 0, 1, 0, 0, -1],
    [1, 1, 0, 0, 0, 1, 0, 1],
    [0, 0, 1, 1, 1, 1, 0, 0],
], float), given)
keep('down_weights', np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, -1, 1, 0], [0, 1, 0, -1]], float), given)
keep('latent_gain', np.full((2,), 1, float), given)
keep('up_weights', np.array([[1, 0, 1, 0, 0, 2, 0, 1], [1, 1, 0, 1, -1, 0, 2, 0]], float), given)
keep('latent_output_weights', np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]], float), given)
keep('cost.h', np.array(128), given)
keep('cost.d_n', np.array(128), given)
keep('cost.d_r', np.array(64), given)
keep('cost.d_v', np.array(128), given)
keep('cost.d_c', np.array(512), given)
keep('cost.m', np.array(8192), given)

# ---- 1. Two heads share one key and one value

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def attend(queries, keys, values, scale):
    return softmax(queries @ keys.T * scale) @ values

def multi_head(x, key_weights, value_weights, heads=2):
    query, key, value = x @ query_weights, x @ key_weights, x @ value_weights
    shared = key.shape[1] < query.shape[1]
    contexts = []
    for head in range(heads):
        own = slice(2 * head, 2 * head + 2)
        kept = slice(0, 2) if shared else own
        contexts.append(attend(query[:, own], key[:, kept], value[:, kept], 2 ** -0.5))
    return np.hstack(contexts) @ output_weights

own_output = multi_head(inputs, key_weights, value_weights)
shared_key_weights = (key_weights[:, 0:2] + key_weights[:, 2:4]) / 2
shared_value_weights = (value_weights[:, 0:2] + value_weights[:, 2:4]) / 2
shared_output = multi_head(inputs, shared_key_weights, shared_value_weights)
change = np.abs(shared_output - own_output).max()

show('own.output', own_output, [
    [1.9619, 3.9238, 0.1178, 5.8134],
    [1.9972, 3.9944, 1.0287, 4.3708],
    [1.9972, 3.9944, 0.1131, 5.8279],
])
show('shared.output', shared_output, [
    [1.2644, 4.5061, 1.3367, 4.3712],
    [1.1076, 4.8335, 1.0562, 4.9132],
    [1.1076, 4.8335, 1.1076, 4.8335],
])
show('change', change, 1.4422)

# ---- 2. One latent per token

def rotate(x):
    """Pairs of features by their position; here one pair, and its frequency is 1."""
    angle = np.arange(len(x))
    a, b = x[:, 0], x[:, 1]
    return np.stack([a * np.cos(angle) - b * np.sin(angle),
                     a * np.sin(angle) + b * np.cos(angle)], axis=-1)

query = keep("plain.query", inputs @ latent_query_weights)
compressed = keep("plain.compressed", inputs @ down_weights)
mean_square = (compressed[:, 0:2] ** 2).mean(axis=-1, keepdims=True)
normalized = compressed[:, 0:2] / np.sqrt(mean_square + 1e-6)
latent = keep("plain.latent", normalized * latent_gain)
rotary_key = keep("plain.shared_key", rotate(compressed[:, 2:4]))

contexts = []
for head in range(2):
    part = slice(4 * head, 4 * head + 4)
    of_query, up = query[:, part], up_weights[:, part]
    queries = np.hstack([of_query[:, 0:2], rotate(of_query[:, 2:4])])
    keys, values = np.hstack([latent @ up[:, 0:2], rotary_key]), latent @ up[:, 2:4]
    keep(f"plain.head.{head}.scores", queries @ keys.T)
    contexts.append(attend(queries, keys, values, 4 ** -0.5))
plain_output = np.hstack(contexts) @ latent_output_weights

show('plain.head.0.scores', plain_head_0_scores, [[0.6325, 4.2426, 6.2458], [-0.3084, 2.8284, 8.9532], [-5.3018, 5.6569, 9.0596]])

# ---- 3. Absorbed: no key and no value is made

contexts = []
for head in range(2):
    part = slice(4 * head, 4 * head + 4)
    of_query, up = query[:, part], up_weights[:, part]
    absorbed = keep(f"absorbed.head.{head}.absorbed", of_query[:, 0:2] @ up[:, 0:2].T)
    queries = np.hstack([absorbed, rotate(of_query[:, 2:4])])
    keys = np.hstack([latent, rotary_key])      # the cache as it is
    keep(f"absorbed.head.{head}.scores", queries @ keys.T)
    contexts.append(attend(queries, keys, latent, 4 ** -0.5) @ up[:, 2:4])
absorbed_output = np.hstack(contexts) @ latent_output_weights

show('absorbed.head.0.scores', absorbed_head_0_scores, [[0.6325, 4.2426, 6.2458], [-0.3084, 2.8284, 8.9532], [-5.3018, 5.6569, 9.0596]])

# ---- What goes wrong without it: a rotation in between

up = up_weights[:, 0:2]
rotated_scores = rotate(query[:, 0:2]) @ rotate(latent @ up).T
pretended_scores = rotate(query[:, 0:2] @ up.T) @ rotate(latent).T
off = pretended_scores - rotated_scores

show('rotated.scores', rotated_scores, [[0.6325, 1.1023, -1.2673], [-1.7478, 2.8284, 3.8766], [-2.3004, 3.0564, 5.0596]])
show('off', off, [[0.0000, -1.1900, 1.7253], [-1.0644, 0.0000, -1.0644], [-3.4505, 2.3800, 0.0000]])

# ---- What it costs

h, d_n, d_r = cost_h, cost_d_n, cost_d_r
d_v, d_c, m = cost_d_v, cost_d_c, cost_m
cost_made = m * d_c * h * (d_n + d_v)
cost_by_heads = cost_made + h * m * (d_n + d_r + d_v)
cost_absorbed = h * d_c * (d_n + d_v) + h * m * (d_c + d_r + d_c)
cost_ratio = cost_by_heads / cost_absorbed

show('cost.by_heads', cost_by_heads, 1.378e+11)
show('cost.absorbed', cost_absorbed, 1.158e+09)
show('cost.ratio', cost_ratio, 119.0145)

print("all as on the page")
