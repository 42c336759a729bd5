"""Lesson 16: rotary positions and ALiBi, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('tokens', np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1], [2, 0, 0, 1]], float), given)

# ---- 1. Four tokens

n, d = tokens.shape
turned_x = np.repeat(tokens[0:1], n, axis=0)

show('turned.x', turned_x, [[1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 1, 0]])

# ---- 2. Add positions, as in lesson 8

def angles_of(n, d):
    frequencies = 10000.0 ** (-2 * np.arange(d // 2) / d)
    return frequencies, np.outer(np.arange(n), frequencies)

def interleave(a, b):
    """a0 b0 a1 b1 ... along the last axis."""
    return np.stack([a, b], axis=-1).reshape(a.shape[0], -1)

added_frequencies, added_angles = angles_of(n, d)
added_positions = interleave(np.sin(added_angles), np.cos(added_angles))
added_output = turned_x + added_positions
added_scores = added_output @ added_output.T

show('added.scores', added_scores, [
    [4.0000, 4.3917, 3.5129, 2.1807],
    [4.3917, 5.7029, 5.3210, 3.6062],
    [3.5129, 5.3210, 5.8586, 4.6407],
    [2.1807, 3.6062, 4.6407, 4.3422],
])

# ---- 3. Rotate by the position (RoPE)

def rotary(x):
    """Rotates each pair of features of row p by p times its frequency."""
    frequencies, angles = angles_of(*x.shape)
    even, odd = x[:, ::2], x[:, 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return interleave(even * cos - odd * sin, even * sin + odd * cos)

turned_frequencies, turned_angles = angles_of(n, d)
turned_output = rotary(turned_x)
turned_scores = turned_output @ turned_output.T

show('turned.frequencies', turned_frequencies, [1.0000, 0.0100])
show('turned.angles', turned_angles, [[0.0000, 0.0000], [1.0000, 0.0100], [2.0000, 0.0200], [3.0000, 0.0300]])
show('turned.output', turned_output, [
    [1.0000, 0.0000, 1.0000, 0.0000],
    [0.5403, 0.8415, 1.0000, 0.0100],
    [-0.4161, 0.9093, 0.9998, 0.0200],
    [-0.9900, 0.1411, 0.9996, 0.0300],
])
show('turned.scores', turned_scores, [
    [2.0000, 1.5403, 0.5837, 0.0096],
    [1.5403, 2.0000, 1.5403, 0.5837],
    [0.5837, 1.5403, 2.0000, 1.5403],
    [0.0096, 0.5837, 1.5403, 2.0000],
])

# ---- 4. Rotary in two heads

def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)

with_rotary_query_weights = with_rotary_key_weights = np.eye(d)
with_rotary_value_weights = np.eye(d)
with_rotary_query = tokens @ with_rotary_query_weights
with_rotary_key = tokens @ with_rotary_key_weights
with_rotary_value = tokens @ with_rotary_value_weights

with_rotary_head_0_rotary_query_x = with_rotary_query[:, 0:2]
with_rotary_head_0_rotary_key_x = with_rotary_key[:, 0:2]
queries = rotary(with_rotary_head_0_rotary_query_x)
with_rotary_head_0_rotary_query_output = queries
keys = with_rotary_head_0_rotary_key_output = rotary(with_rotary_head_0_rotary_key_x)
with_rotary_head_0_values = with_rotary_value[:, 0:2]
with_rotary_head_0_scores = queries @ keys.T
with_rotary_head_0_scaled = with_rotary_head_0_scores / np.sqrt(2)
with_rotary_head_0_weights = softmax(with_rotary_head_0_scaled)
with_rotary_head_0_context = with_rotary_head_0_weights @ with_rotary_head_0_values

show('with_rotary.head.0.weights', with_rotary_head_0_weights, [
    [0.6827, 0.1024, 0.1319, 0.0830],
    [0.0081, 0.4527, 0.1889, 0.3503],
    [0.0210, 0.3790, 0.2209, 0.3790],
    [0.0066, 0.3508, 0.1891, 0.4534],
])

# ---- 4. Rotary in two heads

with_rotary_head_1_rotary_query_x = with_rotary_query[:, 2:4]
with_rotary_head_1_rotary_key_x = with_rotary_key[:, 2:4]
queries = rotary(with_rotary_head_1_rotary_query_x)
with_rotary_head_1_rotary_query_output = queries
keys = with_rotary_head_1_rotary_key_output = rotary(with_rotary_head_1_rotary_key_x)
with_rotary_head_1_scores = queries @ keys.T
with_rotary_head_1_scaled = with_rotary_head_1_scores / np.sqrt(2)
with_rotary_head_1_weights = softmax(with_rotary_head_1_scaled)
with_rotary_head_1_values = with_rotary_value[:, 2:4]
with_rotary_head_1_context = with_rotary_head_1_weights @ with_rotary_head_1_values
contexts = [with_rotary_head_0_context, with_rotary_head_1_context]
with_rotary_merged = np.concatenate(contexts, axis=1)

show('with_rotary.merged', with_rotary_merged, [
    [0.9806, 0.3367, 0.6668, 0.5250],
    [0.8976, 1.0943, 0.2964, 1.6690],
    [1.0000, 0.9790, 0.3642, 1.5388],
    [1.1026, 0.8908, 0.3987, 0.9186],
])

# ---- 5. ALiBi's slopes

def alibi_slopes(heads):
    return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)

slopes = alibi_slopes(8)

show('slopes', slopes, [0.5000, 0.2500, 0.1250, 0.0625, 0.0312, 0.0156, 0.0078, 0.0039])

# ---- 6. ALiBi in two heads

with_alibi_query_weights = with_alibi_key_weights = with_alibi_value_weights = np.eye(d)
with_alibi_query = tokens @ with_alibi_query_weights
with_alibi_key = tokens @ with_alibi_key_weights
with_alibi_value = tokens @ with_alibi_value_weights
distance = np.abs(np.arange(n)[:, None] - np.arange(n))
with_alibi_head_0_bias = -alibi_slopes(2)[0] * distance
with_alibi_head_0_queries = with_alibi_query[:, 0:2]
with_alibi_head_0_keys = with_alibi_key[:, 0:2]
with_alibi_head_0_values = with_alibi_value[:, 0:2]
with_alibi_head_0_scores = with_alibi_head_0_queries @ with_alibi_head_0_keys.T
with_alibi_head_0_scaled = with_alibi_head_0_scores / np.sqrt(2)
with_alibi_head_0_biased = with_alibi_head_0_scaled + with_alibi_head_0_bias
with_alibi_head_0_weights = softmax(with_alibi_head_0_biased)
with_alibi_head_0_context = with_alibi_head_0_weights @ with_alibi_head_0_values

show('with_alibi.head.0.bias', with_alibi_head_0_bias, [
    [0.0000, -0.0625, -0.1250, -0.1875],
    [-0.0625, 0.0000, -0.0625, -0.1250],
    [-0.1250, -0.0625, 0.0000, -0.0625],
    [-0.1875, -0.1250, -0.0625, 0.0000],
])
show('with_alibi.head.0.scaled', with_alibi_head_0_scaled, [
    [0.7071, 0.0000, 0.7071, 1.4142],
    [0.0000, 2.8284, 1.4142, 0.0000],
    [0.7071, 1.4142, 1.4142, 1.4142],
    [1.4142, 0.0000, 1.4142, 2.8284],
])
show('with_alibi.head.0.biased', with_alibi_head_0_biased, [
    [0.7071, -0.0625, 0.5821, 1.2267],
    [-0.0625, 2.8284, 1.3517, -0.1250],
    [0.5821, 1.3517, 1.4142, 1.3517],
    [1.2267, -0.1250, 1.3517, 2.8284],
])
show('with_alibi.head.0.weights', with_alibi_head_0_weights, [
    [0.2483, 0.1150, 0.2191, 0.4175],
    [0.0416, 0.7485, 0.1709, 0.0390],
    [0.1313, 0.2835, 0.3018, 0.2835],
    [0.1360, 0.0352, 0.1541, 0.6747],
])

# ---- 6. ALiBi in two heads

with_alibi_head_1_bias = -alibi_slopes(2)[1] * distance
with_alibi_head_1_queries = with_alibi_query[:, 2:4]
with_alibi_head_1_keys = with_alibi_key[:, 2:4]
with_alibi_head_1_values = with_alibi_value[:, 2:4]
with_alibi_head_1_scores = with_alibi_head_1_queries @ with_alibi_head_1_keys.T
with_alibi_head_1_scaled = with_alibi_head_1_scores / np.sqrt(2)
with_alibi_head_1_biased = with_alibi_head_1_scaled + with_alibi_head_1_bias
with_alibi_head_1_weights = softmax(with_alibi_head_1_biased)
with_alibi_head_1_context = with_alibi_head_1_weights @ with_alibi_head_1_values
contexts = [with_alibi_head_0_context, with_alibi_head_1_context]
with_alibi_merged = np.concatenate(contexts, axis=1)

show('with_alibi.merged', with_alibi_merged, [
    [1.3025, 0.4492, 0.6706, 0.8287],
    [0.2906, 1.6679, 0.1952, 1.6102],
    [1.0000, 0.8687, 0.5003, 1.1703],
    [1.6395, 0.2245, 0.3300, 1.3392],
])

print("all as on the page")
