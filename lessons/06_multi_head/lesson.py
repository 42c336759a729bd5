"""Lesson 6: several heads, in NumPy: the lines of its page in their order, and the numbers that they start from.

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
keep('query_weights', np.array([[1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [0, 2, 1, 2]], float), given)
keep('key_weights', np.array([[0, 1, 1, 0], [1, 0, -1, 1], [0, 1, 1, 0], [1, 1, 0, -1]], float), given)
keep('value_weights', np.array([[0, 2, 1, 0], [0, 3, 0, 1], [1, 0, 3, 0], [1, 1, 0, 2]], float), given)
keep('output_weights', np.array([[1, 0, 0.5, 0], [0, 1, 0, -0.5], [0.5, 0, 1, 0], [0, -0.5, 0, 1]], float), given)
keep('cost.h', np.array(2), given)

# ---- Step by step

def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)

def attention(queries, keys, values):
    scores = queries @ np.swapaxes(keys, -1, -2)
    scaled = scores / np.sqrt(keys.shape[-1])
    weights = softmax(scaled)
    return scores, scaled, weights, weights @ values

# ---- 1. Cut the weights into heads

head_0_query_weights, head_1_query_weights = query_weights[:, 0:2], query_weights[:, 2:4]
head_0_key_weights, head_1_key_weights = key_weights[:, 0:2], key_weights[:, 2:4]
head_0_value_weights, head_1_value_weights = value_weights[:, 0:2], value_weights[:, 2:4]

show('head.0.query_weights', head_0_query_weights, [[1, 0], [1, 0], [0, 1], [0, 2]])
show('head.0.value_weights', head_0_value_weights, [[0, 2], [0, 3], [1, 0], [1, 1]])

# ---- 2. Compute each head

head_0_queries = inputs @ head_0_query_weights
head_0_keys = inputs @ head_0_key_weights
head_0_values = inputs @ head_0_value_weights
head_0_scores, head_0_scaled, head_0_weights, head_0_context = attention(
    head_0_queries, head_0_keys, head_0_values)

head_1_queries = inputs @ head_1_query_weights
head_1_keys = inputs @ head_1_key_weights
head_1_values = inputs @ head_1_value_weights
head_1_scores, head_1_scaled, head_1_weights, head_1_context = attention(
    head_1_queries, head_1_keys, head_1_values)

show('head.0.weights', head_0_weights, [[0.0381, 0.6443, 0.3177], [0.0017, 0.4991, 0.4991], [0.0023, 0.6682, 0.3295]])
show('head.0.context', head_0_context, [[1.9619, 7.1362], [1.9983, 6.9913], [1.9977, 7.3271]])
show('head.1.weights', head_1_weights, [[0.3333, 0.3333, 0.3333], [0.9442, 0.0000, 0.0558], [0.8022, 0.0028, 0.1950]])

# ---- 3. Concatenate the contexts

merged = np.concatenate([head_0_context, head_1_context], axis=-1)

show('merged', merged, [
    [1.9619, 7.1362, 2.6667, 3.0000],
    [1.9983, 6.9913, 4.0000, 0.1675],
    [1.9977, 7.3271, 3.9888, 0.6019],
])

# ---- 4. Multiply by W^O

output = merged @ output_weights

show('output', output, [
    [3.2953, 5.6362, 3.6476, -0.5681],
    [3.9982, 6.9075, 4.9991, -3.3282],
    [3.9921, 7.0261, 4.9876, -3.0616],
])

# ---- 4. Multiply by W^O

heard_0_output = head_0_context @ output_weights[0:2]
heard_1_output = head_1_context @ output_weights[2:4]

show('heard.0.output', heard_0_output, [
    [1.9619, 7.1362, 0.9810, -3.5681],
    [1.9983, 6.9913, 0.9991, -3.4956],
    [1.9977, 7.3271, 0.9988, -3.6635],
])
show('heard.1.output', heard_1_output, [
    [1.3333, -1.5000, 2.6667, 3.0000],
    [2.0000, -0.0837, 4.0000, 0.1675],
    [1.9944, -0.3009, 3.9888, 0.6019],
])

# ---- 5. All heads at once

packed_query = inputs @ query_weights
packed_key = inputs @ key_weights
packed_value = inputs @ value_weights

show('packed.value', packed_value, [[1, 2, 4, 0], [2, 8, 0, 6], [2, 6, 4, 3]])

# ---- 5. All heads at once

def split(packed, h):
    n = packed.shape[0]
    return packed.reshape(n, h, -1).transpose(1, 0, 2)

packed_queries = split(packed_query, 2)
packed_keys = split(packed_key, 2)
packed_values = split(packed_value, 2)

show('packed.queries', packed_queries, [[[1, 1], [2, 4], [2, 3]], [[0, 2], [4, 4], [2, 4]]])

# ---- 5. All heads at once

packed_scores, packed_scaled, packed_weights, packed_context = attention(
    packed_queries, packed_keys, packed_values)

show('packed.context', packed_context, [
    [[1.9619, 7.1362], [1.9983, 6.9913], [1.9977, 7.3271]],
    [[2.6667, 3.0000], [4.0000, 0.1675], [3.9888, 0.6019]],
])

# ---- 5. All heads at once

packed_merged = packed_context.transpose(1, 0, 2).reshape(3, 4)

show('packed.merged', packed_merged, [
    [1.9619, 7.1362, 2.6667, 3.0000],
    [1.9983, 6.9913, 4.0000, 0.1675],
    [1.9977, 7.3271, 3.9888, 0.6019],
])

# ---- Do eight heads cost more than one?

def cost(h, n=100, d_model=512):
    d_k = d_model // h
    parameters = h * 3 * d_model * d_k + h * d_k * d_model
    maps = h * 3 * n * d_model * d_k + n * h * d_k * d_model
    multiplications = maps + h * 2 * n**2 * d_k
    return d_k, parameters, multiplications, h * n**2

(cost_one_d_k, cost_one_parameters,
 cost_one_multiplications, cost_one_exponentials) = cost(1)
(cost_eight_d_k, cost_eight_parameters,
 cost_eight_multiplications, cost_eight_exponentials) = cost(8)

show('cost.one.d_k', cost_one_d_k, 512)
show('cost.one.parameters', cost_one_parameters, 1048576)
show('cost.one.multiplications', cost_one_multiplications, 115097600)
show('cost.one.exponentials', cost_one_exponentials, 10000)
show('cost.eight.d_k', cost_eight_d_k, 64)
show('cost.eight.parameters', cost_eight_parameters, 1048576)
show('cost.eight.multiplications', cost_eight_multiplications, 115097600)
show('cost.eight.exponentials', cost_eight_exponentials, 80000)

# ---- Do eight heads cost more than one?

cost_loop_products = cost_h * (3 + 2) + 1
cost_packed_products = 3 + 2 + 1
cost_multiplications = 4 * 3 * 4**2 + 2 * 3**2 * 4

show('cost.loop_products', cost_loop_products, 11)
show('cost.packed_products', cost_packed_products, 6)
show('cost.multiplications', cost_multiplications, 264)

# ---- What goes wrong without the transpose

packed_reshaped = packed_context.reshape(3, 4)

show('packed.reshaped', packed_reshaped, [
    [1.9619, 7.1362, 1.9983, 6.9913],
    [1.9977, 7.3271, 2.6667, 3.0000],
    [4.0000, 0.1675, 3.9888, 0.6019],
])

print("all as on the page")
