"""Lesson 31: fewer bits, in NumPy: the lines of its page in their order, and the numbers that they start from.

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
keep('numbers', np.array([[0.02, 0.3, -1.1, 2.6, -7, 30, 100]], float), given)
keep('channel', np.array([2]), given)
keep('factor', np.array([16], float), given)
trace = given

# ---- 1. What a type can hold

def scaled(x, largest, axis=1):
    scale = np.abs(x).max(axis=axis, keepdims=True) / largest
    return np.round(x / scale) * scale

def nearest(x, digits, smallest):
    exponent = np.maximum(np.frexp(x)[1] - 1, smallest)
    spacing = 2.0 ** (exponent - digits + 1)
    return np.round(x / spacing) * spacing

types_bfloat16_stored = nearest(numbers, 8, -126)
types_e4m3_stored = nearest(numbers, 4, -6)
types_e5m2_stored = nearest(numbers, 3, -14)
types_int8_stored = scaled(numbers, 127)
types_int4_stored = scaled(numbers, 7)

show('types.bfloat16.stored', types_bfloat16_stored, [[0.0200, 0.3008, -1.1016, 2.5938, -7.0000, 30.0000, 100.0000]])
show('types.e4m3.stored', types_e4m3_stored, [[0.0195, 0.3125, -1.1250, 2.5000, -7.0000, 30.0000, 96.0000]])
show('types.e5m2.stored', types_e5m2_stored, [[0.0195, 0.3125, -1.0000, 2.5000, -7.0000, 32.0000, 96.0000]])
show('types.int8.stored', types_int8_stored, [[0.0000, 0.0000, -0.7874, 2.3622, -7.0866, 29.9213, 100.0000]])
show('types.int4.stored', types_int4_stored, [[0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 28.5714, 100.0000]])

# ---- 2. One large channel

head = "exact.layers.1.self_attn.head.0"
roles = ("queries", "keys", "values", "weights")
queries, keys, values, weights = (trace[f"{head}.{role}"] for role in roles)
raised_factors = np.where(np.arange(8) == channel, factor, 1)
raised_keys, raised_queries = keys * raised_factors, queries / raised_factors
plain_scores = queries @ keys.T / np.sqrt(8)
raised_scores = raised_queries @ raised_keys.T / np.sqrt(8)

show('raised.scores[0]', raised_scores[0], [
    -2.8404, -0.9968, 4.3461, 3.8097, -0.2426, -8.7938, 3.7041, 2.3098, -7.9428, -2.2497, 1.2237, 4.1785,
    -0.1626, 1.2072,
])

# ---- 3. Which numbers share a scale

def keep_scores(form, queries, keys):
    stored = {"token": scaled(keys, 7), "channel": scaled(keys, 7, axis=0),
              "block": scaled(keys.reshape(-1, 4), 7).reshape(keys.shape)}
    for scale, rounded in stored.items():
        keep(f"{form}.{scale}.stored", rounded)
        off = (queries @ rounded.T - queries @ keys.T) / np.sqrt(8)
        keep(f"{form}.{scale}.off", np.sqrt(np.mean(off ** 2)))

keep_scores("plain", queries, keys)
keep_scores("raised", raised_queries, raised_keys)

show('plain.token.off', plain_token_off, 0.1648)
show('plain.channel.off', plain_channel_off, 0.2224)
show('plain.block.off', plain_block_off, 0.1206)
show('raised.token.off', raised_token_off, 1.4340)
show('raised.channel.off', raised_channel_off, 0.2224)
show('raised.block.off', raised_block_off, 0.8684)

# ---- 4. A rotation before rounding

two = np.array([[1, 1], [1, -1]])
rotated_rotation = np.kron(np.kron(two, two), two) / np.sqrt(8)
rotated_keys = raised_keys @ rotated_rotation
rotated_queries = raised_queries @ rotated_rotation
rotated_scores = rotated_queries @ rotated_keys.T / np.sqrt(8)
keep_scores("rotated", rotated_queries, rotated_keys)

show('rotated.token.off', rotated_token_off, 0.4816)
show('rotated.channel.off', rotated_channel_off, 1.0876)
show('rotated.block.off', rotated_block_off, 0.4453)

# ---- 5. Values

for scale, axis in (("token", 1), ("channel", 0)):
    rounded = scaled(values, 7, axis)
    off = weights @ rounded - weights @ values
    keep(f"values.{scale}.off", np.sqrt(np.mean(off ** 2)))

show('values.token.off', values_token_off, 0.0574)
show('values.channel.off', values_channel_off, 0.0597)

# ---- 7. Weights

matrix = trace["exact.layers.1.feed_forward.hidden_weights"].T.astype(float)
rounded = {"tensor": scaled(matrix.reshape(1, -1), 7).reshape(matrix.shape),
           "output": scaled(matrix, 7),
           "block": scaled(matrix.reshape(-1, 8), 7).reshape(matrix.shape)}
for scale, stored in rounded.items():
    keep(f"weights.{scale}.off", np.sqrt(np.mean((stored - matrix) ** 2)))

show('weights.tensor.off', weights_tensor_off, 0.0285)
show('weights.output.off', weights_output_off, 0.0160)
show('weights.block.off', weights_block_off, 0.0125)

print("all as on the page")
