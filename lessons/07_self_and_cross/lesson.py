"""Lesson 7: self-attention and cross-attention, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('passage', np.array([[2, 0, 1], [0, 1, 0], [1, 2, 0], [0, 0, 3], [1, 1, 1]], float), given)
keep('question', np.array([[1, 0, 2], [0, 3, 0], [2, 1, 0]], float), given)
keep('answers', np.array([[1, 0], [0, 1], [1, 1]], float), given)

# ---- Step by step

def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)

def attention(queries, keys, values):
    scores = queries @ np.swapaxes(keys, -1, -2)
    scaled = scores / np.sqrt(keys.shape[-1])
    weights = softmax(scaled)
    return scores, scaled, weights, weights @ values

# ---- 1. Self-attention

self_scores, self_scaled, self_weights, self_context = attention(
    passage, passage, passage)

show('self.scores[0]', self_scores[0], [5, 0, 2, 3, 3])
show('self.weights[0]', self_weights[0], [0.5368, 0.0299, 0.0950, 0.1692, 0.1692])
show('self.context', self_context, [
    [1.3377, 0.3890, 1.2134],
    [0.7961, 1.1343, 0.6618],
    [0.9677, 1.4449, 0.3823],
    [0.0926, 0.0446, 2.8524],
    [0.9270, 0.7683, 1.1587],
])

# ---- 2. Cross-attention

cross_scores, cross_scaled, cross_weights, cross_context = attention(
    passage, question, question)

show('cross.scores', cross_scores, [[4, 0, 4], [0, 3, 1], [1, 6, 4], [6, 0, 0], [3, 3, 3]])
show('cross.weights', cross_weights, [
    [0.4763, 0.0473, 0.4763],
    [0.1186, 0.6702, 0.2112],
    [0.0407, 0.7294, 0.2299],
    [0.9411, 0.0295, 0.0295],
    [0.3333, 0.3333, 0.3333],
])
show('cross.context', cross_context, [
    [1.4290, 0.6183, 0.9527],
    [0.5410, 2.2218, 0.2371],
    [0.5004, 2.4182, 0.0813],
    [1.0000, 0.1178, 1.8822],
    [1.0000, 1.3333, 0.6667],
])

# ---- 3. Which sizes must agree

sizes_scores, sizes_scaled, sizes_weights, sizes_context = attention(
    passage, question, answers)

show('sizes.weights', sizes_weights, [
    [0.4763, 0.0473, 0.4763],
    [0.1186, 0.6702, 0.2112],
    [0.0407, 0.7294, 0.2299],
    [0.9411, 0.0295, 0.0295],
    [0.3333, 0.3333, 0.3333],
])
show('sizes.context', sizes_context, [[0.9527, 0.5237], [0.3298, 0.8814], [0.2706, 0.9593], [0.9705, 0.0589], [0.6667, 0.6667]])

# ---- 4. The order of the keys does not matter

shuffled_order = np.array([2, 1, 0])
shuffled_keys = question[shuffled_order]
shuffled_values = question[shuffled_order]
shuffled_scores, shuffled_scaled, shuffled_weights, shuffled_context = attention(
    passage, shuffled_keys, shuffled_values)

show('shuffled.order', shuffled_order, [2, 1, 0])
show('shuffled.weights', shuffled_weights, [
    [0.4763, 0.0473, 0.4763],
    [0.2112, 0.6702, 0.1186],
    [0.2299, 0.7294, 0.0407],
    [0.0295, 0.0295, 0.9411],
    [0.3333, 0.3333, 0.3333],
])
show('shuffled.context', shuffled_context, [
    [1.4290, 0.6183, 0.9527],
    [0.5410, 2.2218, 0.2371],
    [0.5004, 2.4182, 0.0813],
    [1.0000, 0.1178, 1.8822],
    [1.0000, 1.3333, 0.6667],
])

# ---- 5. With several heads

def split(packed, h):
    return packed.reshape(len(packed), h, -1).transpose(1, 0, 2)

def multi_head(x, memory, query_weights, key_weights, value_weights, h):
    queries = split(x @ query_weights, h)                     # (h, n, d_k)
    keys = split(memory @ key_weights, h)                     # (h, m, d_k)
    values = split(memory @ value_weights, h)                 # (h, m, d_v)
    scores, scaled, weights, context = attention(queries, keys, values)
    return context.transpose(1, 0, 2).reshape(len(x), -1)     # (n, h d_v)

identity = np.eye(3)
cross_context = multi_head(passage, question, identity, identity, identity, h=1)

show('cross.context', cross_context, [
    [1.4290, 0.6183, 0.9527],
    [0.5410, 2.2218, 0.2371],
    [0.5004, 2.4182, 0.0813],
    [1.0000, 0.1178, 1.8822],
    [1.0000, 1.3333, 0.6667],
])

# ---- What goes wrong when keys and values do not belong together

apart_scores, apart_scaled, apart_weights, apart_context = attention(
    passage, shuffled_keys, question)

show('apart.context', apart_context, [
    [1.4290, 0.6183, 0.9527],
    [0.4484, 2.1292, 0.4224],
    [0.3112, 2.2290, 0.4598],
    [1.9116, 1.0295, 0.0589],
    [1.0000, 1.3333, 0.6667],
])

print("all as on the page")
